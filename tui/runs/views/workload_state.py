"""How a run is: the words of the table's last column, and what keeps a result from being plain."""

from __future__ import annotations

from collections.abc import Mapping

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.monitor.messages import HARMFUL_REASONS
from tui.kit.lines import Span, TextStyle
from tui.runs.state import parameters
from tui.runs.state.parameters import Sweep
from tui.runs.state.result_words import end_words, excess_words, half_width
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from tui.runs.sweeps.sweep_result import Swept, progress_text, settings_text
from workloads.protocol.messages import Progress
from workloads.protocol.results import FlagInfo, Setting, Verdict

STYLES = {"failed": TextStyle.BAD, "skipped": TextStyle.QUIET, "cancelled": TextStyle.NOTE}
AGAINST_STYLES = {"slower": TextStyle.NOTE, "faster": TextStyle.GOOD}


def progress_words(progress: Progress) -> str:
    """How far a run is: ``block 7 ±1.1%, ≤3 s left``."""
    if progress.phase != "measuring":
        return progress.phase
    words = f"block {progress.blocks}"
    if progress.half_width is not None:
        words += f" {text.spread(progress.half_width)}"
    if progress.remaining_s is not None:
        words += f", {text.at_most(progress.remaining_s)} left"
    return words


def flags_that_act(state: RunsState, workload: str, device: str) -> tuple[FlagInfo, ...]:
    """Return the flags that may change a workload's figures on a device.

    cuDNN is asked for convolutions alone; oneDNN does other operations too.
    """
    kind = device.partition(":")[0]
    groups = {info.name: info.group for info in state.catalogue}
    convolution = groups.get(workload) == "convolution"
    return tuple(
        flag
        for flag in (state.machine.environment.flags if state.machine.environment else ())
        if kind in flag.device_types
        and (convolution or not flag.name.startswith("cudnn."))
        and flag.unavailable is None
    )


def other_flags(state: RunsState, run: RunState) -> tuple[str, ...]:
    """Return the flags that may have changed the run's figures and are set otherwise now."""
    request = run.request
    return tuple(
        flag.name
        for flag in flags_that_act(state, request.workload, request.device)
        if request.flags.get(flag.name) not in (None, state.flags.get(flag.name))
    )


def state_of(state: RunsState, runs: dict[str, RunState | None]) -> tuple[Span, ...]:
    """One phrase per device; the device is named unless there is only one or all say the same.

    That a run is queued stands in its device's column, and is not said again.
    """
    known = [run for run in runs.values() if run is not None]
    if not known:
        return (Span("not run", TextStyle.QUIET),)
    if all(run.result is not None and run.result.status == "ok" for run in known):
        return _all_ok(state, known)
    said = {device: _phrase(state, run) for device, run in runs.items() if run and not _waits(run)}
    if len(runs) == 1:  # no GPU: the only column says whose state it is
        return next(iter(said.values()), ())
    spans: list[Span] = []
    # A time stands in its column: that it is well says nothing more beside what is not.
    said = {name: phrase for name, phrase in said.items() if phrase[0].style is not TextStyle.GOOD}
    # What goes on or went wrong is read first.
    for device, phrase in sorted(said.items(), key=lambda item: _urgency(runs[item[0]])):
        spans.extend((Span("; " if spans else ""), Span(f"{device} "), *phrase))
    return tuple(spans)


def _waits(run: RunState) -> bool:
    return run.result is None and run.progress is None


def _urgency(run: RunState | None) -> int:
    if run is None:
        return 5
    if run.result is None:
        return 0 if run.progress else 3
    return {"failed": 1, "skipped": 4, "cancelled": 2, "ok": 4}[run.result.status]


def _phrase(state: RunsState, run: RunState) -> tuple[Span, ...]:
    if run.result is None:
        if run.progress and state.runner.silence:
            return (Span(state.runner.silence, TextStyle.NOTE),)
        return (Span(progress_words(run.progress) if run.progress else "", TextStyle.KEY),)
    result = run.result
    if result.status == "ok":
        return _all_ok(state, [run])
    words = end_words(result.status, result.reason)
    return (Span(words, STYLES[result.status]), *_marks(state, [run]))


def _all_ok(state: RunsState, runs: list[RunState]) -> tuple[Span, ...]:
    results = [run.result for run in runs if run.result]
    checks = [result.check for result in results if result.check]
    if any(not check.passed for check in checks):
        return (Span("wrong result", TextStyle.BAD), *_marks(state, runs))
    widths = [half_width(result.time) for result in results if result.time]
    known = [width for width in widths if width is not None]
    spread = f" {text.spread(max(known))}" if known else ""
    marks = _marks(state, runs, before=", ")
    # First, so that it is not what there is no room for.
    doubt = (Span(f"{glyphs.GLYPHS.warning} ", TextStyle.NOTE),) if _doubted(runs) else ()
    beside = against_words(
        runs, state.machine.sample.at if state.machine.sample else state.earlier.at
    )
    ok = (Span("ok", TextStyle.GOOD), Span(spread))
    if _differs(runs):
        # First, as above: what is faster or slower is what one looks for.
        return (*doubt, *beside, Span(", "), *ok, *marks)
    # Before the number of warnings, which a narrow table has no room for.
    return (*doubt, *ok, *((Span(", "), *beside) if beside else ()), *marks)


def _differs(runs: list[RunState]) -> bool:
    return any(run.against is not None and run.against.verdict in AGAINST_STYLES for run in runs)


def against_words(runs: list[RunState], now: float) -> tuple[Span, ...]:
    """How they compare with earlier sessions: ``1.10x slower than 2 d ago``.

    Of two devices the GPU is told, or the CPU where that alone is faster or slower.
    """
    held = [(run.request.device, run.against) for run in runs if run.against is not None]
    if not held:
        return ()
    device, main = next(
        ((name, one) for name, one in reversed(held) if one.verdict in AGAINST_STYLES), held[-1]
    )
    beside = " than" if main.verdict in AGAINST_STYLES else " as" if main.verdict == "same" else ","
    on = f" on {device}" if len(runs) > 1 else ""
    words = f"{verdict_words(main.verdict, main.ratio)}{beside} {text.age(now - main.at)}{on}"
    return (Span(words, AGAINST_STYLES.get(main.verdict, TextStyle.QUIET)),)


def verdict_words(verdict: Verdict, ratio: float) -> str:
    """``1.04x faster``, ``1.10x slower``, ``same: 1.00x``, ``unclear: 1.02x``."""
    if verdict == "faster":
        return f"{text.ratio(ratio)} {verdict}"
    if verdict == "slower":
        return f"{text.ratio(1 / ratio)} {verdict}"
    return f"{verdict}: {text.ratio(ratio)}"


def _doubted(runs: list[RunState]) -> bool:
    return any(warnings_of(run) or above_limit(run) for run in runs)


def warnings_of(run: RunState) -> tuple[str, ...]:
    """Return the run's own warnings and those of the device while it ran."""
    own = run.result.warnings if run.result else ()
    return own + (run.conditions.warnings if run.conditions else ())


def above_limit(run: RunState) -> str:
    """Return a word for a rate that lies above its limit; none where it does not."""
    limit = run.result.limit if run.result else None
    return "" if limit is None else excess_words(limit)


def throttled(run: RunState) -> bool:
    """Return whether heat or a fault held the device back while it ran."""
    return run.conditions is not None and bool(set(run.conditions.throttle) & set(HARMFUL_REASONS))


def _marks(state: RunsState, runs: list[RunState], before: str | None = None) -> tuple[Span, ...]:
    """Return the doubts about a result, each with a mark before it."""
    marks = []
    before = before or f" {glyphs.GLYPHS.warning} "
    above = [word for word in map(above_limit, runs) if word]
    if above:
        marks.append(Span(f"{before}{above[0]}", TextStyle.BAD))
    hot = [run for run in runs if throttled(run)]
    if hot:
        marks.append(Span(f"{before}throttled", TextStyle.NOTE))
    # Each of those named has a warning of its own; the others are counted.
    warnings = sum(len(warnings_of(run)) for run in runs) - len(above) - len(hot)
    if warnings > 0:
        marks.append(Span(f"{before}{text.count(warnings, 'warning')}", TextStyle.NOTE))
    if any(other_flags(state, run) for run in runs):
        marks.append(Span(" other flags", TextStyle.NOTE))
    return tuple(marks)


# ---- of a sweep ----------------------------------------------------------------------------------


def running(found: Swept) -> RunState | None:
    """Return the run of the sweep that goes on."""
    states = (run for _, runs in found.points for run in runs.values())
    return next((run for run in states if run and run.progress and not run.ended), None)


def sweep_state(found: Swept, sweep: Sweep) -> tuple[Span, ...]:
    """Return the table's last column: points done of all, and the one that runs or ended last."""
    if not found.done and running(found) is None:
        return (Span(f"sweep of {found.wanted} runs", TextStyle.QUIET),)
    spans = [Span(f"{found.done}/{found.wanted}", TextStyle.STRONG)]
    going = running(found)
    if going is not None and going.progress is not None:
        words = f" {going.request.device} {settings_text(sweep, going.request.parameters)} "
        spans.append(Span(words + progress_words(going.progress), TextStyle.KEY))
    elif found.done == found.wanted:
        bad = progress_text(found).partition(", ")[2]
        spans.append(Span(f", {bad}" if bad else " ok", TextStyle.NOTE if bad else TextStyle.GOOD))
    elif found.last is not None:
        spans.append(
            Span(f" last {settings_text(sweep, found.last.request.parameters)}", TextStyle.QUIET)
        )
    return tuple(spans)


def sweep_name(sweep: Sweep, rest: Mapping[str, Setting]) -> str:
    """Return the parameters in short, the swept ones as they were typed and first."""
    swept = " ".join(f"{name}={text}" for name, text in sweep.texts.items())
    return f"{swept} {parameters.short(rest, sweep.autos)}".strip()


def latest_of(found: Swept, device: str) -> RunState | None:
    """Return the run of the sweep on a device that ended last."""
    ended = [runs[device] for _, runs in found.points if runs.get(device)]
    states = [run for run in reversed(ended) if run is not None and run.result is not None]
    return max(
        states, key=lambda run: run.result.ended_at or 0.0 if run.result else 0.0, default=None
    )
