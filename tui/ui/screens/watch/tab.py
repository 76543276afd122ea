"""The fifth tab: a run under the watch, or the runs that are kept."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tui.ui.commands import bindings
from tui.ui.screens.command_screen import CommandScreen
from tui.ui.views.lines import Line, line
from tui.ui.widgets.line_bar import FooterBar
from tui.ui.widgets.lines_view import LinesView


class WatchTab(CommandScreen):
    """Header, the kept runs or the one that is open, footer."""

    TAB = "watch"
    CSS_PATH = "watch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of_screen(TAB)

    def compose(self) -> ComposeResult:
        yield self.header()
        yield LinesView(self._lines)
        yield FooterBar(self.situation)

    def _lines(self, _cells: int) -> list[Line]:
        return [
            line("gpu-workbench watch --no-screen -- python train.py"),
            line("runs a command under the watch; gpu-workbench watch lists the runs."),
        ]

    def action_go_back(self) -> None:
        """Go back to the list."""
        self.catch_up()
