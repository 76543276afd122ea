"""Every figure of one result, as lines: times, rates, limit, memory, check, conditions. Pure."""

from __future__ import annotations

from dataclasses import replace

from tui.state.conditions import NOT_SAMPLED, Conditions
from tui.state.sweep_curves import rate_at_limit
from tui.text import glyphs
from tui.text import numbers as text
from tui.text.quantity import quantity
from tui.ui.views.findings import finding_lines, missing_lines
from tui.ui.views.lines import Line, Span, TextStyle, flow, line, paragraph, verbatim
from tui.ui.views.outcome import block_lines
from tui.ui.views.workload_state import half_width, median
from workloads.protocol.results import RunResult, Timing

STATUS_STYLES = {
    "ok": TextStyle.GOOD,
    "failed": TextStyle.BAD,
    "skipped": TextStyle.QUIET,
    "cancelled": TextStyle.NOTE,
}


def result_lines(
    result: RunResult, warnings: tuple[str, ...], cells: int, doing: str = ""
) -> list[Line]:
    """All figures of a result but its charts, with the warnings that go with it.

    Args:
        result: finished, or so far.
        warnings: those that stand nowhere above.
        cells: width of a line.
        doing: what goes on, of a run that is not finished.
    """
    words = doing or result.status + (f": {result.reason}" if result.reason else "")
    style = TextStyle.KEY if doing else STATUS_STYLES[result.status]
    rows = paragraph(words, cells, style, indent="  ")
    for warning in warnings:
        rows += paragraph(f"{glyphs.GLYPHS.warning} {warning}", cells, TextStyle.NOTE, indent="  ")
    if result.time is not None:
        rows += _pairs(time_pairs(result.time, result.unavailable), cells)
        rows += block_lines(result.time, cells)
        rows += _pairs(rate_pairs(result), cells)
        rows += limit_lines(result, cells)
    rows += _pairs(memory_pairs(result), cells)
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


def _pairs(pairs: list[tuple[str, str]], cells: int) -> list[Line]:
    """Label and value, as many to a line as fit."""
    return flow(
        [line(Span(f"{label} ", TextStyle.QUIET), value) for label, value in pairs],
        cells,
        gap="   ",
    )


def time_pairs(time: Timing, unavailable: dict[str, str]) -> list[tuple[str, str]]:
    """The time's statistics; the median carries the digits that its interval supports."""
    width = half_width(time)
    pairs = [("median", f"{median(time)} by the {time.clock} clock")]
    if time.ci95_s is not None:
        low, high = (text.seconds(value) for value in time.ci95_s)
        pairs.append(("95% interval", f"{low} to {high} ({text.spread(width)})"))
    else:
        pairs.append(("95% interval", f"n/a: {unavailable.get('time.ci95_s', 'too few blocks')}"))
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


def rate_pairs(result: RunResult) -> list[tuple[str, str]]:
    """The rates that there are."""
    width = half_width(result.time) if result.time else None
    rates = (
        (result.rates.flop_per_s, "FLOP/s"),
        (result.rates.byte_per_s, "B/s"),
        (result.rates.item_per_s, "samples/s"),
    )
    return [("rate", text.rate(value, unit, width)) for value, unit in rates if value is not None]


def limit_lines(result: RunResult, cells: int) -> list[Line]:
    """What the rate is held against, and who says so."""
    limit = result.limit
    if limit is None:
        reason = result.unavailable.get("limit", "no rate to hold against one")
        return paragraph(f"limit n/a: {reason}", cells, TextStyle.QUIET, indent="  ")
    of = rate_at_limit(result)
    value = quantity(limit.value, of[1] if of else "byte/s")
    words = f"{text.share(limit.fraction)} of {limit.name}: {value}, {limit.source}"
    if limit.exceeded:
        above = "above what was measured" if limit.basis == "measured" else "impossible"
        words = f"{glyphs.GLYPHS.warning} {above}: {words}"
    return paragraph(
        words, cells, TextStyle.BAD if limit.exceeded else TextStyle.PLAIN, indent="  "
    )


def memory_pairs(result: RunResult) -> list[tuple[str, str]]:
    """The peaks that are known."""
    memory = result.memory
    known = (
        ("allocated peak", memory.allocated_peak),
        ("reserved peak", memory.reserved_peak),
        ("cuBLAS workspace", memory.workspace),
        ("process peak", memory.process_peak),
    )
    return [(label, text.size(value)) for label, value in known if value is not None]


def check_lines(result: RunResult, cells: int) -> list[Line]:
    """The error against a reference."""
    check = result.check
    if check is None:
        return []
    word = "check passed" if check.passed else "check FAILED: the result is wrong"
    sign = glyphs.GLYPHS.at_most if check.passed else ">"
    error = "that is no number" if check.error is None else f"{check.error:.2g}"
    words = f"{word}: error {error} {sign} {check.tolerance:.2g} against {check.against}"
    return paragraph(words, cells, TextStyle.GOOD if check.passed else TextStyle.BAD, indent="  ")


def chosen_lines(result: RunResult, cells: int) -> list[Line]:
    """The parameters that were left to the kind of the device."""
    chosen = {
        name: value for name, value in result.chosen.items() if result.parameters.get(name) != value
    }
    words = f"for this kind of device: {', '.join(f'{n}={v}' for n, v in chosen.items())}"
    return paragraph(words, cells, TextStyle.QUIET, "  ") if chosen else []


def flags_lines(result: RunResult, cells: int) -> list[Line]:
    """The flags of this device's kind that it ran under."""
    backend = "mkldnn." if result.device == "cpu" else "cudnn."
    words = [
        f"{name} {'on' if value else 'off'}"
        for name, value in result.flags.items()
        if name.startswith(backend)
    ]
    return paragraph("flags: " + ", ".join(words), cells, TextStyle.QUIET, "  ") if words else []


def condition_lines(seen: Conditions | None, cells: int) -> list[Line]:
    """What NVML said of the device while it ran."""
    if seen is None:
        return []
    software = under_lines(seen, cells)
    if not seen.samples:
        reason = next(iter(seen.unavailable.values()), "no sample fell into the run")
        if reason == NOT_SAMPLED:
            return software
        words = f"device during the run n/a: {reason}"
        return [*paragraph(words, cells, TextStyle.QUIET, indent="  "), *software]
    samples = text.count(seen.samples, "sample")
    of = f" of {', '.join(seen.devices)}" if len(seen.devices) > 1 else ""
    pairs = [("during the run", samples + of)]
    if seen.sm_clock_mhz_min is not None and seen.sm_clock_mhz_median is not None:
        least, usual = seen.sm_clock_mhz_min, text.megahertz(seen.sm_clock_mhz_median)
        pairs.append(("SM clock", f"{usual} (lowest {text.megahertz(least)})"))
    pairs += [
        ("power up to", text.watts(seen.power_w_max)),
        ("temperature up to", text.temperature(seen.temperature_c_max)),
        ("throttle reasons", ", ".join(seen.throttle) or "none"),
    ]
    if seen.process_peak is not None:
        pairs.append(("process peak, sampled", text.size(seen.process_peak)))
    return [*_pairs(pairs, cells), *software]


def under_lines(seen: Conditions, cells: int) -> list[Line]:
    """Threads and versions that the figures depend on."""
    words = [] if seen.threads is None else [text.count(seen.threads, "thread")]
    words += [f"{name} {version}" for name, version in seen.versions.items()]
    return paragraph(f"under: {', '.join(words)}", cells, TextStyle.QUIET, "  ") if words else []
