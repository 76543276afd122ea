"""A ratio with its confidence interval, drawn on a line around 1. Pure."""

from __future__ import annotations

from tui.text import glyphs
from tui.text.quantity import place
from tui.ui.views.lines import Line, Span, TextStyle, cell_len, line
from tui.ui.views.scale import Scale, above

_REACHES = (1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
"""Ratios at the ends of a line around one; the other end is the inverse."""
_LEAST_LINE = 9


def ratio_line(ratio: float, interval: tuple[float, float] | None, cells: int) -> Line:
    """A ratio and its confidence interval on a line around 1, where both are the same.

    Twice as fast lies as far from 1 as half as fast.

    Args:
        ratio: above zero.
        interval: of it; ``None`` where there are too few pairs for one.
        cells: width of a line; none is drawn where that is too little.
    """
    low, high = interval if interval is not None and interval[0] > 0 else (ratio, ratio)
    farthest = max(max(value, 1 / value) for value in (low, high, ratio))
    reach = next((one for one in _REACHES if one >= farthest), above(farthest))
    slower, faster = f"slower {place(_short(1 / reach))}x ", f" {place(_short(reach))}x faster"
    room = cells - cell_len(slower) - cell_len(faster)
    room -= 1 - room % 2  # an odd number has a middle, which is 1
    if room < _LEAST_LINE:
        return ()
    scale = Scale(1 / reach, reach, True)
    chars = glyphs.GLYPHS.interval
    drawn = [(chars.line, TextStyle.QUIET)] * room
    ends = [round(scale.share(value) * (room - 1)) for value in (low, high)]
    middle = room // 2
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
    pieces = (Span(text, style) for text, style in drawn)
    return line(Span(slower, TextStyle.QUIET), *pieces, Span(faster, TextStyle.QUIET))


def _short(value: float) -> float:
    return float(f"{value:.3g}")
