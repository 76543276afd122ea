"""The peak CPU memory of a workload, measured with one call apart from the timing.

Torch counts no memory on the CPU, and the resident memory of a timed run exceeds the size of its
tensors: freed blocks stay in the heap, which keeps their pages for the next call and cannot reuse
all of them (:mod:`workloads.measure.malloc`). So this module counts the bytes that tensors hold,
and adds what one extra call needs. During that call, malloc maps each larger block separately and
returns it to the kernel when it is freed. The call runs before the timing, but after the first
call, which imports modules, loads libraries and creates the optimizer's state.
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
"""Share of a peak that the kernel's count may miss; above it, the peak is reported as unknown."""
PEAK_UNKNOWN = "the CPU memory of a call is known only with glibc and /proc, and not for ranks"


def resolution() -> int:
    """Return how many bytes too low the kernel's count of resident memory may be.

    Since Linux 6.2 it is a ``percpu_counter``: each processor counts up to ``max(32, 2 x
    processors)`` pages before it adds them to what ``/proc`` shows (``mm_counter`` in
    include/linux/mm.h, ``percpu_counter_batch`` in lib/percpu_counter.c).
    """
    processors = os.cpu_count() or 1
    return max(32, 2 * processors) * processors * mmap.PAGESIZE


def count_tensor_bytes() -> int:
    """Return the bytes of all CPU tensors that Python can reach, and of their gradients.

    Shared memory counts once. As in any allocator's figures, the full requested size counts, used
    or not.
    """
    sizes: dict[int, int] = {}
    for item in gc.get_objects():
        # Compare the type: a proxy would answer ``isinstance`` for its target, or raise.
        if issubclass(type(item), torch.Tensor):
            sizes.update(_storage(item))
            if item.is_leaf and item.grad is not None:
                sizes.update(_storage(item.grad))
    return sum(sizes.values())


def _storage(tensor: torch.Tensor) -> dict[int, int]:
    """Return address and size of a tensor's CPU memory; empty without any."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return {}
    try:
        storage = tensor.untyped_storage()
        return {storage.data_ptr(): storage.nbytes()} if storage.device.type == "cpu" else {}
    except (RuntimeError, NotImplementedError):
        # A tensor without memory, such as compilers trace with.
        return {}


def peak_of_call(call: Callable[[], object]) -> int | None:
    """Return the bytes that one call needs beyond those already held; ``None`` if unknown.

    Uses the kernel's peak of resident memory, which includes library pages touched for the first
    time: make one call before this one. Call it within ``malloc.map_each_block``.
    """
    malloc.trim()
    resident = memory.resident()
    if resident is None or not memory.reset_peaks(torch.device("cpu")):
        return None
    call()
    highest = memory.highest_resident()
    return None if highest is None else max(0, highest - resident)


class FirstCalls:
    """Makes the first call and, on the CPU, one more to measure its memory.

    Args:
        device: the device on which the workload was prepared.
        before: :func:`count_tensor_bytes` before the preparation; ``None`` to make only the first
            call.
        control: receives a report after the first call; may end the run.
    """

    def __init__(self, device: torch.device, before: int | None, control: Control) -> None:
        self._device = device
        self._before = before
        self._control = control
        self._highest = 0
        """Peak of the process's resident memory before the reset for the extra call."""
        self.peak: int | None = None
        """Bytes of the workload's tensors plus one call's; ``None`` if unknown.

        Memory that the preparation used only temporarily does not count.
        """
        self._why_no_peak = PEAK_UNKNOWN

    def __call__(self, call: Callable[[], object], clock: Clock) -> float:
        """Make the first call and return its seconds."""
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
        tensors = count_tensor_bytes() - before
        on_top = peak_of_call(call)
        if on_top is None:
            return None
        peak, lacking = max(0, tensors) + on_top, resolution()
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
        """Return a run's peaks plus the peak of one call, and the reasons for unknown ones."""
        if self._device.type != "cpu":
            return peaks, absent
        if self.peak is None:
            return peaks, {**absent, PATH: self._why_no_peak}
        known = {path: why for path, why in absent.items() if path != PATH}
        highest = max(peaks.process_peak or 0, self._highest) or None
        return replace(peaks, allocated_peak=self.peak, process_peak=highest), known
