"""What came of a run, at a glance: time, rate, share of the limit, check, warnings, blocks. Pure.

The detail begins with it; every further figure stands below in :mod:`tui.ui.views.detail`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui.state.runs import RunState
from tui.state.sweep_curves import base_device, rate_of, result_of, speed_up
from tui.text import glyphs
from tui.text import numbers as text
from tui.text.quantity import RATES
from tui.ui.views.chart import bar
from tui.ui.views.lines import Line, Span, TextStyle, cell_len, flow, left, line, paragraph, right
from tui.ui.views.plot import LEAST_CELLS, Axis, Curve, Level, Plot, plot_lines
from tui.ui.views.scale import Scale
from tui.ui.views.workload_state import half_width, median, progress_words, warnings_of
from workloads.protocol.results import Check, Limit, RunResult, Timing

DEVICE_CELLS = 8
TIME_CELLS, RATE_CELLS = 8, 16
SPREAD = "<0.1%"
"""The longest spread of a measurement to be kept, after its sign."""
BAR_CELLS = (10, 40)
"""Least and most cells of the bar of a share."""
BLOCKS_FROM = 3
BLOCKS_HEIGHT, BLOCKS_MOST = 4, 100
"""Rows of the plot of the blocks, and its most cells."""


def outcome_lines(runs: Mapping[str, RunState | None], cells: int) -> list[Line]:
    """Each device's result in a few lines, and how the devices compare.

    Args:
        runs: by device, of one workload; those that there are not are left out.
        cells: width of a line.
    """
    results = [(run.result or run.so_far) for run in runs.values() if run is not None]
    limits = [result.limit for result in results if result is not None and result.limit]
    # Bars of one length: they are read beside each other.
    words = max((cell_len(limit_words(limit)) for limit in limits), default=0)
    rows: list[Line] = []
    for device, run in runs.items():
        if run is not None:
            rows += _device_lines(device, run, cells, words)
    return rows + compared_lines(runs, cells)


def _device_lines(device: str, run: RunState, cells: int, limit_cells: int) -> list[Line]:
    label = Span(f"{left(device, max(DEVICE_CELLS, cell_len(device)))} ", TextStyle.KEY)
    result = run.result or run.so_far
    rows: list[Line] = []
    if result is not None and result.time is not None:
        rows += _figures(label, result, result.time, cells, limit_cells)
    words = state_words(run)
    if words.text:
        lead = () if rows else (label,)
        rows += flow([(*lead, words)], cells, indent="  ")
    for row in [] if result is None or result.check is None else check_mark(result.check):
        rows += flow([row], cells, indent="  ")
    for warning in warnings_of(run) if run.result else () if result is None else result.warnings:
        rows += paragraph(f"{glyphs.GLYPHS.warning} {warning}", cells, TextStyle.NOTE, indent="  ")
    return rows


def state_words(run: RunState) -> Span:
    """What goes on, or how it ended where that is not well; empty for what is done."""
    if run.result is None:
        if run.progress is None:
            return Span("queued", TextStyle.QUIET)
        words = progress_words(run.progress)
        estimate = run.progress.estimate_s
        if run.so_far is None and estimate is not None:
            words += f", {text.seconds(estimate, run.progress.half_width or 0.1)} so far"
        return Span(words, TextStyle.KEY)
    result = run.result
    if result.status == "ok":
        return Span("")
    style = TextStyle.BAD if result.status == "failed" else TextStyle.NOTE
    return Span(f"{result.status}: {result.reason}" if result.reason else result.status, style)


def _figures(
    label: Span, result: RunResult, time: Timing, cells: int, limit_cells: int
) -> list[Line]:
    half = half_width(time)
    spread = text.spread(half) if half is not None else ""
    spread_cells = cell_len(glyphs.GLYPHS.plus_minus + SPREAD)
    figures = [
        (median(time), TIME_CELLS, TextStyle.STRONG),
        (spread, spread_cells, TextStyle.QUIET),
    ]
    rate = rate_of(result)
    if rate is not None:
        words = text.rate(rate[0], RATES.get(rate[1], rate[1]), half)
        figures.append((words, RATE_CELLS, TextStyle.STRONG))
    padded = " ".join(right(words, size) for words, size, _ in figures)
    if label.width + cell_len(padded) > cells:
        parts = [line(Span(words, style)) for words, _, style in figures if words]
        rows = flow([line(label, *parts[0]), *parts[1:]], cells, indent="  ")
        return rows + _limit_rows(result.limit, 0, cells, limit_cells)
    head = [label]
    for words, size, style in figures:
        head += [Span(right(words, size), style), Span(" ")]
    used = sum(span.width for span in head) + 1
    if result.limit is not None and cells - used - limit_cells - 2 >= BAR_CELLS[0]:
        (beside,) = _limit_rows(result.limit, used, cells, limit_cells)
        return [(*head, *beside)]
    return [tuple(head[:-1]), *_limit_rows(result.limit, label.width, cells, limit_cells)]


def _limit_rows(limit: Limit | None, indent: int, cells: int, limit_cells: int) -> list[Line]:
    """The share as a bar and in words; without the bar where it has no room."""
    if limit is None:
        return []
    style = TextStyle.BAD if limit.exceeded else TextStyle.PLAIN
    told = Span(limit_words(limit), style)
    room = min(BAR_CELLS[1], cells - indent - limit_cells - 2)
    if room < BAR_CELLS[0]:
        return flow([(told,)], cells, indent="  ")
    # Beside the figures the line has its indent already.
    lead = " " if indent > DEVICE_CELLS + 4 else " " * indent
    return [line(lead, *share_bar(limit, room), "  ", told)]


def share_bar(limit: Limit, cells: int) -> Line:
    """The share of the limit, which is the whole bar."""
    drawn = bar(limit.fraction, cells)
    track = glyphs.GLYPHS.zero * (cells - cell_len(drawn))
    style = TextStyle.BAD if limit.exceeded else TextStyle.ALLOCATED
    return line(Span(drawn, style), Span(track, TextStyle.QUIET))


def limit_words(limit: Limit) -> str:
    """``76% of float32 peak``; what cannot be is said to be so."""
    words = f"{text.share(limit.fraction)} of {limit_name(limit)}"
    if not limit.exceeded:
        return words
    why = "above its ceiling" if limit.basis == "measured" else "impossible"
    return f"{glyphs.GLYPHS.warning} {words}, {why}"


def limit_name(limit: Limit) -> str:
    """A ceiling was measured here, a peak is the hardware's: ``float32 peak``."""
    return f"{limit.name} {'ceiling' if limit.basis == 'measured' else 'peak'}"


def check_mark(check: Check) -> list[Line]:
    """The verdict on the result's own values."""
    indent = " " * (DEVICE_CELLS + 1)
    if check.passed:
        return [line(indent, Span("check passed", TextStyle.GOOD))]
    return [line(indent, Span("check FAILED: the result is wrong", TextStyle.BAD))]


def compared_lines(runs: Mapping[str, RunState | None], cells: int) -> list[Line]:
    """How many times faster a device is, where each has a result and none of them is wrong."""
    results = {device: result_of(run) for device, run in runs.items()}
    timed = [device for device, one in results.items() if one and one.status == "ok"]
    if len(timed) < 2:
        return []
    rows: list[Line] = []
    base = base_device(timed)
    for device in timed:
        if device == base:
            continue
        ratio = speed_up(runs[device], runs[base])
        if ratio is None:
            words = f"{device} and {base} ran sizes of their own: their times do not compare"
            rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
            continue
        faster, slower = (device, base) if ratio >= 1 else (base, device)
        words = f"{faster} is {text.ratio(max(ratio, 1 / ratio))} as fast as {slower}"
        rows += paragraph(words, cells, TextStyle.STRONG, indent="  ")
    return rows


def block_lines(time: Timing, cells: int) -> list[Line]:
    """The blocks of a measurement one after the other: drift and outliers show, a median hides."""
    known = time.block_times_s
    if len(known) < BLOCKS_FROM or cells < LEAST_CELLS:
        return []
    low, high = min(known), max(known)
    if high == low:
        low, high = 0.99 * low, 1.01 * high
    points = tuple((float(number), value) for number, value in enumerate(known, 1))
    plot = Plot(
        Axis("block", "", Scale(1.0, float(len(known)))),
        Axis("time of a call", "s", Scale(low, high)),
        (Curve("", points, style=TextStyle.ALLOCATED),),
        (Level("median", time.median_s),),
    )
    return plot_lines(plot, min(cells, BLOCKS_MOST), BLOCKS_HEIGHT)
