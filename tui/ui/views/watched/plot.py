"""What a device of a process held, over time or over its steps, with what happened then. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tui.state.watched_run import Mark, StepPoint, WatchedDevice
from tui.ui.views.lines import Line, TextStyle, paragraph
from tui.ui.views.plot import LEAST_CELLS, Axis, Curve, Event, Plot, mark_of, plot_lines
from tui.ui.views.scale import Scale, below, scale_for

Over = Literal["time", "steps"]
AROUND = 5
"""Rows of a plot that are not between its edges: its name and legend, marks, the lower edge."""
LEAST_ROWS = 3
"""Between the edges: with fewer nothing is drawn."""
NAMES = {"OOM": "OOM", "snapshot": "snapshot", "cache flush": "flush"}
MOST_OF_A_KIND = 10
"""Marks of a kind that are nearer to each other than such a part of the axis are one: lines for a
thousand cache flushes would hide the curves."""
PARTS = 10
"""In at least so many steps the end of the axis is moved."""
_TIMES = ((7200.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))
"""From how many seconds on an axis of time is in which unit."""


def plot_of(row: WatchedDevice, over: Over, cells: int, rows: int) -> list[Line]:
    """The plot in so many rows at most, or in words why there is none.

    Args:
        row: the device.
        over: what runs along the lower edge.
        cells: width of a line.
        rows: that there are.
    """
    height = rows - AROUND
    if cells < LEAST_CELLS or height < LEAST_ROWS:
        return []
    if over == "steps":
        placed = [(point, point.step) for point in row.points if point.step is not None]
        if len({step for _, step in placed}) < 2:
            why = row.why_no_agent or "fewer than two steps were seen"
            words = f"No plot over steps: {why}. t plots over time."
            return paragraph(words, cells, TextStyle.QUIET)
        points = [(float(step), point) for point, step in placed]
        marks = [(float(mark.step), mark) for mark in row.marks if mark.step is not None]
        axis = Axis("steps", "", _scale(points, marks))
    else:
        if len({point.at for point in row.points}) < 2:
            return paragraph("No plot: nothing was read of it twice.", cells, TextStyle.QUIET)
        began, span = row.points[0].at, row.points[-1].at - row.points[0].at
        _, factor, unit = next(each for each in _TIMES if span >= each[0])
        points = [((point.at - began) / factor, point) for point in row.points]
        marks = [((mark.at - began) / factor, mark) for mark in row.marks]
        axis = Axis("time", unit, _scale(points, marks))
    plot = _plot(axis, points, marks)
    # Where there is too little room for the names of the marks their signs stay, then neither.
    unnamed = tuple(replace(event, name="") for event in plot.events)
    for events in (plot.events, unnamed, ()):
        drawn = replace(plot, events=events)
        lines = plot_lines(drawn, cells, height)
        more = len(lines) - rows
        if more <= 0:
            return lines
        if height - more >= LEAST_ROWS:
            return plot_lines(drawn, cells, height - more)
    return []


def _scale(points: Sequence[tuple[float, StepPoint]], marks: Sequence[tuple[float, Mark]]) -> Scale:
    places = [place for place, _ in points]
    places += [place for place, _ in marks]
    low, high = min(places), max(places)
    if high > low:
        # Ends a little later, so that the picture stands still until that is reached.
        part = below((high - low) / PARTS)
        high = low + part * math.ceil((high - low) / part)
    return Scale(low, high)


def _plot(
    axis: Axis,
    points: Sequence[tuple[float, StepPoint]],
    marks: Sequence[tuple[float, Mark]],
) -> Plot:
    held = [float(point.reserved) for _, point in points]
    held += [float(point.allocated) for _, point in points]
    top = scale_for([0.0, *held], "byte")
    curves = (
        Curve("reserved", tuple((at, float(p.reserved)) for at, p in points), "", TextStyle.CACHED),
        Curve(
            "allocated", tuple((at, float(p.allocated)) for at, p in points),
            mark_of(0),
            TextStyle.ALLOCATED,
        ),
    )  # fmt: skip
    return Plot(axis, Axis("", "byte", top), curves, events=_events(axis.scale, marks))


def _events(scale: Scale, marks: Sequence[tuple[float, Mark]]) -> tuple[Event, ...]:
    """Marks of a kind that are near to each other are one, at the newest of them, and counted."""
    near = 1 / MOST_OF_A_KIND
    found: list[tuple[str, float, int]] = []
    for kind, name in NAMES.items():
        places = sorted((place for place, mark in marks if mark.kind == kind), reverse=True)
        groups: list[list[float]] = []
        for place in places:
            if groups and scale.share(groups[-1][0]) - scale.share(place) < near:
                groups[-1].append(place)
            else:
                groups.append([place])
        found += [(name, group[0], len(group)) for group in groups]
    return tuple(
        Event(name if count == 1 else f"{name} x{count}", place)
        for name, place, count in sorted(found, key=lambda each: each[1])
    )
