"""A workload's charts as lines: curves, bars of steps, and what there is to see in them. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

from tui.text import glyphs
from tui.text.clean import clean
from tui.text.quantity import quantity
from tui.ui.views.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    fit,
    fit_line,
    left,
    line,
    paragraph,
    right,
    width,
)
from tui.ui.views.plot import (
    HEIGHT,
    LEAST_CELLS,
    Axis,
    Curve,
    Event,
    Level,
    Plot,
    mark_of,
    plot_lines,
    style_of,
)
from tui.ui.views.scale import above, places_scale, scale_for
from tui.ui.views.tables import reason_lines, table_lines
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


def curve_lines(
    chart: Chart,
    cells: int,
    height: int = HEIGHT,
    levels: tuple[Level, ...] = (),
    events: tuple[Event, ...] = (),
) -> list[Line]:
    """The title, and one plot for each unit, its curves in their own marks.

    Args:
        chart: over places, at least one of them.
        cells: width of a line; at least :data:`LEAST_CELLS`.
        height: rows between the edges of a plot.
        levels: limits, in the unit of the first series.
        events: what is marked on the axis.
    """
    rows: list[Line] = []
    title = clean(chart.title or chart.name)
    for unit in dict.fromkeys(series.unit for series in chart.series):
        members = [(at, series) for at, series in enumerate(chart.series) if series.unit == unit]
        values = [value for _, series in members for value in known(series)]
        if not values:
            rows += paragraph(title, cells, TextStyle.STRONG) if title else []
            names = fit(", ".join(clean(series.name) for _, series in members), cells)
            words = f"{names}: {quantity(None)}, no value is known"
            rows += [line("  ", *row) for row in paragraph(words, cells - 2, TextStyle.QUIET)]
            title = ""
            continue
        curves = tuple(
            Curve(
                series.name,
                tuple(zip(chart.places, series.values, strict=True)),
                mark_of(at),
                style_of(at),
            )
            for at, series in members
        )
        lines = levels if unit == chart.series[0].unit else ()
        told = chart.axis in title.split()
        across = Axis("" if told else chart.axis, "", places_scale(chart.places))
        scale = scale_for([*values, *(level.value for level in lines)], unit)
        plot = Plot(across, Axis("", unit, scale), curves, lines, events, title)
        rows += plot_lines(plot, cells, height)
        title = ""  # of all panels, above the first
    return rows


def known(series: Series) -> list[float]:
    """The values that there are."""
    return [value for value in series.values if value is not None and math.isfinite(value)]


BARS_FROM = 30
"""Cells below which steps are a table."""


def chart_lines(
    chart: Chart,
    unavailable: Mapping[str, str],
    cells: int,
    height: int = HEIGHT,
    levels: tuple[Level, ...] = (),
    events: tuple[Event, ...] = (),
) -> list[Line]:
    """The chart under its title, with its marks; as a table of points where it is too narrow.

    Args:
        chart: to show.
        unavailable: reasons by dotted path; those of this chart are told below it.
        cells: width of a line.
        height: rows between the edges of a plot.
        levels: limits, in the unit of the first series; bars have none.
        events: what is marked on the axis; of steps nothing.
    """
    rows = paragraph(chart.title or chart.name, cells, TextStyle.STRONG)
    if not chart.places:
        rows.append(line(Span("  no points yet", TextStyle.QUIET)))
    elif chart.labels:
        drawn = bar_lines(chart, cells) if cells >= BARS_FROM else _points(chart, cells)
        rows += [fit_line(row, cells) for row in drawn]
    elif cells >= LEAST_CELLS:
        rows = curve_lines(chart, cells, height, levels, events)
    else:
        rows += _points(chart, cells)
    return (
        rows + mark_lines(chart, cells) + reason_lines(f"charts.{chart.name}", unavailable, cells)
    )


GAP = 3
WIDE = 50
"""Cells that each of two plots has at least where they stand side by side."""


def beside(draw: Callable[[int, int], list[Line]], count: int, cells: int) -> list[Line]:
    """Pictures side by side where each has :data:`WIDE` cells, else one below the other.

    Args:
        draw: makes one, from its number and its width.
        count: how many there are.
        cells: width of a line.
    """
    across = max(1, min(count, (cells + GAP) // (WIDE + GAP)))
    room = (cells - GAP * (across - 1)) // across
    rows: list[Line] = []
    for start in range(0, count, across):
        drawn = [draw(number, room) for number in range(start, min(count, start + across))]
        for parts in itertools.zip_longest(*drawn, fillvalue=()):
            joined: list[Span] = []
            for number, part in enumerate(parts):
                joined += part
                if number < len(parts) - 1:
                    joined.append(Span(" " * (room + GAP - width(part))))
            rows.append(tuple(joined))
    return rows


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
