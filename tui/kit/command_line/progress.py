"""Run a command that takes a while, and show its progress on one line.

A plain start does not import this module, which imports asyncio.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tui.kit.command_line.output import Failure, print_notice, put_on_stderr
from tui.kit.lines import fit

if TYPE_CHECKING:
    from tui.core.events import RunnerStatus


class ProgressLine:
    """A line on stderr that the next one replaces; without a terminal, problems alone."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._wrong = False
        self._said: set[str] = set()

    @property
    def cells(self) -> int:
        """Width of a line."""
        return shutil.get_terminal_size().columns - 1

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            put_on_stderr(f"\r\x1b[K{fit(text, self.cells)}")

    def show_going_on(self, text: str, runner: RunnerStatus) -> None:
        """Show a text, or how long a child has been silent.

        Without a terminal, print each silence once, on a line of its own, and one that needs no
        action once for each workload.
        """
        kind = re.sub(r"\d+", "0", runner.reason.partition(",")[0])
        if runner.silence and not runner.advice and not self._shown:
            if kind in self._said:
                return
            self._said.add(kind)
        wrong = "; ".join(filter(None, (runner.reason, runner.advice))) if runner.silence else ""
        self.show_silence(wrong, text)

    def show_silence(self, wrong: str, text: str = "") -> None:
        """Show a child's silence; without a terminal, print it once, on a line of its own.

        Args:
            wrong: description of the silence; empty if the child is not silent.
            text: shown if the child is not silent.
        """
        if wrong and not self._wrong and not self._shown:
            print_notice(wrong)
        self._wrong = bool(wrong)
        self.show(wrong or text)

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            put_on_stderr("\r\x1b[K")


def run_to_exit(work: Coroutine[Any, Any, int]) -> int:
    """Run a command; a failure is one line on stderr, and its exit code."""
    try:
        return asyncio.run(work)
    except Failure as failure:
        print_notice(str(failure))
        return failure.code
