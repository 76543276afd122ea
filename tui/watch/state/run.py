"""A watched run and the devices of its processes, as its page shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tui.allocators.agents import AgentState
from tui.allocators.findings import Finding
from tui.allocators.growth import GrowthRate
from tui.allocators.messages import Placed, TorchProcess
from tui.devices.state.resident_memory import ResidentPoint
from tui.devices.state.watched_processes import Allocator, StepPoint
from tui.snapshots.explain.evidence import Holder
from tui.watch.runs.ooms import Oom
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.rehearsals import RehearsalNote
from tui.watch.runs.runs import StartedRun
from workloads.protocol.messages import TorchMemory

MarkKind = Literal["OOM", "snapshot", "cache flush"]


@dataclass(frozen=True, slots=True)
class Mark:
    """An event at one moment on a process's device."""

    at: float
    """Unix time."""
    step: int | None
    kind: MarkKind
    text: str
    """The event in one line."""
    snapshot: Path | None = None
    """The file written at that moment."""


@dataclass(frozen=True, slots=True)
class GpuOccupancy:
    """A GPU and all processes with memory on it, as NVML listed them."""

    total: int | None
    """Total bytes."""
    free: int | None
    """Free bytes."""
    holders: tuple[Holder, ...]

    def others(self, pid: int) -> tuple[Holder, ...]:
        """Return the GPU's processes except the one with this pid."""
        return tuple(holder for holder in self.holders if holder.pid != pid)


def find_total(gpu: GpuOccupancy | None, placed: Placed | None) -> int | None:
    """Return NVML's total bytes of a GPU, as it is sampled or as a stored run has it."""
    if gpu is not None:
        return gpu.total
    return None if placed is None else placed.total


CONTEXT = 1 << 30
"""Upper bound in bytes of a CUDA context with its libraries: a GPU that refuses one has less free.
"""


def full_gpu(gpus: Iterable[GpuOccupancy]) -> GpuOccupancy | None:
    """Return the GPU whose driver refused memory: the only GPU, or the only one without room.

    Return ``None`` if several GPUs or none qualify.
    """
    full = list(gpus)
    if len(full) > 1:
        full = [gpu for gpu in full if gpu.free is not None and gpu.free < CONTEXT]
    return full[0] if len(full) == 1 else None


@dataclass(frozen=True, slots=True)
class WatchedDevice:
    """One device of one process of the run; a process without devices has one without a name."""

    process: TorchProcess
    device: str
    """The process's own name of the device, such as ``cuda:0``; empty if it has used none."""
    figures: TorchMemory | None
    """The newest figures; ``None`` if ``process.reason`` is set."""
    placed: Placed
    """The GPU of the device."""
    points: tuple[StepPoint, ...]
    """Points, oldest first."""
    marks: tuple[Mark, ...]
    """Marks, oldest first."""
    agent: AgentState | None
    why_no_agent: str
    """The reason for a missing agent, a short sentence with advice; empty if an agent answers."""
    log: ProcessLog | None
    """Its agent's log: OOMs, snapshots, the end of the process."""
    steps: int | None
    steps_per_s: float | None
    """Step rate over the last seconds; ``None`` before two readings or without an agent."""
    stalled_s: float | None
    """Seconds since the last step if a step takes far less time, else ``None``."""
    growth: GrowthRate | None
    """Growth of allocated memory, in bytes per ``growth_per``."""
    growth_per: Literal["step", "s"]
    why_no_growth: str
    ended: str
    """The end of the process in words; empty while it runs."""
    at_oom: Oom | None = None
    """The OOM that ended the process on this device; its figures replace later readings."""
    findings: tuple[Finding, ...] = ()
    """Findings over time, one sentence each; a leak with its rate comes first."""
    holders: tuple[Holder, ...] = ()
    """Other processes on its GPU when NVML last listed this one."""
    gpu: GpuOccupancy | None = None
    """The GPU of the device; ``None`` if it is not identified, or was not sampled."""
    full_gpu: GpuOccupancy | None = None
    """The machine's only GPU without room, for a process that NVML lists on no GPU."""
    host_rss: int | None = None
    """The process's resident bytes of host memory; ``None`` without a reading."""
    host_points: tuple[ResidentPoint, ...] = ()
    """Its host memory since its first reading, oldest first."""
    host_peak: int | None = None
    """Its most resident bytes at any reading; ``None`` without a reading."""
    host_growth: GrowthRate | None = None
    """Growth of its host memory, in bytes per second; ``None`` after too short a time."""
    host_available: int | None = field(default=None, compare=False)
    """Available bytes of the host's memory; ``None`` without a reading."""
    allocator: Allocator | None = field(default=None, compare=False)
    """Its allocator over time, which later readings change; ``None`` without a reading. It is left
    out of comparisons, since its newest figures are in the fields above."""

    @property
    def last_oom(self) -> Oom | None:
        """The newest OOM on the device, whether or not the program continued."""
        ooms = find_ooms(self.log, self.device)
        return ooms[-1] if ooms else None


def find_ooms(log: ProcessLog | None, device: str) -> list[Oom]:
    """Return the OOMs of a process on a device, oldest first; on all devices without a name."""
    return [oom for oom in log.ooms if device in ("", f"cuda:{oom.device}")] if log else []


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """The run, its processes and its output."""

    run: StartedRun
    devices: tuple[WatchedDevice, ...]
    """Devices, by rank, then pid, then device."""
    output: tuple[str, ...]
    """The last lines of its output, cleaned for the screen."""
    replayed: bool
    """The samples come from the run's folder alone: it has ended or ran on another machine."""
    over: bool = False
    """The run has ended, with or without a record of its end."""
    frozen_at: float | None = None
    """Unix time at which the user froze its figures; ``None`` while they follow the run."""
    why_no_samples: str = ""
    """The reason for missing new figures; empty while they come, and once the run has ended."""
    snapshots: tuple[Path, ...] = ()
    """All snapshots of its processes, newest first."""
    rehearsal: RehearsalNote | None = None
    """On which simulated cards it runs, and the verdict; ``None`` if it is no rehearsal."""
    notes: tuple[str, ...] = ()
    """Other remarks, one per line, such as unreadable files and failures of an agent."""
