"""Prints a lesson in parts, so that no line scrolls off the terminal before it was read."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Sequence

from tui.headless.colored import print_lines
from tui.kit.lines import Line, plain

GOES_ON = "any key goes on, q ends"
LEAST_ROWS = 8
"""The fewest rows of a long part that begins below another one."""


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
        """Print a part, on a new page if it fits there alone; return whether to go on.

        Args:
            rows: the lines; more than a terminal has are divided into pages, of which the first
                begins below the part before.
            prompt: shown at the end of a page, before this part.
        """
        most = max(1, shutil.get_terminal_size().lines - 1)  # one for the prompt
        room = most - self._unread
        if self._unread and (len(rows) <= most or room < LEAST_ROWS) and len(rows) > room:
            if not await self.confirm(prompt):
                return False
            room = most
        while len(rows) > room and (len(rows) - room) % most == 1 and not plain(rows[-1]):
            rows = rows[:-1]  # a page with nothing on it
        pages = [rows[:room], *(rows[at : at + most] for at in range(room, len(rows), most))]
        for number, page in enumerate(pages):
            if number and not await self.confirm(GOES_ON):
                return False
            print_lines(page)
            self._unread += len(page)
        return True
