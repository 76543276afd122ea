"""The dialog in which the user chooses the signal that ends a process."""

from __future__ import annotations

import signal
from pathlib import PurePath
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.kit.dialogs import DIALOG_STYLES, QuestionScreen
from tui.kit.lines import Line, paragraph

END_SIGNALS = {
    "i": (signal.SIGINT, "KeyboardInterrupt in Python's main thread, as by Ctrl-C"),
    "t": (signal.SIGTERM, "most programs end and lose unsaved work"),
    "k": (signal.SIGKILL, "ends at once: saves nothing, runs no exit handler"),
}


class EndScreen(QuestionScreen["signal.Signals | None"]):
    """Returns the signal to send, or ``None``; Enter sends nothing."""

    CSS_PATH: ClassVar[str | PurePath | list[str | PurePath] | None] = DIALOG_STYLES
    KEYS = "i, t or k sends it   n or escape cancels"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"answer('{key}')", show=False) for key in END_SIGNALS),
        Binding("n,escape,q", "answer('')", show=False),
    ]

    def lines(self, cells: int) -> list[Line]:
        """Return the lines of the sentences and of the signals."""
        rows = super().lines(cells)
        for key, (number, about) in END_SIGNALS.items():
            rows += paragraph(f"{number.name}: {about}", cells, indent="  ", label=f"{key} ")
        return rows

    def action_answer(self, key: str) -> None:
        """Send the chosen signal, or nothing."""
        self.dismiss(END_SIGNALS[key][0] if key else None)
