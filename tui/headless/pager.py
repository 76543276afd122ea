"""Prints a lesson in parts, so that no line scrolls off the terminal before it was read."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Sequence

from tui.headless.colored import print_lines
from tui.kit.lines import Line, plain

GOES_ON = "any key goes on, q ends"


class Pager:
    """Counts the lines since the last key, and waits for one before more would not fit.

    Args:
        wait: shows a prompt and waits for a key; returns whether to go on. Without a terminal it
            returns true at once.
    """

    def __init__(self, wait: Callable[[str], Awaitable[bool]]) -> None:
        self._wait = wait
        self._unread = 0

    async def confirm(self, prompt: str) -> bool:
        """Wait for a key; return whether to go on."""
        self._unread = 0
        return await self._wait(prompt)

    async def show(self, rows: Sequence[Line], prompt: str = GOES_ON) -> bool:
        """Print a part, on a new page if it does not fit; return whether to go on.

        Args:
            rows: the lines; more than a terminal has are divided into pages.
            prompt: shown at the end of a page, before this part.
        """
        most = max(1, shutil.get_terminal_size().lines - 1)  # one for the prompt
        while len(rows) > 1 and len(rows) % most == 1 and not plain(rows[-1]):
            rows = rows[:-1]  # a page with nothing on it
        if self._unread and self._unread + len(rows) > most and not await self.confirm(prompt):
            return False
        for start in range(0, len(rows), most):
            if start and not await self.confirm(GOES_ON):
                return False
            page = rows[start : start + most]
            print_lines(page)
            self._unread += len(page)
        return True
