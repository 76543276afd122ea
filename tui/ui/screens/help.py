"""The help: what the focused pane shows, the keys of its screen, and all others."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import ModalScreen

from tui.ui.commands.command import Situation
from tui.ui.views.help import help_lines
from tui.ui.views.lines import Line
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import Pane

TITLES = {
    "devices": "Devices",
    "memory": "Memory",
    "memory-view": "Memory",
    "processes": "Processes",
    "workloads": "Workloads",
    "backend": "Backends",
    "detail": "Detail",
    "log": "Log",
    "verdict": "Verdict",
    "timeline": "Timeline",
    "sites": "Sites",
    "map": "Map",
    "difference": "Difference",
    "snapshot": "Snapshot",
    "demo": "Demo",
}


class HelpScreen(ModalScreen[None]):
    """A scrolling text; any of the keys that lead in lead out."""

    CSS_PATH = "dialog.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss_help", show=False)
    ]

    def __init__(self, pane: Pane | None, now: Situation) -> None:
        """Explain where one comes from.

        Args:
            pane: the one that had the focus.
            now: what was on the screen.
        """
        super().__init__()
        self._pane = pane
        self._now = now

    def compose(self) -> ComposeResult:
        """A box around the text."""
        box = Container(LinesView(self._help), classes="dialog")
        box.border_title = Content("Help")
        box.border_subtitle = Content("escape closes")
        yield box

    def _help(self, cells: int) -> list[Line]:
        pane = self._pane
        about = (pane.HELP or "") if pane else ""
        title = TITLES.get(pane.id or "", "This pane") if pane else ""
        return help_lines(title, about, cells, self._now)

    def action_dismiss_help(self) -> None:
        """Close."""
        self.dismiss()
