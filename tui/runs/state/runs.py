"""Runs and comparisons: their state, their conditions, and results of earlier sessions."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tui.runs.state.result_format import list_rates
from workloads.protocol import messages
from workloads.protocol.results import (
    IMPOSSIBLE,
    UNTRUSTED,
    Arm,
    Comparison,
    RunResult,
    Setting,
    Verdict,
    may_claim,
)

# Why a figure is absent.
TOO_SHORT = "it was measured for less than the time between two samples"
NOT_GIVEN = "not reported"
NOT_SAMPLED = "only NVIDIA GPUs are sampled"
NO_MONITOR = "the monitor did not see this device"
SEVERAL = "not followed over the processes of a comparison"


@dataclass(frozen=True, slots=True)
class Conditions:
    """NVML's figures during a run or a comparison, and its software settings.

    With several devices, the lowest and highest values are over all of them.
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
    """Versions of the installed software, by name."""
    flags: dict[str, bool] = field(default_factory=dict)
    """Backend flags of the run; for a comparison, the flags that both settings share."""
    devices: tuple[str, ...] = ()
    """torch's names of the devices that were sampled at work."""


@dataclass(frozen=True, slots=True)
class EarlierResult:
    """The newest stored run of a workload with one setting on one device of this machine."""

    WIRE_KEYS: ClassVar[Mapping[str, str]] = {"requested": "asked"}

    workload: str
    gpu: str
    """UUID of the first GPU; empty for a run on the CPU."""
    requested: dict[str, Setting]
    """The parameters as requested."""
    used: dict[str, Setting]
    """The parameters as used: a value left to the workload is a number here."""
    at: float
    """Unix time at which it ended."""
    median_s: float | None
    """Seconds per call; ``None`` if it failed."""
    ci95_s: tuple[float, float] | None
    driver: str
    """Version of the driver; empty if unknown or for a run on the CPU."""
    torch: str
    """Version of torch; empty if unknown."""
    trusted: bool = True
    """No warning says that the time says nothing of the workload."""
    failure: str = ""
    """Why it failed; empty if it succeeded."""

    def is_of(self, parameters: Mapping[str, Setting]) -> bool:
        """Return whether it was measured with these parameters."""
        return parameters in (self.requested, self.used)


@dataclass(frozen=True, slots=True)
class Against:
    """A comparison of this session's runs of one setting with earlier sessions' runs."""

    at: float
    """Unix time of the newest of the earlier runs."""
    verdict: Verdict
    ratio: float
    """Time of the earlier runs over the time of these: above 1, these are faster."""
    ci95: tuple[float, float] | None
    """95% interval over sessions; ``None`` with too few sessions."""
    runs: tuple[int, int]
    """Number of earlier runs, and of this session's runs."""
    varies: float | None
    """Without any change, 19 of 20 runs lie within ± this share; ``None`` if unknown or not
    requested."""
    differences: tuple[str, ...]
    """Differences between the environments as text; not necessarily causes."""


class EarlierResults:
    """Finds results of earlier sessions.

    Args:
        results: earlier results in any order.
        at: Unix time when they were read.
    """

    def __init__(self, results: Sequence[EarlierResult] = (), at: float = 0.0) -> None:
        self.at = at
        self._results: dict[tuple[str, str], list[EarlierResult]] = {}
        for result in sorted(results, key=lambda result: result.at, reverse=True):
            self._results.setdefault((result.workload, result.gpu), []).append(result)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EarlierResults) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return sum(map(len, self._results.values()))

    def find(
        self, workload: str, gpu: str, parameters: Mapping[str, Setting]
    ) -> EarlierResult | None:
        """Return the newest result of a workload with these parameters.

        Args:
            workload: name of the workload.
            gpu: UUID of the GPU; empty for the CPU.
            parameters: the parameters of a request made now.
        """
        known = self._results.get((workload, gpu), ())
        return next((result for result in known if result.is_of(parameters)), None)


@dataclass(frozen=True, slots=True)
class RunState:
    """One requested run: queued, running (``progress``) or ended (``result``)."""

    request: messages.Run
    progress: messages.Progress | None = None
    so_far: RunResult | None = None
    """The preliminary result: its time is final, its study is still running."""
    result: RunResult | None = None
    conditions: Conditions | None = None
    """``None`` before the end, and if nothing was measured."""
    demo: bool = False
    """True if a page of the presentation requested the run, not the user."""
    against: Against | None = None
    """Comparison with earlier sessions; ``None`` if they stored nothing comparable."""

    @property
    def ended(self) -> bool:
        return self.result is not None

    @property
    def cancelled(self) -> bool:
        return self.result is not None and self.result.status == "cancelled"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the run, and of the device during the run."""
        own = self.result.warnings if self.result else ()
        return own + (self.conditions.warnings if self.conditions else ())

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.status == "failed"

    @property
    def succeeded(self) -> bool:
        return self.result is not None and self.result.status == "ok"


@dataclass(frozen=True, slots=True)
class CompareState:
    """One requested comparison with its present findings."""

    request: messages.Compare
    progress: messages.Progress | None = None
    comparison: Comparison | None = None
    done: bool = False
    conditions: Conditions | None = None
    """``None`` before the end, and if nothing was measured."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the comparison, and of the device, such as throttling."""
        own = self.comparison.warnings if self.comparison else ()
        return own + (self.conditions.warnings if self.conditions else ())


def end_comparison(state: CompareState, ending: messages.Rejected) -> Comparison:
    """Return a comparison whose runner ended without a result; include its pairs so far."""
    request = state.request
    so_far = state.comparison or Comparison(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=request.parameters,
        flag=request.flag,
        arms=(Arm(request.settings[0], None, None), Arm(request.settings[1], None, None)),
        ratio=None,
        ci95=None,
        pairs=0,
        pairs_wanted=request.pairs or 0,
        verdict="unclear",
        break_even_calls=None,
        fresh_process=False,
    )
    return replace(so_far, status=ending.status, reason=ending.reason)


def select_standing(runs: Iterable[RunState]) -> RunState | None:
    """Return the run whose figures are valid, from runs of one setting, newest first.

    A cancelled run replaces no other, so a repeated request does not lose earlier figures. Of runs
    that have not ended, the oldest is the one that runs.
    """
    known = list(runs)
    newest = next((run for run in known if not run.cancelled), known[0] if known else None)
    if newest is None or newest.ended:
        return newest
    return next(run for run in reversed(known) if not run.ended)


def find_last_ended(runs: Iterable[RunState | None]) -> RunState | None:
    """Return the run that ended last; ``None`` if none has ended."""
    ended = [run for run in runs if run is not None and run.result is not None]
    return max(
        reversed(ended),
        key=lambda run: run.result.ended_at or 0.0 if run.result else 0.0,
        default=None,
    )


MOST_SUPERSEDED = 100
"""Most superseded runs in memory. The oldest is forgotten first, so that a demo can run for days
without growing."""

_Key = tuple[str, str, tuple[tuple[str, Setting], ...]]
"""Workload, torch's name of the device, and parameters."""


class RunBook(Mapping[str, RunState]):
    """Runs by id, oldest first."""

    def __init__(self) -> None:
        self._runs: dict[str, RunState] = {}
        self._alike: dict[_Key, list[str]] = {}
        self._superseded: deque[str] = deque()

    def __getitem__(self, run_id: str) -> RunState:
        return self._runs[run_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: RunState) -> None:
        """Add a requested run."""
        self._runs[run.request.id] = run
        self._alike.setdefault(_make_key(run), []).append(run.request.id)

    def change(self, run_id: str, **changes: Any) -> bool:
        """Replace fields of a run; return false for an unknown run."""
        before = self._runs.get(run_id)
        if before is None:
            return False
        self._runs[run_id] = after = replace(before, **changes)
        if after.ended and not before.ended:
            self._supersede(after)
        return True

    def newest_first(
        self, workload: str, device: str, parameters: Mapping[str, Setting]
    ) -> Iterator[RunState]:
        """Return the runs of a workload with these parameters on a torch device, newest first."""
        ids = self._alike.get((workload, device, _sort_parameters(parameters)), ())
        return (self._runs[run_id] for run_id in reversed(ids))

    def _supersede(self, newer: RunState) -> None:
        """Record the runs that a newly ended run supersedes."""
        alike = [self._runs[run_id] for run_id in self._alike[_make_key(newer)]]
        ended = [run for run in alike if run.ended and run.demo == newer.demo]
        stands = select_standing(reversed(ended))
        for run in ended:
            if run is not stands and run.request.id not in self._superseded:
                self._superseded.append(run.request.id)
        while len(self._superseded) > MOST_SUPERSEDED:
            gone = self._runs.pop(self._superseded.popleft())
            self._alike[_make_key(gone)].remove(gone.request.id)


def _make_key(run: RunState) -> _Key:
    request = run.request
    return request.workload, request.device, _sort_parameters(request.parameters)


def _sort_parameters(parameters: Mapping[str, Setting]) -> tuple[tuple[str, Setting], ...]:
    return tuple(sorted(parameters.items()))


def get_result(run: RunState | None) -> RunResult | None:
    """Return the result of a run that has ended."""
    return run.result if run else None


def is_trusted(result: RunResult) -> bool:
    """Return whether no warning says that the time of a result says nothing of the workload."""
    return is_trusted_with(result.warnings)


def is_trusted_with(warnings: Sequence[str]) -> bool:
    """Return whether none of a result's warnings says that its time is not to be trusted."""
    return not any(warning.endswith(UNTRUSTED) or IMPOSSIBLE in warning for warning in warnings)


def is_impossible(result: RunResult) -> bool:
    """Return whether the result has a rate that its device cannot reach."""
    return any(IMPOSSIBLE in warning for warning in result.warnings)


def get_timed_result(run: RunState | None) -> RunResult | None:
    """Return the result of a run if it has a time."""
    return run.result if run and run.result and run.result.time else None


def get_valid_result(run: RunState | None) -> RunResult | None:
    """Return the result of a run if it has a time and may claim it: a wrong result's is none."""
    result = get_timed_result(run)
    return result if result is not None and may_claim(result) else None


def are_comparable(first: RunResult, second: RunResult) -> bool:
    """Return whether two times can be compared: correct results of the same sizes and bytes.

    A time with an impossible rate compares with none.
    A copy to a device moves other bytes than one within host memory.
    """
    if not (may_claim(first) and may_claim(second)) or first.chosen != second.chosen:
        return False
    if is_impossible(first) or is_impossible(second):
        return False
    bytes_moved, others = _compute_bytes(first), _compute_bytes(second)
    return bytes_moved is None or others is None or math.isclose(bytes_moved, others, rel_tol=0.01)


def _compute_bytes(result: RunResult) -> float | None:
    """Return the bytes that a call moves; ``None`` if they are not counted."""
    rate = result.rates.byte_per_s
    return rate * result.time.median_s if rate and result.time else None


def get_median(run: RunState | None) -> float | None:
    """Return the median time of a run, seconds per call."""
    result = get_timed_result(run)
    return result.time.median_s if result and result.time else None


def find_rate(result: RunResult | None) -> tuple[float, str] | None:
    """Return the workload's main rate with its unit: floating point, else bytes, else items."""
    if result is None:
        return None
    return next(iter(list_rates(result.rates)), None)


def find_limited_rate(result: RunResult) -> tuple[float, str] | None:
    """Return the rate that the result's limit applies to, with its unit.

    A limit is one of operations or of bytes; its fraction identifies the rate.
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
