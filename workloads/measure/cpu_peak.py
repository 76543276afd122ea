"""What a workload takes of the CPU's memory at its highest, by one call apart from the timing.

Torch counts nothing on the CPU, and the resident memory of a run that is timed is more than its
tensors take: what is freed stays in the heap, which keeps its pages for the next call, and loses
the places of some (:mod:`workloads.measure.malloc`). So what the tensors hold is counted, and what
a call takes on top is measured by one that is made while each larger block is mapped by itself and
given back when it is freed. That call comes after the first, which imports, loads libraries and
makes what an optimizer keeps, and before the timing.
"""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Callable
from dataclasses import replace

import torch

from workloads.measure import malloc, memory
from workloads.measure.clocks import Clock
from workloads.measure.timing import Control, first_call
from workloads.protocol.results import PeakMemory

PATH = "memory.allocated_peak"
LEAST_SHARE = 0.1
"""Of a peak that the kernel's count may lack; where it may lack more, the peak is not known."""
NOT_TOLD = "what one call takes of the CPU's memory is told with glibc and /proc, and not of ranks"


def resolution() -> int:
    """Bytes by which the kernel's count of a process's resident memory may be too low.

    Since Linux 6.2 it is a ``percpu_counter``: each processor counts up to ``max(32, 2 x
    processors)`` pages before it adds them to what ``/proc`` shows (``mm_counter`` in
    include/linux/mm.h, ``percpu_counter_batch`` in lib/percpu_counter.c).
    """
    processors = os.cpu_count() or 1
    return max(32, 2 * processors) * processors * mmap.PAGESIZE


def count_tensor_bytes() -> int:
    """Bytes in the memory of all the CPU's tensors that Python can reach, and of their gradients.

    What several tensors share counts once. Like all figures of an allocator it holds what was asked
    for, used or not.
    """
    sizes: dict[int, int] = {}
    for found in gc.get_objects():
        # By its type: a proxy would answer ``isinstance`` for what it stands for, or fail to.
        if issubclass(type(found), torch.Tensor):
            sizes.update(_storage(found))
            if found.is_leaf and found.grad is not None:
                sizes.update(_storage(found.grad))
    return sum(sizes.values())


def _storage(tensor: torch.Tensor) -> dict[int, int]:
    """Address and size of a tensor's memory, where it has some of the CPU's."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return {}
    try:
        storage = tensor.untyped_storage()
        return {storage.data_ptr(): storage.nbytes()} if storage.device.type == "cpu" else {}
    except (RuntimeError, NotImplementedError):
        # A stand-in without memory, as compilers trace with.
        return {}


def peak_of_call(call: Callable[[], object]) -> int | None:
    """Bytes that one call takes on top of what is held before it; ``None`` where it is not told.

    By the kernel's highest resident memory, so pages of libraries that are touched for the first
    time count too: a call before it should be done. To be called under ``malloc.map_each_block``.
    """
    malloc.trim()
    resident = memory.resident()
    if resident is None or not memory.reset_peaks(torch.device("cpu")):
        return None
    call()
    highest = memory.highest_resident()
    return None if highest is None else max(0, highest - resident)


class FirstCalls:
    """Makes the first call, and one more on the CPU to see what it takes.

    Args:
        device: that the workload was prepared on.
        before: :func:`count_tensor_bytes` before it was prepared; ``None``: no call is to be made
            but the first.
        control: told that the first call is done; may end it.
    """

    def __init__(self, device: torch.device, before: int | None, control: Control) -> None:
        self._device = device
        self._before = before
        self._control = control
        self._highest = 0
        """Resident memory of the process, before its peak was reset for the one call."""
        self.peak: int | None = None
        """Bytes that the workload's tensors hold, and those that one call takes on top.

        Of the preparation what is left counts, and not its own highest moment. ``None``: not told.
        """
        self._why_no_peak = NOT_TOLD

    def __call__(self, call: Callable[[], object], clock: Clock) -> float:
        """Seconds of the first call."""
        if self._device.type != "cpu" or self._before is None:
            return first_call(call, clock)
        with malloc.map_each_block() as mapped:
            seconds = first_call(call, clock)
            self._control.report("first call", estimate_s=seconds)
            if mapped:
                self.peak = self._peak(lambda: clock.block(call, 1), self._before)
        return seconds

    def _peak(self, call: Callable[[], object], before: int) -> int | None:
        self._highest = memory.highest_resident() or 0
        held = count_tensor_bytes() - before
        on_top = peak_of_call(call)
        if on_top is None:
            return None
        peak, lacking = max(0, held) + on_top, resolution()
        if lacking > LEAST_SHARE * (peak + lacking):
            self._why_no_peak = (
                f"so small a peak is not known: the kernel counts resident pages in lots, of which "
                f"{lacking / 2**20:.3g} MiB may be missing on this machine's processors"
            )
            return None
        return peak

    def with_peak(
        self, peaks: PeakMemory, absent: dict[str, str]
    ) -> tuple[PeakMemory, dict[str, str]]:
        """Return a run's peaks with what one call takes, and the reasons for unknown ones."""
        if self._device.type != "cpu":
            return peaks, absent
        if self.peak is None:
            return peaks, {**absent, PATH: self._why_no_peak}
        known = {path: why for path, why in absent.items() if path != PATH}
        highest = max(peaks.process_peak or 0, self._highest) or None
        return replace(peaks, allocated_peak=self.peak, process_peak=highest), known
