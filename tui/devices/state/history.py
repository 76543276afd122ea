"""The recent history of each device, the age limit of figures, and the sort order by history."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tui.devices.state.devices import CPU, DeviceView
from tui.monitor.messages import Sample, find_process
from workloads.protocol.messages import TorchMemory

MOST_POINTS = 900
"""The most points stored per device: 15 minutes at one sample a second."""
LATE_S = 2.0
"""Seconds that a sample may be late, as on a busy machine, before its figures count as old."""
USUAL_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """Bytes at one moment; ``None`` for an unknown figure."""

    at: float
    used: int | None = None
    """Bytes used on the device, by NVML, or by torch without NVML; for the CPU, on the host."""
    process: int | None = None
    """Bytes of our worker, by NVML; for the CPU, the worker's resident memory."""
    allocated: int | None = None
    reserved: int | None = None
    covers_s: float = field(default=USUAL_INTERVAL_S + LATE_S, kw_only=True)
    """The most seconds to the next point, or from the last, for the time between to be no gap."""


@dataclass(frozen=True, slots=True)
class Point(MemoryPoint):
    """Memory, load, power and temperature of a device at one moment."""

    utilization: float | None = None
    """Percent of the time in which the device was busy; for the CPU, over all its cores."""
    power: float | None = None
    """Watts."""
    temperature: float | None = None
    """Degrees Celsius."""
    traffic: float | None = None
    """Bytes per second over the PCIe link, in the direction with more; read of one device."""


class History:
    """One ring of :class:`Point` per device key, and the highest sampled values."""

    def __init__(self) -> None:
        self._rings: dict[str, deque[Point]] = {}
        self._peaks: dict[str, MemoryPoint] = {}
        self._torch: dict[str, TorchMemory] = {}

    def points(self, key: str) -> Sequence[Point]:
        """Return a device's points, oldest first, at most :data:`MOST_POINTS`."""
        return self._rings.get(key, ())

    def points_since(self, key: str, at: float) -> list[Point]:
        """Return a device's points since a Unix time, oldest first."""
        points = list(itertools.takewhile(lambda point: point.at >= at, reversed(self.points(key))))
        return points[::-1]

    def sampled_peak(self, key: str) -> MemoryPoint:
        """Return the highest sample of each figure since the last reset, a lower bound."""
        return self._peaks.get(key, MemoryPoint(0.0))

    def reset_peak(self, key: str) -> None:
        """Reset the sampled peaks of one device."""
        self._peaks.pop(key, None)

    def apply_torch(self, event: TorchMemory, devices: tuple[DeviceView, ...]) -> None:
        """Store the allocator's figures for the next sample of the device."""
        for view in devices:
            if view.torch == event.device:
                self._torch[view.key] = event

    def apply_sample(
        self, sample: Sample, devices: tuple[DeviceView, ...], worker_pid: int | None
    ) -> None:
        """Add one point to every device."""
        for view in devices:
            point = self._point(view, sample, worker_pid)
            ring = self._rings.setdefault(view.key, deque(maxlen=MOST_POINTS))
            ring.append(point)
            self._peaks[view.key] = merge_peaks(self._peaks.get(view.key), point)

    def _point(self, view: DeviceView, sample: Sample, worker_pid: int | None) -> Point:
        if view.key == CPU:
            resident = [item.resident for item in sample.watched if item.pid == worker_pid]
            host = sample.host
            return Point(
                sample.at,
                covers_s=_compute_cover(sample),
                used=host.memory.total - host.memory.available,
                process=next(iter(resident), None),
                utilization=host.cpu.load_percent,
            )
        used = process = utilization = power = temperature = traffic = None
        device = view.nvml
        # While the driver does not answer, a sample repeats older figures, which are no new point.
        if device and not (sample.nvml_silent_s and device.read_at < sample.at - sample.interval_s):
            row = None if worker_pid is None else find_process(device, worker_pid)
            memory = device.memory
            # The bar of a device that shares the host's memory shows the host's memory.
            used = sample.host.memory.used if memory.unified else memory.used
            process = row.memory if row else None
            utilization, power = device.utilization.gpu, device.power_w
            temperature, traffic = device.temperature_c, _compute_traffic(sample, view.key)
        torch = self._torch.get(view.key)
        if torch is None or torch.pid != worker_pid:
            allocated = reserved = None
        else:
            allocated, reserved = torch.allocated, torch.reserved
            total, free = torch.device_total, torch.device_free
            if device is None and total is not None and free is not None:
                used = total - free
        return Point(
            *(sample.at, used, process, allocated, reserved),
            *(utilization, power, temperature, traffic),
            covers_s=_compute_cover(sample),
        )


def _compute_cover(sample: Sample) -> float:
    """Return the most seconds between two samples without a gap.

    Samples are due at multiples of their interval. So the first two are up to one and a half
    intervals apart.
    """
    return sample.interval_s / 2 + stale_after(sample)


def _compute_traffic(sample: Sample, key: str) -> float | None:
    traffic = sample.traffic
    if traffic is None or traffic.id != key:
        return None
    return max(
        (rate for rate in (traffic.sent, traffic.received) if rate is not None), default=None
    )


def merge_peaks(peak: MemoryPoint | None, point: MemoryPoint) -> MemoryPoint:
    """Return the maximum of each figure, with the time of the second point."""
    if peak is None:
        return point
    return MemoryPoint(
        point.at,
        _higher(peak.used, point.used),
        _higher(peak.process, point.process),
        _higher(peak.allocated, point.allocated),
        _higher(peak.reserved, point.reserved),
    )


def _higher(first: int | None, other: int | None) -> int | None:
    # Without ``max``, which would take most of the time: a sample has a dozen figures of each GPU.
    if other is None or (first is not None and first >= other):
        return first
    return other


def stale_after(sample: Sample | None) -> float:
    """Return the seconds after which figures count as old on the screen.

    Args:
        sample: the monitor's newest, which contains the interval between samples; ``None`` before
            the first.
    """
    if sample is None:
        return USUAL_INTERVAL_S + LATE_S
    return max(sample.interval_s, sample.took_s) + LATE_S


Order = Literal["index", "load", "memory", "heat"]
ORDERS: tuple[Order, ...] = ("index", "load", "memory", "heat")
MEAN_S = 10.0
"""The most seconds over which the mean of a figure is computed."""
MARGINS: Mapping[Order, float] = {"load": 10.0, "memory": 2.0, "heat": 3.0}
"""A row moves up only once its mean exceeds that of the row above by more than this: percentage
points of load and memory, degrees Celsius of heat."""


def compute_sort_value(view: DeviceView, points: Sequence[Point], order: Order) -> float | None:
    """Return the sort figure of a device: the mean of some readings, or ``None``.

    Args:
        view: the device.
        points: with these readings, of :func:`mean_since`.
        order: percent of load, percent of memory in use, or degrees Celsius.
    """
    total = view.nvml.memory.total if view.nvml else None
    values: list[float] = []
    for point in points:
        value = point.temperature if order == "heat" else point.utilization
        if order == "memory":
            value = 100 * point.used / total if point.used is not None and total else None
        if value is not None:
            values.append(value)
    return sum(values) / len(values) if values else None


def mean_since(newest: float, sorted_at: float) -> float:
    """Return the Unix time from which readings count for the order.

    When the user asks for an order, only the newest readings count, which are those on the screen;
    later ones join them, so that a brief change moves no row.

    Args:
        newest: Unix time of the newest sample.
        sorted_at: Unix time of the sample that was the newest when the user asked.
    """
    return min(newest, max(newest - MEAN_S, sorted_at))


def sort_with_hysteresis(
    before: Sequence[str], figures: Mapping[str, float | None], margin: float
) -> tuple[str, ...]:
    """Sort the keys from the highest figure down; keep the order while figures are close.

    Args:
        before: the displayed order; new keys are sorted in from the end.
        figures: by key; their order decides between equal figures and between missing ones.
        margin: amount by which a key must exceed the key above it to pass it.
    """
    order = [key for key in before if key in figures]
    order += [key for key in figures if key not in order]
    moved = True
    while moved:
        moved = False
        for index in range(len(order) - 1):
            above, below = figures[order[index]], figures[order[index + 1]]
            passes = below is not None and (above is None or below > above + margin)
            if passes:
                order[index], order[index + 1] = order[index + 1], order[index]
                moved = True
    return tuple(order)


def sort_devices(
    views: Sequence[DeviceView],
    figures: Mapping[str, float | None],
    before: Sequence[str],
    order: Order,
) -> tuple[str, ...]:
    """Return the keys of the devices in the requested order, the CPU last.

    Args:
        views: the devices in the driver's order.
        figures: of :func:`compute_sort_value`, by key.
        before: the displayed order; empty if the user has just changed the sort order.
        order: the sort order.
    """
    gpus = {view.key: figures.get(view.key) for view in views if view.key != CPU}
    last = [view.key for view in views if view.key == CPU]
    if order == "index":
        return (*gpus, *last)
    return (*sort_with_hysteresis(before, gpus, MARGINS[order] if before else 0.0), *last)
