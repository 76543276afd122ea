"""What is kept of a run and of a comparison: state, conditions, what earlier sessions had."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tui.runs.state.result_words import list_rates
from workloads.protocol import messages
from workloads.protocol.results import (
    Arm,
    Comparison,
    RunResult,
    Setting,
    Verdict,
    may_claim,
)

# Why a figure is absent.
TOO_SHORT = "it was measured for less than the time between two samples"
NOT_GIVEN = "NVML did not give it"
NOT_SAMPLED = "only NVIDIA GPUs are sampled"
NO_MONITOR = "the monitor did not see this device"
SEVERAL = "not followed over the processes of a comparison"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What NVML said of the devices during a run or a comparison, and what else it depends on.

    Of several devices, the lowest and highest values are over all of them.
    """

    samples: int
    sm_clock_mhz_min: int | None
    sm_clock_mhz_median: float | None
    power_w_max: float | None
    temperature_c_max: float | None
    throttle: tuple[str, ...]
    process_peak: int | None
    """Highest sampled memory of one of its processes on one device, bytes: the true peak is no
    lower."""
    warnings: tuple[str, ...] = ()
    unavailable: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    """torch's threads on the CPU."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the software by name; what is not there is left out."""
    flags: dict[str, bool] = field(default_factory=dict)
    """Backend flags it ran under; of a comparison those that both settings share."""
    devices: tuple[str, ...] = ()
    """torch's names of the devices that were sampled while they worked."""


@dataclass(frozen=True, slots=True)
class EarlierResult:
    """The newest run of a workload with one setting on one device of this box."""

    workload: str
    gpu: str
    """The UUID of the GPU, of several the first; empty of a run on the CPU."""
    asked: dict[str, Setting]
    """The parameters as they were asked for."""
    used: dict[str, Setting]
    """As they were used: what was left to the workload is a number."""
    at: float
    """Unix time at which it ended."""
    median_s: float
    ci95_s: tuple[float, float] | None
    driver: str
    """Its version; empty of a run on the CPU, and where it is not known."""
    torch: str
    """Likewise."""

    def is_of(self, parameters: Mapping[str, Setting]) -> bool:
        """Return whether it was measured with these parameters."""
        return parameters in (self.asked, self.used)


@dataclass(frozen=True, slots=True)
class Against:
    """A run, with those like it of this session, beside the earlier ones that it is held to."""

    at: float
    """Unix time of the newest of the earlier runs."""
    verdict: Verdict
    ratio: float
    """Time of the earlier runs over that of these: above 1, these are faster."""
    ci95: tuple[float, float] | None
    """From session to session; ``None`` of too few sessions."""
    runs: tuple[int, int]
    """Earlier ones, and of this session."""
    varies: float | None
    """Nineteen of twenty runs lie within ± this share where nothing differs; ``None`` where that
    was not asked for or is not known."""
    differences: tuple[str, ...]
    """What the environments differ in, as text; not causes."""


class EarlierResults:
    """Finds results of earlier sessions.

    Args:
        results: in any order.
        at: Unix time at which they were read.
    """

    def __init__(self, results: Sequence[EarlierResult] = (), at: float = 0.0) -> None:
        self.at = at
        self._results: dict[tuple[str, str], list[EarlierResult]] = {}
        for one in sorted(results, key=lambda one: one.at, reverse=True):
            self._results.setdefault((one.workload, one.gpu), []).append(one)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EarlierResults) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return sum(map(len, self._results.values()))

    def find(
        self, workload: str, gpu: str, parameters: Mapping[str, Setting]
    ) -> EarlierResult | None:
        """Return the newest of a workload with these parameters.

        Args:
            workload: its name.
            gpu: UUID of the GPU; empty for the CPU.
            parameters: as they would be asked for now.
        """
        known = self._results.get((workload, gpu), ())
        return next((one for one in known if one.is_of(parameters)), None)


@dataclass(frozen=True, slots=True)
class RunState:
    """One requested run: queued, going on (``progress``) or ended (``result``)."""

    request: messages.Run
    progress: messages.Progress | None = None
    so_far: RunResult | None = None
    """Its time is taken; what its study has found grows."""
    result: RunResult | None = None
    conditions: Conditions | None = None
    """``None`` before it has ended, and where nothing was measured."""
    demo: bool = False
    """Asked for by the demo, not by the user."""
    against: Against | None = None
    """How it compares with what was kept of earlier sessions; ``None`` where nothing was."""

    @property
    def ended(self) -> bool:
        return self.result is not None

    @property
    def cancelled(self) -> bool:
        return self.result is not None and self.result.status == "cancelled"


@dataclass(frozen=True, slots=True)
class CompareState:
    """One requested comparison with what it has found so far."""

    request: messages.Compare
    progress: messages.Progress | None = None
    comparison: Comparison | None = None
    done: bool = False
    conditions: Conditions | None = None
    """``None`` before it has ended, and where nothing was measured."""


def end_comparison(state: CompareState, ending: messages.Rejected) -> Comparison:
    """Return a comparison that ended before it could say so itself; its pairs so far are kept."""
    request = state.request
    so_far = state.comparison or Comparison(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=request.parameters,
        flag=request.flag,
        arms=(
            Arm(request.settings[0], None, None),
            Arm(request.settings[1], None, None),
        ),
        ratio=None,
        ci95=None,
        pairs=0,
        pairs_wanted=request.pairs or 0,
        verdict="unclear",
        break_even_calls=None,
        fresh_process=False,
    )
    return replace(so_far, status=ending.status, reason=ending.reason)


def are_same_parameters(
    parameters: Mapping[str, Setting],
) -> tuple[tuple[str, Setting], ...]:
    return tuple(sorted(parameters.items()))


def select_standing(runs: Iterable[RunState]) -> RunState | None:
    """Of runs of the same, the newest first, the one whose figures stand.

    A run that was cancelled takes the place of no other: what was measured before is not lost by
    asking for it again.
    """
    known = list(runs)
    return next((run for run in known if not run.cancelled), known[0] if known else None)


KEPT = 100
"""Ended runs that stand no more, before the oldest of them is forgotten: who leaves the workbench
running a demo for days keeps its memory."""

_Key = tuple[str, str, tuple[tuple[str, Setting], ...]]
"""Workload, torch's name of the device, parameters."""


class RunBook(Mapping[str, RunState]):
    """Runs by their id, the oldest first."""

    def __init__(self) -> None:
        self._runs: dict[str, RunState] = {}
        self._alike: dict[_Key, list[str]] = {}
        self._superseded: deque[str] = deque()

    def __getitem__(self, run_id: str) -> RunState:
        return self._runs[run_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: RunState) -> None:
        """Take in a run that is asked for."""
        self._runs[run.request.id] = run
        self._alike.setdefault(_make_key(run), []).append(run.request.id)

    def change(self, run_id: str, **changes: Any) -> None:
        """Replace fields of a run; of one that is not known, nothing."""
        before = self._runs.get(run_id)
        if before is None:
            return
        self._runs[run_id] = after = replace(before, **changes)
        if after.ended and not before.ended:
            self._supersede(after)

    def newest_first(
        self, workload: str, device: str, parameters: Mapping[str, Setting]
    ) -> Iterator[RunState]:
        """Return the runs of a workload with these parameters on a torch device."""
        ids = self._alike.get((workload, device, are_same_parameters(parameters)), ())
        return (self._runs[run_id] for run_id in reversed(ids))

    def _supersede(self, newer: RunState) -> None:
        """Note which runs do not stand, after one more has ended."""
        alike = [self._runs[run_id] for run_id in self._alike[_make_key(newer)]]
        ended = [run for run in alike if run.ended and run.demo == newer.demo]
        stands = select_standing(reversed(ended))
        for run in ended:
            if run is not stands and run.request.id not in self._superseded:
                self._superseded.append(run.request.id)
        while len(self._superseded) > KEPT:
            gone = self._runs.pop(self._superseded.popleft())
            self._alike[_make_key(gone)].remove(gone.request.id)


def _make_key(run: RunState) -> _Key:
    request = run.request
    return request.workload, request.device, are_same_parameters(request.parameters)


def get_timed_result(run: RunState | None) -> RunResult | None:
    """Return a result that has a time."""
    return run.result if run and run.result and run.result.time else None


def are_comparable(ours: RunResult, theirs: RunResult) -> bool:
    """Return whether two times say which is faster: neither is wrong, and sizes agree."""
    return may_claim(ours) and may_claim(theirs) and ours.chosen == theirs.chosen


def get_median(run: RunState | None) -> float | None:
    """Return the median time of a run, seconds per call."""
    result = get_timed_result(run)
    return result.time.median_s if result and result.time else None


def find_rate(result: RunResult | None) -> tuple[float, str] | None:
    """Return the rate that the workload is about: floating point, else bytes, else items."""
    if result is None:
        return None
    return next(iter(list_rates(result.rates)), None)


def find_limited_rate(result: RunResult) -> tuple[float, str] | None:
    """Of the rates the one that the result's limit is of, with its unit.

    A limit is of operations or of bytes; its fraction tells which of the rates it was taken of.
    """
    limit = result.limit
    if limit is None:
        return None
    rates = ((result.rates.flop_per_s, "FLOP/s"), (result.rates.byte_per_s, "byte/s"))
    return next(
        (
            (rate, unit)
            for rate, unit in rates
            if rate is not None and math.isclose(rate, limit.value * limit.fraction, rel_tol=1e-3)
        ),
        None,
    )
