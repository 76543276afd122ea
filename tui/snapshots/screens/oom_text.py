"""A dialog to type or paste the text of an OOM."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.kit.dialogs import Dialog, box
from tui.kit.lines import Line, TextStyle, paragraph
from tui.kit.pane import LinesView

if TYPE_CHECKING:
    from textual.widgets import TextArea

ABOUT_OOM_TEXT = (
    "Paste the message of torch.OutOfMemoryError, or the whole log that holds it. It tells the "
    "device's total, what this process holds and what others hold."
)


class OomTextScreen(Dialog["str | None"]):
    """A dialog for the text of an OOM; returns the text, or ``None`` if canceled."""

    CSS_PATH = "snapshot.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False, priority=True),
        Binding("ctrl+s,f2", "apply", show=False, priority=True),
    ]

    def __init__(self, present: str) -> None:
        # Import the framework's editor here: it is slow to import, and no other dialog needs it.
        from textual.widgets import TextArea

        super().__init__()
        self.area: TextArea = TextArea(present)
        self.area.cursor_blink = False

    def compose(self) -> ComposeResult:
        """Yield the box with the explanation and the text field."""
        words = LinesView(self._words, id="words")
        words.can_focus = False
        yield box("Text of the exception", "F2 or ctrl+s applies   escape leaves", words, self.area)

    def on_mount(self) -> None:
        """Focus the text field."""
        self.area.focus()

    def _words(self, cells: int) -> list[Line]:
        return paragraph(ABOUT_OOM_TEXT, cells, TextStyle.QUIET)

    def action_apply(self) -> None:
        self.dismiss(self.area.text)

    def action_cancel(self) -> None:
        """Close the dialog without a change."""
        self.dismiss(None)
