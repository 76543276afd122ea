"""A study's measuring tools: short timings, interleaved variants, peaks, memory in use."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from workloads.declare.tools import Call, ClockName, MemoryInUse, entered
from workloads.limits import limit_lookup
from workloads.limits.ceilings import Ceilings
from workloads.measure import (
    cpu_peak,
    cpu_share,
    environment,
    estimates,
    malloc,
    memory,
    nvml,
    timing,
)
from workloads.measure.clocks import Clock
from workloads.measure.cpu_share import Others
from workloads.measure.timing import BLOCK_S, Control
from workloads.protocol.results import Ceiling, Limit

ROUNDS = 12
"""Enough rounds for the median's interval by order statistics (``estimates.MEDIAN_FROM``)."""
ROUNDS_S = 6.0
"""A comparison of slow variants ends after this time, with at least :data:`FEWEST` rounds."""
FEWEST = 5
"""With fewer rounds, under 95 of 100 comparisons find a true difference of 5%."""


class Bench:
    """A study's tools on one device.

    Args:
        device: where the workload runs.
        clock: of that device.
        control: receives the progress; may end the run.
        ceilings: stores the measured ones.
    """

    def __init__(
        self,
        device: torch.device,
        clock: Clock,
        control: Control,
        ceilings: Ceilings | None = None,
    ) -> None:
        self._device = device
        self._clock = clock
        self._control = control
        self._ceilings = ceilings or Ceilings()
        self._others = Others()

    def others(self) -> Others:
        """Return other processes' CPU use in the timings since the previous call."""
        others, self._others = self._others, Others()
        return others

    def watched(self) -> AbstractContextManager[None]:
        """Watch other processes while a study times something itself."""
        return cpu_share.watched(self._add_others)

    def _add_others(self, others: Others) -> None:
        self._others += others

    def check_cancelled(self) -> None:
        """Report progress, and end a cancelled run.

        Raises:
            Cancelled: the run must end.
        """
        self._control.report("figures")

    def time(self, call: Call, clock: ClockName) -> float:
        """Return the median seconds per call of a short measurement."""
        with entered(call) as inner, self.watched():
            measured, _ = timing.measure(inner, self._clock, clock, timing.SHORT, Control())
        return measured.median_s

    def rounds(self, calls: Sequence[Call], clock: ClockName) -> list[list[float]]:
        """Return seconds per call: a list per round, with a value per callable.

        Every second round runs in reverse order, so that aftereffects of a call affect all alike.
        """
        counts = [self._calls_per_block(call) for call in calls]
        rounds: list[list[float]] = []
        spent = 0.0
        while len(rounds) < ROUNDS and (spent < ROUNDS_S or len(rounds) < FEWEST):
            times = [0.0] * len(calls)
            places = list(range(len(calls)))
            for index in places if len(rounds) % 2 == 0 else reversed(places):
                self.check_cancelled()
                with entered(calls[index]) as inner, self.watched():
                    block = self._clock.block(inner, counts[index])
                spent += block.wall_s
                times[index] = block.seconds(clock) / counts[index]
            rounds.append(times)
        return rounds

    def _calls_per_block(self, call: Call) -> int:
        with entered(call) as inner:
            timing.first_call(inner, self._clock)
            warm = timing.warm_up(inner, self._clock, timing.SHORT, Control())
        return max(1, round(BLOCK_S / 2 / max(warm, 1e-9)))

    def peak(self, call: Call) -> int | None:
        """Return the bytes that one call needs, at its peak, beyond those already held.

        Uses the allocator's own counter on CUDA, and the kernel's peak of resident memory on the
        CPU.
        """
        if self._device.type == "cpu":
            with malloc.map_each_block():
                call()
                gc.collect()
                return cpu_peak.peak_of_call(call)
        if self._device.type != "cuda":
            return None
        call()
        self._clock.synchronize()
        gc.collect()
        before = torch.cuda.memory_allocated(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        call()
        self._clock.synchronize()
        return max(0, int(torch.cuda.max_memory_allocated(self._device) - before))

    def ceiling(self, kind: str) -> Ceiling:
        """Measure a ceiling of this device, even a known one."""
        return limit_lookup.measure_ceiling(
            kind,
            self._device,
            self._clock,
            self._control,
            self._ceilings,
            seconds=limit_lookup.THOROUGH_S,
        )

    def limit(self, kind: str, rate: float) -> Limit | None:
        """Return the limit for a rate, if no measurement is needed for it."""
        query = limit_lookup.LimitQuery(kind, rate)
        return limit_lookup.find(query, self._device, self._ceilings)

    def memory_in_use(self) -> MemoryInUse:
        """Return the memory in use now."""
        self._clock.synchronize()
        if self._device.type == "cuda":
            return _read_cuda_memory(self._device)
        if self._device.type == "mps":
            allocated = int(torch.mps.current_allocated_memory())
            driver = int(torch.mps.driver_allocated_memory())
            absent = {"used": "MPS reports this process alone", "nvml": "no NVIDIA device"}
            return MemoryInUse(allocated, driver, None, None, absent)
        return _read_cpu_memory()


def _read_cuda_memory(device: torch.device) -> MemoryInUse:
    free, total = torch.cuda.mem_get_info(device)
    used: int | None = None
    absent = {}
    try:
        used = nvml.read_memory(environment.device(device).uuid).used
    except nvml.NvmlError as error:
        absent["nvml"] = f"NVML: {error}"
    return MemoryInUse(
        memory.allocated(device),
        int(torch.cuda.memory_reserved(device)),
        int(total - free),
        used,
        absent,
    )


def _read_cpu_memory() -> MemoryInUse:
    heap = malloc.heap()
    absent = {"nvml": "the CPU's memory is not NVML's"}
    resident = memory.resident()
    if heap is None:
        reason = "this C library does not report its heap"
        absent |= {"allocated": reason, "reserved": reason}
    if resident is None:
        absent["used"] = "no /proc/self/status here"
    return MemoryInUse(
        heap.in_use if heap else None,
        heap.in_use + heap.cached if heap else None,
        resident,
        None,
        absent,
    )


assert estimates.MEDIAN_FROM <= ROUNDS
