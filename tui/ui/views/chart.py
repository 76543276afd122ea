"""A workload's charts as lines: curves, bars of steps, and what there is to see in them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tui.text import glyphs
from tui.text.clean import clean
from tui.text.quantity import place as place_text
from tui.text.quantity import quantity
from tui.ui.views.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    fit,
    fit_line,
    flow,
    left,
    line,
    paragraph,
    right,
)
from tui.ui.views.tables import reason_lines, table_lines
from workloads.protocol.frozen import frozen
from workloads.protocol.results import Cell, Chart, Column, Series, Table

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
    title = Span(f"  {clean(series.name)}", TextStyle.KEY)
    if not known(series):
        return [line(title, Span(f"  {quantity(None)}", TextStyle.QUIET))]
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
    rows = [line(title, Span(scale, TextStyle.QUIET))]
    for label, words, value in zip(labels, texts, series.values, strict=True):
        share = 0.0 if value is None else value / full
        # A label that has no room stands on a line of its own, whole.
        if cell_len(label) > label_cells:
            rows += [line("    ", *row) for row in paragraph(label, max(1, cells - 4))]
            label = ""
        drawn = Span(left(" " if value is None else bar(share, room), room), TextStyle.ALLOCATED)
        rows.append(
            line(f"    {left(label, label_cells)}  ", drawn, f"  {right(words, value_cells)}")
        )
    return rows


HEIGHT = 9
LABEL = 12
"""Cells of the labels at the left edge: ``100 GFLOP/s``."""
LEAST_ROOM = 12
"""Fewer cells than that between the edges show no curve."""


def curve_lines(chart: Chart, cells: int, height: int = HEIGHT) -> list[Line]:
    """One panel for each unit, its curves in their own marks.

    Args:
        chart: over places, at least one of them.
        cells: width of a line; at least ``LABEL + LEAST_ROOM``.
        height: rows between the edges of a panel.
    """
    rows: list[Line] = []
    for unit in dict.fromkeys(series.unit for series in chart.series):
        members = [
            (glyphs.GLYPHS.marks[place % len(glyphs.GLYPHS.marks)], series)
            for place, series in enumerate(chart.series)
            if series.unit == unit
        ]
        rows += _panel(chart, members, unit, cells, height)
    return rows


def known(series: Series) -> list[float]:
    """The values that there are."""
    return [value for value in series.values if value is not None and math.isfinite(value)]


def _panel(
    chart: Chart, members: list[tuple[str, Series]], unit: str, cells: int, height: int
) -> list[Line]:
    values = [value for _, series in members for value in known(series)]
    legend = flow(
        [line(Span(mark, TextStyle.KEY), f" {clean(series.name)}") for mark, series in members],
        cells - 2,
        gap="   ",
    )
    rows = [line("  ", *row) for row in legend]
    if not values:
        words = f"{quantity(None)}: no value of these is known"
        return [*rows, *(line("  ", *row) for row in paragraph(words, cells - 2, TextStyle.QUIET))]
    scale, across = scale_for(values), places_scale(chart.places)
    room = cells - LABEL - 2
    grid = _grid(chart.places, members, scale, across=across, room=room, height=height)
    labels = {_row(scale, tick, height): quantity(tick, unit) for tick in scale.ticks()}
    for number, cells_of_row in enumerate(grid):
        words = right(labels.get(number, ""), LABEL)
        rows.append((Span(f"{words} {glyphs.GLYPHS.wall}", TextStyle.QUIET), *cells_of_row))
    return [*rows, *_axis(chart, across, room, scale)]


def _column(across: Scale, place: float, room: int) -> int:
    return round(across.share(place) * (room - 1))


def _row(scale: Scale, value: float, height: int) -> int:
    return round((1 - scale.share(value)) * (height - 1))


def _grid(
    places: Sequence[float],
    members: list[tuple[str, Series]],
    scale: Scale,
    across: Scale,
    room: int,
    height: int,
) -> list[Line]:
    trails = [[" "] * room for _ in range(height)]
    marks: list[list[str]] = [[""] * room for _ in range(height)]
    for mark, series in members:
        before: tuple[int, int] | None = None
        for place, value in zip(places, series.values, strict=True):
            if value is None or not math.isfinite(value):
                before = None  # a gap stays one
                continue
            column = _column(across, place, room)
            row = _row(scale, value, height)
            if before is not None:
                _link(trails, before, (column, row))
            there = marks[row][column]
            marks[row][column] = mark if there in ("", mark) else glyphs.GLYPHS.shared
            before = (column, row)
    return [
        tuple(
            Span(mark or trail, TextStyle.KEY if mark else TextStyle.QUIET)
            for mark, trail in zip(mark_row, trail_row, strict=True)
        )
        for mark_row, trail_row in zip(marks, trails, strict=True)
    ]


def _link(trails: list[list[str]], start: tuple[int, int], end: tuple[int, int]) -> None:
    """Dots from one point to the next, one in each column between them."""
    (x0, y0), (x1, y1) = start, end
    for column in range(x0 + 1, x1):
        row = round(y0 + (y1 - y0) * (column - x0) / (x1 - x0))
        trails[row][column] = glyphs.GLYPHS.trail


def _axis(chart: Chart, across: Scale, room: int, scale: Scale) -> list[Line]:
    """The lower edge with a tick at each place, and as many of their names as fit."""
    edge = [glyphs.GLYPHS.rule] * room
    taken: list[tuple[int, int]] = []
    names = [" "] * room
    order = [0, len(chart.places) - 1, *range(1, len(chart.places) - 1)]
    for number in dict.fromkeys(order):
        column = _column(across, chart.places[number], room)
        edge[column] = glyphs.GLYPHS.tick
        words = place_text(chart.places[number])
        start = max(0, min(room - len(words), column - len(words) // 2))
        end = start + len(words)
        if any(start <= stop and begin <= end for begin, stop in taken) or end > room:
            continue
        taken.append((start, end))
        names[start:end] = words
    pad = " " * (LABEL + 1)
    named = [name for name, one in (("upright", scale), ("across", across)) if one.logarithmic]
    kind = f"logarithmic {' and '.join(named)}" if named else ""
    words = fit(clean(chart.axis), LABEL)
    rows = [
        line(Span(f"{pad}{glyphs.GLYPHS.corner}{''.join(edge)}", TextStyle.QUIET)),
        line(Span(f"{right(words, LABEL)}  {''.join(names)}".rstrip(), TextStyle.QUIET)),
    ]
    if kind:
        rows.append(line(Span(fit(f"{pad} {kind}", LABEL + 2 + room), TextStyle.QUIET)))
    return rows


BARS_FROM = 30
"""Cells below which steps are a table."""


def chart_lines(chart: Chart, unavailable: Mapping[str, str], cells: int) -> list[Line]:
    """The chart under its title, with its marks; as a table of points where it is too narrow.

    Args:
        chart: to show.
        unavailable: reasons by dotted path; those of this chart are told below it.
        cells: width of a line.
    """
    rows = paragraph(chart.title or chart.name, cells, TextStyle.STRONG)
    if not chart.places:
        rows.append(line(Span("  no points yet", TextStyle.QUIET)))
    elif chart.labels:
        drawn = bar_lines(chart, cells) if cells >= BARS_FROM else _points(chart, cells)
        rows += [fit_line(row, cells) for row in drawn]
    elif cells >= LABEL + LEAST_ROOM + 2:
        rows += curve_lines(chart, cells)
    else:
        rows += _points(chart, cells)
    return (
        rows + mark_lines(chart, cells) + reason_lines(f"charts.{chart.name}", unavailable, cells)
    )


def _points(chart: Chart, cells: int) -> list[Line]:
    return table_lines(point_table(chart), {}, cells)[1:]


def mark_lines(chart: Chart, cells: int) -> list[Line]:
    """What there is to see in it."""
    return [
        line("  ", *row)
        for mark in chart.marks
        for row in paragraph(
            f"{glyphs.GLYPHS.arrow} {mark}", cells - 2, TextStyle.GOOD, indent="  "
        )
    ]


def point_table(chart: Chart) -> Table:
    """The points of a chart as a table: a row for each place, a column for each series."""
    columns = (Column(chart.axis), *(Column(item.name, item.unit) for item in chart.series))
    rows: list[tuple[Cell, ...]] = []
    for number, value in enumerate(chart.places):
        name: Cell = chart.labels[number] if chart.labels else value
        rows.append((name, *(series.values[number] for series in chart.series)))
    return Table(chart.name, chart.title, columns, tuple(rows))


LOGARITHMIC_FROM = 10.0
"""Ratio of the largest to the smallest value from which steps are ratios, not differences."""
_STEPS = (1.0, 2.0, 5.0, 10.0)


@frozen
class Scale:
    """A range with round ends, so that it stays where it is while values are added."""

    low: float
    high: float
    logarithmic: bool

    def share(self, value: float) -> float:
        """How far along the value stands: 0.0 at the low end, 1.0 at the high one."""
        if self.high == self.low:
            return 0.5
        if self.logarithmic:
            if value <= 0:
                return 0.0
            whole = math.log(self.high / self.low)
            return min(1.0, max(0.0, math.log(value / self.low) / whole))
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self, most: int = 4) -> tuple[float, ...]:
        """Round values to label: the ends and, between them, powers of ten or the middle."""
        if not self.logarithmic:
            return (self.low, (self.low + self.high) / 2, self.high)
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        powers = [10.0**power for power in range(first, last + 1)]
        inner = [power for power in powers if self.low * 2.1 <= power <= self.high / 2.1]
        every = max(1, math.ceil(len(inner) / max(1, most - 2)))
        return (self.low, *inner[::every], self.high)


def _below(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above it."""
    power = 10.0 ** math.floor(math.log10(value))
    return max((step * power for step in _STEPS if step * power <= value * (1 + 1e-9)), default=0.1)


def above(value: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below it; ``value`` above zero."""
    power = 10.0 ** math.floor(math.log10(value))
    return min(step * power for step in _STEPS if step * power >= value * (1 - 1e-9))


def scale_for(values: Sequence[float]) -> Scale:
    """A scale for the values: by ratios where they span many, else from zero.

    Args:
        values: finite, at least one.
    """
    low, high = min(values), max(values)
    if low > 0 and high / low >= LOGARITHMIC_FROM:
        return Scale(_below(low), above(high), True)
    if low >= 0:
        return Scale(0.0, above(high) if high > 0 else 1.0, False)
    return Scale(-above(-low), above(high) if high > 0 else 0.0, False)


def places_scale(places: Sequence[float]) -> Scale:
    """A scale for an axis: from the first place to the last, by ratios where they grow so."""
    low, high = min(places), max(places)
    return Scale(low, high, low > 0 and high / low >= 4)
