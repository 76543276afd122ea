"""What the views of a snapshot share: the bar that names them, and what asks and draws."""

from __future__ import annotations

from textual import events
from textual.message import Message

from tui.session.snapshot.session import SnapshotSession, View
from tui.snapshots.reader.messages import Answer, Refused, Request
from tui.state.store import Store
from tui.ui.views.lines import Line
from tui.ui.views.snapshot.words import bar_line, state_or_reason, view_at, waiting_mark
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.pane import Pane


class SnapshotBar(LineBar):
    """The views; a click shows one."""

    class Picked(Message):
        """A view was clicked."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    def __init__(self, session: SnapshotSession) -> None:
        super().__init__(self._bar)
        self._desk = session

    def _bar(self, cells: int) -> Line:
        return bar_line(self._desk, cells)

    def on_click(self, event: events.Click) -> None:
        """Show the view under the mouse."""
        view = view_at(event.x)
        if view is not None and self._desk.ready:
            self.post_message(self.Picked(view))


class SnapshotPane(Pane):
    """One view of the file on the session: asks for what it shows and draws what it has."""

    def __init__(self, store: Store, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(store, id=id)
        self.session = session

    def ask(self, request: Request) -> Answer | Refused | None:
        """Ask, and give the answer, or while it is not there the newest of its kind."""
        self.session.want(request)
        return state_or_reason(self.session.main.store, request)

    def waiting(self, request: Request) -> str:
        """A mark for the title while the answer is not there."""
        return waiting_mark(self.session.main.store, request)

    def focus_first(self) -> None:
        """Have keys arrive in the pane's main part."""
        raise NotImplementedError
