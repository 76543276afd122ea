"""The alarm of a command without a screen, on standard error, where that is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping

from tui.core.settings import Value
from tui.core.text import numbers as text
from tui.kit.command_line.output import PROGRAM, put_on_stderr
from tui.kit.command_line.values import resolve
from tui.kit.terminal.alarm import LONG_S, alarm_sequence

FROM_SIGNAL = 128
"""Exit codes from here on: a signal ended the command, so its user is there."""


class CommandAlarm:
    """Rings for lines such as an OOM, and at the end of a long command.

    Args:
        overrides: settings from the command line, by name.
        clock: returns the Unix time.
    """

    def __init__(
        self, overrides: Mapping[str, Value], clock: Callable[[], float] = time.time
    ) -> None:
        self._is_enabled = sys.stderr.isatty() and bool(resolve(overrides)[0].value("alarm"))
        self._clock = clock
        self._began = clock()

    def ring(self, lines: Iterable[str]) -> None:
        """Ring once for each line, if the user wants it."""
        for words in lines if self._is_enabled else ():
            put_on_stderr(alarm_sequence(PROGRAM, words, os.environ))

    def end(self, name: str, code: int) -> int:
        """Ring if the command was long and no signal ended it.

        Args:
            name: the command's name.
            code: its exit code.

        Returns:
            The exit code.
        """
        took = self._clock() - self._began
        if took >= LONG_S and code < FROM_SIGNAL:
            failed = ", failed" if code else ""
            self.ring([f"{name} ended after {text.duration(took)}{failed}"])
        return code
