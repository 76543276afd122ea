"""Everything that is known of one workload: what it is, and each device's figures. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tui.state import parameters
from tui.state.conditions import NOT_SAMPLED, Conditions
from tui.state.runs import RunState
from tui.state.store import SIMULATED, Store
from tui.state.sweep import Sweep
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.findings import finding_lines, missing_lines
from tui.ui.views.lines import Line, Span, TextStyle, flow, line, paragraph, verbatim, wrap
from tui.ui.views.workload_state import half_width, median, other_flags, progress_words, warnings_of
from tui.ui.views.workload_table import CHANGED, devices
from workloads.protocol.inventory import Setting, WorkloadInfo
from workloads.protocol.results import RunResult, Timing

if TYPE_CHECKING:
    from tui.state.sweep_result import Swept

STATUS_STYLES = {
    "ok": TextStyle.GOOD,
    "failed": TextStyle.BAD,
    "skipped": TextStyle.QUIET,
    "cancelled": TextStyle.NOTE,
}


def result_lines(
    result: RunResult, warnings: tuple[str, ...], cells: int, doing: str = ""
) -> list[Line]:
    """All that a result says, with the warnings that go with it.

    Args:
        result: finished, or so far.
        warnings: of the run and of the device while it ran.
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
        rows += _pairs(rate_pairs(result), cells)
        rows += limit_lines(result, cells)
    rows += _pairs(memory_pairs(result), cells)
    rows += check_lines(result, cells)
    rows += finding_lines(result, cells)
    if result.charts or result.tables or result.log:
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
    flop_per_s = result.rates.flop_per_s
    # A limit is of operations or of bytes; the fraction tells which of the rates it was taken of.
    compute = flop_per_s is not None and math.isclose(
        flop_per_s, limit.value * limit.fraction, rel_tol=1e-3
    )
    value = text.rate(limit.value, "FLOP/s" if compute else "B/s")
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


# What draws results, charts and sweeps is imported where there is one: at the start there is none.


def find(store: Store, workload: str | None) -> WorkloadInfo | None:
    """The workload of that name."""
    return next((info for info in store.catalogue if info.name == workload), None)


def detail_lines(store: Store, workload: str | None, cells: int) -> list[Line]:
    """All of it, for a pane ``cells`` wide."""
    info = find(store, workload)
    if info is None:
        return [line(Span("no workload is selected", TextStyle.QUIET))]
    rows = paragraph(f"{info.name}: {info.title}", cells, TextStyle.STRONG)
    rows += [*paragraph(info.about, cells), ()]
    rows += [*paragraph(info.look_for, cells, label="Look for: "), ()]
    if info.needs:
        rows += [*paragraph(", ".join(info.needs), cells, label="Needs: "), ()]
    rows += [*parameter_lines(store, info, cells), *code_lines(info, cells)]
    return rows + outcome_lines(store, info, cells)


def outcome_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """What came of it on each device, or of its sweep."""
    rows: list[Line] = []
    names = devices(store)
    found = None
    if info.name in store.sweeps:
        from tui.state.sweep_result import swept
        from tui.ui.views.workload_state import sweep_lines

        found = swept(store, info.name, names)
        assert found is not None
        rows += [(), *sweep_lines(found, store.sweeps[info.name], cells)]
    rows += skipped_lines(store, info, cells)
    for device in names:
        rows += [(), *device_lines(store, info, device, cells, found)]
    return rows


def skipped_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """Why a run leaves the selected GPU out, where torch does not see it."""
    gpu = store.gpu_column
    if gpu is None or gpu.torch or not gpu.unpaired or "cuda" not in info.devices:
        return []
    words = f"{gpu.label} {gpu.name} is skipped: {gpu.unpaired}"
    return [(), *paragraph(words, cells, TextStyle.NOTE, indent="  ")]


def present_settings(store: Store, info: WorkloadInfo) -> dict[str, Setting]:
    """What the table runs the workload with; swept parameters as they were typed."""
    sweep = store.sweeps.get(info.name)
    if sweep is not None:
        return {**sweep.points[0], **sweep.texts}
    return {**parameters.defaults(info), **store.parameters.get(info.name, {})}


def parameter_lines(store: Store, info: WorkloadInfo, cells: int) -> list[Line]:
    """Each parameter with its value, what it is and what it may be set to."""
    if not info.parameters:
        return [line(Span("no parameters", TextStyle.QUIET)), ()]
    present = present_settings(store, info)
    changed = parameters.changed(info, present)
    how = "  = edits, there F5 puts the defaults back" if changed else "  = edits"
    rows: list[Line] = [line(Span("Parameters", TextStyle.STRONG), Span(how, TextStyle.QUIET))]
    for parameter in info.parameters:
        value = parameters.text_of(present[parameter.name], auto=parameter.auto)
        words = f"{parameter.name} = {value}"
        lead = Span("  ")
        if parameter.name in changed:
            default = parameters.text_of(parameter.default, auto=parameter.auto)
            words += f" (default {default})"
            lead = Span(f"{CHANGED} ", TextStyle.NOTE)
        words += f": {parameter.about} ({parameters.allowed(parameter)})"
        found = paragraph(words, cells - 2, indent="    ")
        rows += [line(lead if row is found[0] else "  ", *row) for row in found]
    return [*rows, ()]


def code_lines(info: WorkloadInfo, cells: int) -> list[Line]:
    """The lines that are timed, as they stand in the source."""
    rows = [line(Span("What is timed", TextStyle.STRONG))]
    for source in info.code.splitlines():
        rows += verbatim(source, cells, TextStyle.KEY)
    return rows


def device_lines(
    store: Store, info: WorkloadInfo, device: str, cells: int, found: Swept | None = None
) -> list[Line]:
    """The run on one device, whatever its state; of a sweep the one that ended last."""
    if found is not None:
        run, which = _last_of_sweep(store.sweeps[info.name], found, device)
    else:
        run = store.latest_run(info.name, device)
        which = "a quick run of the demo" if run is not None and run.demo else ""
    title = line(
        Span(f"{glyphs.GLYPHS.rule * 2} {device} ", TextStyle.STRONG), Span(which, TextStyle.QUIET)
    )
    if device.partition(":")[0] not in info.devices:
        kinds = ", ".join(info.devices)
        return [
            title,
            *paragraph(f"does not run here: it is made for {kinds}", cells, TextStyle.QUIET),
        ]
    if run is None and found is not None:
        return [title, *paragraph("no run of the sweep has ended", cells, TextStyle.QUIET)]
    if run is None:
        return [title, *paragraph("not run with these parameters", cells, TextStyle.QUIET)]
    return [title, *_run_lines(store, run, cells)]


def _last_of_sweep(sweep: Sweep, found: Swept, device: str) -> tuple[RunState | None, str]:
    from tui.state.sweep_curves import settings_text
    from tui.ui.views.workload_state import latest_of

    run = latest_of(found, device)
    if run is None:
        return None, ""
    return run, f"last of the sweep: {settings_text(sweep, run.request.parameters)}"


def _run_lines(store: Store, run: RunState, cells: int) -> list[Line]:
    if run.result is None:
        if run.progress is None:
            return [line(Span("queued", TextStyle.QUIET))]
        words = progress_words(run.progress)
        if run.so_far is not None:
            doing = "the time is taken; its study goes on" if words == "figures" else words
            return result_lines(run.so_far, run.so_far.warnings, cells, doing)
        estimate = run.progress.estimate_s
        if estimate is not None:
            words += f", {text.seconds(estimate, run.progress.half_width or 0.1)} so far"
        return paragraph(words, cells, TextStyle.KEY)
    return [
        *flag_lines(store, run, cells),
        *result_lines(run.result, warnings_of(run), cells),
        *condition_lines(run.conditions, cells),
    ]


def flag_lines(store: Store, run: RunState, cells: int) -> list[Line]:
    """The flags it ran under, where they are not the present ones."""
    changed = other_flags(store, run)
    if not changed:
        return []
    words = ", ".join(
        f"{name} was {'on' if run.request.flags[name] else 'off'}" for name in changed
    )
    return paragraph(f"ran with other flags: {words}", cells, TextStyle.NOTE, indent="  ")


def copy_text(store: Store, workload: str | None, cells: int = 100) -> str:
    """The detail as plain text for the clipboard, with what the figures depend on."""
    rows = ["".join(span.text for span in row) for row in detail_lines(store, workload, cells)]
    return "\n".join([*rows, "", *conditions(store, cells)]) + "\n"


def conditions(store: Store, cells: int) -> list[str]:
    """Host, driver, torch and threads in words."""
    known: list[tuple[str, object]] = [("GPU", SIMULATED)] if store.simulated else []
    if store.sample:
        known += [("host", store.sample.host.name), ("driver", store.sample.driver.version)]
    if found := store.environment:
        known += [("python", found.python), ("torch", found.torch), ("CUDA", found.cuda)]
        known += [("cuDNN", found.cudnn), ("cpu", found.cpu), ("cpus usable", found.cpus_usable)]
        known += [("threads", found.threads), ("malloc", found.malloc), *found.variables.items()]
    words = [f"{name} {text.NA if value is None else value}" for name, value in known]
    return wrap(", ".join(words), cells, indent="  ")
