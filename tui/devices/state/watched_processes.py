"""PyTorch processes and the memory of their allocators over time, read from outside."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tui.allocators.findings import Finding, GrowthPer, Track
from tui.allocators.growth import GrowthRate
from tui.allocators.messages import (
    NO_TORCH,
    DevicesPlaced,
    Placed,
    ProcessFigures,
    StepsCounted,
    TorchProcess,
    TorchProcesses,
    WatchHello,
    is_same,
    listed_in,
    place_listed,
    rows_by_pid,
    undescribed,
)
from tui.core.events import WatchStatus
from tui.core.merged_points import MergedPoints
from tui.devices.state.devices import ConsistentReading, ConsistentReadings, DeviceView
from tui.devices.state.history import MOST_POINTS as MOST_RECENT
from tui.devices.state.history import MemoryPoint, merge_peaks
from tui.devices.state.resident_memory import ResidentMemory
from tui.monitor.messages import Device, GpuProcess, Sample
from workloads.protocol.messages import TorchMemory

POINT_S = 1.0
"""Readings closer together than this share one point of the recent history, the highest."""
MOST_POINTS = 1200
"""The most points of an allocator's whole life; beyond, neighbors merge into their maximum."""
MOST_FLUSHES = 200
"""The most cache flushes stored for each allocator; the oldest go first."""
MOST_ENDED = 16
"""Maximum number of ended processes' allocators whose last figures are stored."""
MOST_SEEN = 5000
"""The most processes, and the most allocators of all processes together."""
OLD_S = 3.0
"""Age in seconds at which figures count as old; in the background, readings are two seconds
apart."""
TREND_S = 1.0
"""Seconds between two computations of a trend, which take a millisecond or two."""
GROWS_S = 5.0
"""Seconds between two checks if an allocator of a job grows, which is seen over a minute."""
STALLED_S, STALLED_STEPS = 3.0, 4.0
"""A process counts as stalled after this many seconds, and the time of this many steps, without a
step."""
RATE_S = 10.0
"""Seconds over which the step rate is computed."""

Key = tuple[int, float | None, str]
"""PID, start time, and the process's own name of the device."""
NOT_DESCRIBED = "its description was not stored"
UNPLACED = Placed(None, None, "NVML has not been read yet", "NVML has not been read yet")


@dataclass(frozen=True, slots=True)
class StepPoint:
    """Memory of one device of a process at one moment, in bytes."""

    at: float
    """Unix time."""
    step: int | None
    """Steps of all optimizers until then; ``None`` before an agent's first report."""
    allocated: int
    reserved: int


@dataclass(frozen=True, slots=True)
class CacheFlush:
    """Cache flushes of an allocator between two readings, without those of OOMs."""

    at: float
    """Unix time."""
    step: int | None
    count: int


class Trend(NamedTuple):
    """Growth of an allocator and the findings over its life."""

    at: float
    """Unix time of the newest reading."""
    growth: GrowthRate | None
    growth_per: GrowthPer
    findings: tuple[Finding, ...]
    ended: bool = False
    """It is that of an ended process."""


class Allocator:
    """The caching allocator of one device of one process, over time."""

    def __init__(self, process: TorchProcess, figures: TorchMemory) -> None:
        self.process = process
        self.figures = figures
        """The newest reading."""
        self.placed = UNPLACED
        """The GPU of the device."""
        self.neighbours: tuple[GpuProcess, ...] = ()
        """Other processes on the GPU when NVML last listed this one."""
        self.ended = ""
        """The reason that no more figures come; empty while they may come."""
        self.track = Track()
        self.recent: deque[MemoryPoint] = deque(maxlen=MOST_RECENT)
        """Points of the last 15 minutes, oldest first."""
        self._life = MergedPoints(MOST_POINTS, _higher_step)
        self.flushes: deque[CacheFlush] = deque(maxlen=MOST_FLUSHES)
        self.peak = MemoryPoint(0.0)
        """The maximum of each figure."""
        self._readings = ConsistentReadings()
        self._trend: Trend | None = None
        self._grows: tuple[float, bool] | None = None
        """Unix time of the reading at which it was found whether it grows, and the answer."""

    @property
    def key(self) -> Key:
        return self.process.pid, self.process.start, self.figures.device

    @property
    def points(self) -> Sequence[StepPoint]:
        """Points of the allocator's whole life, oldest first."""
        return self._life.points

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings over the allocator's life."""
        return self.track.findings()

    def trend(self, *, ended: bool) -> Trend:
        """Return the trend, at most :data:`TREND_S` old; recompute it after the process has ended.

        Args:
            ended: the process has ended.
        """
        last, newest = self._trend, self.figures.at
        # An ended process has the same readings for good, and is drawn with each of the others.
        if (
            last is None
            or ended != last.ended
            or (ended and newest != last.at)
            or newest - last.at >= TREND_S
        ):
            track = self.track.before_end() if ended else self.track
            findings = track.findings(ended=ended)
            last = Trend(newest, track.growth(), track.growth_per, findings, ended)
            self._trend = last
        return last

    @property
    def grows(self) -> bool:
        """True if its memory grows over its life, as it was at most :data:`GROWS_S` ago."""
        if self._grows is None or self.figures.at - self._grows[0] >= GROWS_S:
            self._grows = self.figures.at, self.track.growth_finding() is not None
        return self._grows[1]

    def apply(self, figures: TorchMemory, step: int | None = None) -> None:
        """Apply the next reading.

        Args:
            figures: the reading.
            step: the process's reported steps until then.
        """
        # Each OOM flushes the cache, too, and is an event of its own.
        ooms = max(0, figures.ooms - self.figures.ooms)
        flushed = figures.alloc_retries - self.figures.alloc_retries - ooms
        if flushed > 0:
            self.flushes.append(CacheFlush(figures.at, step, flushed))
        self.figures = figures
        self._readings.apply_torch(figures)
        self.track.add(figures, step)
        self._add_recent(figures)
        self._life.add(StepPoint(figures.at, step, figures.allocated, figures.reserved))

    def _add_recent(self, figures: TorchMemory) -> None:
        memory = self.placed.process
        point = MemoryPoint(figures.at, None, memory, figures.allocated, figures.reserved)
        self.peak = merge_peaks(self.peak, point)
        if self.recent and figures.at - self.recent[-1].at < POINT_S:
            last = self.recent.pop()
            point = replace(merge_peaks(last, point), at=last.at)
        self.recent.append(point)

    def place(self, placed: Placed) -> None:
        """Set the GPU; keep a known GPU if NVML no longer lists the process there."""
        known = self.placed.id
        self.placed = placed if placed.id or known is None else replace(placed, id=known)

    def apply_sample(self, sample: Sample) -> None:
        """Apply a reading of NVML."""
        self._readings.apply_sample(sample)

    def consistent_reading(self, view: DeviceView, now: float) -> ConsistentReading:
        """Return the newest figures of NVML and torch that may be subtracted from each other.

        Args:
            view: the device of the allocator.
            now: Unix time.
        """
        return self._readings.find_for_process(view, self.figures.device, self.process.pid, now)

    def copy(self) -> Allocator:
        """Return a copy that later readings do not change."""
        copied = copy.copy(self)
        copied.recent, copied._life = self.recent.copy(), self._life.copy()  # noqa: SLF001 (of the same class)
        copied.flushes, copied.track = self.flushes.copy(), copy.deepcopy(self.track)
        copied._readings = self._readings.copy()  # noqa: SLF001 (of the same class)
        return copied

    def is_continued_by(self, figures: TorchMemory) -> bool:
        """Return whether the same program sent both figures: ``reserved_allocated`` only rises."""
        before, after = self.figures.reserved_allocated, figures.reserved_allocated
        return before is None or after is None or after >= before


class TorchProcessState:
    """One PyTorch process: its description, its allocators and its steps."""

    def __init__(self, description: TorchProcess) -> None:
        self.description = description
        self.gone = False
        """The process existed and has ended."""
        self.devices: dict[str, Allocator] = {}
        """Allocators by the process's own name of the device."""
        self.silent: dict[str, str] = {}
        """Reasons for missing figures, by the device's name."""
        self.listed: dict[str, tuple[int | None, str]] = {}
        """NVML's memory of the process by the device's id: bytes, or the reason for their absence.
        """
        self.host = ResidentMemory()
        """Its host memory, in a watch that retains its processes."""
        self.steps: int | None = None
        """The steps in its agent's last report."""
        self.steps_of: dict[str, int] = {}
        """Steps of each program that the process has executed, by program name."""
        self._reported: deque[tuple[float, int]] = deque()
        self._stepped_at: float | None = None
        """Unix time of the newest step."""

    def apply_steps(self, at: float, steps: int, program: str = "") -> None:
        """Apply the agent's step count, which starts at 0 in each program of the process."""
        self.steps_of[program] = max(steps, self.steps_of.get(program, 0))
        before, self.steps = self.steps, sum(self.steps_of.values())
        if before is not None and self.steps > before:
            self._stepped_at = at
        self._reported.append((at, self.steps))
        while len(self._reported) > 2 and self._reported[1][0] <= at - RATE_S:
            self._reported.popleft()

    @property
    def steps_per_s(self) -> float | None:
        """Steps per second over the last :data:`RATE_S`; ``None`` before two readings."""
        if len(self._reported) < 2 or self._reported[-1][0] <= self._reported[0][0]:
            return None
        (began, before), (at, now) = self._reported[0], self._reported[-1]
        return (now - before) / (at - began)

    @property
    def stalled_s(self) -> float | None:
        """Seconds since the last step if a step takes far less time, else ``None``.

        A rate over the last seconds would only fall slowly.
        """
        if self._stepped_at is None or not self._reported:
            return None
        since = self._reported[-1][0] - self._stepped_at
        rate = self.steps_per_s
        usual = 1 / rate if rate else 0.0
        return since if since >= max(STALLED_S, STALLED_STEPS * usual) else None

    @property
    def figures(self) -> tuple[TorchMemory, ...]:
        """The newest figures of each device."""
        return tuple(device.figures for device in self.devices.values())

    def describe(self, description: TorchProcess) -> None:
        """Apply the newest description of the running process."""
        self.description = description
        for allocator in self.devices.values():
            allocator.process, allocator.ended = description, ""

    def end(self, reason: str) -> None:
        """Mark the process's allocators as ended; keep an earlier reason."""
        for allocator in self.devices.values():
            allocator.ended = allocator.ended or reason


class WatchedProcesses:
    """All PyTorch processes of a watch, built from the events of the watch and the monitor.

    Args:
        retains: drop no process, continue an allocator when its process executes another program,
            and let a device keep its known GPU, as the page of a run needs it. Otherwise, only the
            newest :data:`MOST_ENDED` allocators of ended processes stay.
    """

    def __init__(self, *, retains: bool = False) -> None:
        self._retains = retains
        self.status = WatchStatus("starting")
        self.processes: tuple[TorchProcess, ...] = ()
        """The processes in the watch's last list."""
        self.seen: dict[tuple[int, float | None], TorchProcessState] = {}
        """Processes by pid and start, in the order of their first listing."""
        self._newest: dict[int, TorchProcessState] = {}
        """Processes by pid; of two processes with the same pid, the later."""
        self._allocator_count = 0
        self._sample: Sample | None = None
        self._newly_placed: dict[str, Placed] = {}
        """Changes since the last sample, under ``<pid> cuda:<ordinal>``."""

    # ---- events ----

    def apply(self, event: object) -> bool:
        """Apply an event of the watch; return whether it changed anything on the screen.

        Raises:
            TypeError: the event does not come from the watch.
        """
        if isinstance(event, WatchStatus):
            self.status = event
        elif isinstance(event, WatchHello):
            self.status = WatchStatus("ready")
        elif isinstance(event, TorchProcesses):
            self._apply_processes(event)
        elif isinstance(event, ProcessFigures):
            return self._apply_figures(event)
        elif isinstance(event, StepsCounted):
            return self._apply_steps(event)
        else:
            raise TypeError(f"no event of the watch: {type(event).__name__}")
        return True

    def _apply_processes(self, event: TorchProcesses) -> None:
        self.processes = event.processes
        present = set()
        for description in event.processes:
            if description.start is None and description.refused:
                continue  # requested by its pid, but no such process
            present.add(description.pid)
            process = self._newest.get(description.pid)
            start = None if process is None else process.description.start
            if process is None or not (start is None or is_same(start, description.start)):
                self._add(description)
            else:
                self._describe(process, description)
        for pid, process in self._newest.items():
            process.gone = pid not in present
            if process.gone:
                process.end("the process has ended")
        self._forget_ended()
        self._place()

    def _apply_steps(self, event: StepsCounted) -> bool:
        """Apply the steps by pid; return whether a process has made one, or has stopped."""
        changed = False
        for pid, steps in event.steps.items():
            process = self._newest.get(parse_pid(pid))
            if process is not None and not process.gone:
                before = process.steps, process.stalled_s is None
                process.apply_steps(event.at, steps)
                changed = changed or before != (process.steps, process.stalled_s is None)
        return changed

    def _add(self, description: TorchProcess) -> TorchProcessState | None:
        """Add a process; return ``None`` if there are :data:`MOST_SEEN` already."""
        if len(self.seen) >= MOST_SEEN:
            return None
        earlier = self._newest.get(description.pid)
        if earlier is not None:
            earlier.gone = True
            earlier.end("the process has ended")
        process = self._newest[description.pid] = TorchProcessState(description)
        self.seen[description.pid, description.start] = process
        return process

    def _describe(self, process: TorchProcessState, description: TorchProcess) -> None:
        """Apply the newest description of a process."""
        if self._retains:
            if description.reason == NO_TORCH and process.devices:
                return  # the process is about to end: its rank and its torch are unreadable
        elif description.command != process.description.command:
            # A process keeps its pid and its start when it executes another program.
            process.end("the process runs another program")
            self._allocator_count -= len(process.devices)
            process.devices.clear()
        process.describe(description)

    def _forget_ended(self) -> None:
        """Drop ended processes except those of the newest :data:`MOST_ENDED` allocators."""
        if self._retains:
            return
        ended = [
            (process, name)
            for process in self.seen.values()
            for name, allocator in process.devices.items()
            if allocator.ended
        ]
        for process, name in ended[: max(0, len(ended) - MOST_ENDED)]:
            del process.devices[name]
            self._allocator_count -= 1
        for key, process in list(self.seen.items()):
            if process.gone and not process.devices:
                del self.seen[key]
                if self._newest.get(key[0]) is process:
                    del self._newest[key[0]]

    def _apply_figures(self, event: ProcessFigures) -> bool:
        self.status = WatchStatus("ready")
        self._apply_host(event)
        changed = added = False
        for figures in event.devices:
            process = self._find_reported(figures.pid)
            if process is None:
                continue
            known = self._continued(process, figures)
            if known is None:
                if self._allocator_count >= MOST_SEEN:
                    continue
                known = self._add_allocator(process, figures)
                changed = added = True
            before = known.figures
            is_fresh = figures.at - before.at > OLD_S
            changed = changed or is_fresh or replace(before, at=figures.at) != figures
            known.apply(figures, process.steps)
        if added:
            self._place()
        return changed

    def _apply_host(self, event: ProcessFigures) -> None:
        """Apply the host memory and the reasons for missing figures."""
        for process in self._newest.values():
            process.silent = {}
        for name, why in event.unavailable.items():
            pid, _, device = name.partition(" ")
            silent = self._newest.get(parse_pid(pid))
            if silent is not None:
                silent.silent[device] = why
        for pid, resident in event.host_rss.items():
            holder = self._newest.get(parse_pid(pid))
            if holder is not None and self._retains:
                holder.host.apply(event.at, resident)

    def _add_allocator(self, process: TorchProcessState, figures: TorchMemory) -> Allocator:
        self._allocator_count += 1
        allocator = Allocator(process.description, figures)
        if self._sample is not None:
            allocator.apply_sample(self._sample)
        process.devices[figures.device] = allocator
        return allocator

    def _find_reported(self, pid: int) -> TorchProcessState | None:
        """Return the process of the figures, or ``None`` if the figures must not be used."""
        process = self._newest.get(pid)
        if self._retains:
            return self._add(undescribed(pid, NOT_DESCRIBED)) if process is None else process
        return None if process is None or process.gone else process

    def _continued(self, process: TorchProcessState, figures: TorchMemory) -> Allocator | None:
        """Return the allocator that the figures continue; ``None`` for a new allocator."""
        known = process.devices.get(figures.device)
        if known is None or self._retains or known.is_continued_by(figures):
            return known
        known.ended = "its counts began anew"
        del process.devices[figures.device]
        self._allocator_count -= 1
        return None

    def apply_sample(self, sample: Sample) -> DevicesPlaced | None:
        """Apply a reading of NVML: the device and the memory of each process.

        Returns:
            The changes since the last sample.
        """
        self._sample = sample
        for allocator in self.allocators():
            if not allocator.ended:
                allocator.apply_sample(sample)
        self._place()
        changed, self._newly_placed = self._newly_placed, {}
        return DevicesPlaced(sample.at, changed) if changed else None

    def _place(self) -> None:
        """Find the GPU of each device of each running process."""
        if self._sample is None:
            return
        devices = self._sample.devices
        # Once for all processes: eight ranks on eight GPUs are 64 pairs to look through.
        by_pid, by_device = rows_by_pid(devices), rows_by_device(devices)
        for pid, process in self._newest.items():
            if process.gone or not process.devices:
                continue
            process.listed = listed_in(process.description, by_pid.get(pid, {}))
            places = self._find_places(process, devices)
            for name, placed in places.items():
                allocator = process.devices[name]
                before = allocator.placed
                # A run's device keeps its GPU: NVML has stopped reporting, or its process ends.
                if not self._retains or placed.id is not None or before.id is None:
                    allocator.place(placed)
                if placed.id is not None:
                    allocator.neighbours = tuple(
                        row for row in by_device.get(placed.id, ()) if row.pid != pid
                    )
                if allocator.placed != before:
                    self._newly_placed[f"{pid} {name}"] = allocator.placed

    def _find_places(
        self, process: TorchProcessState, devices: Sequence[Device]
    ) -> dict[str, Placed]:
        """Find the GPU of each of a process's devices, by the process's own name of the device."""
        return place_listed(process.description, process.figures, devices, process.listed)

    # ---- queries ----

    def allocators(self) -> Sequence[Allocator]:
        """Return all allocators, including ended processes'."""
        return [device for process in self.seen.values() for device in process.devices.values()]

    def find(self, key: Key) -> Allocator | None:
        """Return the allocator of one device of one process."""
        return next((allocator for allocator in self.allocators() if allocator.key == key), None)

    def on(self, device: str, pid: int | None, started_at: float | None) -> Allocator | None:
        """Return the allocator of a process on a device, by NVML's id of the device."""
        process = None if pid is None else self._newest.get(pid)
        if process is None or not is_same(process.description.start, started_at):
            return None
        for figures in process.devices.values():
            if figures.placed.id == device and not figures.ended:
                return figures
        return None

    def process(self, pid: int | None, started_at: float | None) -> TorchProcess | None:
        """Return the description of a process; ``None`` if it is not known to use torch."""
        return next(
            (
                process
                for process in self.processes
                if process.pid == pid and is_same(process.start, started_at)
            ),
            None,
        )

    @property
    def listed(self) -> bool:
        """NVML lists a process with a known start."""
        devices = () if self._sample is None else self._sample.devices
        return any(
            row.started_at is not None for device in devices for row in device.processes or ()
        )


def rows_by_device(devices: Iterable[Device]) -> dict[str, tuple[GpuProcess, ...]]:
    """Return the processes that NVML lists with memory on each GPU, by NVML's id of the GPU."""
    return {
        device.id: tuple(row for row in device.processes or () if row.memory) for device in devices
    }


def parse_pid(digits: str) -> int:
    """Parse a pid; return 0, the pid of no process, for anything else."""
    return int(digits) if digits.isdecimal() and len(digits) <= 10 else 0


def _higher_step(first: StepPoint, other: StepPoint) -> StepPoint:
    highest = max(first, other, key=lambda point: point.allocated)
    return replace(highest, reserved=max(first.reserved, other.reserved))
