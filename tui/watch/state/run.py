"""A run under the watch as its page shows it, and what was seen of one process of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tui.core.text import numbers as text
from tui.devices.allocators.findings import Finding, GrowthPer, GrowthRate, Track
from tui.devices.allocators.messages import Placed, TorchProcess
from tui.snapshots.explain.evidence import Holder
from tui.watch.runs.agents import AgentState
from tui.watch.runs.ooms import Oom
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun
from workloads.protocol.messages import TorchMemory

MarkKind = Literal["OOM", "snapshot", "cache flush"]


@dataclass(frozen=True, slots=True)
class StepPoint:
    """What one device of a process held at one moment, in bytes."""

    at: float
    """Unix time."""
    step: int | None
    """Steps of all optimizers until then; ``None`` where no agent has told any."""
    allocated: int
    reserved: int


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


MOST_POINTS = 1200
"""Of a device; beyond, neighbours are joined, and the highest of each pair stays."""
MOST_FLUSHES = 200
"""Of a device that have a mark each, the newest."""
JUDGE_S = 1.0
"""Between two judgements on how the figures of a device grow, which take a millisecond or two."""
STALLED_S, STALLED_STEPS = 3.0, 4.0
"""So many seconds, and the time of so many steps, without one are told."""
RATE_S = 10.0
"""Over which steps a second are counted."""
UNPLACED = Placed(None, None, "NVML has not been read yet", "NVML has not been read yet")
NOT_DESCRIBED = "its description was not kept"


@dataclass(frozen=True, slots=True)
class Judged:
    """What the figures of a device tell over time."""

    at: float
    """Unix time of the newest of them."""
    growth: GrowthRate | None
    growth_per: GrowthPer
    findings: tuple[Finding, ...]


class SeenDevice:
    """One device of one process."""

    def __init__(self, figures: TorchMemory) -> None:
        self.figures = figures
        """The newest."""
        self.placed = UNPLACED
        self.holders: tuple[Holder, ...] = ()
        """Other processes on the GPU, as NVML has listed them last beside this one."""
        self.track = Track()
        self.points: list[StepPoint] = []
        self.flushes: deque[Mark] = deque(maxlen=MOST_FLUSHES)
        self._readings = 1
        """For each point."""
        self._left = 0
        self._judged: Judged | None = None

    def judged(self, *, anew: bool) -> Judged:
        """Return the findings of its figures, at most :data:`JUDGE_S` old; new at its end."""
        last = self._judged
        if last is None or anew or self.figures.at - last.at >= JUDGE_S:
            track = self.track
            last = Judged(
                self.figures.at, track.growth(), track.growth_per, track.findings(ended=anew)
            )
            self._judged = last
        return last

    def take(self, figures: TorchMemory, step: int | None) -> None:
        """Apply the next reading.

        Args:
            figures: what was read.
            step: steps that the process had told until then.
        """
        flushed = figures.alloc_retries - self.figures.alloc_retries
        if flushed > 0:
            said = f"the allocator flushed its cache {text.count(flushed, 'time')}"
            self.flushes.append(Mark(figures.at, step, "cache flush", said))
        self.figures = figures
        self.track.add(figures, step)
        point = StepPoint(figures.at, step, figures.allocated, figures.reserved)
        if self._left and self.points:
            self.points[-1] = _higher(self.points[-1], point)
            self._left -= 1
        else:
            self.points.append(point)
            self._left = self._readings - 1
        if len(self.points) > MOST_POINTS:
            pairs = zip(self.points[0::2], self.points[1::2], strict=False)
            odd = self.points[-1:] if len(self.points) % 2 else []
            self.points = [*(_higher(one, other) for one, other in pairs), *odd]
            self._readings, self._left = 2 * self._readings, 0


class SeenProcess:
    """One process."""

    def __init__(self, told: TorchProcess) -> None:
        self.told = told
        self.gone = False
        """It was there, and is not any more."""
        self.devices: dict[str, SeenDevice] = {}
        self.silent: dict[str, str] = {}
        """Why there are no figures of a device now, by its name."""
        self.listed: dict[str, tuple[int | None, str]] = {}
        """What NVML says that it holds, by the device's id."""
        self.host_rss: int | None = None
        """Bytes of the host's memory, as last seen."""
        self.steps: int | None = None
        """As its agent has told last."""
        self.steps_of: dict[str, int] = {}
        """The same of each program that it has executed, by its name."""
        self._told: deque[tuple[float, int]] = deque()
        self._stepped_at: float | None = None
        """Unix time at which the newest step was seen."""

    def apply_steps(self, at: float, steps: int, program: str = "") -> None:
        """Apply the agent's count of steps; each program that the process executes counts anew."""
        self.steps_of[program] = max(steps, self.steps_of.get(program, 0))
        before, self.steps = self.steps, sum(self.steps_of.values())
        if before is not None and self.steps > before:
            self._stepped_at = at
        self._told.append((at, self.steps))
        while len(self._told) > 2 and self._told[1][0] <= at - RATE_S:
            self._told.popleft()

    @property
    def steps_per_s(self) -> float | None:
        """Over the last :data:`RATE_S`; ``None`` before two readings."""
        if len(self._told) < 2 or self._told[-1][0] <= self._told[0][0]:
            return None
        (began, before), (at, now) = self._told[0], self._told[-1]
        return (now - before) / (at - began)

    @property
    def stalled_s(self) -> float | None:
        """Seconds without a step, where that is much longer than a step has taken; else ``None``.

        A rate over the last seconds would only fall slowly.
        """
        if self._stepped_at is None or not self._told:
            return None
        since = self._told[-1][0] - self._stepped_at
        rate = self.steps_per_s
        usual = 1 / rate if rate else 0.0
        return since if since >= max(STALLED_S, STALLED_STEPS * usual) else None

    @property
    def figures(self) -> tuple[TorchMemory, ...]:
        """The newest of each device."""
        return tuple(each.figures for each in self.devices.values())


def _higher(one: StepPoint, other: StepPoint) -> StepPoint:
    highest = max(one, other, key=lambda point: point.allocated)
    return replace(highest, reserved=max(one.reserved, other.reserved))
