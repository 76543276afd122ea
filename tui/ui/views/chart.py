"""A workload's charts as lines: curves, bars of steps, and what there is to see in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tui.text import glyphs
from tui.ui.views.bars import bar_lines
from tui.ui.views.curves import LABEL, LEAST_ROOM, curve_lines
from tui.ui.views.lines import Line, Span, Tone, fit_line, line, paragraph
from tui.ui.views.tables import reason_lines, table_lines
from workloads.protocol.results import Cell, Chart, Column, Table

BARS_FROM = 30
"""Cells below which steps are a table."""


def chart_lines(chart: Chart, unavailable: Mapping[str, str], cells: int) -> list[Line]:
    """The chart under its title, with its marks; as a table of points where it is too narrow.

    Args:
        chart: to show.
        unavailable: reasons by dotted path; those of this chart are told below it.
        cells: width of a line.
    """
    rows = paragraph(chart.title or chart.name, cells, Tone.STRONG)
    if not chart.places:
        rows.append(line(Span("  no points yet", Tone.QUIET)))
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
        for row in paragraph(f"{glyphs.GLYPHS.arrow} {mark}", cells - 2, Tone.GOOD, indent="  ")
    ]


def point_table(chart: Chart) -> Table:
    """The points of a chart as a table: a row for each place, a column for each series."""
    columns = (Column(chart.axis), *(Column(item.name, item.unit) for item in chart.series))
    rows: list[tuple[Cell, ...]] = []
    for number, value in enumerate(chart.places):
        name: Cell = chart.labels[number] if chart.labels else value
        rows.append((name, *(series.values[number] for series in chart.series)))
    return Table(chart.name, chart.title, columns, tuple(rows))
