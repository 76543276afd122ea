"""The outcome of a run: a summary at the top of the detail, and every figure below. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.numbers import quantity
from tui.kit.bars import draw_gauge
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    flow,
    left,
    line,
    paragraph,
    right,
    verbatim,
)
from tui.kit.plot import LEAST_CELLS, Axis, Curve, Level, Plot, plot_lines
from tui.kit.scale import Scale
from tui.runs.state.result_format import (
    compute_half_width,
    describe_excess,
    format_end,
    format_limit_share,
    format_median,
    format_rates,
    format_result_end,
    format_speed_up,
)
from tui.runs.state.runs import (
    NOT_SAMPLED,
    Conditions,
    RunState,
    find_limited_rate,
    get_timed_result,
    is_impossible,
)
from tui.runs.sweeps.sweep_result import choose_base_device, compute_speed_up
from tui.runs.views.chart import finding_lines, missing_lines
from tui.runs.views.device_colors import style_of_device
from tui.runs.views.workload_state import describe_progress, fold_warnings
from workloads.protocol.flag_words import CUBLAS, CUDNN, ONEDNN, format_setting
from workloads.protocol.results import RunResult, Timing

DEVICE_CELLS = 8
TIME_CELLS, RATE_CELLS = 8, 16
SPREAD = "<0.1%"
"""The longest text of a spread, without its sign."""
BAR_CELLS = (10, 40)
"""Least and most cells of a bar that shows a share."""
BLOCKS_FROM = 3
BLOCKS_HEIGHT, BLOCKS_MOST = 4, 100
"""Rows and most cells of the plot of the blocks."""
STATUS_STYLES = {
    "ok": TextStyle.GOOD,
    "failed": TextStyle.BAD,
    "skipped": TextStyle.QUIET,
    "cancelled": TextStyle.NOTE,
}


# ---- at a glance ---------------------------------------------------------------------------------


def outcome_lines(
    runs: Mapping[str, RunState | None], cells: int, more: str = " (i)"
) -> list[Line]:
    """Summarize each device's result in a few lines, and compare the devices.

    Args:
        runs: runs of one workload by device; ``None`` values are skipped.
        cells: width of a line.
        more: where many warnings are in full.
    """
    results = [(run.result or run.so_far) for run in runs.values() if run is not None]
    limits = [result.limit for result in results if result is not None and result.limit]
    # All bars have one length, because users compare them.
    words = max((cell_len(format_limit_share(limit)) for limit in limits), default=0)
    rows: list[Line] = []
    for device, run in runs.items():
        if run is not None:
            rows += _device_lines(device, run, cells, words, more)
    return rows + compared_lines(runs, cells)


def _device_lines(
    device: str, run: RunState, cells: int, limit_cells: int, more: str
) -> list[Line]:
    label = Span(f"{left(device, max(DEVICE_CELLS, cell_len(device)))} ", style_of_device(device))
    result = run.result or run.so_far
    rows: list[Line] = []
    if result is not None and result.time is not None:
        rows += _figure_lines(label, result, result.time, cells, limit_cells)
    words = format_state(run)
    if words.text:
        lead = () if rows else (label,)
        rows += flow([(*lead, words)], cells, indent="  ")
    if result is not None and result.check is not None and not result.check.passed:
        wrong = Span("check FAILED: the result is wrong", TextStyle.BAD)
        rows += flow([line(" " * (DEVICE_CELLS + 1), wrong)], cells, indent="  ")
    warnings = run.warnings if run.result else () if result is None else result.warnings
    for warning in fold_warnings(warnings, more):
        rows += paragraph(f"{glyphs.GLYPHS.warning} {warning}", cells, TextStyle.NOTE, indent="  ")
    return rows


def format_state(run: RunState) -> Span:
    """Return the progress of a run, or its bad end; empty after a good end."""
    if run.result is None:
        if run.progress is None:
            return Span("queued", TextStyle.QUIET)
        return Span(describe_progress(run.progress, timed=run.so_far is not None), TextStyle.KEY)
    result = run.result
    if result.status == "ok":
        return Span("")
    style = TextStyle.BAD if result.status == "failed" else TextStyle.NOTE
    return Span(format_end(result.status, result.reason), style)


def _figure_lines(
    label: Span, result: RunResult, time: Timing, cells: int, limit_cells: int
) -> list[Line]:
    half = compute_half_width(time)
    spread = text.spread(half) if half is not None else ""
    spread_cells = cell_len(glyphs.GLYPHS.plus_minus + SPREAD)
    figures = [
        (format_median(time), TIME_CELLS, TextStyle.STRONG),
        (spread, spread_cells, TextStyle.QUIET),
    ]
    figures += [(words, RATE_CELLS, TextStyle.STRONG) for words in format_rates(result)[:1]]
    padded = " ".join(right(words, size) for words, size, _ in figures)
    if label.width + cell_len(padded) > cells:
        parts = [line(Span(words, style)) for words, _, style in figures if words]
        rows = flow([line(label, *parts[0]), *parts[1:]], cells, indent=" " * label.width)
        return rows + _limit_rows(result, 0, cells, limit_cells)
    head = [label]
    for words, size, style in figures:
        head += [Span(right(words, size), style), Span(" ")]
    used = sum(span.width for span in head) + 1
    if result.limit is not None and cells - used - limit_cells - 2 >= BAR_CELLS[0]:
        (beside,) = _limit_rows(result, used, cells, limit_cells)
        return [(*head, *beside)]
    return [tuple(head[:-1]), *_limit_rows(result, label.width, cells, limit_cells)]


def _limit_rows(result: RunResult, indent: int, cells: int, limit_cells: int) -> list[Line]:
    """Return the share as a bar and as text; omit the bar if it does not fit.

    The full bar is the limit.
    """
    limit = result.limit
    if limit is None:
        return []
    share = Span(format_limit_share(limit), TextStyle.BAD if limit.exceeded else TextStyle.PLAIN)
    room = min(BAR_CELLS[1], cells - indent - limit_cells - 2)
    if room < BAR_CELLS[0]:
        return flow([(share,)], cells, indent="  ")
    style = TextStyle.BAD if limit.exceeded else style_of_device(result.device)
    # Beside the figures, the line is already indented.
    lead = " " if indent > DEVICE_CELLS + 4 else " " * indent
    return [line(lead, *draw_gauge(limit.fraction, room, style), "  ", share)]


def compared_lines(runs: Mapping[str, RunState | None], cells: int) -> list[Line]:
    """Return the speed-up between devices if each has a correct result."""
    results = {device: get_timed_result(run) for device, run in runs.items()}
    timed = [device for device, result in results.items() if result and result.status == "ok"]
    if len(timed) < 2:
        return []
    rows: list[Line] = []
    base = choose_base_device(timed)
    for device in timed:
        if device == base:
            continue
        ratio = compute_speed_up(runs[device], runs[base])
        if ratio is None:
            wrong = [name for name in (device, base) if (at := results[name]) and is_impossible(at)]
            if wrong:
                words = f"no speed-up: the rate on {' and '.join(wrong)} is impossible"
            else:
                words = f"{device} and {base} ran sizes of their own: their times do not compare"
            rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
            continue
        faster, slower = (device, base) if ratio >= 1 else (base, device)
        first, second = results[slower], results[faster]
        if first and first.time and second and second.time:
            times = format_speed_up(first.time, second.time)
            words = f"{faster} is {times} as fast as {slower}"
            rows += paragraph(words, cells, TextStyle.STRONG, indent="  ")
    return rows


# ---- in full -------------------------------------------------------------------------------------


def result_lines(
    result: RunResult, warnings: tuple[str, ...], cells: int, doing: str = ""
) -> list[Line]:
    """Return all figures of a result except its charts, and its warnings.

    Args:
        result: a finished or unfinished result.
        warnings: the warnings not shown above.
        cells: width of a line.
        doing: the current activity of an unfinished run.
    """
    words = doing or format_result_end(result)
    style = TextStyle.KEY if doing else STATUS_STYLES[result.status]
    rows = paragraph(words, cells, style, indent="  ")
    for warning in warnings:
        rows += paragraph(f"{glyphs.GLYPHS.warning} {warning}", cells, TextStyle.NOTE, indent="  ")
    if result.time is not None:
        rows += _pair_lines(time_pairs(result.time, result.unavailable), cells)
        rows += block_lines(result.time, cells, style_of_device(result.device))
        rows += _pair_lines([("rate", words) for words in format_rates(result)], cells)
        rows += limit_lines(result, cells)
    rows += _pair_lines(memory_pairs(result), cells)
    rows += check_lines(result, cells)
    rows += finding_lines(replace(result, charts=()), cells)
    if result.tables or result.log:
        rows.append(())
    rows += chosen_lines(result, cells)
    rows += flags_lines(result, cells)
    rows += missing_lines(result.unavailable, cells)
    if result.trace:
        rows += [(), line(Span("Traceback", TextStyle.STRONG))]
        rows += [row for entry in result.trace.splitlines() for row in verbatim(entry, cells)]
    return rows


def _pair_lines(pairs: list[tuple[str, str]], cells: int) -> list[Line]:
    """Return labels with values, as many per line as fit."""
    return flow(
        [line(Span(f"{label} ", TextStyle.QUIET), value) for label, value in pairs],
        cells,
        gap="   ",
    )


def time_pairs(time: Timing, unavailable: dict[str, str]) -> list[tuple[str, str]]:
    """Return the statistics of the time; the interval sets the digits of the median."""
    width = compute_half_width(time)
    pairs = [("median", f"{format_median(time)} by the {time.clock} clock")]
    if time.ci95_s is not None:
        low, high = (text.seconds(value) for value in time.ci95_s)
        pairs.append(("95% interval", f"{low} to {high} ({text.spread(width)})"))
    else:
        pairs.append(("no 95% interval:", unavailable.get("time.ci95_s", "too few blocks")))
    pairs += [
        ("quartiles", f"{text.seconds(time.q1_s)} to {text.seconds(time.q3_s)}"),
        ("min", text.seconds(time.min_s)),
        ("p95", text.seconds(time.p95_s)),
        (
            "first call" if time.first_call_cold else "first call, in a warm process",
            text.seconds(time.first_call_s),
        ),
        ("blocks", text.count(time.blocks)),
        ("calls", text.count(time.calls)),
        ("stopped by", time.stopped_by),
        ("wall", text.seconds(time.wall_median_s)),
    ]
    if time.device_median_s is not None:
        pairs.append(("device", text.seconds(time.device_median_s)))
    if time.enqueue_s is not None:
        pairs.append(("enqueue", text.seconds(time.enqueue_s)))
    if time.faults_per_call is not None:
        pairs.append(("page faults per call", f"{time.faults_per_call:.3g}"))
    return pairs


def block_lines(time: Timing, cells: int, style: TextStyle = TextStyle.ALLOCATED) -> list[Line]:
    """Plot the blocks of a measurement in order, to show drift and outliers that a median hides.

    Args:
        time: the measurement.
        cells: width of a line.
        style: color of the curve.
    """
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
        (Curve("", points, style=style),),
        (Level("median", time.median_s),),
    )
    return plot_lines(plot, min(cells, BLOCKS_MOST), BLOCKS_HEIGHT)


def limit_lines(result: RunResult, cells: int) -> list[Line]:
    """Return the limit of the rate and its source."""
    limit = result.limit
    if limit is None:
        reason = result.unavailable.get("limit", "no rate to compare with one")
        return paragraph(f"limit n/a: {reason}", cells, TextStyle.QUIET, indent="  ")
    of = find_limited_rate(result)
    value = quantity(limit.value, of[1] if of else "byte/s")
    words = f"{text.share(limit.fraction)} of {limit.name}: {value}, {limit.source}"
    if excess := describe_excess(limit):
        words = f"{glyphs.GLYPHS.warning} {excess}: {words}"
    return paragraph(
        words, cells, TextStyle.BAD if limit.exceeded else TextStyle.PLAIN, indent="  "
    )


def memory_pairs(result: RunResult) -> list[tuple[str, str]]:
    """Return the known memory peaks."""
    memory = result.memory
    known = (
        ("allocated peak", memory.allocated_peak),
        ("reserved peak", memory.reserved_peak),
        ("cuBLAS workspace", memory.workspace),
        ("process peak", memory.process_peak),
    )
    return [(label, text.size(value)) for label, value in known if value is not None]


def check_lines(result: RunResult, cells: int) -> list[Line]:
    """Return the error relative to a reference."""
    check = result.check
    if check is None:
        return []
    word = "check passed" if check.passed else "check FAILED: the result is wrong"
    sign = glyphs.GLYPHS.at_most if check.passed else ">"
    if check.error is None:
        words = (
            f"{word}: its error is NaN (tolerance {check.tolerance:.2g}) against {check.against}"
        )
    else:
        error = f"{check.error:.2g} {sign} {check.tolerance:.2g}"
        words = f"{word}: error {error} against {check.against}"
    return paragraph(words, cells, TextStyle.GOOD if check.passed else TextStyle.BAD, indent="  ")


def chosen_lines(result: RunResult, cells: int) -> list[Line]:
    """Return the parameters whose values the workload chose for the device."""
    chosen = {
        name: value for name, value in result.chosen.items() if result.parameters.get(name) != value
    }
    words = f"for this kind of device: {', '.join(f'{n}={v}' for n, v in chosen.items())}"
    return paragraph(words, cells, TextStyle.QUIET, "  ") if chosen else []


def flags_lines(result: RunResult, cells: int) -> list[Line]:
    """Return the run's flags for this kind of device."""
    backends = (ONEDNN,) if result.device == "cpu" else (CUDNN, CUBLAS)
    words = [
        f"{name} {format_setting(name, value)}"
        for name, value in result.flags.items()
        if name.startswith(backends)
    ]
    return paragraph("flags: " + ", ".join(words), cells, TextStyle.QUIET, "  ") if words else []


def condition_lines(conditions: Conditions | None, cells: int) -> list[Line]:
    """Return NVML's figures for the device during the run, then the software."""
    if conditions is None:
        return []
    software = _software_lines(conditions, cells)
    if not conditions.samples:
        reason = next(iter(conditions.unavailable.values()), "no sample fell into the run")
        if reason == NOT_SAMPLED:
            return software
        words = f"device during the run n/a: {reason}"
        return [*paragraph(words, cells, TextStyle.QUIET, indent="  "), *software]
    samples = text.count(conditions.samples, "sample")
    of = f" of {', '.join(conditions.devices)}" if len(conditions.devices) > 1 else ""
    pairs = [("during the run", samples + of)]
    if conditions.sm_clock_mhz_min is not None and conditions.sm_clock_mhz_median is not None:
        least, usual = conditions.sm_clock_mhz_min, text.megahertz(conditions.sm_clock_mhz_median)
        pairs.append(("SM clock", f"{usual} (lowest {text.megahertz(least)})"))
    pairs += [
        ("power up to", text.watts(conditions.power_w_max)),
        ("temperature up to", text.temperature(conditions.temperature_c_max)),
        ("throttle reasons", ", ".join(conditions.throttle) or "none"),
    ]
    if conditions.process_peak is not None:
        pairs.append(("process peak, sampled", text.size(conditions.process_peak)))
    return [*_pair_lines(pairs, cells), *software]


def _software_lines(conditions: Conditions, cells: int) -> list[Line]:
    """Return the threads and versions that the figures depend on."""
    words = [] if conditions.threads is None else [text.count(conditions.threads, "thread")]
    words += [f"{name} {version}" for name, version in conditions.versions.items()]
    return paragraph(f"under: {', '.join(words)}", cells, TextStyle.QUIET, "  ") if words else []
