"""A ratio with its confidence interval, drawn on a line around 1. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.text import glyphs
from tui.text.quantity import place
from tui.ui.views.lines import Line, Span, TextStyle, cell_len, line
from tui.ui.views.scale import Scale, above

_REACHES = (1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
"""Ratios at the ends of a line around one; the other end is the inverse."""
LEAST_LINE = 9
"""Cells of a line that shows something."""


def ratio_line(ratio: float, interval: tuple[float, float] | None, cells: int) -> Line:
    """A ratio and its confidence interval on a line around 1, where both are the same.

    Twice as fast lies as far from 1 as half as fast.

    Args:
        ratio: above zero.
        interval: of it; ``None`` where there are too few pairs for one.
        cells: width of a line; none is drawn where that is too little.
    """
    reach = reach_of([(ratio, interval)])
    slower, faster = ends_of(reach)
    room = _odd(cells - cell_len(slower) - cell_len(faster) - 2)
    if room < LEAST_LINE:
        return ()
    drawn = interval_line(ratio, interval, room, reach)
    return line(Span(f"{slower} ", TextStyle.QUIET), *drawn, Span(f" {faster}", TextStyle.QUIET))


def reach_of(ratios: Sequence[tuple[float, tuple[float, float] | None]]) -> float:
    """The ratio at the right end of a line that has room for all of these; the left is its inverse.

    Args:
        ratios: each with its interval; at least one.
    """
    values = [end for ratio, interval in ratios for end in (ratio, *_ends(ratio, interval))]
    farthest = max(max(value, 1 / value) for value in values)
    return next((one for one in _REACHES if one >= farthest), above(farthest))


def ends_of(reach: float) -> tuple[str, str]:
    """What stands beside the ends of a line: ``slower 0.909x``, ``1.1x faster``."""
    return f"slower {place(_short(1 / reach))}x", f"{place(_short(reach))}x faster"


def interval_line(
    ratio: float,
    interval: tuple[float, float] | None,
    cells: int,
    reach: float,
    *,
    named: bool = True,
) -> Line:
    """The line alone, without its ends.

    Args:
        ratio: above zero.
        interval: as of :func:`ratio_line`.
        cells: width; of an even one the last cell is left free, for the middle is a cell.
        reach: the ratio at its right end.
        named: write 1x beside the middle.
    """
    low, high = _ends(ratio, interval)
    room = _odd(cells)
    scale = Scale(1 / reach, reach, True)
    chars = glyphs.GLYPHS.interval
    drawn = [(chars.line, TextStyle.QUIET)] * room
    ends = [round(scale.share(value) * (room - 1)) for value in (low, high)]
    middle = room // 2
    if named:
        # Named on the side that the interval leaves free.
        name = middle - 2 if ends[0] > middle - 3 else middle + 1
        drawn[name], drawn[name + 1] = ("1", TextStyle.QUIET), ("x", TextStyle.QUIET)
    drawn[middle] = (chars.one, TextStyle.STRONG)
    style = TextStyle.NOTE if low <= 1 <= high else TextStyle.KEY
    for at in range(ends[0], ends[1] + 1):
        inner = chars.one_inside if at == middle else chars.inside
        drawn[at] = (inner, style)
    if interval is not None:
        drawn[ends[0]], drawn[ends[1]] = (chars.low, style), (chars.high, style)
    drawn[round(scale.share(ratio) * (room - 1))] = (glyphs.GLYPHS.marks[0], style)
    return tuple(Span(text, style) for text, style in drawn)


def _ends(ratio: float, interval: tuple[float, float] | None) -> tuple[float, float]:
    return interval if interval is not None and interval[0] > 0 else (ratio, ratio)


def _odd(cells: int) -> int:
    """An odd number has a middle, which is 1."""
    return cells - (1 - cells % 2)


def _short(value: float) -> float:
    return float(f"{value:.3g}")
