"""The worker's own memory: torch's allocator, cuBLAS's workspaces, the C heap."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from workloads.measure import malloc
from workloads.protocol.messages import HostHeap, TorchMemory
from workloads.protocol.results import PeakMemory

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_OF_TORCH = ("memory.allocated_peak", "memory.reserved_peak", "memory.workspace")
"""A result's figures that come from torch's allocator."""


def torch_memory(device: torch.device) -> TorchMemory | None:
    """Return the caching allocator's figures of a CUDA device; ``None`` if it has never been used.

    It does not query the driver's free memory, which would create a context on an unused device.
    """
    if device.type != "cuda" or not torch.cuda.is_initialized():
        return None
    stats = torch.cuda.memory_stats(device)
    if not _was_used(stats):
        return None
    free, total = torch.cuda.mem_get_info(device)
    workspace_size = workspace_bytes(device)
    return TorchMemory(
        device=str(device),
        pid=os.getpid(),
        at=time.time(),
        requested=_subtract_workspaces(stats["requested_bytes.all.current"], workspace_size),
        allocated=_subtract_workspaces(stats["allocated_bytes.all.current"], workspace_size),
        active=_subtract_workspaces(stats["active_bytes.all.current"], workspace_size),
        reserved=stats["reserved_bytes.all.current"],
        inactive_split=stats["inactive_split_bytes.all.current"],
        allocated_peak=allocated_peak(device),
        reserved_peak=stats["reserved_bytes.all.peak"],
        alloc_retries=stats["num_alloc_retries"],
        ooms=stats["num_ooms"],
        device_free=free,
        device_total=total,
        pinned=pinned(),
        reserved_allocated=stats["reserved_bytes.all.allocated"],
        reserved_freed=stats["reserved_bytes.all.freed"],
        workspace=workspace_size,
        workspace_peak=workspace_bytes_in_peak(device),
    )


def allocated(device: torch.device) -> int:
    """Return the bytes of tensors on a CUDA device: torch's figure less cuBLAS's workspaces."""
    return _subtract_workspaces(torch.cuda.memory_allocated(device), workspace_bytes(device))


def allocated_peak(device: torch.device) -> int:
    """Return the peak bytes of tensors on a CUDA device since the last reset."""
    return _subtract_workspaces(
        torch.cuda.max_memory_allocated(device), workspace_bytes_in_peak(device)
    )


def _subtract_workspaces(size: int, workspace: int) -> int:
    # The cudaMallocAsync backend reports 0 for what it does not count.
    return max(0, size - workspace)


def pinned() -> int | None:
    """Return the bytes of host memory that torch's caching host allocator has pinned, used or free.

    ``None`` where torch does not count them, and before CUDA is initialized.
    """
    if not hasattr(torch.cuda, "host_memory_stats"):
        return None
    stats = torch.cuda.host_memory_stats()
    # Torch called used and free bytes together "reserved" before it called them "allocated".
    total = stats.get("reserved_bytes.current", stats.get("allocated_bytes.current"))
    return None if total is None else int(total)


def host_heap() -> HostHeap:
    """Return the figures of this process's C heap."""
    heap = malloc.heap()
    reason = "this C library does not report its heap (glibc 2.33 and later does)"
    return HostHeap(
        pid=os.getpid(),
        at=time.time(),
        in_use=heap.in_use if heap else None,
        cached=heap.cached if heap else None,
        unavailable={} if heap else {"in_use": reason, "cached": reason},
    )


def empty_cache(device: torch.device) -> None:
    """Return cached free memory to the device (CUDA, MPS) or to the kernel (CPU).

    It does nothing else, so that callers can time it.

    Raises:
        RuntimeError: no function can empty this device's cache.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
    elif not malloc.trim():
        raise RuntimeError("this C library has no malloc_trim")


def give_back(device: torch.device) -> int:
    """Collect garbage, and return cached free memory, pinned memory too.

    Returns:
        Bytes by which reserved (CUDA, MPS) or resident memory (CPU) fell.

    Raises:
        RuntimeError: no function can empty this device's cache.
    """
    gc.collect()
    before = _cached_or_resident(device)
    empty_cache(device)
    freed = before - _cached_or_resident(device)
    unpin()
    return max(0, freed)


def _cached_or_resident(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.memory_reserved(device))
    if device.type == "mps":
        return int(torch.mps.driver_allocated_memory())
    return _status_bytes("VmRSS") or 0


def unpin() -> None:
    """Return pinned host memory that is free but cached, which otherwise stays pinned.

    It first waits for the devices: memory that a copy still reads or writes is not free yet.

    Raises:
        RuntimeError: a device error has made CUDA unusable in this process.
    """
    for device in used_devices():
        torch.cuda.synchronize(device)
    # The public function, new in torch 2.12, does nothing if memory was pinned before CUDA's
    # initialization.
    empty = getattr(torch._C, "_host_emptyCache", None)  # noqa: SLF001
    if empty is not None:
        empty()


def used_devices() -> list[torch.device]:
    """Return the CUDA devices on which this process has allocated memory.

    Any query to the others would create a context there.

    Raises:
        RuntimeError: a device error has made CUDA unusable in this process.
    """
    if not torch.cuda.is_initialized():
        return []
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return [device for device in devices if _was_used(torch.cuda.memory_stats(device))]


def _was_used(stats: dict[str, int]) -> bool:
    # expandable_segments does not count segments, and cudaMallocAsync does not count all bytes
    # ever reserved. Every backend reports either current or peak reserved bytes.
    return any(stats.get(f"reserved_bytes.all.{part}") for part in ("allocated", "current", "peak"))


def resident() -> int | None:
    """Return the resident memory of this process in bytes; ``None`` without /proc."""
    return _status_bytes("VmRSS")


def highest_resident() -> int | None:
    """Return the peak of resident bytes since the last reset; ``None`` without /proc."""
    return _status_bytes("VmHWM")


def reset_peaks(device: torch.device) -> bool:
    """Reset the peaks: the allocator's and, on Linux, the process's peak of resident memory.

    Returns:
        Whether the process's peak was reset.
    """
    if device.type == "cuda" and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats(device)
        start_workspace_peak(device)
    try:
        # Without O_CREAT: the file does not exist on other systems.
        with _CLEAR_REFS.open("r+b", buffering=0) as file:
            file.write(b"5")
    except OSError:
        # Some containers mount /proc read-only; the peak then counts from the worker's start.
        return False
    return True


def peaks(device: torch.device) -> tuple[PeakMemory, dict[str, str]]:
    """Return the peaks since the last reset, and the reasons for unknown ones."""
    process = highest_resident() if device.type == "cpu" else None
    unavailable = {}
    if device.type == "cpu":
        reason = "torch keeps no allocator statistics on the CPU"
        unavailable = dict.fromkeys(_OF_TORCH, reason)
        if process is None:
            unavailable["memory.process_peak"] = "no /proc/self/status here"
        return PeakMemory(None, None, process), unavailable
    unavailable["memory.process_peak"] = "sampled by NVML, which did not see this process in time"
    if device.type == "cuda":
        reserved = int(torch.cuda.max_memory_reserved(device))
        workspace = workspace_bytes_in_peak(device)
        return PeakMemory(allocated_peak(device), reserved, None, workspace), unavailable
    reason = "MPS reports no peaks"
    unavailable |= dict.fromkeys(_OF_TORCH, reason)
    unavailable["memory.process_peak"] = reason
    return PeakMemory(None, None, None), unavailable


def _status_bytes(name: str) -> int | None:
    try:
        text = _STATUS.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None


_workspaces: dict[int, int] = {}
"""Known bytes of cuBLAS's workspaces, by device index."""
_workspaces_in_peak: dict[int, int] = {}
"""Workspace bytes in the allocator's peak since its last reset, by device index."""


def workspace_bytes(device: torch.device) -> int:
    """Return the known bytes of cuBLAS's workspaces on a CUDA device."""
    return _workspaces.get(_index(device), 0)


def workspace_bytes_in_peak(device: torch.device) -> int:
    """Return the workspace bytes in the allocator's peak of a device."""
    return _workspaces_in_peak.get(_index(device), 0)


def start_workspace_peak(device: torch.device) -> None:
    """Note the workspaces at a peak's reset: they stay in the peak, even if freed later."""
    _workspaces_in_peak[_index(device)] = workspace_bytes(device)


def free_workspaces() -> None:
    """Return the workspaces of all devices to torch's cache; torch must be idle."""
    # No public function does it; torch's own tests call this one.
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # noqa: SLF001
    if clear is not None and torch.cuda.is_initialized():
        clear()
        _workspaces.clear()


@contextmanager
def count_workspaces(device: torch.device) -> Iterator[None]:
    """Count what the allocator adds on a CUDA device during the block as cuBLAS's workspaces.

    Args:
        device: where the block starts cuBLAS; it must keep no tensor of its own.
    """
    gc.collect()
    before = torch.cuda.memory_allocated(device)
    yield
    taken = torch.cuda.memory_allocated(device) - before
    _workspaces[_index(device)] = workspace_bytes(device) + max(0, taken)


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index
