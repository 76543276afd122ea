"""The worker's own memory: torch's allocator, cuBLAS's workspaces, the C heap; and NVML's word."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from workloads.measure import malloc
from workloads.protocol.messages import HostHeap, TorchMemory
from workloads.protocol.results import PeakMemory

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_OF_TORCH = ("memory.allocated_peak", "memory.reserved_peak", "memory.workspace")
"""The figures of a result that torch's allocator gives."""


def torch_memory(device: torch.device) -> TorchMemory | None:
    """Return the caching allocator's figures of a CUDA device; ``None`` if it has held nothing.

    Asking the driver for its free memory would make a context on a device that has none.
    """
    if device.type != "cuda" or not torch.cuda.is_initialized():
        return None
    stats = torch.cuda.memory_stats(device)
    if not _was_used(stats):
        return None
    free, total = torch.cuda.mem_get_info(device)
    held = workspace_bytes(device)
    return TorchMemory(
        device=str(device),
        pid=os.getpid(),
        at=time.time(),
        requested=_subtract_workspaces(stats["requested_bytes.all.current"], held),
        allocated=_subtract_workspaces(stats["allocated_bytes.all.current"], held),
        active=_subtract_workspaces(stats["active_bytes.all.current"], held),
        reserved=stats["reserved_bytes.all.current"],
        inactive_split=stats["inactive_split_bytes.all.current"],
        allocated_peak=allocated_peak(device),
        reserved_peak=stats["reserved_bytes.all.peak"],
        alloc_retries=stats["num_alloc_retries"],
        ooms=stats["num_ooms"],
        device_free=free,
        device_total=total,
        pinned=pinned(),
        reserved_taken=stats["reserved_bytes.all.allocated"],
        reserved_given_back=stats["reserved_bytes.all.freed"],
        workspace=held,
    )


def allocated(device: torch.device) -> int:
    """Bytes that tensors on a CUDA device hold: torch's figure less cuBLAS's workspaces."""
    return _subtract_workspaces(torch.cuda.memory_allocated(device), workspace_bytes(device))


def allocated_peak(device: torch.device) -> int:
    """Return the most bytes that tensors on a CUDA device have held since the last reset."""
    return _subtract_workspaces(
        torch.cuda.max_memory_allocated(device), workspace_bytes_in_peak(device)
    )


def _subtract_workspaces(size: int, workspace: int) -> int:
    # The cudaMallocAsync backend gives 0 for what it does not count.
    return max(0, size - workspace)


def pinned() -> int | None:
    """Host memory that torch's caching host allocator has pinned, in use or kept; bytes.

    ``None`` where torch does not count it, and before CUDA is initialized.
    """
    if not hasattr(torch.cuda, "host_memory_stats"):
        return None
    stats = torch.cuda.host_memory_stats()
    # Kept and used together were called reserved before they were called allocated.
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
    """Return what is freed but kept to the device (CUDA, MPS) or to the kernel (CPU).

    That and nothing else, so that its time can be taken.

    Raises:
        RuntimeError: the device has no cache that can be returned here.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
    elif not malloc.trim():
        raise RuntimeError("this C library has no malloc_trim")


def give_back(device: torch.device) -> int:
    """Collect garbage, and return what is freed but kept, of pinned memory too.

    Returns:
        Bytes by which reserved (CUDA, MPS) or resident memory (CPU) fell.

    Raises:
        RuntimeError: the device has no cache that can be returned here.
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
    """Return the pinned host memory that is freed but kept; without it, it stays pinned for good.

    What a copy still reads or writes is not freed yet, so the devices are waited for.

    Raises:
        RuntimeError: a device error has left this process with nothing to ask.
    """
    for device in used_devices():
        torch.cuda.synchronize(device)
    # The public function came with torch 2.12, and does nothing where memory was pinned before
    # CUDA was initialized.
    empty = getattr(torch._C, "_host_emptyCache", None)  # noqa: SLF001
    if empty is not None:
        empty()


def used_devices() -> list[torch.device]:
    """Return the CUDA devices on which this process has allocated memory.

    Asking the others for anything would make a context there.

    Raises:
        RuntimeError: a device error has left this process with nothing to ask.
    """
    if not torch.cuda.is_initialized():
        return []
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return [device for device in devices if _was_used(torch.cuda.memory_stats(device))]


def _was_used(stats: dict[str, int]) -> bool:
    # Segments are not counted with expandable_segments, nor what was ever reserved by the
    # cudaMallocAsync backend: what holds of all is that something is, or was, reserved.
    return any(stats.get(f"reserved_bytes.all.{part}") for part in ("allocated", "current", "peak"))


def resident() -> int | None:
    """Resident memory of this process, bytes; ``None`` without /proc."""
    return _status_bytes("VmRSS")


def highest_resident() -> int | None:
    """Return the highest resident bytes since the peaks were reset; ``None`` without /proc."""
    return _status_bytes("VmHWM")


def reset_peaks(device: torch.device) -> bool:
    """Start the peaks anew: the allocator's, and on Linux the process's highest resident memory.

    Returns:
        Whether that of the process could be.
    """
    if device.type == "cuda" and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats(device)
        start_workspace_peak(device)
    try:
        # Without O_CREAT: it is not there on other systems.
        with _CLEAR_REFS.open("r+b", buffering=0) as file:
            file.write(b"5")
    except OSError:
        # Some containers mount /proc read-only; the peak is then since the worker's start.
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
        held = workspace_bytes_in_peak(device)
        return PeakMemory(allocated_peak(device), reserved, None, held), unavailable
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
"""Bytes of cuBLAS's workspaces that are known to be held, by the device's index."""
_workspaces_in_peak: dict[int, int] = {}
"""Bytes of them in the allocator's peak, which is as old as its last reset."""


def workspace_bytes(device: torch.device) -> int:
    """Bytes of the workspaces that are known to be held on a CUDA device."""
    return _workspaces.get(_index(device), 0)


def workspace_bytes_in_peak(device: torch.device) -> int:
    """Bytes of them that the allocator's peak of a device holds."""
    return _workspaces_in_peak.get(_index(device), 0)


def start_workspace_peak(device: torch.device) -> None:
    """Note what the peak starts with: it stays in it, even after the workspaces are let go of."""
    _workspaces_in_peak[_index(device)] = workspace_bytes(device)


def free_workspaces() -> None:
    """Give those of all devices back to torch's cache; nothing of torch may be at work."""
    # No public function does it; this one is what torch's own tests call.
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # noqa: SLF001
    if clear is not None and torch.cuda.is_initialized():
        clear()
        _workspaces.clear()


@contextmanager
def count_workspaces(device: torch.device) -> Iterator[None]:
    """Take what the block makes the allocator hold on a CUDA device for cuBLAS's.

    Args:
        device: on which the block makes cuBLAS start; it must leave no tensor of its own behind.
    """
    gc.collect()
    before = torch.cuda.memory_allocated(device)
    yield
    taken = torch.cuda.memory_allocated(device) - before
    _workspaces[_index(device)] = workspace_bytes(device) + max(0, taken)


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


NVML_LIBRARY = "libnvidia-ml.so.1"


class _MemoryV2(ctypes.Structure):
    """``nvmlMemory_v2_t`` of nvml.h; bytes."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


_MEMORY_V2 = ctypes.sizeof(_MemoryV2) | 2 << 24
"""``nvmlMemory_v2``: the size of the structure, and its version in the highest byte."""


class NvmlError(Exception):
    """NVML does not tell; the text says why."""


@dataclass(frozen=True, slots=True)
class NvmlMemory:
    """A device's memory, bytes."""

    total: int
    """What the driver keeps for itself is part of it."""
    used: int
    """By everybody, without what the driver keeps for itself."""
    free: int


def nvml_memory(uuid: str | None) -> NvmlMemory:
    """Read a device's memory at this moment from NVML.

    Args:
        uuid: of the device, as NVML has it: ``GPU-…`` or ``MIG-…``; ``None`` where torch does not
            tell it.

    Raises:
        NvmlError: NVML is not there, does not know the device, or does not answer.
    """
    if uuid is None:
        raise NvmlError("this torch does not tell the UUID of its devices")
    library = _nvml()
    handle, memory = ctypes.c_void_p(), _MemoryV2(version=_MEMORY_V2)
    _query_nvml(library, "nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(handle))
    _query_nvml(library, "nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(memory))
    return NvmlMemory(int(memory.total), int(memory.used), int(memory.free))


@functools.cache
def _nvml() -> ctypes.CDLL:
    """NVML, started for as long as this process lives: to start it anew takes milliseconds."""
    try:
        library = ctypes.CDLL(NVML_LIBRARY)
    except OSError as error:
        raise NvmlError(f"{NVML_LIBRARY} cannot be loaded: {error}") from error
    _query_nvml(library, "nvmlInit_v2")
    return library


def _query_nvml(library: ctypes.CDLL, name: str, *arguments: object) -> None:
    function = getattr(library, name, None)
    if function is None:
        raise NvmlError(f"the driver is too old for {name}")
    code = function(*arguments)
    if code:
        library.nvmlErrorString.restype = ctypes.c_char_p
        text = (library.nvmlErrorString(code) or b"").decode(errors="replace")
        raise NvmlError(f"{name}: {text or code}")
