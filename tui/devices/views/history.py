"""A device's figures over the last minutes, in dots or steps on fixed scales. Pure.

A sample has several columns at first, so that a history soon fills its width. Then the columns
become longer, which shows more time and redraws less often.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import MOST_POINTS, USUAL_INTERVAL_S, MemoryPoint, stale_after
from tui.devices.state.machine import MachineState
from tui.devices.state.resident_memory import ResidentPoint
from tui.devices.state.watched_processes import StepPoint
from tui.kit.braille import ACROSS, braille, filled
from tui.kit.lines import Line, Span, TextStyle, beside, fit, left, right
from tui.monitor.messages import Sample

LABEL = 21
"""Cells in front of a history, for its name and scale."""
SAMPLES_PER_COLUMN = (0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 120, 300)
"""Numbers of samples that a column can have: close together, to fill most of the width. Below one,
a sample has several columns."""


LOAD_STYLE = TextStyle.GOOD
"""Style of the load, also of its history in the devices' rows."""


_SPAN_STEPS = ((10, 1), (60, 5), (240, 30), (math.inf, 60))
"""Steps in seconds of the duration of readings, each below a duration."""


class RecentReadings(NamedTuple):
    """The readings of one device or process, drawn up to the present."""

    points: Sequence[MemoryPoint]
    """Oldest first."""
    sample: Sample | None
    """The monitor's newest; ``None`` before the first."""
    now: float
    """Unix time."""

    def column_s(self, columns: int) -> float:
        """Return the seconds per column: as few as show all readings that can be shown at all.

        Args:
            columns: width of the picture in columns.
        """
        interval_s = self.sample.interval_s if self.sample else USUAL_INTERVAL_S
        first, *longer = SAMPLES_PER_COLUMN
        # Older points than these are not stored.
        fitting = [samples for samples in longer if samples * columns <= MOST_POINTS]
        options = [samples * interval_s for samples in (first, *fitting)]
        # Readings may take part of the first column, and the last one may lie in the future.
        whole = max(1, columns - ACROSS)
        oldest = self.end - options[-1] * whole
        index = bisect.bisect_left(self.points, oldest, key=_get_time)
        if index == len(self.points):
            return options[0]
        duration = self.end - self.points[index].at
        return next((option for option in options if duration <= option * whole), options[-1])

    def read_newest(self, name: str) -> float | None:
        """Return the newest reading of a figure; ``None`` if it is old or unknown."""
        if not self.points:
            return None
        newest = self.points[-1]
        is_old = self.sample is not None and self.now - newest.at > stale_after(self.sample)
        return None if is_old else getattr(newest, name)

    def known_s(self, window_s: float) -> float:
        """Return the seconds of a picture that have readings, up to the present.

        It is less than the picture's duration at first, and then changes every few seconds alone,
        so that a heading is seldom drawn anew.

        Args:
            window_s: the duration of the picture.
        """
        if not self.points:
            return window_s
        since = self.end - self.points[0].at
        if since >= window_s:
            return window_s
        step = next(step for most, step in _SPAN_STEPS if since < most)
        return max(min(1.0, window_s), since // step * step)

    @property
    def end(self) -> float:
        """Unix time of the newest sample, or the present once samples stop."""
        if self.sample is None or self.now - self.sample.at > stale_after(self.sample):
            return self.now
        return self.sample.at


class PlottedFigure(NamedTuple):
    """One figure of a history's points and its scale, from zero to ``full``."""

    name: str
    label: str
    full: float | None
    """Top of the scale; ``None`` if unknown, and then nothing is drawn."""
    full_text: str
    style: TextStyle


def plotted_figures(
    view: DeviceView,
    sample: Sample | None,
    format_size: text.SizeFormat = text.size_short,
    *,
    torch: bool = False,
) -> list[PlottedFigure]:
    """Return the figures of a device that have a history, with the top of each scale.

    Args:
        view: the device.
        sample: the monitor's newest, which contains the host's memory.
        format_size: how the pane writes sizes.
        torch: include the memory that torch has reserved.
    """
    device = view.nvml
    total = device.memory.total if device else None
    if total is None and view.torch_device is not None:
        total = view.torch_device.total_memory
    if sample and (view.key == CPU or (device and device.memory.unified)):
        total = sample.host.memory.total
    limit = device.power_limit_w if device else None
    size = format_size(total)
    plotted = [
        PlottedFigure("utilization", "util", 100.0, "100%", LOAD_STYLE),
        PlottedFigure("used", "memory", total, size, TextStyle.ALLOCATED),
    ]
    if torch and view.torch and view.key != CPU:
        plotted.append(PlottedFigure("reserved", "reserved", total, size, TextStyle.CACHED))
    if view.key != CPU:
        plotted.append(PlottedFigure("power", "power", limit, text.watts(limit), TextStyle.CONTEXT))
    return plotted


def format_value(name: str, value: float, format_size: text.SizeFormat = text.size_short) -> str:
    """Return a value of a figure with its unit.

    Args:
        name: the figure.
        value: a reading.
        format_size: how the pane writes sizes.
    """
    if name == "utilization":
        return text.percent(value)
    if name == "power":
        return text.watts(value)
    if name == "temperature":
        return text.temperature(value)
    return f"{value / 1e9:.1f} GB/s" if name == "traffic" else format_size(round(value))


def split_into_columns(
    points: Sequence[MemoryPoint], seconds: float, first: int, columns: int
) -> list[list[MemoryPoint]]:
    """Return the points of each column; none for a gap.

    A column without a point has the next one, unless the point before that is so much older that
    there is a gap: samples come late and early.

    Args:
        points: oldest first.
        seconds: duration of a column; columns begin at whole multiples of it.
        first: number of the first column of the picture.
        columns: number of columns; later points have none.
    """
    # A clock that was set back leaves points of the future.
    ordered = sorted(points, key=_get_time)
    times = [point.at for point in ordered]
    start = bisect.bisect_left(times, first * seconds)
    split = []
    for column in range(first + 1, first + columns + 1):
        end = bisect.bisect_left(times, column * seconds, start)
        split.append(ordered[start:end])
        if start == end and 0 < start < len(ordered):
            before, point = ordered[start - 1 : start + 1]
            # The interval between samples may have changed.
            if point.at - before.at <= max(before.covers_s, point.covers_s):
                split[-1].append(point)
        start = end
    return split


def _get_time(point: MemoryPoint) -> float:
    return point.at


def _find_highest(values: Iterable[float | None]) -> float | None:
    """Return the highest of the known values, if there is one."""
    return max((value for value in values if value is not None), default=None)


def compute_shares(
    points: Sequence[MemoryPoint], figure: PlottedFigure, columns: int, seconds: float, until: float
) -> list[float | None]:
    """Return the highest value of each column as a share of the scale, or ``None``.

    Columns begin at whole multiples of their seconds, and pairs of columns at whole multiples of
    two columns, so that the picture does not move until a cell is full.

    Args:
        points: oldest first.
        figure: the figure of the points, and its scale.
        columns: number of columns; the last may lie in the future.
        seconds: duration of a column.
        until: Unix time within the last cell.
    """
    if not figure.full:
        return [None] * columns
    first = (math.floor(until / seconds / ACROSS) + 1) * ACROSS - columns
    shares: list[float | None] = []
    for column in split_into_columns(points, seconds, first, columns):
        highest = _find_highest(getattr(point, figure.name) for point in column)
        shares.append(None if highest is None else min(1.0, max(0.0, highest / figure.full)))
    return shares


_COPIED = {
    "step": "step",
    "used": "used, bytes",
    "process": "this process, bytes",
    "allocated": "allocated, bytes",
    "reserved": "reserved, bytes",
    "resident": "host memory (RSS), bytes",
    "utilization": "util, %",
    "power": "power, W",
    "temperature": "temperature, C",
    "traffic": "PCIe, bytes/s",
}
"""Headings of the figures of copied points, by their names."""


def format_points(points: Sequence[MemoryPoint | StepPoint | ResidentPoint]) -> list[str]:
    """Return a history as lines with tabs, for a spreadsheet or a script: headings, then readings.

    Figures without any reading are left out; a reading that is missing is empty.

    Args:
        points: oldest first.
    """
    values = {
        heading: [getattr(point, name, None) for point in points]
        for name, heading in _COPIED.items()
    }
    known = {heading: row for heading, row in values.items() if any(v is not None for v in row)}
    rows = zip(*known.values(), strict=True)
    return [
        "\t".join(["time, Unix s", *known]),
        *(
            "\t".join([f"{point.at:.1f}", *("" if v is None else f"{v:.12g}" for v in row)])
            for point, row in zip(points, rows, strict=False)
        ),
    ]


NO_READING = "gap: no reading"
NO_SAMPLE = "gap: no samples"
"""Why a cell between two readings is blank: samples came without the figure; none came, as while
the machine slept or the monitor was started again."""


def format_span(seconds: float) -> str:
    """Format the time that a column or a history stands for: ``0.4 s``, ``60 s``, ``2.5 min``.

    It is rounded, because histories side by side have columns of different widths.
    """
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    if seconds < 240:
        return f"{seconds / 60:.2g} min"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else text.duration(seconds)


def explain_gap(
    points: Sequence[MemoryPoint], values: Sequence[object | None], seconds: float, until: float
) -> str:
    """Return why cells after the first reading are blank; empty if none are.

    Args:
        points: the points that the readings belong to.
        values: the reading of each cell; ``None`` for a blank one.
        seconds: duration of a cell.
        until: Unix time within the last cell.
    """
    begin = count_before(values)
    blank = {cell for cell, reading in enumerate(values) if reading is None and cell > begin}
    # The present cell may wait for its first sample.
    blank.discard(len(values) - 1)
    if not blank:
        return ""
    first = math.floor(until / seconds) + 1 - len(values)
    sampled = split_into_columns(points, seconds, first, len(values))
    return NO_READING if any(sampled[cell] for cell in blank) else NO_SAMPLE


class DrawnHistory(NamedTuple):
    """A figure's history in dots, or in steps of one row."""

    rows: list[str]
    gap: str = ""
    """Why cells between two readings are blank; empty if none are."""
    begin: int = 0
    """Cells before the first reading."""


def count_before(readings: Sequence[object | None]) -> int:
    """Count the cells before the first reading: all without any."""
    known = (cell for cell, reading in enumerate(readings) if reading is not None)
    return next(known, len(readings))


def draw_ground(cells: int) -> Line:
    """Draw the ground on which a history will stand, of cells before the first reading."""
    return (Span(glyphs.GLYPHS.zero * cells, TextStyle.REST),) if cells else ()


def draw_history(
    recent: RecentReadings, figure: PlottedFigure, cells: int, rows: int, seconds: float
) -> DrawnHistory:
    """Draw a history: a sampled zero is one dot or step high, a gap has none.

    One row has steps, which have twice the heights of dots, and half the columns.

    Args:
        recent: the readings.
        figure: the figure of the history.
        cells: width of the picture.
        rows: height of the picture.
        seconds: duration of a column of dots.
    """
    points, until = recent.points, recent.end
    shares = compute_shares(points, figure, cells * ACROSS, seconds, until)
    pairs = zip(shares[0::ACROSS], shares[1::ACROSS], strict=True)
    merged = [_find_highest(pair) for pair in pairs]
    gap, begin = explain_gap(points, merged, seconds * ACROSS, until), count_before(merged)
    if rows == 1:
        return DrawnHistory(["".join(map(_draw_step, merged))], gap, begin)
    # A share above zero has at least one dot.
    dots = filled([share if share is None else share or 1e-9 for share in shares], rows)
    return DrawnHistory(braille(dots, cells, rows), gap, begin)


def _draw_step(share: float | None) -> str:
    """Return the glyph of a share of one row, at least the lowest; a blank for none.

    The highest leaves a gap, so that the histories of neighboring rows stay apart.
    """
    if share is None:
        return " "
    steps = glyphs.GLYPHS.vertical[:-1]
    return steps[max(0, math.ceil(share * len(steps)) - 1)]


class DrawnLoads(NamedTuple):
    """The histories of the devices' load, one line each."""

    rows: Mapping[str, Line]
    """By the devices' keys."""
    span_s: float
    """Duration of the longest, seconds."""
    gap: str
    """Why cells in some of them are blank; empty if none are."""


def read_recent(machine: MachineState, key: str, now: float) -> RecentReadings:
    """Return the readings of a device.

    Args:
        machine: the state of its machine.
        key: the device's key.
        now: Unix time of the machine's clock.
    """
    return RecentReadings(machine.history.points(key), machine.sample, now)


def draw_loads(machine: MachineState, now: float, cells: int) -> DrawnLoads:
    """Draw the load of each device; all have the same columns.

    Args:
        machine: the state of the machine.
        now: Unix time.
        cells: width of a history.
    """
    sample, columns = machine.sample, cells * ACROSS
    recents = {view.key: read_recent(machine, view.key, now) for view in machine.devices}
    seconds = max((recent.column_s(columns) for recent in recents.values()), default=0.0)
    drawn = {
        view.key: draw_history(
            recents[view.key], plotted_figures(view, sample)[0], cells, 1, seconds
        )
        for view in machine.devices
    }
    gap = next((history.gap for history in drawn.values() if history.gap), "")
    rows = {key: _on_ground(history, 0, LOAD_STYLE) for key, history in drawn.items()}
    known_s = max((recent.known_s(columns * seconds) for recent in recents.values()), default=0.0)
    return DrawnLoads(rows, known_s, gap)


def _on_ground(history: DrawnHistory, row: int, style: TextStyle) -> Line:
    """Return a row of a history; before the first reading the last row shows the ground."""
    begin = history.begin if row == len(history.rows) - 1 else 0
    return (*draw_ground(begin), Span(history.rows[row][begin:], style))


def history_lines(
    recent: RecentReadings,
    plotted: Sequence[PlottedFigure],
    cells: int,
    rows: int,
    format_size: text.SizeFormat = text.size_short,
) -> tuple[list[Line], str]:
    """Draw figures below each other, the newest points on the right.

    In front are the scales, or in front of single rows the newest readings.

    Returns the lines, and why cells in some of the histories are blank; empty if none are.

    Args:
        recent: the readings.
        plotted: the figures to draw.
        cells: width of a line.
        rows: height of each figure.
        format_size: how the pane writes sizes.
    """
    room = max(0, cells - LABEL)
    seconds = recent.column_s(room * ACROSS)
    lines: list[Line] = []
    gap = ""
    for figure in plotted:
        if figure.full is None:
            lines += [explain_no_scale(figure, cells), *[()] * (rows - 1)]
            continue
        drawn = draw_history(recent, figure, room, rows, seconds)
        gap = gap or drawn.gap
        for row in range(rows):
            if rows == 1:
                label = _value_label(figure, recent, format_size)
            else:
                label = (Span(scale_label(figure, row, rows), TextStyle.QUIET),)
            lines.append((*label, *_on_ground(drawn, row, figure.style)))
    return lines, gap


def explain_no_scale(figure: PlottedFigure, cells: int) -> Line:
    """Return the line in place of a figure whose maximum is unknown."""
    words = f" {figure.label} {text.NA}: its maximum is unknown"
    return (Span(left(words, cells), TextStyle.QUIET),)


def scale_label(figure: PlottedFigure, row: int, rows: int) -> str:
    """Return the label of a row: name and top of the scale, and the zero below."""
    words = figure.full_text if row == 0 else "0" if row == rows - 1 else ""
    name = figure.label if row == 0 else ""
    return f" {left(name, 8)}{right(words, LABEL - 10)} "


def _value_label(
    figure: PlottedFigure, recent: RecentReadings, format_size: text.SizeFormat
) -> Line:
    """Return the label of a single row: the figure's name and its newest reading.

    The power stands beside its limit, which narrow rows of devices leave out.
    """
    newest = recent.read_newest(figure.name)
    words = text.NA if newest is None else format_value(figure.name, newest, format_size)
    if newest is not None and figure.name == "power":
        words = text.power(newest, figure.full)
    name = Span(f"  {left(figure.label, 8)}", TextStyle.QUIET)
    style = TextStyle.QUIET if newest is None else TextStyle.STRONG
    return (name, Span(right(words, LABEL - 12), style), Span("  "))


def block_rows(view: DeviceView, rows: int) -> int:
    """Return the rows of :func:`block_lines` if each figure has ``rows`` rows; 0 for 0 rows."""
    return 1 + rows * len(plotted_figures(view, None)) if rows else 0


def block_lines(view: DeviceView, recent: RecentReadings, cells: int, height: int) -> list[Line]:
    """Return a device's histories below a line with its name and their duration.

    Args:
        view: the device.
        recent: its readings.
        cells: width of a line.
        height: lines in all.
    """
    plotted = plotted_figures(view, recent.sample)
    rows = max(1, (height - 1) // len(plotted))
    lines, gap = history_lines(recent, plotted, cells, rows)
    return [span_rule(view.label, recent, cells, cells, gap), *lines]


BESIDE_FROM = 110
"""Cells of width from which the memory tab draws two histories side by side."""
HIGHEST = 5
"""The most rows of a history."""


def whole_rows(view: DeviceView, recent: RecentReadings, cells: int, most: int) -> int:
    """Return the rows of :func:`whole_lines`, at most ``most``; 0 if some history has no room."""
    stacked = _count_stacked(plot_whole(view, recent), cells)
    height = min(HIGHEST, (most - 1) // stacked)
    return 1 + height * stacked if height > 0 else 0


def plot_whole(view: DeviceView, recent: RecentReadings) -> list[PlottedFigure]:
    """Return all figures; torch's reserved memory only if it was read."""
    reserves = any(point.reserved is not None for point in recent.points)
    return plotted_figures(view, recent.sample, text.size, torch=reserves)


def _count_stacked(plotted: Sequence[PlottedFigure], cells: int) -> int:
    """Count the histories below each other."""
    return -(-len(plotted) // 2) if cells >= BESIDE_FROM else len(plotted)


def whole_lines(view: DeviceView, recent: RecentReadings, cells: int, height: int) -> list[Line]:
    """Return all histories of a device, torch's reserved memory included; in pairs if wide.

    The arguments are those of :func:`block_lines`.
    """
    plotted = plot_whole(view, recent)
    deep = _count_stacked(plotted, cells)
    rows = max(1, (height - 1) // deep)
    has_pairs = len(plotted) > deep
    room = (cells - 2) // 2 if has_pairs else cells
    lines, gap = history_lines(recent, plotted[:deep], room, rows, text.size)
    if has_pairs:
        others, other_gap = history_lines(recent, plotted[deep:], room, rows, text.size)
        lines, gap = beside(lines, others, room), gap or other_gap
    return [span_rule(view.label, recent, room, cells, gap), *lines]


def span_rule(device: str, recent: RecentReadings, room: int, cells: int, gap: str = "") -> Line:
    """Return a rule with the device, the duration of the histories below, and why they have gaps.

    Args:
        device: the device's name, or another word, at the start; may be empty.
        recent: the readings of the histories.
        room: cells of one history.
        cells: width of the line.
        gap: why cells are blank; empty if none are.
    """
    columns = max(0, room - LABEL) * ACROSS
    span = format_span(recent.known_s(columns * recent.column_s(columns)))
    name = f"{device}, " if device else ""
    words = f"{name}last {span}"
    short = f"{name}{span}  {gap}"
    titles = [f"{words}  {gap}", short, f"{name}{gap}", gap, words] if gap else [words]
    return title_rule(titles, cells)


def title_rule(titles: Sequence[str], cells: int) -> Line:
    """Return a rule with the first title that fits, or else with the last, cut."""
    rule = glyphs.GLYPHS.rule
    chosen = next((title for title in titles if len(title) + 3 <= cells), titles[-1])
    start = fit(f"{rule} {chosen} ", cells)
    return (
        Span(start[:1], TextStyle.REST),
        Span(start[1:], TextStyle.QUIET),
        Span(rule * (cells - len(start)), TextStyle.REST),
    )
