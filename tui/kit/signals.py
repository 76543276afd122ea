"""The dialog that asks which signal to send, and so confirms the end of a process."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.kit.dialogs import DIALOG_STYLES, BesideCursor, box
from tui.kit.lines import Line, paragraph
from tui.kit.pane import LinesView

END_SIGNALS = {
    "i": (signal.SIGINT, "KeyboardInterrupt in Python's main thread, as by Ctrl-C"),
    "t": (signal.SIGTERM, "most programs end and lose unsaved work"),
    "k": (signal.SIGKILL, "it ends at once: nothing is saved, no exit handler runs"),
}


class EndScreen(BesideCursor["signal.Signals | None"]):
    """Returns the signal to send, or ``None``; Enter sends nothing.

    Args:
        question: the title.
        sentences: what will end, one paragraph each.
    """

    CSS_PATH: ClassVar[str | PurePath | list[str | PurePath] | None] = DIALOG_STYLES
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"answer('{key}')", show=False) for key in END_SIGNALS),
        Binding("n,escape,q", "answer('')", show=False),
    ]

    def __init__(self, question: str, sentences: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._sentences = tuple(sentences)

    def compose(self) -> ComposeResult:
        """Yield a box around the words and the signals."""
        words = LinesView(self._lines, id="message")
        yield box(self._question, "i, t or k sends it   n or escape sends nothing", words)

    def _lines(self, cells: int) -> list[Line]:
        rows = [row for words in self._sentences for row in paragraph(words, cells)]
        for key, (number, about) in END_SIGNALS.items():
            rows += paragraph(f"{number.name}: {about}", cells, indent="  ", label=f"{key} ")
        return rows

    def action_answer(self, key: str) -> None:
        """Send the chosen signal, or nothing."""
        self.dismiss(END_SIGNALS[key][0] if key else None)
