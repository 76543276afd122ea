"""Which parts of the screen may be drawn now: the link and the eye need no more than this. Pure."""

from __future__ import annotations

from tui.store.store import Part, Parts

TICK_S = 0.25
"""How often the screen looks for changes."""
PERIOD_S = {
    Part.DEVICES: 0.9,
    Part.MEMORY: 0.9,
    Part.WORKLOADS: 0.5,
    Part.BACKEND: 0.5,
    Part.LOG: 0.5,
}
"""Least time between two drawings of a part; parts not named are drawn at every tick."""


class Coalescer:
    """Collects the parts that changed and gives them out no more often than they may be drawn."""

    def __init__(self) -> None:
        self._waiting: set[Part] = set()
        self._drawn: dict[Part, float] = {}

    def add(self, parts: Parts) -> None:
        """Parts of the store changed."""
        self._waiting |= parts

    def due(self, now: float) -> Parts:
        """The changed parts whose time has come.

        Args:
            now: seconds of a clock that never goes back.
        """
        # A tick that comes a little early must not cost a whole tick more.
        found = {
            part
            for part in self._waiting
            if now - self._drawn.get(part, float("-inf")) >= PERIOD_S.get(part, 0.0) - TICK_S / 5
        }
        return self._take(found, now)

    def all(self, now: float) -> Parts:
        """Everything that changed: for what a key has just asked for."""
        return self._take(set(self._waiting), now)

    def _take(self, found: set[Part], now: float) -> Parts:
        self._waiting -= found
        self._drawn.update(dict.fromkeys(found, now))
        return frozenset(found)
