"""Ask for the name that results are to have."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from tui.text.numbers import count
from tui.ui.screens.dialogs import BesideCursor, box


class TagScreen(BesideCursor["str | None"]):
    """Gives back a name, or ``None``.

    Args:
        many: results that are to have it.
    """

    CSS_PATH = "../dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, many: int) -> None:
        super().__init__()
        self._many = many
        self.field = Input(placeholder="a name, as in before-upgrade")
        self.field.cursor_blink = False

    def compose(self) -> ComposeResult:
        """The field in a box."""
        yield box(
            f"Tag {count(self._many, 'result')}", "enter gives it   escape leaves", self.field
        )

    def on_mount(self) -> None:
        """Type into it."""
        self.field.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.dismiss(None)
