"""Points of a whole life in bounded memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Generic, TypeVar

Point = TypeVar("Point")


class MergedPoints(Generic[Point]):
    """Stores points, oldest first; beyond a number of them, neighbors merge.

    All points comprise equally many readings; the last may still lack some.

    Args:
        most: the most points.
        merge: returns one point for two neighbors, the older first.
    """

    def __init__(self, most: int, merge: Callable[[Point, Point], Point]) -> None:
        self._most = most
        self._merge = merge
        self.points: list[Point] = []
        """The points, oldest first."""
        self._readings_per_point = 1
        self._missing_in_last = 0
        """The number of readings that the last point can still absorb."""

    def add(self, reading: Point) -> None:
        """Add the next reading, as a point of its own or merged into the last point."""
        if self._missing_in_last:
            self.points[-1] = self._merge(self.points[-1], reading)
            self._missing_in_last -= 1
        else:
            self.points.append(reading)
            self._missing_in_last = self._readings_per_point - 1
        if len(self.points) > self._most:
            self._merge_neighbors()

    def _merge_neighbors(self) -> None:
        pairs = zip(self.points[0::2], self.points[1::2], strict=False)
        odd = self.points[-1:] if len(self.points) % 2 else []
        self.points = [*(self._merge(pair, other) for pair, other in pairs), *odd]
        if odd:  # a point alone lacks the readings of a neighbor
            self._missing_in_last += self._readings_per_point
        self._readings_per_point *= 2

    @property
    def has_merged(self) -> bool:
        """True if points comprise several readings."""
        return self._readings_per_point > 1

    def copy(self) -> MergedPoints[Point]:
        """Return a copy that later readings do not change."""
        copied = copy.copy(self)
        copied.points = list(self.points)
        return copied
