"""The processes of a watched run as a table, and a process's memory over time or steps. Pure."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Literal

from tui.allocators.messages import CPU_BUILD
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
from tui.core.text.numbers import plain, significant
from tui.devices.state.watched_processes import StepPoint
from tui.kit.lines import Line, Span, TextStyle, cell_len, paragraph
from tui.kit.plot import LEAST_CELLS, Axis, Curve, Event, Level, Plot, plot_lines
from tui.kit.scale import Scale, below, scale_for
from tui.kit.table import REST, Column, Layout, fit_columns, heading_line, row_line
from tui.watch.runs.ooms import Oom
from tui.watch.state.run import Mark, WatchedDevice
from workloads.protocol.messages import TorchMemory

RATE_DIGITS = 0.005
"""Half width of the displayed steps per second, as a share: three digits."""


_FormatRow = Callable[[WatchedDevice], str]


def _figure_text(
    pick: Callable[[TorchMemory], int], render: Callable[[int], str] = text.size
) -> _FormatRow:
    """Return a function for the text of an allocator figure."""

    def format_row(row: WatchedDevice) -> str:
        return text.NA if row.figures is None else render(pick(row.figures))

    return format_row


def _at_oom(pick: Callable[[TorchMemory | Oom], int]) -> _FormatRow:
    """Return a function for an allocator figure, at the OOM if an OOM ended the process.

    The last reading may be later than the OOM, and an exception frees memory as it propagates.
    """

    def format_row(row: WatchedDevice) -> str:
        source = row.at_oom or row.figures
        return text.NA if source is None else text.size(pick(source))

    return format_row


def _allocated(row: WatchedDevice) -> str:
    """Return the allocated bytes, or one word on why they are missing."""
    if row.at_oom is not None:
        return text.size(row.at_oom.allocated)
    if row.figures is None:
        # The column before says what a CPU build of torch computes on.
        word = "" if row.process.reason == CPU_BUILD else clean(row.process.word)
        return word or text.NA
    return text.size(row.figures.allocated)


def _device(row: WatchedDevice) -> str:
    return clean(row.device) or ("cpu" if row.process.reason == CPU_BUILD else text.NA)


def _rank(row: WatchedDevice) -> str:
    rank = row.process.rank
    return text.NA if rank is None else str(rank)


def _steps(row: WatchedDevice) -> str:
    return text.count(row.steps)


def _rate(row: WatchedDevice) -> str:
    value = row.steps_per_s
    if row.stalled_s is not None:
        return glyphs.GLYPHS.dash  # the state column shows the duration
    if value is None:
        return text.NA
    return "0" if not value else plain(significant(value, RATE_DIGITS * value))


def _figure_cell(render: _FormatRow) -> Callable[[WatchedDevice], Span]:
    """Return a cell, dim for an ended row and for a row without figures."""

    def cell(row: WatchedDevice) -> Span:
        quiet = bool(row.ended) or row.figures is None
        return Span(render(row), TextStyle.QUIET if quiet else TextStyle.PLAIN)

    return cell


def _state(row: WatchedDevice) -> Span:
    return Span(*describe_state(row))


COLUMNS: tuple[Column[WatchedDevice], ...] = (
    Column("rank", 4, _figure_cell(_rank), gap=1),
    Column("pid", 7, _figure_cell(lambda row: str(row.process.pid)), gap=1),
    Column("device", 7, _figure_cell(_device), "left", gap=1),
    Column("allocated", 10, _figure_cell(_allocated), gap=1),
    Column("reserved", 9, _figure_cell(_at_oom(lambda figures: figures.reserved)), gap=1),
    Column(
        "peak",
        9,
        _figure_cell(_figure_text(lambda figures: figures.allocated_peak)),
        gap=1,
        drop_order=5,
        leaves=3,
    ),
    Column(
        "process", 9, _figure_cell(lambda row: text.size(row.placed.process)),
        gap=1, drop_order=3, leaves=9,
    ),
    Column(
        "cached", 9, _figure_cell(_at_oom(lambda figures: figures.reserved - figures.allocated)),
        gap=1, drop_order=2, leaves=9,
    ),
    Column(
        "retries", 7, _figure_cell(_figure_text(lambda figures: figures.alloc_retries, text.count)),
        gap=1, drop_order=1, leaves=9,
    ),
    Column(
        "host", 9, _figure_cell(lambda row: text.size(row.host_rss)), gap=1, drop_order=0, leaves=15
    ),
    Column("step", 8, _figure_cell(_steps), gap=1, drop_order=6, leaves=3),
    Column("steps/s", 7, _figure_cell(_rate), gap=1, drop_order=4, leaves=3),
    Column("state", 1, _state, "left", grows=(REST,)),
)  # fmt: skip
"""All columns from the left; add a column here to show another figure."""


@functools.lru_cache(maxsize=4)
def _columns(cells: int) -> Layout[WatchedDevice]:
    return fit_columns(COLUMNS, cells)


def column_names(cells: int) -> frozenset[str]:
    """Return the names of the columns that fit into a width."""
    return frozenset(fitted.column.name for fitted in _columns(cells))


def key_of(row: WatchedDevice) -> str:
    """Return the key of a row, which distinguishes two processes with the same PID."""
    return f"{row.process.pid} {row.process.start} {row.device}"


def heading(cells: int) -> Line:
    """Return the column names."""
    return heading_line(_columns(cells))


def device_line(row: WatchedDevice, cells: int) -> Line:
    """Return the line of one device of a process."""
    return row_line(_columns(cells), row)


def ended_by_oom(row: WatchedDevice) -> bool:
    """Return whether the newest OOM on the device ended the process."""
    return bool(row.ended) and row.last_oom is not None and row.last_oom.handled is False


def describe_state(row: WatchedDevice) -> tuple[str, TextStyle]:
    """Return the state of the process in a few words."""
    ooms = max(row.figures.ooms if row.figures else 0, row.log.oom_count if row.log else 0)
    if ended_by_oom(row):
        return f"ran out, {ooms} OOMs" if ooms > 1 else "ran out", TextStyle.BAD
    parts = [text.count(ooms, "OOM")] if ooms else []
    if row.ended:
        parts.append(clean(row.ended))
    elif row.agent is None:
        parts.append("no agent")
    elif row.agent.recording:
        parts.append("records")
    if row.stalled_s is not None:
        parts.append(f"no step for {text.duration(row.stalled_s)}")
    if not parts:
        return "runs", TextStyle.QUIET
    return ", ".join(parts), TextStyle.BAD if ooms else TextStyle.QUIET


def _describe_requested(oom: Oom) -> str:
    """Return the requested bytes beside the allocated: the allocator rounds each request up."""
    if oom.requested is None:
        return ""
    return f": {text.size(oom.allocated)} allocated for {text.size(oom.requested)} requested"


def shows_whole_state(row: WatchedDevice, cells: int) -> bool:
    """Return whether the state fits into its column."""
    return cell_len(describe_state(row)[0]) <= _columns(cells)[-1].width


def missing_lines(row: WatchedDevice, cells: int, *, has_banner: bool = False) -> list[Line]:
    """Return paragraphs on the end of a row's process and on missing figures, with advice.

    Args:
        row: the device.
        cells: width of a line.
        has_banner: the lines above the table tell how the process ended.
    """
    reasons: dict[str, list[str]] = {}

    def missing(name: str, why: str) -> None:
        reasons.setdefault(why or "not known", []).append(name)

    if row.figures is None and row.at_oom is None:
        advice = f"; {row.process.advice}" if row.process.advice else ""
        missing("allocated, reserved", f"{row.process.reason or 'not read yet'}{advice}")
    if row.placed.process is None and row.figures is not None:
        missing("process", row.placed.why_no_process)
    if row.steps is None:
        missing("step", row.why_no_agent or "the agent has not reported it")
    elif row.agent is None and not row.ended and row.why_no_agent:
        missing("agent", row.why_no_agent)
    lines: list[Line] = []
    words, style = describe_state(row)
    if row.ended and not has_banner and not shows_whole_state(row, cells):
        lines += paragraph(f"{row.process.pid}: {words}", cells, style, indent="  ")
    if row.at_oom is not None:
        words = f"allocated, reserved and cached are from its OOM{_describe_requested(row.at_oom)}"
        lines += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    for why, names in reasons.items():
        words = f"{', '.join(names)} {text.NA}: {why}"
        lines += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    return lines


# ---- the memory of one process -------------------------------------------------------------------

Over = Literal["time", "steps"]
AROUND_PLOT = 4
"""Rows of a plot outside its edges: its name and legend, marks, the lower edge."""
LEAST_PLOT = 4
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
    if over == "steps":
        placed = [(point, point.step) for point in row.points if point.step is not None]
        if len({step for _, step in placed}) < 2:
            why = row.why_no_agent or "fewer than two steps were seen"
            words = f"No plot over steps: {why}. A plots over time."
            return paragraph(words, cells, TextStyle.QUIET)
        points = [(float(step), point) for point, step in placed]
        marks = [(float(mark.step), mark) for mark in row.marks if mark.step is not None]
        axis = Axis("steps", "", _scale(points, marks))
    else:
        if len({point.at for point in row.points}) < 2:
            return paragraph("No plot: it needs two readings.", cells, TextStyle.QUIET)
        began, span = row.points[0].at, row.points[-1].at - row.points[0].at
        _, factor, unit = next(scale for scale in _TIMES if span >= scale[0])
        points = [((point.at - began) / factor, point) for point in row.points]
        marks = [((mark.at - began) / factor, mark) for mark in row.marks]
        axis = Axis("time", unit, _scale(points, marks))
    gaps = find_gaps([point.at for point in row.points])
    limit = row.last_oom.limit if row.last_oom is not None else None
    plot = _plot(axis, points, marks, gaps, limit, height)
    # With too little room, the limit goes first, then the names of the marks, then their signs.
    unnamed = tuple(replace(event, name="") for event in plot.events)
    without = replace(plot, levels=())
    for drawn in (plot, without, replace(without, events=unnamed), replace(without, events=())):
        spare = rows - len(plot_lines(drawn, cells, height))
        if height + spare >= LEAST_PLOT:
            return plot_lines(drawn, cells, height + spare)
    return []


def _scale(points: Sequence[tuple[float, StepPoint]], marks: Sequence[tuple[float, Mark]]) -> Scale:
    places = [place for place, _ in points]
    places += [place for place, _ in marks]
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
    limit: int | None,
    height: int,
) -> Plot:
    """Return the plot; its curves break before the points at the Unix times of ``gaps``.

    Args:
        axis: the lower edge.
        points: the readings, by their places.
        marks: the events, by their places.
        gaps: Unix times of the points before which nothing was read.
        limit: bytes that an OOM reports as the device's, or as torch's share; ``None`` without one.
        height: rows between the edges.
    """
    values = [float(point.reserved) for _, point in points]
    values += [float(point.allocated) for _, point in points]
    levels = (Level("limit", float(limit)),) if limit else ()
    values += [level.value for level in levels]
    upright = scale_for([0.0, *values], "byte")
    if height < _FEW_TICKS_BELOW:
        middle = () if height < _TWO_TICKS_BELOW else (upright.high / 2,)
        upright = replace(upright, places=(0.0, *middle, upright.high))
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
