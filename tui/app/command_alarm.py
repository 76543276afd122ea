"""The alarm of a command without a screen, on standard error, where that is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping

from tui.app.alarms import LONG_S, Alarms
from tui.core.settings import Value
from tui.core.text import numbers as text
from tui.kit.command_line.output import PROGRAM, put_on_stderr
from tui.kit.command_line.values import resolve
from tui.kit.terminal.alarm import WatchedFacts, alarm_sequence
from tui.runs.state.state import RunsState

FROM_SIGNAL = 128
"""Exit codes from here on: a signal ended the command, so its user is there."""


class CommandAlarm:
    """Rings when memory has run out, and at the end of a long command.

    Args:
        given: settings from the command line, by name.
        clock: returns the Unix time.
    """

    def __init__(self, given: Mapping[str, Value], clock: Callable[[], float] = time.time) -> None:
        self._wanted = sys.stderr.isatty() and bool(resolve(given)[0].value("alarm"))
        self._clock = clock
        self._began = clock()
        self._alarms = Alarms(clock)

    def note_runs(self, runs: RunsState) -> None:
        """Ring for each run that has run out of memory since the last call."""
        self._ring(self._alarms.of_ooms(runs))

    def note_watched(self, facts: WatchedFacts) -> None:
        """Ring for a new OOM of a watched run, and for its end if it was long."""
        self._ring(self._alarms.of_watched(facts))

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
            self._ring([f"{name} ended after {text.duration(took)}{failed}"])
        return code

    def _ring(self, lines: Iterable[str]) -> None:
        for words in lines if self._wanted else ():
            put_on_stderr(alarm_sequence(PROGRAM, words, os.environ))
