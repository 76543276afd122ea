"""A process's memory over time or steps, as a plot. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from tui.allocators.messages import NO_TORCH
from tui.core.text import numbers as text
from tui.devices.state.watched_processes import StepPoint
from tui.kit.lines import Line, Span, TextStyle, paragraph
from tui.kit.plot import LEAST_CELLS, LEAST_HEIGHT, Axis, Curve, Event, Level, Plot, fit_plot_lines
from tui.kit.scale import Scale, below, scale_for
from tui.watch.runs.ooms import Oom
from tui.watch.state.run import Mark, WatchedDevice, find_ooms

Over = Literal["time", "steps"]
AROUND_PLOT = 4
"""Rows of a plot outside its edges: its name and legend, marks, the lower edge."""
LEAST_PLOT = LEAST_HEIGHT
"""The fewest rows between the edges; with fewer, no plot is drawn."""
LEGIBLE_PLOT = 9
"""Rows between the edges that a plot gets before what repeats other lines or is explained on a key.
"""
_FEW_TICKS_BELOW = 12
_TWO_TICKS_BELOW = 5
"""Rows between the edges below which only zero, the middle and the top have a number, or only zero
and the top."""
MARK_NAMES = {"OOM": "OOM", "snapshot": "snapshot", "cache flush": "flush"}
MOST_OF_A_KIND = 10
"""Marks of a kind within this fraction of the axis (one over the number) merge, since lines for a
thousand cache flushes would hide the curves."""
PARTS = 10
"""The fewest steps in which the end of the axis moves."""
_TIMES = ((7200.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))
"""Units of a time axis: the duration in seconds from which a unit applies, its size, its name."""


LEAST_STEPS = 10
"""The fewest steps of which a plot shows more than the same points over time."""


def choose_axis(row: WatchedDevice) -> Over:
    """Return steps if the process ran out of memory at a step: its conclusion counts them."""
    if row.last_oom is None:
        return "time"
    steps = {point.step for point in row.points if point.step is not None}
    return "steps" if len(steps) >= LEAST_STEPS else "time"


def plot_of(row: WatchedDevice, over: Over, cells: int, rows: int) -> list[Line]:
    """Return the plot in at most ``rows`` rows, or the reason for a missing plot.

    Args:
        row: the device.
        over: the quantity along the lower edge.
        cells: width of a line.
        rows: the available rows.
    """
    height = rows - AROUND_PLOT
    if cells < LEAST_CELLS or height < LEAST_PLOT:
        return []
    if words := _describe_too_few(row):
        return _explain(words, cells)
    readings = add_ooms(row)
    if over == "steps":
        placed = [(point, point.step) for point in readings if point.step is not None]
        if len({step for _, step in placed}) < 2:
            why = row.why_no_agent or "fewer than two steps were seen"
            words = f"No plot over steps: {why}. A plots over time."
            return _explain(words, cells)
        points = [(float(step), point) for point, step in placed]
        marks = [(float(mark.step), mark) for mark in row.marks if mark.step is not None]
        axis = Axis("steps", "", _scale([place for place, _ in (*points, *marks)]))
    else:
        if len({point.at for point in readings}) < 2:
            return _explain("No plot: it needs two readings.", cells)
        began = readings[0].at
        ooms = [mark.at for mark in row.marks if mark.kind == "OOM"]
        shown = crop_idle(readings, oom_at=max(ooms, default=None))
        first, last = shown[0].at, shown[-1].at
        factor, unit = _choose_unit(last - began)
        points = [((point.at - began) / factor, point) for point in shown]
        # An event beside the readings is at the nearest of them.
        marks = [((min(max(mark.at, first), last) - began) / factor, mark) for mark in row.marks]
        axis = Axis("time", unit, _scale([place for place, _ in (*points, *marks)]))
    gaps = find_gaps([point.at for point in readings])
    plot = _plot(axis, points, marks, gaps, row.last_oom, height)
    return _draw(plot, cells, rows)


def add_ooms(row: WatchedDevice) -> list[StepPoint]:
    """Return the readings with those of torch at each OOM, without which a fast curve lags behind.

    An OOM of the driver has no figures of torch.
    """
    ooms = [
        StepPoint(oom.at, oom.step, oom.allocated, oom.reserved)
        for oom in find_ooms(row.log, row.device)
        if oom.request is not None
    ]
    return sorted([*row.points, *ooms], key=lambda point: point.at) if row.points else []


def _explain(words: str, cells: int) -> list[Line]:
    """Return why there is no plot, indented like the text above."""
    lines = paragraph(words, max(1, cells - len(_INDENT)), TextStyle.QUIET)
    return [(Span(_INDENT), *each) for each in lines]


_INDENT = "  "


def _describe_too_few(row: WatchedDevice) -> str:
    """Say that a process ran out of memory before it was read often enough for a curve."""
    if row.at_oom is None or not row.points:
        return ""
    least = IDLE * max(point.reserved for point in row.points)
    oom_at = min((mark.at for mark in row.marks if mark.kind == "OOM"), default=None)
    if oom_at is None:
        return ""
    before = sum(point.at <= oom_at and point.reserved >= least for point in row.points)
    if before >= LEAST_BEFORE_OOM:
        return ""
    words = f"Too fast for a curve: {text.count(before, 'sample')} before its OOM."
    if _has_history(row):
        return f"{words} o opens the snapshot, L its timeline."
    return f"{words} watch --record stores each allocation."


def _has_history(row: WatchedDevice) -> bool:
    """Return whether the snapshot of the OOM has a history of the memory."""
    oom, log = row.at_oom, row.log
    return oom is not None and oom.snapshot is not None and log is not None and log.records


LEAST_BEFORE_OOM = 3
"""The fewest readings with memory before an OOM from which a plot is drawn."""
BESIDE = 0.1
"""Share of the plot's time that idle readings get on either side."""
IDLE = 0.02
"""Share of the highest memory below which a process has not begun, or a change is not drawn."""
LEAST_READINGS = 20
"""Readings that are shown at least: a line between two of them is no measurement."""


def crop_idle(points: Sequence[StepPoint], *, oom_at: float | None) -> Sequence[StepPoint]:
    """Leave out most of the time before the work begins, and after an OOM until the process ends.

    A process imports for seconds before it allocates; after an OOM that ends it, its memory stays
    until its traceback is written. The curve between them would be a line.

    Args:
        points: at least two readings, oldest first.
        oom_at: Unix time of the last OOM; ``None`` without one.

    Returns:
        At least two of them.
    """
    least = IDLE * max(point.reserved for point in points)
    begun = next(at for at, point in enumerate(points) if point.reserved >= least)
    start, end = points[max(0, begun - 1)].at, points[-1].at
    if oom_at is not None:
        final = points[-1]
        moved = [
            point.at
            for point in points
            if abs(point.allocated - final.allocated) > least
            or abs(point.reserved - final.reserved) > least
        ]
        idle_from = max(points[begun].at, oom_at, *moved[-1:])
        end = next((point.at for point in points if point.at >= idle_from), end)
    beside = BESIDE * (end - start)
    places = [at for at, point in enumerate(points) if start - beside <= point.at <= end + beside]
    more = max(0, LEAST_READINGS - len(places) + 1) // 2
    first = max(0, min(places[0] - more, len(points) - LEAST_READINGS))
    return points[first : max(places[-1] + 1 + more, first + LEAST_READINGS)]


def plots_host_memory(row: WatchedDevice) -> bool:
    """Return whether a process has a plot of its host memory: it has used no CUDA so far."""
    is_shell = row.process.reason == NO_TORCH
    return len(row.host_points) > 1 and not (row.points or row.figures or row.at_oom or is_shell)


def host_plot(row: WatchedDevice, cells: int, rows: int) -> list[Line]:
    """Return the plot of a process's host memory over time in at most ``rows`` rows."""
    height = rows - AROUND_PLOT
    if cells < LEAST_CELLS or height < LEAST_PLOT:
        return []
    began = row.host_points[0].at
    factor, unit = _choose_unit(row.host_points[-1].at - began)
    places = [(point.at - began) / factor for point in row.host_points]
    gaps = find_gaps([point.at for point in row.host_points])
    points: list[tuple[float, float | None]] = []
    for place, point in zip(places, row.host_points, strict=True):
        if point.at in gaps:
            points.append((place, None))
        points.append((place, float(point.resident)))
    across = Axis("time", unit, _scale(places))
    upright = _upright([float(point.resident) for point in row.host_points], height)
    curve = Curve("host memory (RSS)", tuple(points), "", TextStyle.ALLOCATED, filled=True)
    plot = Plot(across, Axis("", "byte", upright), (curve,), note=NOT_READ if gaps else "")
    return _draw(plot, cells, rows)


def _choose_unit(span: float) -> tuple[float, str]:
    """Return the seconds and the name of the unit of a time axis over so many seconds."""
    _, factor, unit = next(scale for scale in _TIMES if span >= scale[0])
    return factor, unit


def _draw(plot: Plot, cells: int, rows: int) -> list[Line]:
    """Draw a plot in at most ``rows`` rows, or nothing if they are too few."""
    height = rows - AROUND_PLOT
    # With too little room, the limit goes first, then the names of the marks, then their signs.
    unnamed = tuple(replace(event, name="") for event in plot.events)
    without = replace(plot, levels=())
    for drawn in (plot, without, replace(without, events=unnamed), replace(without, events=())):
        if lines := fit_plot_lines(drawn, cells, height, rows):
            return lines
    return []


def _scale(places: Sequence[float]) -> Scale:
    low, high = min(places), max(places)
    if high > low:
        # The axis ends a little later, so that the plot does not move until its end is reached.
        part = below((high - low) / PARTS)
        high = low + part * math.ceil((high - low) / part)
    return Scale(low, high)


def _plot(
    axis: Axis,
    points: Sequence[tuple[float, StepPoint]],
    marks: Sequence[tuple[float, Mark]],
    gaps: Collection[float],
    oom: Oom | None,
    height: int,
) -> Plot:
    """Return the plot; its curves break before the points at the Unix times of ``gaps``.

    Args:
        axis: the lower edge.
        points: the readings, by their places.
        marks: the events, by their places.
        gaps: Unix times of the points before which nothing was read.
        oom: the last OOM; ``None`` without one.
        height: rows between the edges.
    """
    values = [float(point.reserved) for _, point in points]
    values += [float(point.allocated) for _, point in points]
    limit = None if oom is None else oom.limit
    upright = _upright([*values, float(limit or 0)], height)
    levels = () if oom is None else _levels(oom, upright.high / height)
    reserved: list[tuple[float, float | None]] = []
    allocated: list[tuple[float, float | None]] = []
    for at, point in points:
        if point.at in gaps:
            reserved.append((at, None))
            allocated.append((at, None))
        reserved.append((at, float(point.reserved)))
        allocated.append((at, float(point.allocated)))
    curves = (
        Curve("cached", tuple(reserved), "", TextStyle.CACHED, filled=True, faint=True),
        Curve("allocated", tuple(allocated), "", TextStyle.ALLOCATED, filled=True),
    )
    note = NOT_READ if gaps else ""
    events = _events(axis.scale, marks)
    return Plot(axis, Axis("", "byte", upright), curves, levels, events, note=note)


def _levels(oom: Oom, apart: float) -> tuple[Level, ...]:
    """Return what an OOM reports as the device's memory, and what of it torch could have had.

    Between the two is the memory outside torch: this process's context, and other processes.

    Args:
        oom: the OOM.
        apart: bytes of a row: closer levels would share it.
    """
    if not oom.limit:
        return ()
    limit = Level("limit", float(oom.limit))
    if oom.is_at_process_limit:
        return (limit,)
    left = Level("for torch", float(oom.reserved + (oom.free or 0)))
    # The curve ends at what was for torch.
    return (left,) if limit.value - left.value < apart else (limit, left)


def _upright(values: Sequence[float], height: int) -> Scale:
    """Return the scale of bytes from zero, with as many numbers as ``height`` rows allow."""
    upright = scale_for([0.0, *values], "byte")
    if height >= _FEW_TICKS_BELOW:
        return upright
    middle = () if height < _TWO_TICKS_BELOW else (upright.high / 2,)
    return replace(upright, places=(0.0, *middle, upright.high))


NOT_READ = "gap: nothing was read"
"""Why a curve breaks: the screen was closed, or the process did not answer."""
GAP, GAP_S = 8.0, 5.0
"""Two points are apart if they lie this many times the usual distance apart, and this many seconds.
A process is read several times a second, and neighbors merge into points of equal duration."""


def find_gaps(times: Sequence[float]) -> frozenset[float]:
    """Return the times of the points before which nothing was read for a while.

    Args:
        times: Unix times, oldest first.
    """
    apart = [after - before for before, after in itertools.pairwise(times)]
    if len(apart) < 2:
        return frozenset()
    longest = max(GAP_S, GAP * statistics.median(apart))
    return frozenset(at for at, since in zip(times[1:], apart, strict=True) if since > longest)


def _events(scale: Scale, marks: Sequence[tuple[float, Mark]]) -> tuple[Event, ...]:
    """Merge close marks of a kind into one with their count, at the newest of them."""
    near = 1 / MOST_OF_A_KIND
    events: list[Event] = []
    for kind, name in MARK_NAMES.items():
        style = TextStyle.BAD if kind == "OOM" else TextStyle.NOTE
        places = sorted((place for place, mark in marks if mark.kind == kind), reverse=True)
        groups: list[list[float]] = []
        for place in places:
            if groups and scale.share(groups[-1][0]) - scale.share(place) < near:
                groups[-1].append(place)
            else:
                groups.append([place])
        events += [
            Event(name if len(group) == 1 else f"{name} x{len(group)}", group[0], style)
            for group in groups
        ]
    return tuple(sorted(events, key=lambda event: event.place))
