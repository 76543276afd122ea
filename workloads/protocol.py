"""The messages between a front end and the runner, one JSON line each (see ``workloads.wire``).

Sizes are bytes, times seconds, rates per second. A field that may be absent is ``None``, and the
``unavailable`` map beside it holds the reason under the field's dotted path.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Union

from workloads.fact import fact

VERSION = 1
"""Raised when a message changes in a way that an older peer would misread."""

Setting = Union[bool, int, float, str]
"""A value of a parameter or of a flag."""

Budget = Literal["quick", "normal", "careful"]
Status = Literal["ok", "failed", "skipped", "cancelled"]
Verdict = Literal["faster", "slower", "same", "unclear"]
Phase = Literal["preparing", "first call", "warm-up", "measuring", "checking", "figures"]


# ---- what there is -----------------------------------------------------------------------------


@fact
class ParameterInfo:
    """One parameter of a workload: its default and what it may be set to."""

    name: str
    default: Setting
    about: str
    choices: tuple[Setting, ...] = ()
    minimum: int | None = None
    maximum: int | None = None


@fact
class WorkloadInfo:
    """What can be said of a workload without torch."""

    name: str
    group: str
    title: str
    about: str
    look_for: str
    parameters: tuple[ParameterInfo, ...]
    devices: tuple[str, ...]
    """Device types it runs on: cpu, cuda, mps."""
    code: str = ""
    """The lines that are timed, read from the source; empty before they are read."""


@fact
class FlagInfo:
    """A switch of a torch backend."""

    name: str
    """As on the command line: ``cudnn.benchmark``."""
    title: str
    about: str
    device_types: tuple[str, ...]
    fresh_process: bool
    """Takes effect only in a process that has not run the operation yet."""
    default: bool
    unavailable: str | None
    """Why it has no effect here; ``None`` where it has."""


@fact
class TorchDevice:
    """A device as torch numbers it."""

    id: str
    """``cuda:0``, ``mps`` or ``cpu``."""
    name: str
    uuid: str | None = None
    """NVML's form, ``GPU-…``, so that the two can be paired."""
    pci_bus_id: str | None = None
    total_memory: int | None = None
    capability: str | None = None
    multi_processors: int | None = None
    clock_hz: float | None = None
    """The highest clock of the multiprocessors."""
    l2_bytes: int | None = None


@fact
class Environment:
    """What a figure depends on besides the device: the runner's Python, torch and threads."""

    python: str
    executable: str
    torch: str
    cuda: str | None
    cudnn: str | None
    cpu: str
    cpus_usable: int
    threads: int
    interop_threads: int
    malloc: str
    variables: dict[str, str]
    """Environment variables that change timings, as found set."""
    devices: tuple[TorchDevice, ...]
    flags: tuple[FlagInfo, ...]
    unavailable: dict[str, str] = field(default_factory=dict)


# ---- results -----------------------------------------------------------------------------------


@fact
class Timing:
    """Seconds per call; the statistics are taken over blocks of calls, never over single calls."""

    median_s: float
    q1_s: float
    q3_s: float
    min_s: float
    p95_s: float | None
    """Of single calls timed one by one; ``None`` where fewer than twenty were."""
    ci95_s: tuple[float, float] | None
    """95 % interval of the median by order statistics; needs six blocks."""
    blocks: int
    calls: int
    first_call_s: float
    first_call_cold: bool
    """The workload had not run in this process before: the first call loads and searches."""
    stopped_by: str
    clock: Literal["device", "wall"]
    wall_median_s: float
    device_median_s: float | None
    enqueue_s: float | None
    """Host time to launch one call without waiting for it."""
    faults_per_call: float | None
    """Minor page faults of this process per timed call; on the CPU they can be most of the time."""
    other_cpu_cores: float | None
    """Cores of those we may use that other processes kept busy meanwhile."""
    block_times_s: tuple[float, ...]
    measured_from: float
    """Unix time of the first block, so that samples of the device can be laid beside it."""
    measured_to: float


@fact
class Rates:
    flop_per_s: float | None
    byte_per_s: float | None
    item_per_s: float | None


@fact
class Limit:
    """What a rate is held against."""

    name: str
    value: float
    fraction: float
    """Measured rate over the limit: 1.0 is the limit itself."""
    source: str


@fact
class PeakMemory:
    """Highest values during the run, bytes; the allocator's are exact."""

    allocated_peak: int | None
    reserved_peak: int | None
    process_peak: int | None


@fact
class Figure:
    """A further number or fact of a workload."""

    value: float | str | None
    unit: str = ""
    about: str = ""


@fact
class Check:
    """The result held against a reference."""

    passed: bool
    error: float | None
    """``None`` for a result that is not a number, which does not pass."""
    tolerance: float
    against: str


@fact
class RunResult:
    """What one run of one workload on one device gave."""

    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flags: dict[str, bool]
    status: Status
    reason: str | None = None
    time: Timing | None = None
    rates: Rates = Rates(None, None, None)
    limit: Limit | None = None
    memory: PeakMemory = PeakMemory(None, None, None)
    figures: dict[str, Figure] = field(default_factory=dict)
    check: Check | None = None
    started_at: float | None = None
    """Unix time, so that samples of the device can be laid beside the run."""
    ended_at: float | None = None
    warnings: tuple[str, ...] = ()
    trace: str | None = None
    unavailable: dict[str, str] = field(default_factory=dict)


@fact
class Arm:
    """One of the two settings that are compared; medians over the pairs so far."""

    setting: bool
    median_s: float | None
    first_call_s: float | None


@fact
class Comparison:
    """Two settings of a flag; ``ratio`` is time A / time B: above 1, B is faster."""

    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flag: str
    arms: tuple[Arm, Arm]
    ratio: float | None
    ci95: tuple[float, float] | None
    pairs: int
    pairs_wanted: int
    verdict: Verdict
    break_even_calls: float | None
    fresh_process: bool
    pair_ratios: tuple[float, ...] = ()
    status: Status = "ok"
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    unavailable: dict[str, str] = field(default_factory=dict)


# ---- requests: front end to runner -------------------------------------------------------------


@fact
class Run:
    id: str
    workload: str
    device: str
    parameters: dict[str, Setting]
    flags: dict[str, bool]
    budget: Budget = "normal"
    time_only: bool = False
    """Neither check the result nor read further figures."""


@fact
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


@fact
class Cancel:
    """End one run or comparison, or with an empty id all of them; what was measured is kept."""

    id: str = ""


@fact
class EmptyCache:
    device: str


@fact
class ResetPeaks:
    device: str


# ---- events: runner to front end ---------------------------------------------------------------


@fact
class Hello:
    """The first line: sent before torch is imported, with the catalogue, which needs no torch."""

    version: int
    pid: int
    python: str
    executable: str
    workloads: tuple[WorkloadInfo, ...]


@fact
class Ready:
    """torch is imported and the devices are known."""

    environment: Environment
    import_s: float


@fact
class Unusable:
    """torch cannot be used in this Python; nothing can be run."""

    reason: str
    advice: str
    detail: str = ""


@fact
class WorkerStarted:
    """A process that runs workloads and holds their memory."""

    pid: int


@fact
class WorkerEnded:
    pid: int
    reason: str
    expected: bool


@fact
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


@fact
class Measured:
    """A run's time is taken; what is still to come are its check and its figures."""

    result: RunResult


@fact
class Finished:
    result: RunResult
    worker_usable: bool = True
    """``False`` where a device error has left the process with nothing to run on."""


@fact
class Compared:
    """A comparison so far; ``done`` when no more pairs come."""

    comparison: Comparison
    done: bool
    worker_usable: bool = True


@fact
class TorchMemory:
    """One GPU's figures of the caching allocator, bytes, in the words of ``memory_stats``."""

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
    ooms: int
    device_free: int | None = None
    device_total: int | None = None


@fact
class HostHeap:
    """The C library's heap in the worker, bytes: what CPU tensors are allocated from."""

    pid: int
    at: float
    in_use: int | None
    cached: int | None
    """Freed, but kept for the next allocation; an upper bound of what trimming returns."""
    unavailable: dict[str, str] = field(default_factory=dict)


@fact
class Emptied:
    """The cache was returned: bytes that left the reserved (GPU) or resident (CPU) figure."""

    device: str
    freed: int


@fact
class Heartbeat:
    at: float
    busy_with: str | None


@fact
class Rejected:
    """A request that could not be taken or was given up, by its id."""

    id: str
    reason: str
    status: Status = "failed"


Request = Union[Run, Compare, Cancel, EmptyCache, ResetPeaks]
REQUESTS = (Run, Compare, Cancel, EmptyCache, ResetPeaks)

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
    Heartbeat,
    Rejected,
]
EVENTS = (
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
    Heartbeat,
    Rejected,
)
