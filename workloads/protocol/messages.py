"""The messages between a front end and the runner, and the result of a run that sent none.

A JSON line each (``workloads.protocol.wire``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Union, get_args

from workloads.protocol.results import (
    Ceiling,
    Comparison,
    Environment,
    Figure,
    RunResult,
    Setting,
    Status,
    WorkloadInfo,
)

VERSION = 1
"""Raised when a message changes in a way that an older peer would misread."""

Budget = Literal["quick", "normal", "careful"]
Phase = Literal[
    "preparing",
    "first call",
    "warm-up",
    "measuring",
    "checking",
    "figures",
    "measuring the ceiling",
]


# ---- requests: front end to runner -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flags: dict[str, bool]
    budget: Budget = "normal"
    time_only: bool = False
    """Neither check the result nor read further figures."""


@dataclass(frozen=True, slots=True)
class Compare:
    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flag: str
    settings: tuple[bool, bool]
    flags: dict[str, bool]
    """The other flags, the same in both arms."""
    pairs: int | None = None
    budget: Budget = "normal"


@dataclass(frozen=True, slots=True)
class Cancel:
    """End one run or comparison, or with an empty id all of them; what was measured is kept."""

    id: str = ""


@dataclass(frozen=True, slots=True)
class EmptyCache:
    device: str


@dataclass(frozen=True, slots=True)
class ResetPeaks:
    device: str


@dataclass(frozen=True, slots=True)
class TellMemory:
    """Say what memory is held: as soon as a block ends, or at once where nothing runs."""


@dataclass(frozen=True, slots=True)
class KnownCeilings:
    """Ceilings that were measured earlier, under whichever conditions; nothing answers it."""

    ceilings: tuple[Ceiling, ...]


# ---- events: runner to front end ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The first line: sent before torch is imported, with the catalogue, which needs no torch."""

    version: int
    pid: int
    python: str
    executable: str
    workloads: tuple[WorkloadInfo, ...]
    problems: tuple[str, ...] = ()
    """What is wrong with the files that users brought: path, line, reason."""


@dataclass(frozen=True, slots=True)
class Ready:
    """torch is imported and the devices are known."""

    environment: Environment
    import_s: float


@dataclass(frozen=True, slots=True)
class Unusable:
    """torch cannot be used in this Python; nothing can be run."""

    reason: str
    advice: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A process that runs workloads and holds their memory."""

    pid: int


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    pid: int
    reason: str
    expected: bool


@dataclass(frozen=True, slots=True)
class Progress:
    id: str
    phase: Phase
    elapsed_s: float
    device: str
    blocks: int = 0
    estimate_s: float | None = None
    half_width: float | None = None
    """Half of the 95 % interval over the median; ``None`` before six blocks."""
    remaining_s: float | None = None
    """At most this long, by the budget."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A run's time is taken, and what its study has found so far; its end is still to come."""

    result: RunResult


@dataclass(frozen=True, slots=True)
class Finished:
    result: RunResult
    worker_usable: bool = True
    """``False`` where a device error has left the process with nothing to run on."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison so far; ``done`` when no more pairs come."""

    comparison: Comparison
    done: bool
    worker_usable: bool = True


@dataclass(frozen=True, slots=True)
class TorchMemory:
    """One GPU's figures of the caching allocator, bytes, in the words of ``memory_stats``.

    Those of requested, allocated and active are of tensors: without ``workspace``. What is
    reserved holds it.
    """

    device: str
    pid: int
    at: float
    requested: int
    allocated: int
    active: int
    reserved: int
    inactive_split: int
    allocated_peak: int
    reserved_peak: int
    alloc_retries: int
    """Since the last run began, as ``ooms``."""
    ooms: int
    device_free: int | None = None
    device_total: int | None = None
    pinned: int | None = None
    """Host memory that the process has pinned by torch's allocator, its cache counted in: the same
    in the messages of all its devices. ``None`` where this torch does not count it."""
    reserved_taken: int | None = None
    """All that was ever added to ``reserved``; with the next, it tells whether ``reserved`` moved
    between two moments at which it is the same."""
    reserved_given_back: int | None = None
    """All that was ever taken off ``reserved``."""
    workspace: int | None = None
    """What torch has given to cuBLAS out of what is reserved (``workloads.measure.memory``)."""


@dataclass(frozen=True, slots=True)
class HostHeap:
    """The C library's heap in the worker, bytes: what CPU tensors are allocated from."""

    pid: int
    at: float
    in_use: int | None
    cached: int | None
    """Freed, but kept for the next allocation; an upper bound of what trimming returns."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Emptied:
    """The cache was returned: bytes that left the reserved (GPU) or resident (CPU) figure."""

    device: str
    freed: int


@dataclass(frozen=True, slots=True)
class CeilingMeasured:
    """A ceiling of this box, to be kept for later runners."""

    ceiling: Ceiling


@dataclass(frozen=True, slots=True)
class Heartbeat:
    at: float
    busy_with: str | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A request that could not be taken or was given up, by its id."""

    id: str
    reason: str
    status: Status = "failed"


Request = Union[Run, Compare, Cancel, EmptyCache, ResetPeaks, TellMemory, KnownCeilings]
REQUESTS: tuple[type[Request], ...] = get_args(Request)

Event = Union[
    Hello,
    Ready,
    Unusable,
    WorkerStarted,
    WorkerEnded,
    Progress,
    Measured,
    Finished,
    Compared,
    TorchMemory,
    HostHeap,
    Emptied,
    CeilingMeasured,
    Heartbeat,
    Rejected,
]
EVENTS: tuple[type[Event], ...] = get_args(Event)


def make_empty_result(
    run: Run | RunResult, reason: str | None = None, status: Status = "failed"
) -> RunResult:
    """Return a result that says what was to be run and nothing else.

    Args:
        run: the request, or a result whose figures are not to be kept.
        reason: why there is nothing.
        status: of the result.
    """
    return RunResult(
        id=run.id,
        workload=run.workload,
        device=run.device,
        parameters=run.parameters,
        flags=run.flags,
        status=status,
        reason=reason,
    )


def ended_run(
    request: Run,
    latest: Progress | None,
    measured: RunResult | None,
    *,
    status: Status,
    reason: str,
    who: str = "it",
) -> RunResult:
    """Return the result of a run that ended early: what was measured, else the estimate so far.

    Args:
        request: of the run.
        latest: how far the run was; ``None`` where it had not begun.
        measured: what it told once its time was taken; ``None`` where it was not.
        status: of the result.
        reason: why the run ended.
        who: ended before the measurement did, for the reader.
    """
    if measured is not None:
        return replace(measured, status=status, reason=reason)
    figures = {}
    if latest is not None and latest.estimate_s is not None:
        about = f"of {latest.blocks} blocks, when it ended"
        figures["median_so_far"] = Figure(latest.estimate_s, "s", about)
    absent = {"time": f"{who} ended before the measurement did"}
    result = make_empty_result(request, reason, status)
    return replace(result, figures=figures, unavailable=absent)
