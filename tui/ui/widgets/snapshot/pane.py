"""What all panes of a snapshot share: they ask for what they show and draw what they have."""

from __future__ import annotations

from tui.session.snapshot.session import SnapshotDesk
from tui.snapshots.reader.messages import Answer, Refused, Request
from tui.state.store import Store
from tui.ui.views.snapshot.words import state_or_reason, waiting_mark
from tui.ui.widgets.pane import Pane


class SnapshotPane(Pane):
    """One view of the file on the desk."""

    def __init__(self, store: Store, desk: SnapshotDesk, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(store, id=id)
        self.desk = desk

    def ask(self, request: Request) -> Answer | Refused | None:
        """Ask, and give the answer, or while it is not there the newest of its kind."""
        self.desk.want(request)
        return state_or_reason(self.desk.main.store, request)

    def waiting(self, request: Request) -> str:
        """A mark for the title while the answer is not there."""
        return waiting_mark(self.desk.main.store, request)

    def focus_first(self) -> None:
        """Have keys arrive in the pane's main part."""
        raise NotImplementedError
