"""The ticks at the side of a plot, and the rows of dots at which its values stand. Pure."""

from __future__ import annotations

import math
from itertools import pairwise

from tui.kit.braille import DOWN
from tui.kit.scale import Labels, Scale, labels

_TICK_ROWS = 2
"""Rows per tick."""
_HIGH, _FEW_TICKS = 12, 4
"""Rows of a high plot. It has at most these ticks at the side, and one more per so many rows."""
_UNEVEN = 1.5
"""Most that a step between two ticks of the side is of another one, if they cannot be equal."""
_SAME = 1e-6
"""Shares of an axis that differ by less are the same."""
_MOST_STRETCH = 1.2
"""Most by which an axis is lengthened for ticks at whole rows."""


def place_ticks(
    scale: Scale, unit: str, height: int, last: float | None = None, *, centered: bool = False
) -> tuple[Labels, Scale]:
    """Return the ticks of the side and its scale, with more room at its top if that helps.

    The ticks stand at whole rows, equally far apart: else equal steps take one row and two rows,
    which looks like a kink in the curves. If that needs too much room, they stand at nearly even
    steps of rows. The low end of the scale stands on the lower edge.

    Args:
        scale: the range of the side.
        unit: the unit of its values.
        height: rows of the plot.
        last: no tick stands above this value; ``None`` for no such bound.
        centered: as for :func:`dot_row`.
    """
    most = max(2, height // _TICK_ROWS + 1)
    if height >= _HIGH:
        most = _FEW_TICKS + height // _HIGH
    choices = [_drop_high_ticks(labels(scale, unit, number), last) for number in range(most, 1, -1)]
    nearly_even = []
    for wall in choices:
        steps = _steps(scale, wall, height, centered=centered)
        if len(steps) > 1 and max(steps) == min(steps):
            return wall, scale
        if len(steps) > 1 and (stretch := _stretch(scale, wall, height)) is not None:
            return wall, scale.stretched(stretch)
        if steps and max(steps) <= _UNEVEN * min(steps):
            nearly_even.append(wall)
    return (nearly_even or choices[-1:])[0], scale


def _steps(scale: Scale, wall: Labels, height: int, *, centered: bool) -> list[int]:
    """Return the rows from each tick to the next one."""
    rows = [dot_row(scale, value, height, centered=centered) // DOWN for value, _ in wall.ticks]
    return [lower - higher for lower, higher in pairwise(rows)]


def _stretch(scale: Scale, wall: Labels, height: int) -> float | None:
    """Return the factor by which the scale is lengthened for ticks at whole rows, if there is one.

    There is none for ticks at uneven steps, and if it is too large.
    """
    shares = [scale.share(value) for value, _ in wall.ticks]
    steps = [higher - lower for lower, higher in pairwise(shares)]
    if max(steps) - min(steps) > _SAME:
        return None
    rows = steps[0] * height
    stretch = rows / max(1, math.floor(rows + _SAME))
    return stretch if 1 - _SAME <= stretch <= _MOST_STRETCH else None


def _drop_high_ticks(wall: Labels, last: float | None) -> Labels:
    """Return the ticks up to a value; at least the lowest."""
    if last is None:
        return wall
    first, *others = wall.ticks
    return wall._replace(ticks=(first, *(tick for tick in others if tick[0] <= last)))


def dot_row(scale: Scale, value: float, height: int, *, centered: bool = False) -> int:
    """Return the row of dots of a value, from the top.

    Args:
        scale: the range of the side.
        value: the value.
        height: rows of the plot.
        centered: a whole row stands for the value at its middle, where the line of its tick is, as
            points and lines need it, and the low end of the scale for the middle of the lower edge.
            Else it stands for the value at its upper edge, up to which an area fills it, and the
            low end is the lower edge itself, one row of dots below the lowest one.
    """
    top = height * DOWN - round(scale.share(value) * height * DOWN)
    return top + DOWN // 2 if centered else top
