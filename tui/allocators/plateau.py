"""Finds since when a quantity that grew has stayed level. Pure.

A growth is not even: a floor, the least value from a point to the end, rises with pauses. The rise
of the floor is divided into equal parts, and the time in the last one is compared with the pauses
in the others. While a growth continues, each pause is as likely as the last to be the longest, so
a last pause three times as long as all others means that the growth has stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

NEWEST = 8
"""The fewest points at the end whose minimum is the present floor, and the fewest of a plateau."""
NEWEST_SHARE = 16
"""The part of all points, one in this many, of a longer series."""
PARTS = 50
"""Equal parts of the rise: the floor of a plateau rises by less than one."""
LONGER = 3
"""How many times longer than each earlier pause a plateau is."""
SPANS = 8
"""The most spans of a plateau, each of at least :data:`NEWEST` points."""
LEVEL_WITHIN = 0.1
"""The share of the rise by which the least value of each span may exceed the floor; more is a peak
that has fallen."""


class Plateau(NamedTuple):
    """The level part at the end of a growth."""

    first: int
    """Index of its first point."""
    rise: float
    """By how much the floor rose before it."""


def find_plateau(points: Sequence[tuple[float, float]]) -> Plateau | None:
    """Return the plateau at the end of a rise; ``None`` without one, or for too few points.

    Args:
        points: times or steps, ascending, and values.
    """
    newest = max(NEWEST, len(points) // NEWEST_SHARE)
    if len(points) < 2 * NEWEST + newest:
        return None
    floors = [*accumulate((value for _, value in reversed(points)), min)][::-1]
    end = len(points) - newest
    low, level = floors[0], floors[end]
    part = (level - low) / PARTS
    if part <= 0:
        return None
    reached = [bisect_left(floors, low + number * part, 0, end) for number in range(1, PARTS)]
    first = reached[-1]
    if end - first < NEWEST:
        return None
    pauses = [points[after][0] - points[before][0] for before, after in zip(reached, reached[1:])]
    if points[end][0] - points[first][0] < LONGER * max(pauses):
        return None
    most = level + LEVEL_WITHIN * PARTS * part
    size = max(NEWEST, (len(points) - first) // SPANS)
    spans = [points[at : at + size] for at in range(first, len(points) - size + 1, size)]
    is_level = all(min(value for _, value in span) <= most for span in spans)
    return Plateau(first, level - low) if is_level else None
