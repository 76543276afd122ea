"""Time a block of calls on one kind of device.

The loop is that of ``torch.utils.benchmark``: the host's ``perf_counter``, the device synchronized
before and after, the garbage collector off. Where the device has timed events, an event pair reads
its own time as well.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class TimedBlock:
    """Seconds that a block of calls took, all calls together."""

    wall_s: float
    device_s: float | None
    """Seconds by the device's own events; ``None`` where it has none."""
    enqueue_s: float
    """Seconds until the last call returned, without waiting for the device."""


class Clock(Protocol):
    """Times blocks on one device."""

    def synchronize(self) -> None:
        """Wait until the device has finished all queued work."""

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls back to back."""


def _loop(call: Callable[[], object], calls: int) -> None:
    for _ in itertools.repeat(None, calls):
        call()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector out of the timed region, as ``timeit`` does."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class HostClock:
    """The clock of the CPU, where a call is finished when it returns."""

    def synchronize(self) -> None:
        """Do nothing: the CPU has no queue to wait for."""

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls back to back."""
        with _no_collection():
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
        """Time ``calls`` calls back to back."""
        first = torch.cuda.Event(enable_timing=True)
        last = torch.cuda.Event(enable_timing=True)
        with _no_collection():
            self.synchronize()
            start = perf_counter()
            first.record()
            _loop(call, calls)
            last.record()
            enqueue = perf_counter() - start
            self.synchronize()
            wall = perf_counter() - start
        return TimedBlock(wall, first.elapsed_time(last) / 1e3, enqueue)


class MpsClock:
    """The clock of Apple's GPU: the synchronized host clock."""

    def synchronize(self) -> None:
        """Wait for the GPU."""
        torch.mps.synchronize()

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        """Time ``calls`` calls back to back."""
        with _no_collection():
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
