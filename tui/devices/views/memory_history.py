"""The histories of the memory tab: the memory as an area, and a row for each other figure. Pure.

All have the same time axis: a cell of the area stands for the two columns of dots below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tui.core.text import numbers as text
from tui.devices.state.devices import DeviceView
from tui.devices.views.history import (
    LABEL,
    PlottedFigure,
    RecentReadings,
    explain_gap,
    format_span,
    history_lines,
    plot_whole,
    whole_lines,
    whole_rows,
)
from tui.devices.views.large_history import (
    ZOOMED,
    choose_scale,
    collect_readings,
    draw_area,
    heading_line,
    is_flat,
    label_row,
    summarize,
)
from tui.kit.braille import ACROSS
from tui.kit.lines import Line, Span, TextStyle, beside

LEAST_AREA, MOST_AREA, MOST_BESIDE = 5, 12, 24
"""Least and most rows of an area, and the most of two beside each other; with less room than the
least, each figure has some rows of dots."""
BESIDE_FROM = 150
"""Cells of width from which a second area stands beside the first."""
_AREAS = ("used", "utilization")
"""Figures that are drawn as areas; the second only beside the first."""


def account_rows(view: DeviceView, recent: RecentReadings, cells: int, most: int) -> int:
    """Return the rows of :func:`account_history`, at most ``most``; 0 if nothing has room."""
    around = _count_around(view, recent, cells)
    if not around or most < around + LEAST_AREA:
        return whole_rows(view, recent, cells, most)
    lowest, highest = (MOST_AREA, MOST_BESIDE) if cells >= BESIDE_FROM else (LEAST_AREA, MOST_AREA)
    areas, _ = _split(view, recent, cells)
    width = cells // len(areas) - LABEL
    if all(is_flat(_scale(figure, recent, width), recent, width) for figure in areas):
        highest = lowest
    return around + min(highest, most - around)


def account_history(
    view: DeviceView, recent: RecentReadings, cells: int, height: int
) -> list[Line]:
    """Return the histories of a device, the memory first.

    Args:
        view: the device.
        recent: its readings.
        cells: width of a line.
        height: lines in all, of :func:`account_rows`.
    """
    around = _count_around(view, recent, cells)
    if not around or height < around + LEAST_AREA:
        return whole_lines(view, recent, cells, height)
    areas, rest = _split(view, recent, cells)
    rows = height - around
    if len(areas) == 1:
        return _draw_block(view, recent, areas[0], rest, cells, rows)
    half, room = -(-len(rest) // 2), (cells - 2) // 2
    first = _draw_block(view, recent, areas[0], rest[:half], room, rows)
    other = _draw_block(view, recent, areas[1], rest[half:], cells - room - 2, rows, brief=True)
    return beside(first, other, room)


def _split(
    view: DeviceView, recent: RecentReadings, cells: int
) -> tuple[list[PlottedFigure], list[PlottedFigure]]:
    """Return the figures that are drawn as areas, and the others."""
    names = _AREAS if cells >= BESIDE_FROM else _AREAS[:1]
    plotted = plot_whole(view, recent)
    areas = [figure for name in names for figure in plotted if figure.name == name]
    return areas, [figure for figure in plotted if figure not in areas]


def _count_around(view: DeviceView, recent: RecentReadings, cells: int) -> int:
    """Count the lines around the areas; 0 if the memory cannot be drawn."""
    areas, rest = _split(view, recent, cells)
    if not areas[0].full or not any(point.used is not None for point in recent.points):
        return 0
    return 1 + -(-len(rest) // len(areas))


def _scale(figure: PlottedFigure, recent: RecentReadings, columns: int) -> PlottedFigure:
    if figure.name != _AREAS[0]:
        return figure
    return choose_scale(figure, recent, columns * ACROSS, text.size)


def _draw_block(
    view: DeviceView,
    recent: RecentReadings,
    figure: PlottedFigure,
    others: Sequence[PlottedFigure],
    cells: int,
    rows: int,
    *,
    brief: bool = False,
) -> list[Line]:
    """Return a heading, an area, and a row for each of the other figures.

    Args:
        view: the device.
        recent: its readings.
        figure: the figure of the area.
        others: the other figures.
        cells: width of a line.
        rows: height of the area.
        brief: the heading beside it has the device and the duration.
    """
    room = max(0, cells - LABEL)
    seconds, until = recent.column_s(room * ACROSS) * ACROSS, recent.end
    drawn = _scale(figure, recent, room)
    readings = collect_readings(recent.points, drawn, room, seconds, until)
    present, highest = summarize(recent, figure, readings, room * seconds, text.size)
    if brief:
        heading = heading_line([figure.label, present], [[highest], []], cells, figure.style)
    else:
        zoom = ZOOMED if drawn is not figure else ""
        period = f"last {format_span(recent.known_s(room * seconds))}"
        gap = explain_gap(recent.points, readings, seconds, until)
        rests = [
            [highest, period, zoom, gap],
            [period, zoom, gap],
            [zoom or period, gap],
            [zoom],
            [],
        ]
        start = [f"{view.label} {figure.label}", present]
        heading = heading_line(start, rests, cells, figure.style)
    labels = [label_row(drawn.full_text, row, rows, LABEL) for row in range(rows)]
    area = draw_area(readings, rows, figure.style)
    lines, _ = history_lines(recent, others, cells, 1, text.size)
    return [
        heading,
        *((Span(label, TextStyle.QUIET), *row) for label, row in zip(labels, area, strict=True)),
        *lines,
    ]
