"""A run under the watch as its page shows it, and what was seen of one process of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tui.devices.allocators.findings import Finding, GrowthRate
from tui.devices.allocators.messages import Placed, TorchProcess
from tui.devices.state.watched_processes import Allocator, StepPoint
from tui.snapshots.explain.evidence import Holder
from tui.watch.runs.agents import AgentState
from tui.watch.runs.ooms import Oom
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun
from workloads.protocol.messages import TorchMemory

MarkKind = Literal["OOM", "snapshot", "cache flush"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment of a process's device."""

    at: float
    """Unix time."""
    step: int | None
    kind: MarkKind
    text: str
    """What there is to say of it in a line."""
    snapshot: Path | None = None
    """The file that was written then."""


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """A GPU and all processes that hold memory of it, as NVML has listed them."""

    total: int | None
    """Bytes."""
    free: int | None
    """Bytes."""
    holders: tuple[Holder, ...]

    def others(self, pid: int) -> tuple[Holder, ...]:
        """Return the processes on it but one."""
        return tuple(each for each in self.holders if each.pid != pid)


CONTEXT = 1 << 30
"""Bytes that a context of CUDA with its libraries stays below: less is free where it is refused."""


def full_gpu(gpus: Iterable[SeenGpu]) -> SeenGpu | None:
    """Return the GPU whose driver has refused: the only one, or the only one without room.

    ``None`` where that leaves several or none.
    """
    found = list(gpus)
    if len(found) > 1:
        found = [each for each in found if each.free is not None and each.free < CONTEXT]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class WatchedDevice:
    """One device of one process of the run; a process that has used none has one without a name."""

    process: TorchProcess
    device: str
    """The process's own name of it, such as ``cuda:0``; empty where it has used none."""
    figures: TorchMemory | None
    """The newest; ``None`` with ``process.reason``."""
    placed: Placed
    """Which GPU it is."""
    points: tuple[StepPoint, ...]
    """Oldest first."""
    marks: tuple[Mark, ...]
    """Oldest first."""
    agent: AgentState | None
    why_no_agent: str
    """In a short sentence with what would help; empty where there is one."""
    left: ProcessLog | None
    """What its agent has written down: OOMs, snapshots, how it ended."""
    steps: int | None
    steps_per_s: float | None
    """Over the last seconds; ``None`` before two readings, and while no agent answers."""
    stalled_s: float | None
    """Seconds without a step, where that is much longer than a step has taken."""
    growth: GrowthRate | None
    """Of allocated, in bytes per ``growth_per``."""
    growth_per: Literal["step", "s"]
    why_no_growth: str
    ended: str
    """How it has ended; empty while it goes on."""
    at_oom: Oom | None = None
    """The OOM that ended it on this device; its figures stand for those that were read after it."""
    findings: tuple[Finding, ...] = ()
    """What its figures tell over time, a sentence each; a leak with its rate comes first."""
    holders: tuple[Holder, ...] = ()
    """Other processes on its GPU, as NVML has listed them last beside it."""
    full_gpu: SeenGpu | None = None
    """The machine's only one without room, for a process that NVML lists on none."""
    host_rss: int | None = None
    """Bytes of the host's memory that the process has resident; ``None`` where none were read."""
    allocator: Allocator | None = None
    """Its allocator over time, which later readings change; ``None`` where none were read."""


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """The run, its processes and its output."""

    run: StartedRun
    devices: tuple[WatchedDevice, ...]
    """By rank, then pid, then device."""
    output: tuple[str, ...]
    """The last lines of its output, cleaned for the screen."""
    replayed: bool
    """Its samples are read from its folder alone: it has ended, or is of another machine."""
    over: bool = False
    """It has ended, whether or not anybody has seen how."""
    frozen_at: float | None = None
    """Unix time since which its figures are held still; ``None`` while they follow the run."""
    why_no_samples: str = ""
    """Why there are no new figures; empty while they come, and once the run has ended."""
    snapshots: tuple[Path, ...] = ()
    """All that its processes have written, the newest first."""
    notes: tuple[str, ...] = ()
    """What else there is to say, a line each: what cannot be read, what an agent could not do."""
