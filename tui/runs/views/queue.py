"""The queue of runs: progress, estimated time left, and questions before a start. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tui.core.text import numbers as text
from tui.devices.state.devices import CPU
from tui.kit.bars import draw_gauge
from tui.kit.lines import Line, Span, TextStyle, fit, width
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from tui.runs.views.workload_state import format_phase
from tui.runs.views.workload_table import list_devices
from workloads.protocol.messages import Budget, Progress, Run

USUAL_S: dict[Budget, float] = {"quick": 4.0, "normal": 8.0, "careful": 60.0}
"""Average seconds of a run, used until this session has a better estimate. Quick and normal: the
whole catalogue on the CPU (docs/measurements.md), where a normal run takes twice as long as a quick
one. Careful: the most that such a run may be timed."""
LEAST_BAR, MOST_BAR = 8, 60
"""Least and most cells of the bar; with less room there is no bar."""


class RunEstimate(NamedTuple):
    """An estimate of how long some runs take."""

    seconds: float
    runs: int
    known: int
    """Runs that ran before on the same device; the estimate repeats their duration."""
    each_s: float | None
    """Estimated seconds of each other run; ``None`` if there are no others."""
    measured: bool
    """True if those seconds are the mean of this session's runs; false for :data:`USUAL_S`."""


class Queue(NamedTuple):
    """The runs that were requested since the queue was last empty."""

    done: int
    total: int
    failed: int
    left_s: float


class RunDurations:
    """The durations of a session's runs.

    Args:
        runs: the known runs, oldest first.
    """

    def __init__(self, runs: Iterable[RunState]) -> None:
        self._same: dict[tuple[str, str, Budget], float] = {}
        self._alike: defaultdict[tuple[str, Budget], list[float]] = defaultdict(list)
        for run in runs:
            seconds = compute_duration(run)
            if seconds is not None:
                request = run.request
                self._same[request.workload, request.device, request.budget] = seconds
                self._alike[_get_kind(request.device), request.budget].append(seconds)

    def same(self, run: Run) -> float | None:
        """Return the seconds of the workload's newest run on the device; ``None`` if none."""
        return self._same.get((run.workload, run.device, run.budget))

    def mean(self, run: Run) -> float | None:
        """Return the mean seconds of runs on such a device; ``None`` if none."""
        known = self._alike.get((_get_kind(run.device), run.budget))
        return _compute_mean(known) if known else None

    def expected(self, run: Run) -> float:
        """Estimate the seconds of a run."""
        seconds = self.same(run)
        if seconds is None:
            seconds = self.mean(run)
        return USUAL_S[run.budget] if seconds is None else seconds


def compute_duration(run: RunState) -> float | None:
    """Return the seconds from a run's start to its end; ``None`` if it did not finish."""
    result = run.result
    if result is None or run.cancelled or result.started_at is None or result.ended_at is None:
        return None
    return max(0.0, result.ended_at - result.started_at)


def estimate_runs(state: RunsState, runs: Iterable[Run]) -> RunEstimate:
    """Estimate how long runs take one after the other.

    Args:
        state: the state of the runs.
        runs: the requested runs.
    """
    spans = RunDurations(state.book.values())
    requested = list(runs)
    known = [seconds for run in requested if (seconds := spans.same(run)) is not None]
    new = [run for run in requested if spans.same(run) is None]
    others = [spans.expected(run) for run in new]
    return RunEstimate(
        seconds=sum(known) + sum(others),
        runs=len(requested),
        known=len(known),
        each_s=_compute_mean(others) if others else None,
        measured=all(spans.mean(run) is not None for run in new),
    )


def build_queue(state: RunsState) -> Queue | None:
    """Return the progress of the queue; ``None`` if no run is queued or active."""
    known = [state.book[run_id] for run_id in state.requested if run_id in state.book]
    waiting = [run for run in known if not run.ended]
    if not waiting:
        return None
    spans = RunDurations(state.book.values())
    left = 0.0
    for run in waiting:
        passed = run.progress.elapsed_s if run.progress else 0.0
        left += max(0.0, spans.expected(run.request) - passed)
    return Queue(
        # A forgotten run has ended: later runs superseded it.
        done=len(state.requested) - len(waiting),
        total=len(state.requested),
        failed=sum(run.result is not None and run.result.status == "failed" for run in known),
        left_s=left,
    )


def _compute_mean(values: Sequence[float]) -> float:
    # statistics.mean would import fractions and decimals at startup.
    return sum(values) / len(values)


def _get_kind(device: str) -> str:
    return device.partition(":")[0]


# ---- as text ------------------------------------------------------------------------------------


def queue_line(queue: Queue, cells: int, now: str = "", label: str = "") -> Line:
    """Format the progress of the queue: ``3 of 52 runs ■■■····· about 4 min left``.

    Args:
        queue: the queue.
        cells: width of the line.
        now: the current activity, appended if it fits.
        label: precedes it where other runs are counted nearby.
    """
    head = f" {label}{queue.done} of {text.count(queue.total, 'run')}"
    failed = Span(f", {queue.failed} failed", TextStyle.BAD) if queue.failed else Span("")
    tail = f" {text.about(queue.left_s)} left"
    room = cells - len(head) - failed.width - len(tail) - 2
    more = Span(fit(f"  {now}", max(0, room - LEAST_BAR)) if now else "", TextStyle.QUIET)
    bar = min(MOST_BAR, room - more.width)
    drawn: Line = ()
    if bar >= LEAST_BAR:
        drawn = (Span(" "), *draw_gauge(queue.done / queue.total, bar, TextStyle.ALLOCATED))
    # Failures come last: the bar does not move with them.
    spans: Line = (Span(head, TextStyle.STRONG), *drawn, Span(tail), failed, more)
    return spans if width(spans) <= cells else (Span(head + tail, TextStyle.STRONG),)


def make_runs(state: RunsState, names: Sequence[str]) -> list[Run]:
    """Return the runs of some workloads: every setting on each device of the table that fits."""
    return [
        Run(id="", workload=name, device=device, parameters=dict(point), flags={})
        for name in names
        for point in state.points(name)
        for device in state.choose_devices(name, list_devices(state))
    ]


def format_run_all_question(state: RunsState, names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the question to confirm before a run of all listed workloads, and its details.

    Args:
        state: the state of the runs.
        names: names of the workloads.
    """
    runs = make_runs(state, names)
    estimate = estimate_runs(state, runs)
    where = " and ".join(list_devices(state))
    if state.machine.environment is None:
        where = f"{CPU}, and on the GPU once torch has found one"
    words = [f"{text.count(estimate.runs, 'run')} on {where}, {text.about(estimate.seconds)}."]
    words.append(_describe_basis(estimate))
    waiting = len(state.pending())
    if waiting:
        words.append(_format_first(waiting, busy=bool(format_current_run(state))))
    words.append("x cancels a workload's runs, X cancels all; results stay.")
    return f"Run {text.count(len(names), 'workload')}?", words


def _format_first(waiting: int, *, busy: bool) -> str:
    """Return which runs come first: ``They start after the current run and 2 queued runs.``."""
    parts = ["the current run"] if busy else []
    queued = waiting - busy
    if queued > 0:
        parts.append(text.count(queued, "queued run"))
    return f"They start after {' and '.join(parts)}."


def _describe_basis(estimate: RunEstimate) -> str:
    """Return the basis of the estimate."""
    if estimate.each_s is None:
        return "Estimated from the same runs earlier."
    per_run = f"{text.duration(max(1.0, round(estimate.each_s)))} a run"
    usual = "the mean of this session" if estimate.measured else "the mean of the whole catalogue"
    if not estimate.known:
        return f"Estimated at {per_run}, {usual}."
    ran = "1 run repeats an earlier one" if estimate.known == 1 else ""
    ran = ran or f"{estimate.known} runs repeat earlier ones"
    return f"{ran}; the others are estimated at {per_run}, {usual}."


def format_quit_warning(state: RunsState, *, stored: bool) -> list[str]:
    """Describe the loss if the program ends during a run.

    Args:
        state: the state of the runs.
        stored: the program stores results.
    """
    waiting = len(state.pending())
    doing = format_current_run(state)
    host = state.machine.host
    words = [f"{doing[0][0].upper()}{doing[0][1:]}." if doing else f"{waiting} queued."]
    if host:
        words[0] = f"{host}: {words[0]}"
    words.append(f"Quitting cancels {'it' if waiting == 1 else f'all {waiting}'}.")
    results = sum(run.result is not None and not run.cancelled for run in state.book.values())
    results += sum(item.done for item in state.comparisons.values())
    if results and not stored:
        words.append(
            f"{text.count(results, 'result')} of this session {'is' if results == 1 else 'are'} "
            "lost (--no-store). y in the table copies one into a file."
        )
    return words


def format_current_run(state: RunsState) -> list[str]:
    """Return the current measurement and its progress in ever shorter forms; empty if none."""
    for run in state.book.values():
        if run.progress and not run.ended:
            where = f"on {run.request.device}"
            how_far = state.runner.silence or _format_progress(run.progress)
            return _format_long(state, run.request.workload, where, how_far)
    for compared in state.comparisons.values():
        if compared.progress and not compared.done:
            how_far = state.runner.silence or format_phase(compared.progress.phase)
            done = compared.comparison
            if not state.runner.silence and done is not None and done.pairs < done.pairs_wanted:
                how_far = f"pair {done.pairs + 1} of {done.pairs_wanted}"
            where = f"with {compared.request.flag}"
            return _format_long(state, compared.request.workload, where, how_far)
    return []


def _format_progress(progress: Progress) -> str:
    if progress.remaining_s is not None:
        return f"{text.at_most(progress.remaining_s)} left"
    return format_phase(progress.phase)


def _format_long(state: RunsState, workload: str, where: str, how_far: str) -> list[str]:
    waiting = len(state.pending()) - 1
    words = f"running {workload} {where}, {how_far}"
    more = [f"{words}, {waiting} queued"] if waiting else []
    return [*more, words, f"running {workload}, {how_far}", f"{workload}, {how_far}"]
