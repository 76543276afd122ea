"""The state of a run: the text of the table's last column, and the doubts about a result."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tui.core.text import glyphs, ratios
from tui.core.text import numbers as text
from tui.kit.bars import draw_gauge
from tui.kit.lines import Line, Span, TextStyle
from tui.monitor.messages import HARMFUL_REASONS
from tui.runs.state import parameters
from tui.runs.state.parameters import Sweep
from tui.runs.state.result_format import compute_half_width, describe_excess, format_end
from tui.runs.state.runs import Against, RunState, is_trusted
from tui.runs.state.state import RunsState
from tui.runs.sweeps.sweep_result import SweepResult, format_settings, format_sweep_progress
from workloads.protocol.flag_words import acts_on
from workloads.protocol.messages import Phase, Progress
from workloads.protocol.results import FlagInfo, Setting

STYLES = {"failed": TextStyle.BAD, "skipped": TextStyle.QUIET, "cancelled": TextStyle.NOTE}
REASON_WORDS = 30
"""Maximum number of words of a reason, if the whole reason does not fit."""
AGAINST_STYLES = {"slower": TextStyle.NOTE, "faster": TextStyle.GOOD}


Forms = tuple[Line, ...]
"""A state in fewer and fewer words: a table shows the first that fits."""


def format_run_progress(progress: Progress) -> str:
    """Format the progress of a run: ``block 7 ±1.1%, ≤3 s left``."""
    return _progress_forms(progress)[0]


def describe_progress(progress: Progress, *, timed: bool) -> str:
    """Describe the progress of a run: ``44 blocks, 100 ms ±1.6% so far, ≤3 s left``.

    Args:
        progress: of a run that has not ended.
        timed: the time so far is shown beside it.
    """
    if progress.phase == "measuring the ceiling":
        return "measuring the ceiling of this machine, which is done once"
    if progress.phase != "measuring":
        return format_phase(progress.phase)
    half, estimate = progress.half_width, progress.estimate_s
    found = "" if timed or estimate is None else text.seconds(estimate, half or 0.1)
    so_far = f"{found} {'' if half is None else text.spread(half)}".strip()
    parts = [text.count(progress.blocks, "block"), f"{so_far} so far" if so_far else ""]
    return ", ".join(filter(None, [*parts, _format_left(progress)]))


def _format_left(progress: Progress) -> str:
    """Format the time that is left: ``≤3 s left``; empty if it is not known."""
    if progress.remaining_s is None:
        return ""
    return f"{text.at_most(progress.remaining_s)} left"


def format_phase(phase: Phase) -> str:
    """Return what a run is doing, in words."""
    return "computing figures" if phase == "figures" else phase


def _progress_forms(progress: Progress) -> tuple[str, ...]:
    if progress.phase != "measuring":
        return (format_phase(progress.phase),)
    block = f"block {progress.blocks}"
    spread = "" if progress.half_width is None else text.spread(progress.half_width)
    left = _format_left(progress)
    whole = ", ".join(filter(None, (f"{block} {spread}".strip(), left)))
    return (whole, f"{block}, {left}", left) if left else (whole, block)


PROGRESS_CELLS = 10


def _draw_progress(progress: Progress) -> Line:
    """Return a gauge of the elapsed part of the longest time of a run; empty if not known."""
    left = progress.remaining_s
    if progress.phase != "measuring" or left is None or progress.elapsed_s + left <= 0:
        return ()
    share = progress.elapsed_s / (progress.elapsed_s + left)
    return draw_gauge(share, PROGRESS_CELLS, TextStyle.ALLOCATED)


def find_acting_flags(state: RunsState, workload: str, device: str) -> tuple[FlagInfo, ...]:
    """Return the flags that may change a workload's figures on a device.

    A workload that the catalogue lacks counts as one without convolutions.
    """
    kind = device.partition(":")[0]
    info = state.find_workload(workload)
    convolutions = info.convolutions if info else "none"
    return tuple(
        flag
        for flag in state.known_flags
        if kind in flag.device_types
        and acts_on(flag.name, convolutions)
        and flag.unavailable is None
    )


def find_changed_flags(state: RunsState, run: RunState) -> tuple[str, ...]:
    """Return the flags that may affect the run's figures and have changed since."""
    request = run.request
    return tuple(
        flag.name
        for flag in find_acting_flags(state, request.workload, request.device)
        if request.flags.get(flag.name) not in (None, state.flags.get(flag.name))
    )


def format_state(state: RunsState, runs: dict[str, RunState | None]) -> Forms:
    """Format one phrase per device; omit the device's name if it is alone or all agree.

    A queued run is marked in its device's column, and not repeated here.

    Returns:
        The phrases in full, then with fewer words; the last is only the gravest.
    """
    known = [run for run in runs.values() if run is not None]
    if not known:
        return ((),)
    if all(run.succeeded for run in known):
        return _format_ok(state, known)
    phrases = {
        device: _format_phrase(state, run)
        for device, run in runs.items()
        if run and (run.result or run.progress)
    }
    if len(runs) == 1:  # no GPU: the only column names the device
        return next(iter(phrases.values()), ((),))
    # Success is visible as a time in its column. Omit it beside a problem.
    phrases = {
        name: forms for name, forms in phrases.items() if forms[0][0].style is not TextStyle.GOOD
    }
    # Progress and failures come first.
    urgent = sorted(phrases.items(), key=lambda item: _rank_urgency(runs[item[0]]))
    if not urgent:
        return ((),)
    spans: list[Span] = []
    for device, forms in urgent:
        spans.extend((Span("; " if spans else ""), Span(f"{device} "), *forms[0]))
    device, forms = urgent[0]
    return (tuple(spans), *((Span(f"{device} "), *form) for form in forms), forms[-1])


def _rank_urgency(run: RunState | None) -> int:
    if run is None:
        return 5
    if run.result is None:
        return 0 if run.progress else 3
    return {"failed": 1, "skipped": 4, "cancelled": 2, "ok": 4}[run.result.status]


def _format_phrase(state: RunsState, run: RunState) -> Forms:
    if run.result is None:
        if run.progress and state.runner.silence:
            silence = state.runner.silence
            words = (silence, silence.partition(":")[0], "silent")
            return tuple((Span(word, TextStyle.NOTE),) for word in words)
        if run.progress is None:
            return ((Span("", TextStyle.KEY),),)
        forms = tuple((Span(form, TextStyle.KEY),) for form in _progress_forms(run.progress))
        gauge = _draw_progress(run.progress)
        return ((*gauge, Span(" "), *forms[0]), *forms) if gauge else forms
    result = run.result
    if result.status == "ok":
        return _format_ok(state, [run])
    style = STYLES[result.status]
    ends = [Span(words, style) for words in _end_forms(result.status, result.reason)]
    return ((ends[0], *_format_marks(state, [run])), *((end,) for end in ends))


def _end_forms(status: str, reason: str | None) -> tuple[str, ...]:
    """Return the end of a run with fewer and fewer words of its reason, at last without it."""
    whole = format_end(status, reason)
    words = whole.split()
    most = min(len(words) - 1, REASON_WORDS)
    dots = glyphs.GLYPHS.ellipsis
    return (whole, *(" ".join(words[:n]).rstrip(",:;") + dots for n in range(most, 1, -1)), status)


def _format_ok(state: RunsState, runs: list[RunState]) -> Forms:
    results = [run.result for run in runs if run.result]
    checks = [result.check for result in results if result.check]
    if any(not check.passed for check in checks):
        wrong, short = (Span(words, TextStyle.BAD) for words in ("wrong result", "wrong"))
        return ((wrong, *_format_marks(state, runs)), (wrong,), (short,))
    widths = [compute_half_width(result.time) for result in results if result.time]
    known = [width for width in widths if width is not None]
    spread = f" {text.spread(max(known))}" if known else ""
    doubtful = [run.request.device for run in runs if run.warnings or describe_excess_of(run)]
    doubt, place = mark_doubt(doubtful, [run.request.device for run in runs])
    marks = _format_marks(state, runs, before=", ")
    if place:
        # Each doubt is a mark, and the first ones are doubts.
        first, *others = marks
        marks = (Span(first.text.replace(", ", ": ", 1), first.style), *others)
    bare, _ = mark_doubt(doubtful, doubtful)
    beside = format_earlier_comparison(runs, state.now)
    ok = (Span("ok", TextStyle.GOOD),)
    timed = (*ok, Span(spread)) if spread else ok
    verdicts = _shorten_earlier_comparison(runs)
    if any(run.against is not None and run.against.verdict in AGAINST_STYLES for run in runs):
        # First: users look for a faster or slower result.
        return (
            (*doubt, *beside, Span(", "), *timed, *place, *marks),
            (*doubt, *beside, Span(", "), *timed, *place),
            (*doubt, *beside, *place),
            *((*doubt, verdict, *place) for verdict in verdicts),
            *((*bare, verdict) for verdict in verdicts),
        )
    compared = (Span(", "), *beside) if beside else ()
    return (
        *((*doubt, *timed, *compared, *place, *marks[:most]) for most in range(len(marks), 0, -1)),
        # The number of warnings matters less than their mark.
        (*doubt, *timed, *compared, *place),
        *((*doubt, *timed, Span(", "), verdict, *place) for verdict in verdicts),
        (*doubt, *timed, *place),
        (*doubt, *ok, *place),
        (*bare, *ok),
    )


def mark_doubt(doubtful: Sequence[str], devices: Collection[str]) -> tuple[Line, Line]:
    """Return the mark of doubtful results, in front of a state and behind it; one is empty.

    It is behind, with the devices, if the results of others are not doubtful.

    Args:
        doubtful: devices with a doubtful result.
        devices: all devices with a result.
    """
    mark = f"{glyphs.GLYPHS.warning} "
    if not doubtful:
        return (), ()
    if len(doubtful) < len(devices):
        return (), (Span(", "), Span(f"{mark}{', '.join(doubtful)}", TextStyle.NOTE))
    return (Span(mark, TextStyle.NOTE),), ()


def format_earlier_comparison(runs: list[RunState], now: float) -> tuple[Span, ...]:
    """Compare runs with earlier sessions: ``1.10x slower than 2 d ago``.

    With two devices, describe the GPU, or the CPU if only that is faster or slower.
    """
    chosen = _choose_comparison(runs)
    if chosen is None:
        return ()
    device, main = chosen
    beside = " than" if main.verdict in AGAINST_STYLES else " as" if main.verdict == "same" else ","
    on = f" on {device}" if len(runs) > 1 else ""
    words = f"{format_verdict(main)}{beside} {text.age(now - main.at)}{on}"
    return (Span(words, AGAINST_STYLES.get(main.verdict, TextStyle.QUIET)),)


def _choose_comparison(runs: list[RunState]) -> tuple[str, Against] | None:
    compared = [(run.request.device, run.against) for run in runs if run.against is not None]
    differing = (pair for pair in reversed(compared) if pair[1].verdict in AGAINST_STYLES)
    return next(differing, compared[-1]) if compared else None


def _shorten_earlier_comparison(runs: list[RunState]) -> tuple[Span, ...]:
    """Return the verdict with its factor, and alone: ``1.10x slower``, ``slower``."""
    chosen = _choose_comparison(runs)
    if chosen is None:
        return ()
    main = chosen[1]
    words = (format_verdict(main), main.verdict)
    return tuple(Span(word, AGAINST_STYLES.get(main.verdict, TextStyle.QUIET)) for word in words)


def format_verdict(against: Against) -> str:
    """Format a verdict: ``1.04x faster``, ``same: 1.00x``, ``unclear: 0.97–1.08x``."""
    return ratios.format_verdict(against.verdict, against.ratio, against.ci95)


MOST_WARNINGS = 2
"""More warnings are counted in one line beside the figures, which says where they are in full."""


def fold_warnings(warnings: Sequence[str], more: str = " (i)") -> tuple[str, ...]:
    """Return a few warnings as they are, or one line that counts them.

    Args:
        warnings: the warnings in full.
        more: where they are in full.
    """
    if len(warnings) <= MOST_WARNINGS:
        return tuple(warnings)
    noisy = "noisy: " if any(warning.startswith("noisy") for warning in warnings) else ""
    return (f"{noisy}{len(warnings)} warnings{more}",)


def describe_excess_of(run: RunState) -> str:
    """Return a word for a rate above its limit; an empty string for any other."""
    limit = run.result.limit if run.result else None
    return "" if limit is None else describe_excess(limit)


def _format_marks(
    state: RunsState, runs: list[RunState], before: str | None = None
) -> tuple[Span, ...]:
    """Return the doubts about a result, each after its mark."""
    marks = []
    after = before or " "
    before = before or f" {glyphs.GLYPHS.warning} "
    above = [word for word in map(describe_excess_of, runs) if word]
    if above:
        marks.append(Span(f"{before}{above[0]}", TextStyle.BAD))
    throttled = [
        run for run in runs if run.conditions and {*run.conditions.throttle} & {*HARMFUL_REASONS}
    ]
    if throttled:
        marks.append(Span(f"{before}throttled", TextStyle.NOTE))
    # The doubts named here have warnings of their own; the other warnings are counted.
    warnings = sum(len(run.warnings) for run in runs) - len(above) - len(throttled)
    if warnings > 0:
        marks.append(Span(f"{before}{text.count(warnings, 'warning')}", TextStyle.NOTE))
    if any(find_changed_flags(state, run) for run in runs):
        marks.append(Span(f"{after}other flags", TextStyle.NOTE))
    return tuple(marks)


# ---- sweeps --------------------------------------------------------------------------------------


def format_sweep_state(sweep_result: SweepResult, sweep: Sweep) -> Forms:
    """Return the table's last column: points done of all, and the current or latest run."""
    if sweep_result.last is None and sweep_result.running is None:
        unstarted = (f"sweep of {sweep_result.total} runs", f"{sweep_result.total} runs")
        return tuple((Span(form, TextStyle.QUIET),) for form in unstarted)
    spans = [Span(f"{sweep_result.done}/{sweep_result.total}", TextStyle.STRONG)]
    running = sweep_result.running
    if running is not None and running.progress is not None:
        words = f" {running.request.device} {format_settings(sweep, running.request.parameters)} "
        spans.append(Span(words + format_run_progress(running.progress), TextStyle.KEY))
    elif sweep_result.done == sweep_result.total:
        bad = format_sweep_progress(sweep_result).partition(", ")[2]
        spans.append(Span(f", {bad}" if bad else " ok", TextStyle.NOTE if bad else TextStyle.GOOD))
        if untrusted := _count_untrusted(sweep_result):
            mark = glyphs.GLYPHS.warning
            spans[0] = Span(f"{mark} {spans[0].text}", TextStyle.NOTE)
            spans.append(Span(f", {untrusted} not trusted", TextStyle.NOTE))
    elif sweep_result.last is not None:
        spans.append(
            Span(
                f" last {format_settings(sweep, sweep_result.last.request.parameters)}",
                TextStyle.QUIET,
            )
        )
    return (tuple(spans), tuple(spans[:1]))


def _count_untrusted(sweep_result: SweepResult) -> int:
    """Return how many runs of a sweep have a time that a warning tells not to trust."""
    results = [
        run.result for _, runs in sweep_result.points for run in runs.values() if run and run.result
    ]
    return sum(result.status == "ok" and not is_trusted(result) for result in results)


def format_sweep_name(sweep: Sweep, rest: Mapping[str, Setting]) -> str:
    """Return the parameters in short; swept ones first, as typed."""
    swept = " ".join(f"{name}={text}" for name, text in sweep.texts.items())
    return f"{swept} {parameters.format_short(rest, sweep.autos)}".strip()
