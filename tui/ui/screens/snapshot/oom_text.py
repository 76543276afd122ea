"""Paste the text of an out-of-memory exception: it tells what the file lacks."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import TextArea

from tui.ui.screens.dialogs import box
from tui.ui.views.lines import Line, Tone, paragraph
from tui.ui.widgets.lines_view import LinesView

ABOUT = (
    "Paste the message of torch.OutOfMemoryError, or the whole log that holds it. It tells the "
    "device's total, what this process holds and what others hold."
)


class OomTextScreen(ModalScreen["str | None"]):
    """Gives back the text, or ``None``."""

    CSS_PATH = "snapshot.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False, priority=True),
        Binding("ctrl+s,f2", "apply", show=False, priority=True),
    ]

    def __init__(self, present: str) -> None:
        super().__init__()
        self.area = TextArea(present)
        self.area.cursor_blink = False

    def compose(self) -> ComposeResult:
        """What for, and where to."""
        words = LinesView(self._words, id="words")
        words.can_focus = False
        yield box("Text of the exception", "F2 or ctrl+s applies   escape leaves", words, self.area)

    def on_mount(self) -> None:
        """Type or paste into it."""
        self.area.focus()

    def _words(self, cells: int) -> list[Line]:
        return paragraph(ABOUT, cells, Tone.QUIET)

    def action_apply(self) -> None:
        self.dismiss(self.area.text)

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.dismiss(None)
