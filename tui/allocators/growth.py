"""Growth rates of a program's memory: their intervals, and whether a growth is steady. Pure.

A program's memory rises and falls with each step, so a growth shows in its minimum. The time, or
the steps, are therefore divided into blocks with one minimum each: the rate is the median of the
slopes between all pairs of blocks (Theil-Sen), and its interval is Sen's, which assumes no
distribution: P. K. Sen, "Estimates of the regression coefficient based on Kendall's
tau", J. Am. Stat. Assoc. 63 (1968) 1379-1389.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median

from tui.allocators.plateau import find_plateau

_Z = 1.959964
"""Two-sided 95% quantile of the normal distribution."""
BLOCKS = 24
FEWEST_BLOCKS = 8
"""The fewest blocks for a rate: with fewer, Sen's 95% interval includes nearly all slopes."""
CONTINUED = 0.125
"""Least share of the growth in the last part of the time, if the growth continues."""


@dataclass(frozen=True, slots=True)
class GrowthRate:
    """A growth rate per second or per step, with the bounds of its 95% interval."""

    rate: float
    low: float
    high: float
    span: float = field(default=0.0, compare=False)
    """Seconds or steps over which it was measured; 0 if unknown."""
    steady: bool = field(default=True, compare=False)
    """False if the values rose, but not from the first third to the last, or not to the end."""


def estimate_growth(points: Sequence[tuple[float, float]]) -> GrowthRate | None:
    """Estimate the growth rate of the minimum of each block.

    Args:
        points: times in seconds or steps, ascending, and values.

    Returns:
        The rate, or ``None`` for too few points.
    """
    floors = block_floors(points)
    if len(floors) < FEWEST_BLOCKS:
        return None
    slopes = sorted(
        (later - earlier) / (after - before)
        for (before, earlier), (after, later) in combinations(floors, 2)
    )
    count, blocks = len(slopes), len(floors)
    spread = _Z * math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    # Counted from one, these are the slopes of the ranks (N - C) / 2 and (N + C) / 2 + 1.
    low = max(0, math.floor((count - spread) / 2) - 1)
    high = min(count - 1, math.ceil((count + spread) / 2))
    span = points[-1][0] - points[0][0]
    steady = grows_steadily(points)
    return GrowthRate(median(slopes), slopes[low], slopes[high], span, steady)


def grows_steadily(points: Sequence[tuple[float, float]]) -> bool:
    """Return whether all block minima of the last third exceed all of the first, and still grow.

    The rate is tested repeatedly, and a 95% interval is wrong once in twenty tests. In 24 blocks
    without growth this happens once in 12 870, the number of ways to choose 8 out of 16. A cache
    that fills for half of the time and then stays passes both tests, so the growth must also
    continue to the end.

    Args:
        points: those of :func:`estimate_growth`.
    """
    values = [value for _, value in block_floors(points)]
    third = len(values) // 3
    if len(values) < FEWEST_BLOCKS or min(values[-third:]) <= max(values[:third]):
        return False
    return still_grows(points)


def still_grows(points: Sequence[tuple[float, float]]) -> bool:
    """Return whether a growth has continued: it is not a plateau that was reached earlier.

    Of an even growth, two sevenths lie between the minima of the sixth and the last eighth of the
    time or the steps. A growth that has stopped in the first seven tenths has less than half of
    that there. A plateau that the floor proves is shorter.

    Args:
        points: times or steps, ascending, and values; too few prove no plateau.
    """
    if find_plateau(points) is not None:
        return False
    first, last = (points[0][0], points[-1][0]) if points else (0.0, 0.0)
    parts: list[list[float]] = [[] for _ in range(8)]
    for at, value in points if last > first else ():
        parts[_find_part(at, first, last, 8)].append(value)
    before = parts[5] or parts[4] or parts[6]
    if not before:
        return True
    newest = min(parts[7])
    rise = newest - min(before)
    return rise > 0 and rise >= CONTINUED * (newest - min(parts[0]))


def block_floors(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the time and value of the minimum in each of up to :data:`BLOCKS` equal blocks.

    The blocks divide the time or the steps. Blocks without points are left out.
    """
    if len(points) < FEWEST_BLOCKS or points[-1][0] <= points[0][0]:
        return []
    begin, end = points[0][0], points[-1][0]
    floors: dict[int, tuple[float, float]] = {}
    for at, value in points:
        block = _find_part(at, begin, end, BLOCKS)
        if block not in floors or value < floors[block][1]:
            floors[block] = at, value
    return [floors[block] for block in sorted(floors)]


def _find_part(at: float, first: float, last: float, parts: int) -> int:
    """Return the number of the equal part of a time in which a moment lies.

    A stored file may have times that fall: they are in the first or the last part. Times may also
    lie so close together that a quotient of them is infinite.
    """
    return int(max(0.0, min(parts - 1.0, (at - first) / (last - first) * parts)))
