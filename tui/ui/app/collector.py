"""Garbage is collected between two events: in the middle of one it would make the answer late.

A full collection takes 20 to 80 ms once a few dialogs were opened and the window was resized, as
long as laying out and painting a large screen does; one after the other they can be felt.
"""

from __future__ import annotations

import asyncio
import gc

DUE = 10
"""Collections of the middle generation since the last full one; Python's own figure."""
NEVER = 1 << 30
QUIET_S = 0.01
"""For so long nothing else is to have happened before one."""
LATE_S = 0.003
"""A call that comes later than this came behind somebody's work."""
MOST_LOOKS = 10
"""After so many looks at a busy program it is collected all the same."""


class Collector:
    """Takes full collections over from Python, which runs them wherever an object is made."""

    def __init__(self) -> None:
        self._busy = 0
        self._before = gc.get_threshold()

    def install(self) -> None:
        """From now on :meth:`look` is needed."""
        gc.set_threshold(*self._before[:2], NEVER)

    def remove(self) -> None:
        """Leave it to Python again."""
        gc.set_threshold(*self._before)

    def look(self) -> None:
        """Collect soon, if it is due and nothing happens; called about once a second."""
        if gc.get_count()[2] >= DUE:
            loop = asyncio.get_running_loop()
            loop.call_later(QUIET_S, self._collect, loop.time() + QUIET_S)

    def _collect(self, due: float) -> None:
        late = asyncio.get_running_loop().time() - due
        self._busy += 1
        if late < LATE_S or self._busy >= MOST_LOOKS:
            self._busy = 0
            gc.collect()
