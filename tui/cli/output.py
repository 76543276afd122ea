"""What commands without a screen share: JSON, a progress line, and how a failure ends one.

What they print goes through :mod:`tui.cli.streams`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Coroutine
from typing import Any

from tui.cli.errors import Failure
from tui.cli.streams import print_text, put_on_stderr, say
from tui.state.events import RunnerStatus
from workloads.protocol import wire

SCHEMA = 1


def print_json(value: dict[str, Any], kept_as: str = "") -> None:
    """One object, with the schema's number first.

    Args:
        value: plain data, or records.
        kept_as: as :func:`tui.cli.streams.print_text` takes it; ``.json`` is added.
    """
    text = json.dumps({"schema": SCHEMA, **wire.to_plain(value)}, allow_nan=False, indent=2)
    print_text(text, kept_as and f"{kept_as}.json")


class ProgressLine:
    """One line on stderr that is written over; where that is no terminal, what is wrong alone."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._wrong = False

    @property
    def cells(self) -> int:
        """Of a line."""
        return shutil.get_terminal_size().columns - 1

    def show(self, text: str) -> None:
        """Put a text in the place of the one before."""
        if self._shown:
            # Here, because it measures with rich, which --help has no use for.
            from tui.ui.views.lines import fit

            put_on_stderr(f"\r\x1b[K{fit(text, self.cells)}")

    def show_going_on(self, text: str, runner: RunnerStatus) -> None:
        """Show a text, or what is known of a child that has said nothing for a while.

        Without a terminal that is a line of its own, once for each silence.
        """
        wrong = "; ".join(filter(None, (runner.reason, runner.advice))) if runner.silence else ""
        if wrong and not self._wrong and not self._shown:
            say(wrong)
        self._wrong = bool(wrong)
        self.show(wrong or text)

    def clear(self) -> None:
        """Leave nothing behind."""
        if self._shown:
            put_on_stderr("\r\x1b[K")


def run_to_exit(work: Coroutine[Any, Any, int]) -> int:
    """Run a command; a failure is one line on stderr and exit code 1."""
    try:
        return asyncio.run(work)
    except Failure as failure:
        say(str(failure))
        return 1
