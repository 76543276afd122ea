"""The second tab: the memory of the selected device, under the same header and footer."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tui.commands import bindings
from tui.screens.command_screen import CommandScreen, Program
from tui.screens.memory import MemoryView
from tui.widgets.footer_bar import FooterBar


class MemoryTab(CommandScreen):
    """Header, account, footer."""

    TAB = "memory"
    CSS_PATH = "memory.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of_screen(TAB)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.view = MemoryView(program.store, program.clock)

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield self.header()
        yield self.view
        yield FooterBar(self.situation)
