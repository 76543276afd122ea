"""Curves over a size, drawn in character cells. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tui.text import glyphs
from tui.text.quantity import place as place_text
from tui.text.quantity import quantity
from tui.ui.views.lines import Line, Span, Tone, clean, fit, flow, line, paragraph, right
from tui.ui.views.scales import Scale, places_scale, scale_for
from workloads.protocol.results import Chart, Series

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
        [line(Span(mark, Tone.KEY), f" {clean(series.name)}") for mark, series in members],
        cells - 2,
        gap="   ",
    )
    rows = [line("  ", *row) for row in legend]
    if not values:
        words = f"{quantity(None)}: no value of these is known"
        return [*rows, *(line("  ", *row) for row in paragraph(words, cells - 2, Tone.QUIET))]
    scale, across = scale_for(values), places_scale(chart.places)
    room = cells - LABEL - 2
    grid = _grid(chart.places, members, scale, across, room, height)
    labels = {_row(scale, tick, height): quantity(tick, unit) for tick in scale.ticks()}
    for number, cells_of_row in enumerate(grid):
        words = right(labels.get(number, ""), LABEL)
        rows.append((Span(f"{words} {glyphs.GLYPHS.wall}", Tone.QUIET), *cells_of_row))
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
            Span(mark or trail, Tone.KEY if mark else Tone.QUIET)
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
        line(Span(f"{pad}{glyphs.GLYPHS.corner}{''.join(edge)}", Tone.QUIET)),
        line(Span(f"{right(words, LABEL)}  {''.join(names)}".rstrip(), Tone.QUIET)),
    ]
    if kind:
        rows.append(line(Span(fit(f"{pad} {kind}", LABEL + 2 + room), Tone.QUIET)))
    return rows
