"""The log pane: what the children said and what was done, oldest first."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult

from tui.state.store import Part, Store
from tui.ui.views.lines import Line
from tui.ui.views.log import log_lines
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import Pane


class LogPane(Pane):
    """The newest lines stay in view unless it was scrolled up."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.LOG})
    HELP = (
        "What the runner and the monitor wrote to their standard error and what the workbench "
        "did, oldest first. It follows the newest line unless it was scrolled up; end follows "
        "again."
    )

    def __init__(self, store: Store, *, id: str | None = "log") -> None:  # noqa: A002 (Textual's name)
        super().__init__(store, id=id)
        self.body = LinesView(self._log, stick_to_end=True)

    def compose(self) -> ComposeResult:
        """One scrolling view."""
        yield self.body

    def on_mount(self) -> None:
        """The first lines."""
        self.retitle("Log")
        self.store_changed()

    def store_changed(self) -> None:
        """Redraw what changed."""
        self.body.rebuild()

    def _log(self, cells: int) -> list[Line]:
        return log_lines(self.store, cells)
