"""Time a block of calls on one kind of device.

The loop is that of ``torch.utils.benchmark``: the host's ``perf_counter``, the device synchronized
before and after, and the garbage collector off, as in ``timeit``. Where the device has timed
events, an event pair reads its own time as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, Protocol

import torch

from workloads.measure.collector import collector_off


@dataclass(frozen=True, slots=True)
class TimedBlock:
    """Seconds that a block of calls took, all calls together."""

    wall_s: float
    """Of the whole block, with what ran between the calls of :class:`Flushed`."""
    device_s: float | None
    """Seconds by the device's own events; ``None`` where it has none."""
    enqueue_s: float
    """Seconds until the last call returned, without waiting for the device."""
    calls_s: float | None = None
    """Seconds of the calls alone by the host's clock, where something else ran between them."""

    def seconds(self, clock: Literal["device", "wall"]) -> float:
        """Return the seconds of the calls by a clock; the host's where the device has none."""
        if clock == "device" and self.device_s is not None:
            return self.device_s
        return self.wall_s if self.calls_s is None else self.calls_s


@dataclass(frozen=True, slots=True)
class Flushed:
    """A call, and what runs before each timed call of it, outside its time.

    Each call is timed alone: on a CUDA device by a pair of events, between which a few microseconds
    may pass beside the call's own work. The flush is queued before them, so that the device is busy
    while the host launches the call, as in nvbench (``nvbench/detail/measure_cold.cuh``).
    """

    call: Callable[[], object]
    flush: Callable[[], object]

    def __call__(self) -> object:
        self.flush()
        return self.call()


class Clock(Protocol):
    """Times blocks on one device."""

    def synchronize(self) -> None:
        """Wait until the device has finished all queued work."""

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls: back to back, or each after its flush (:class:`Flushed`)."""


def _loop(call: Callable[[], object], calls: int) -> None:
    for _ in itertools.repeat(None, calls):
        call()


def _block_one_by_one(flushed: Flushed, calls: int, synchronize: Callable[[], None]) -> TimedBlock:
    """Time each call by the host's clock, after its flush; wait for both."""
    seconds = 0.0
    with collector_off():
        start = perf_counter()
        for _ in itertools.repeat(None, calls):
            flushed.flush()
            synchronize()
            began = perf_counter()
            flushed.call()
            synchronize()
            seconds += perf_counter() - began
        wall = perf_counter() - start
    return TimedBlock(wall, None, wall, seconds)


class HostClock:
    """The clock of the CPU, where a call is finished when it returns."""

    def synchronize(self) -> None:
        """Do nothing: the CPU has no queue to wait for."""

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls."""
        if isinstance(call, Flushed):
            return _block_one_by_one(call, calls, self.synchronize)
        with collector_off():
            start = perf_counter()
            _loop(call, calls)
            wall = perf_counter() - start
        return TimedBlock(wall, None, wall)


class CudaClock:
    """The clock of a CUDA device: stream events beside the synchronized host clock."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def synchronize(self) -> None:
        """Wait for this device, whether or not it is the current one."""
        torch.cuda.synchronize(self._device)

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls."""
        if isinstance(call, Flushed):
            return self._block_of_pairs(call, calls)
        first = torch.cuda.Event(enable_timing=True)
        last = torch.cuda.Event(enable_timing=True)
        with collector_off():
            self.synchronize()
            start = perf_counter()
            first.record()
            _loop(call, calls)
            last.record()
            enqueue = perf_counter() - start
            self.synchronize()
            wall = perf_counter() - start
        return TimedBlock(wall, first.elapsed_time(last) / 1e3, enqueue)

    def _block_of_pairs(self, flushed: Flushed, calls: int) -> TimedBlock:
        """Time each call by its own pair of events, after its flush."""
        pairs = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(calls)
        ]
        with collector_off():
            self.synchronize()
            start = perf_counter()
            for first, last in pairs:
                flushed.flush()
                first.record()
                flushed.call()
                last.record()
            enqueue = perf_counter() - start
            self.synchronize()
            wall = perf_counter() - start
        device = sum(first.elapsed_time(last) for first, last in pairs) / 1e3
        return TimedBlock(wall, device, enqueue, device)


class MpsClock:
    """The clock of Apple's GPU: the synchronized host clock."""

    def synchronize(self) -> None:
        """Wait for the GPU."""
        torch.mps.synchronize()

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls."""
        if isinstance(call, Flushed):
            return _block_one_by_one(call, calls, self.synchronize)
        with collector_off():
            self.synchronize()
            start = perf_counter()
            _loop(call, calls)
            enqueue = perf_counter() - start
            self.synchronize()
            wall = perf_counter() - start
        return TimedBlock(wall, None, enqueue)


def clock_for(device: torch.device) -> Clock:
    """Return the clock of a device.

    Raises:
        ValueError: no clock exists for this type of device.
    """
    if device.type == "cuda":
        return CudaClock(device)
    if device.type == "mps":
        return MpsClock()
    if device.type == "cpu":
        return HostClock()
    raise ValueError(f"no clock for {device.type} devices: cpu, cuda or mps")
