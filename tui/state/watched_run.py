"""A run under the watch, as far as it is known at one moment: what its page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tui.watch.agents import AgentState
from tui.watch.findings import Finding
from tui.watch.growth import Growth
from tui.watch.left import Left
from tui.watch.messages import TorchProcess
from tui.watch.pairing import Placed
from tui.watch.runs import Run
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

MarkKind = Literal["OOM", "snapshot", "cache flush"]


@frozen
class StepPoint:
    """What one device of a process held at one moment, in bytes."""

    at: float
    """Unix time."""
    step: int | None
    """Steps of all optimizers until then; ``None`` where no agent has told any."""
    allocated: int
    reserved: int


@frozen
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


@frozen
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
    left: Left | None
    """What its agent has written down: OOMs, snapshots, how it ended."""
    steps: int | None
    steps_per_s: float | None
    """Over the last seconds; ``None`` before two readings, and while no agent answers."""
    growth: Growth | None
    """Of allocated, in bytes per ``growth_per``."""
    growth_per: Literal["step", "s"]
    why_no_growth: str
    ended: str
    """How it has ended; empty while it goes on."""
    findings: tuple[Finding, ...] = ()
    """What its figures tell over time, a sentence each; a leak with its rate comes first."""


@frozen
class WatchedRun:
    """The run, its processes and its output."""

    run: Run
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
