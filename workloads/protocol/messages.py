"""Messages between a front end and the runner, and results of runs that sent none.

Each message is a JSON line (``workloads.protocol.wire``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Union, get_args

from workloads.protocol.machine_identity import UNKNOWN, MachineIdentity
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
from workloads.protocol.torch_memory import TorchMemory as TorchMemory

VERSION = 1
"""Protocol version, raised when an older peer would misread a changed message."""

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
class Meeting:
    """The meeting place of the ranks of several hosts, as one host reaches it."""

    endpoint: str
    """HOST:PORT of the host that serves it."""
    serves: bool
    """This host is that one."""
    address: str
    """Address of this host that the others reach."""
    interface: str
    """Network interface with that address; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Run:
    """Request: run a workload on a device."""

    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flags: dict[str, bool]
    budget: Budget = "normal"
    time_only: bool = False
    """Skip the check of the result and the further figures."""
    meeting: Meeting | None = None
    """The meeting place of the ranks of several hosts; ``None`` for the parameters' place."""


@dataclass(frozen=True, slots=True)
class Compare:
    """Request: compare two settings of a flag with a workload on a device."""

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
    """End one run or comparison, or all with an empty id; their measurements remain."""

    id: str = ""


@dataclass(frozen=True, slots=True)
class EmptyCache:
    """Request: return the cache of torch's allocator on a device to the driver."""

    device: str


@dataclass(frozen=True, slots=True)
class ResetPeaks:
    """Request: reset the peaks of torch's counters on a device."""

    device: str


@dataclass(frozen=True, slots=True)
class ReportMemory:
    """Report the memory in use: after the current block, or at once while nothing runs."""

    WIRE_TAG: ClassVar[str] = "tell_memory"


@dataclass(frozen=True, slots=True)
class KnownCeilings:
    """Ceilings measured earlier, under any conditions; the runner sends no answer."""

    ceilings: tuple[Ceiling, ...]


# ---- events: runner to front end ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello:
    """The first line, with the catalogue: sent before torch is imported."""

    version: int
    pid: int
    python: str
    executable: str
    workloads: tuple[WorkloadInfo, ...]
    problems: tuple[str, ...] = ()
    """Errors in the users' files: path, line, reason."""


@dataclass(frozen=True, slots=True)
class Ready:
    """torch is imported and the devices are known."""

    environment: Environment
    import_s: float
    identity: MachineIdentity = UNKNOWN
    """What tells the machine from others."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """This Python cannot use torch, so nothing can run."""

    reason: str
    advice: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """The start of a process that runs workloads and owns their memory."""

    pid: int


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker has ended, and why."""

    pid: int
    reason: str
    expected: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run or a comparison is."""

    id: str
    phase: Phase
    elapsed_s: float
    device: str
    blocks: int = 0
    estimate_s: float | None = None
    half_width: float | None = None
    """Half of the 95% interval over the median; ``None`` before six blocks."""
    remaining_s: float | None = None
    """Upper bound, from the budget."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A run's time and its study's present findings; the run has not ended."""

    result: RunResult


@dataclass(frozen=True, slots=True)
class Finished:
    """A run has ended, with its result."""

    result: RunResult
    worker_usable: bool = True
    """``False`` where a device error has made the process unusable."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The present state of a comparison; ``done`` means that no more pairs follow."""

    comparison: Comparison
    done: bool
    worker_usable: bool = True


@dataclass(frozen=True, slots=True)
class HostHeap:
    """The C library's heap in the worker, bytes; CPU tensors are allocated from it."""

    pid: int
    at: float
    in_use: int | None
    cached: int | None
    """Freed, but kept for the next allocation; an upper bound of what trimming returns."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Emptied:
    """The cache was emptied; bytes by which reserved (GPU) or resident (CPU) memory fell."""

    device: str
    freed: int


@dataclass(frozen=True, slots=True)
class CeilingMeasured:
    """A new ceiling of this machine, to store for later runners."""

    ceiling: Ceiling


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The runner answers while it is busy; ``at`` is a Unix time."""

    at: float
    busy_with: str | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A request, by its id, that the runner rejected or gave up."""

    id: str
    reason: str
    status: Status = "failed"


Request = Union[Run, Compare, Cancel, EmptyCache, ResetPeaks, ReportMemory, KnownCeilings]
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
    """Return a result that contains only the request.

    Args:
        run: the request, or a result whose figures to drop.
        reason: why there are no figures.
        status: the result's status.
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
    """Return the result of a run that ended early: its measurements, or else its estimate.

    Args:
        request: the run's request.
        latest: the latest progress; ``None`` where the run had not begun.
        measured: the run's report of its time; ``None`` where it sent none.
        status: the result's status.
        reason: why the run ended.
        who: the process that ended before the measurement, for the reader.
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
