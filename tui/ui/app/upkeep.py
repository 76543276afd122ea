"""What the process needs beside its screens: ends that are told from outside, garbage, caches."""

from __future__ import annotations

import gc
import sys
from typing import Any

from textual.app import App

from tui.ui.app.collector import Collector
from tui.ui.terminal import forced_exit
from tui.ui.terminal.hangup import Lifeline
from tui.ui.terminal.textual_private import FORGET_S, forget_caches

LOOK_S = 1.0
"""How often it is looked at whether garbage is due."""


class Upkeep:
    """Keeps a process well and has it end in good order. Made before the terminal is changed."""

    def __init__(self) -> None:
        self._collector = Collector()
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

    def painted(self, app: App[Any]) -> None:
        """The first screen is there, and with it what stays: what comes after it is collected."""
        gc.freeze()
        gc.enable()
        self._collector.install()
        app.set_interval(LOOK_S, self._collector.look)

    def end(self) -> None:
        """Leave all of it as it was found."""
        self._collector.remove()
        if self._lifeline is not None:
            self._lifeline.remove()
