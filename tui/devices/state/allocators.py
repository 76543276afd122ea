"""What torch's allocators hold in processes of this machine, as the watch reads it from outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tui.core.events import WatchStatus
from tui.devices.allocators.findings import Finding, Track
from tui.devices.allocators.messages import (
    Placed,
    ProcessFigures,
    TorchProcess,
    TorchProcesses,
    WatchHello,
    is_same,
    placed_on,
)
from tui.devices.monitor.messages import Device, Sample
from tui.devices.state.devices import ConsistentReading, ConsistentReadings, DeviceView
from tui.devices.state.history import MOST_POINTS, MemoryPoint, merge_peaks
from workloads.protocol.messages import TorchMemory

POINT_S = 1.0
"""Readings that are nearer to each other than that are one point of the history, the highest."""
MOST_ENDED = 16
"""Devices of processes that have ended whose last figures are kept, to be looked at."""
OLD_S = 3.0
"""Figures are old after that; unless they are looked at they are read every two seconds."""

Key = tuple[int, float | None, str]
"""PID, start and the process's own name of the device."""
_UNPLACED = Placed(None, None, "NVML has not been read yet", "NVML has not been read yet")


class Allocator:
    """That of one device of one process, over time."""

    def __init__(self, process: TorchProcess, figures: TorchMemory) -> None:
        self.process = process
        self.figures = figures
        """The newest."""
        self.placed = _UNPLACED
        """Which GPU it is of."""
        self.ended = ""
        """Why there will be no more figures; empty while there may be."""
        self.points: deque[MemoryPoint] = deque(maxlen=MOST_POINTS)
        """Oldest first."""
        self.peak = MemoryPoint(0.0)
        """The highest of each figure that was seen."""
        self._moments = ConsistentReadings()
        self._track = Track()

    @property
    def key(self) -> Key:
        return self.process.pid, self.process.start, self.figures.device

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the figures tell over time."""
        return self._track.findings()

    def take(self, figures: TorchMemory) -> None:
        """Apply the next reading."""
        self.figures = figures
        self._moments.apply_torch(figures)
        self._track.add(figures)
        held = self.placed.process
        point = MemoryPoint(figures.at, None, held, figures.allocated, figures.reserved)
        self.peak = merge_peaks(self.peak, point)
        if self.points and figures.at - self.points[-1].at < POINT_S:
            last = self.points.pop()
            point = replace(merge_peaks(last, point), at=last.at)
        self.points.append(point)

    def place(self, placed: Placed) -> None:
        """Say which GPU it is of; that stays so if NVML no longer lists the process there."""
        known = self.placed.id
        self.placed = placed if placed.id or known is None else replace(placed, id=known)

    def apply_sample(self, sample: Sample) -> None:
        """Apply a reading of NVML."""
        self._moments.apply_sample(sample)

    def moment(self, view: DeviceView, now: float) -> ConsistentReading:
        """Return the newest figures of NVML and torch that may be subtracted from each other.

        Args:
            view: the device that it is placed on.
            now: Unix time.
        """
        return self._moments.find_for_process(view, self.figures.device, self.process.pid, now)

    def is_continued_by(self, figures: TorchMemory) -> bool:
        """Return whether they are of the same program: what it ever reserved does not fall."""
        before, after = self.figures.reserved_taken, figures.reserved_taken
        return before is None or after is None or after >= before


class Allocators:
    """All that are read, and what is known of each process."""

    def __init__(self) -> None:
        self.status = WatchStatus("starting")
        self.processes: tuple[TorchProcess, ...] = ()
        self._known: dict[Key, Allocator] = {}
        self._devices: tuple[Device, ...] = ()

    # ---- change ----

    def apply(self, event: object) -> bool:
        """Take in what the watch said, or how it is; whether that changed what is shown.

        Raises:
            TypeError: it is nothing of the watch.
        """
        if isinstance(event, WatchStatus):
            self.status = event
        elif isinstance(event, WatchHello):
            self.status = WatchStatus("ready")
        elif isinstance(event, TorchProcesses):
            self._apply_processes(event)
        elif isinstance(event, ProcessFigures):
            return self._apply_figures(event)
        else:
            raise TypeError(f"nothing of the watch: {type(event).__name__}")
        return True

    def _apply_processes(self, event: TorchProcesses) -> None:
        before = {(each.pid, each.start): each for each in self.processes}
        self.processes = event.processes
        now = {(each.pid, each.start): each for each in event.processes}
        for key, known in list(self._known.items()):
            told = now.get(key[:2])
            if told is None:
                known.ended = known.ended or "the process has ended"
            elif told.command != before.get(key[:2], told).command:
                # The kernel lets a process keep its number and its start when it runs another.
                known.ended = "the process runs another program"
                del self._known[key]
            else:
                known.process, known.ended = told, ""
        ended = [key for key, known in self._known.items() if known.ended]
        for key in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._known[key]
        self._place(event.processes)

    def _apply_figures(self, event: ProcessFigures) -> bool:
        self.status = WatchStatus("ready")
        told = {each.pid: each for each in self.processes}
        changed, new = False, False
        for figures in event.devices:
            process = told.get(figures.pid)
            if process is None:
                continue  # it has ended since
            key = process.pid, process.start, figures.device
            known = self._known.get(key)
            if known is not None and not known.is_continued_by(figures):
                known.ended = "its counts began anew"
                known = None
            if known is None:
                known = self._known[key] = Allocator(process, figures)
                changed = new = True
            before = known.figures
            fresh = figures.at - before.at > OLD_S
            changed = changed or fresh or replace(before, at=figures.at) != figures
            known.take(figures)
        if new:
            self._place(told.values())
        return changed

    def apply_sample(self, sample: Sample) -> None:
        """Apply a reading of NVML: the device and the memory of each process."""
        self._devices = sample.devices
        for known in self._known.values():
            if not known.ended:
                known.apply_sample(sample)
        self._place(self.processes)

    def _place(self, processes: Iterable[TorchProcess]) -> None:
        for process in processes:
            own = [each for each in self.read() if each.process is process and not each.ended]
            if own:
                placed = placed_on(process, [each.figures for each in own], self._devices)
                for each in own:
                    each.place(placed[each.figures.device])

    # ---- look ----

    def read(self) -> Sequence[Allocator]:
        """All that have been read, those of ended processes among them."""
        return list(self._known.values())

    def find(self, key: Key) -> Allocator | None:
        """Return the allocator of one device of one process."""
        return self._known.get(key)

    def on(self, device: str, pid: int | None, started_at: float | None) -> Allocator | None:
        """Return the allocator of a process on a device, by NVML's id of the device."""
        return next(
            (
                each
                for each in self._known.values()
                if each.process.pid == pid
                and each.placed.id == device
                and not each.ended
                and is_same(each.process.start, started_at)
            ),
            None,
        )

    def process(self, pid: int | None, started_at: float | None) -> TorchProcess | None:
        """Return the facts of a process; ``None`` where torch is not known to be loaded."""
        return next(
            (
                each
                for each in self.processes
                if each.pid == pid and is_same(each.start, started_at)
            ),
            None,
        )

    @property
    def listed(self) -> bool:
        """Whether NVML lists any process that is here."""
        return any(
            row.started_at is not None for device in self._devices for row in device.processes or ()
        )
