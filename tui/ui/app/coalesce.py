"""Which parts of the screen may be drawn when: link and eye need no more than this. Pure."""

from __future__ import annotations

from tui.state.store import Part, Parts

GATHER_S = 0.03
"""What else changes within this time of a first change is drawn with it."""
PAUSE_S = 0.25
"""Least time between two drawings that no key has asked for."""
PERIOD_S = {
    Part.DEVICES: 0.9,
    Part.MEMORY: 0.9,
    Part.ALLOCATORS: 0.5,
    Part.WORKLOADS: 0.5,
    Part.BACKEND: 0.5,
    Part.LOG: 0.5,
}
"""Least time between two drawings of a part, where that is longer."""


class Coalescer:
    """Collects the parts that changed and gives them out no more often than they may be drawn.

    Times are seconds of a clock that never goes back.
    """

    def __init__(self) -> None:
        self._waiting: set[Part] = set()
        self._drawn: dict[Part, float] = {}
        self._last = float("-inf")

    def add(self, parts: Parts) -> None:
        """Take in parts of the store that changed."""
        self._waiting |= parts

    def due_in(self, now: float) -> float | None:
        """In how many seconds to ask for what is due; ``None`` while nothing has changed."""
        if not self._waiting:
            return None
        return max(GATHER_S, min(map(self._time_of, self._waiting)) - now)

    def due(self, now: float) -> Parts:
        """The changed parts whose time has come, or is so near that it is worth no waiting."""
        found = {part for part in self._waiting if self._time_of(part) <= now + GATHER_S}
        if found:
            self._last = now
        return self._take(found, now)

    def all(self, now: float) -> Parts:
        """Everything that changed: for what a key has just asked for."""
        return self._take(set(self._waiting), now)

    def _time_of(self, part: Part) -> float:
        own = self._drawn.get(part, float("-inf")) + PERIOD_S.get(part, 0.0)
        return max(own, self._last + PAUSE_S)

    def _take(self, found: set[Part], now: float) -> Parts:
        self._waiting -= found
        self._drawn.update(dict.fromkeys(found, now))
        return frozenset(found)
