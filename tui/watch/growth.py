"""How fast something grows, from what was seen of it over time, or over steps. Pure.

A program's memory rises and falls with each step; what it never falls below is what grows. So the
time, or the steps, are cut into blocks, and the least of each block is looked at: the rate is the
median of the slopes between all pairs of blocks (Theil-Sen), and its interval is Sen's, which
assumes no distribution: P. K. Sen, "Estimates of the regression coefficient based on Kendall's
tau", J. Am. Stat. Assoc. 63 (1968) 1379-1389.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

from workloads.protocol.frozen import frozen

_Z = 1.959964
"""Of the normal distribution, for 95 %."""
BLOCKS = 24
FEWEST_BLOCKS = 8
"""With fewer, Sen's interval of 95 % takes in nearly all slopes."""


@frozen
class Growth:
    """In a unit per second or per step, with the bounds of its 95 % interval."""

    rate: float
    low: float
    high: float


def growth(points: Sequence[tuple[float, float]]) -> Growth | None:
    """How fast the least value of each block rises or falls.

    Args:
        points: times in seconds or steps, ascending, and values.

    Returns:
        ``None`` where there are too few of them.
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
    return Growth(median(slopes), slopes[low], slopes[high])


def keeps_growing(points: Sequence[tuple[float, float]]) -> bool:
    """Whether the least of each block of the last third lies above that of each of the first.

    A rate is looked at again and again, and an interval of 95 % is wrong once in twenty looks. Of
    24 blocks without growth this is so once in 12 870, the number of ways to choose 8 out of 16.

    Args:
        points: as of :func:`growth`.
    """
    values = [value for _, value in block_floors(points)]
    third = len(values) // 3
    return len(values) >= FEWEST_BLOCKS and min(values[-third:]) > max(values[:third])


def block_floors(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The least value of each of up to :data:`BLOCKS` equal parts of the time, and its time.

    The same of steps. A part in which nothing was seen is left out.
    """
    if len(points) < FEWEST_BLOCKS or points[-1][0] <= points[0][0]:
        return []
    begin, width = points[0][0], (points[-1][0] - points[0][0]) / BLOCKS
    floors: dict[int, tuple[float, float]] = {}
    for at, value in points:
        block = min(BLOCKS - 1, int((at - begin) / width))
        if block not in floors or value < floors[block][1]:
            floors[block] = at, value
    return [floors[block] for block in sorted(floors)]
