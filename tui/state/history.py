"""What each device did over the last minutes: a point for each sample of the monitor."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from tui.monitor.messages import Sample, process_of
from tui.state.pairing import CPU, DeviceView
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

MOST_POINTS = 900
"""Points that are kept of each device: a quarter of an hour at one sample a second."""


@frozen
class MemoryPoint:
    """Bytes at one moment; ``None`` where a figure was not known then."""

    at: float
    used: int | None = None
    """The device's, by NVML, or by torch where there is no NVML; on the CPU the host's."""
    process: int | None = None
    """Ours, by NVML; on the CPU the worker's resident memory."""
    allocated: int | None = None
    reserved: int | None = None


@frozen
class Point(MemoryPoint):
    """Memory, and how busy and how hot the device was."""

    utilization: float | None = None
    """Percent of the time in which it was busy; of the CPU, of all its cores."""
    power: float | None = None
    """Watts."""
    temperature: float | None = None
    """Degrees Celsius."""


class History:
    """One ring of :class:`Point` per device key, and the highest sampled values."""

    def __init__(self) -> None:
        self._rings: dict[str, deque[Point]] = {}
        self._peaks: dict[str, MemoryPoint] = {}
        self._torch: dict[str, TorchMemory] = {}

    def points(self, key: str) -> Sequence[Point]:
        """Oldest first, at most :data:`MOST_POINTS` of them."""
        return self._rings.get(key, ())

    def since(self, key: str, at: float) -> list[Point]:
        """Those from a Unix time on, oldest first."""
        found = list(itertools.takewhile(lambda point: point.at >= at, reversed(self.points(key))))
        return found[::-1]

    def sampled_peak(self, key: str) -> MemoryPoint:
        """The highest value of each figure since the last reset; sampled, so a floor."""
        return self._peaks.get(key, MemoryPoint(0.0))

    def reset_peak(self, key: str) -> None:
        """Start the sampled peaks of one device anew."""
        self._peaks.pop(key, None)

    def take_torch(self, event: TorchMemory, devices: tuple[DeviceView, ...]) -> None:
        """Remember the allocator's figures for the next sample of the device."""
        for view in devices:
            if view.torch == event.device:
                self._torch[view.key] = event

    def take_sample(
        self, sample: Sample, devices: tuple[DeviceView, ...], worker_pid: int | None
    ) -> None:
        """Add one point to every device."""
        for view in devices:
            point = self._point(view, sample, worker_pid)
            ring = self._rings.setdefault(view.key, deque(maxlen=MOST_POINTS))
            ring.append(point)
            self._peaks[view.key] = higher(self._peaks.get(view.key), point)

    def _point(self, view: DeviceView, sample: Sample, worker_pid: int | None) -> Point:
        if view.key == CPU:
            ours = [item.resident for item in sample.watched if item.pid == worker_pid]
            host = sample.host
            return Point(
                sample.at,
                used=host.memory.total - host.memory.available,
                process=next(iter(ours), None),
                utilization=host.cpu.load_percent,
            )
        point = Point(sample.at)
        device = view.nvml
        # While the driver is silent, a sample repeats figures that were read before: no news.
        if device and not (sample.nvml_silent_s and device.read_at < sample.at - sample.interval_s):
            row = process_of(device, worker_pid)
            memory = device.memory
            # Where the device shares the host's memory, that is what its bar shows.
            used = sample.host.memory.used if memory.unified else memory.used
            point = replace(
                point,
                used=used,
                process=row.memory if row else None,
                utilization=device.utilization.gpu,
                power=device.power_w,
                temperature=device.temperature_c,
            )
        torch = self._torch.get(view.key)
        if torch is not None and torch.pid == worker_pid:
            point = replace(point, allocated=torch.allocated, reserved=torch.reserved)
            total, free = torch.device_total, torch.device_free
            if view.nvml is None and total is not None and free is not None:
                point = replace(point, used=total - free)
        return point


def higher(peak: MemoryPoint | None, point: MemoryPoint) -> MemoryPoint:
    """The higher of each figure, at the time of the second."""
    if peak is None:
        return point

    def top(a: int | None, b: int | None) -> int | None:
        return max((x for x in (a, b) if x is not None), default=None)

    return MemoryPoint(
        point.at,
        top(peak.used, point.used),
        top(peak.process, point.process),
        top(peak.allocated, point.allocated),
        top(peak.reserved, point.reserved),
    )
