"""The runs that wait: how far they are, how long the rest may take, what is asked first. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import CPU
from tui.kit.lines import Line, Span, TextStyle, fit, width
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from tui.runs.views.workload_table import devices
from workloads.protocol.messages import Budget, Progress, Run

USUAL_S: dict[Budget, float] = {"quick": 4.0, "normal": 8.0, "careful": 60.0}
"""Seconds that a run takes on average, as long as nothing here tells better: of the whole catalogue
on the CPU (docs/measurements.md), of which a normal run takes twice the time of a quick one; of
careful runs, what they may be timed at most."""
LEAST_BAR, MOST_BAR = 8, 60
"""Cells of the bar; where there is no room for the least, there is none."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How long some runs may take."""

    seconds: float
    runs: int
    known: int
    """Of them, those that ran before on the same device: they are taken to last as long again."""
    each_s: float | None
    """Seconds that each of the others is taken to last; ``None`` where there are no others."""
    measured: bool
    """Those seconds are the mean of the runs so far, and not what is usual elsewhere."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The runs that were asked for since nothing waited last."""

    done: int
    wanted: int
    failed: int
    left_s: float


class Spans:
    """How long the runs of a session took.

    Args:
        runs: those that are known, the oldest first.
    """

    def __init__(self, runs: Iterable[RunState]) -> None:
        self._same: dict[tuple[str, str, Budget], float] = {}
        self._alike: defaultdict[tuple[str, Budget], list[float]] = defaultdict(list)
        for run in runs:
            seconds = lasted_s(run)
            if seconds is not None:
                request = run.request
                self._same[request.workload, request.device, request.budget] = seconds
                self._alike[_kind(request.device), request.budget].append(seconds)

    def same(self, run: Run) -> float | None:
        """Seconds that the newest run of the workload took on the device; ``None`` before one."""
        return self._same.get((run.workload, run.device, run.budget))

    def mean(self, run: Run) -> float | None:
        """Seconds that a run took on such a device on average; ``None`` before one."""
        known = self._alike.get((_kind(run.device), run.budget))
        return _mean(known) if known else None

    def expected(self, run: Run) -> float:
        """Seconds that a run may take."""
        seconds = self.same(run)
        if seconds is None:
            seconds = self.mean(run)
        return USUAL_S[run.budget] if seconds is None else seconds


def lasted_s(run: RunState) -> float | None:
    """Seconds from the run's begin to its end; ``None`` where it was not run to its end."""
    result = run.result
    if result is None or run.cancelled or result.started_at is None or result.ended_at is None:
        return None
    return max(0.0, result.ended_at - result.started_at)


def expected(state: RunsState, runs: Iterable[Run]) -> Expected:
    """How long runs may take that are done one after the other.

    Args:
        state: of the runs.
        runs: those that are asked for.
    """
    spans = Spans(state.book.values())
    asked = list(runs)
    known = [seconds for run in asked if (seconds := spans.same(run)) is not None]
    new = [run for run in asked if spans.same(run) is None]
    others = [spans.expected(run) for run in new]
    return Expected(
        seconds=sum(known) + sum(others),
        runs=len(asked),
        known=len(known),
        each_s=_mean(others) if others else None,
        measured=all(spans.mean(run) is not None for run in new),
    )


def queue(state: RunsState) -> Queue | None:
    """How far the runs are; ``None`` where none waits or goes on."""
    known = [state.book[run_id] for run_id in state.requested if run_id in state.book]
    waiting = [run for run in known if not run.ended]
    if not waiting:
        return None
    spans = Spans(state.book.values())
    left = 0.0
    for run in waiting:
        passed = run.progress.elapsed_s if run.progress else 0.0
        left += max(0.0, spans.expected(run.request) - passed)
    return Queue(
        # One that is known no more has ended: others have superseded it.
        done=len(state.requested) - len(waiting),
        wanted=len(state.requested),
        failed=sum(run.result is not None and run.result.status == "failed" for run in known),
        left_s=left,
    )


def _mean(values: Sequence[float]) -> float:
    # The standard library's brings fractions and decimals into a start.
    return sum(values) / len(values)


def _kind(device: str) -> str:
    return device.partition(":")[0]


# ---- in words ------------------------------------------------------------------------------------


def queue_line(found: Queue, cells: int, now: str = "") -> Line:
    """How far the runs are: ``3 of 52 runs ███····· about 4 min left``.

    Args:
        found: of the state.
        cells: that there are.
        now: what goes on, said at the end where there is room.
    """
    head = f" {found.done} of {text.count(found.wanted, 'run')}"
    failed = Span(f", {found.failed} failed", TextStyle.BAD) if found.failed else Span("")
    tail = f" {text.about(found.left_s)} left"
    room = cells - len(head) - failed.width - len(tail) - 2
    more = Span(fit(f"  {now}", max(0, room - LEAST_BAR)) if now else "", TextStyle.QUIET)
    bar = min(MOST_BAR, room - more.width)
    drawn: Line = ()
    if bar >= LEAST_BAR:
        full = bar * found.done // found.wanted
        filled, rest = glyphs.GLYPHS.slices["allocated"], glyphs.GLYPHS.slices["free"]
        drawn = (
            Span(" "),
            Span(filled * full, TextStyle.ALLOCATED),
            Span(rest * (bar - full), TextStyle.REST),
        )
    spans: Line = (Span(head, TextStyle.STRONG), failed, *drawn, Span(tail), more)
    return spans if width(spans) <= cells else (Span(head + tail, TextStyle.STRONG),)


def runs_of(state: RunsState, names: Sequence[str]) -> list[Run]:
    """Return the runs of some workloads: each setting on each device of the table."""
    return [
        Run(id="", workload=name, device=device, parameters=dict(point), flags={})
        for name in names
        for point in state.points(name)
        for device in devices(state)
    ]


def run_all_words(state: RunsState, names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the question before everything that the table lists is run, and what is to be known.

    Args:
        state: of the runs.
        names: of the workloads.
    """
    runs = runs_of(state, names)
    found = expected(state, runs)
    where = " and ".join(devices(state))
    if state.machine.environment is None:
        where = f"{CPU}, and on the GPU once torch has found one"
    words = [f"{text.count(found.runs, 'run')} on {where}, {text.about(found.seconds)}."]
    words.append(_basis(found))
    waiting = len(state.pending())
    if waiting:
        wait = "waits" if waiting == 1 else "wait"
        words.append(f"They come after the {text.count(waiting, 'run')} that {wait}.")
    words.append("x cancels a workload's runs, X cancels all; measured results are kept.")
    return f"Run {text.count(len(names), 'workload')}?", words


def _basis(found: Expected) -> str:
    """Return the basis of the estimate."""
    if found.each_s is None:
        return "The estimate is how long the same runs took before."
    each = f"{text.duration(max(1.0, round(found.each_s)))} a run"
    usual = "the mean of the runs so far" if found.measured else "the usual for a whole catalogue"
    if not found.known:
        return f"The estimate is {each}: {usual}."
    return (
        f"The estimate: {found.known} of them as long as they took before, the others {each}, "
        f"{usual}."
    )


def quit_words(state: RunsState) -> list[str]:
    """Return the loss if the program ends while something runs.

    Args:
        state: of the runs.
    """
    waiting = len(state.pending())
    doing = going_on(state)
    words = [f"{doing[0][0].upper()}{doing[0][1:]}." if doing else f"{waiting} queued."]
    words.append(f"{'It is' if waiting == 1 else f'All {waiting} are'} cancelled.")
    results = sum(run.result is not None and not run.cancelled for run in state.book.values())
    results += sum(item.done for item in state.comparisons.values())
    if results:
        words.append(
            f"{text.count(results, 'result')} of this session {'is' if results == 1 else 'are'} "
            "lost, unless it was started with --record. y in the table copies one into a file."
        )
    return words


def going_on(state: RunsState) -> list[str]:
    """Return the current measurement and its progress, ever shorter; empty for none."""
    for run in state.book.values():
        if run.progress and not run.ended:
            where = f"on {run.request.device}"
            how_far = state.runner.silence or _how_far(run.progress)
            return _at_length(state, run.request.workload, where, how_far)
    for compared in state.comparisons.values():
        if compared.progress and not compared.done:
            how_far = state.runner.silence or compared.progress.phase
            done = compared.comparison
            if not state.runner.silence and done is not None and done.pairs < done.pairs_wanted:
                how_far = f"pair {done.pairs + 1} of {done.pairs_wanted}"
            where = f"with {compared.request.flag}"
            return _at_length(state, compared.request.workload, where, how_far)
    return []


def _how_far(progress: Progress) -> str:
    if progress.remaining_s is not None:
        return f"{text.at_most(progress.remaining_s)} left"
    return progress.phase


def _at_length(state: RunsState, workload: str, where: str, how_far: str) -> list[str]:
    waiting = len(state.pending()) - 1
    words = f"running {workload} {where}, {how_far}"
    more = [f"{words}, {waiting} to do"] if waiting else []
    return [*more, words, f"running {workload}, {how_far}", f"{workload}, {how_far}"]
