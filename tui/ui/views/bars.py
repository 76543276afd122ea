"""Values over the steps of a story as horizontal bars, one block for each series. Pure."""

from __future__ import annotations

import math

from tui.text import glyphs
from tui.text.quantity import quantity
from tui.ui.views.cells import cell_len
from tui.ui.views.curves import known
from tui.ui.views.lines import Line, Span, Tone, clean, left, line, paragraph, right
from tui.ui.views.scales import above
from workloads.protocol.results import Chart, Series

MOST_LABEL = 28
LEAST_BAR = 8


def bar(share: float, cells: int) -> str:
    """A bar from the left; a share above zero is never drawn as none."""
    steps = glyphs.GLYPHS.horizontal
    filled = max(0.0, min(1.0, share)) * cells * len(steps)
    whole, part = divmod(math.ceil(filled) if 0 < filled < 1 else round(filled), len(steps))
    drawn = steps[-1] * whole + (steps[part - 1] if part else "")
    return drawn or glyphs.GLYPHS.zero


def bar_lines(chart: Chart, cells: int) -> list[Line]:
    """Each series with a bar for each step; series of one unit are drawn to one scale.

    Args:
        chart: of steps that have labels.
        cells: width of a line.
    """
    rows: list[Line] = []
    highest: dict[str, float] = {}
    for series in chart.series:
        most = max(known(series), default=0.0)
        highest[series.unit] = max(highest.get(series.unit, 0.0), most)
    for series in chart.series:
        rows += _block(chart, series, highest[series.unit], cells)
    return rows


def _block(chart: Chart, series: Series, highest: float, cells: int) -> list[Line]:
    title = Span(f"  {clean(series.name)}", Tone.KEY)
    if not known(series):
        return [line(title, Span(f"  {quantity(None)}", Tone.QUIET))]
    full = above(highest) if highest > 0 else 1.0
    if series.unit in ("byte", "bytes", "B") and highest > 0:
        full = 2.0 ** math.ceil(math.log2(highest))
    texts = [quantity(value, series.unit) for value in series.values]
    value_cells = max(map(cell_len, texts))
    labels = [clean(chart.labels[place]) for place in range(len(series.values))]
    longest = max(map(cell_len, labels), default=0)
    label_cells = min(longest, MOST_LABEL, max(6, cells - 8 - value_cells - LEAST_BAR))
    room = max(1, cells - 4 - label_cells - value_cells - 4)
    scale = f"   full bar {quantity(full, series.unit)}"
    rows = [line(title, Span(scale, Tone.QUIET))]
    for label, words, value in zip(labels, texts, series.values, strict=True):
        share = 0.0 if value is None else value / full
        # A label that has no room stands on a line of its own, whole.
        if cell_len(label) > label_cells:
            rows += [line("    ", *row) for row in paragraph(label, max(1, cells - 4))]
            label = ""
        drawn = Span(left(" " if value is None else bar(share, room), room), Tone.ALLOCATED)
        rows.append(
            line(f"    {left(label, label_cells)}  ", drawn, f"  {right(words, value_cells)}")
        )
    return rows
