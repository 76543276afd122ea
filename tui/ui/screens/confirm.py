"""A question before something that cannot be undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import ModalScreen

from tui.ui.views.lines import Line, paragraph
from tui.ui.widgets.lines_view import LinesView


class ConfirmScreen(ModalScreen[bool]):
    """Only ``y`` says yes; enter does not, because it is pressed without thinking.

    Args:
        question: the title.
        words: what will happen, a paragraph each.
    """

    CSS_PATH = "dialog.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
    ]

    def __init__(self, question: str, words: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._words = tuple(words)

    def compose(self) -> ComposeResult:
        """A box around the words."""
        box = Container(LinesView(self._lines, id="message"), classes="dialog")
        box.border_title = Content(self._question)
        box.border_subtitle = Content("y yes   n or escape no")
        yield box

    def _lines(self, cells: int) -> list[Line]:
        return [row for text in self._words for row in paragraph(text, cells)]

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
