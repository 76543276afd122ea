"""What the process needs beside its screens: ends that are told from outside, caches."""

from __future__ import annotations

import gc
import sys
from typing import Any

from textual.app import App

from tui.ui.terminal import forced_exit
from tui.ui.terminal.hangup import Lifeline
from tui.ui.terminal.textual_private import FORGET_S, forget_caches


class Upkeep:
    """Keeps a process well and has it end in good order. Made before the terminal is changed."""

    def __init__(self) -> None:
        self._lifeline: Lifeline | None = None
        self._last_resort = forced_exit.of_screen()

    def mounted(self, app: App[Any]) -> None:
        """The app's loop runs: have signals and a terminal that is gone end it."""
        if not app.is_headless:
            terminal = sys.__stdin__.fileno() if sys.__stdin__ and sys.__stdin__.isatty() else None
            self._lifeline = Lifeline(
                lambda code: app.exit(return_code=code), terminal, self._last_resort
            )
            self._lifeline.install()
        app.set_interval(FORGET_S, forget_caches)

    def painted(self) -> None:
        """The first screen is there, and with it what stays: what comes after it is collected."""
        gc.freeze()
        gc.enable()

    def end(self) -> None:
        """Leave all of it as it was found."""
        if self._lifeline is not None:
            self._lifeline.remove()
