"""The allocator figures of one GPU, as a runner and a watch report them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TorchMemory:
    """One GPU's figures of the caching allocator, bytes, with the terms of ``memory_stats``.

    Requested, allocated and active bytes are those of tensors, without ``workspace``; reserved
    bytes include it.
    """

    device: str
    pid: int
    at: float
    requested: int
    allocated: int
    active: int
    reserved: int
    inactive_split: int
    allocated_peak: int
    reserved_peak: int
    alloc_retries: int
    """Retries since the last run began, as with ``ooms``."""
    ooms: int
    device_free: int | None = None
    device_total: int | None = None
    pinned: int | None = None
    """Host memory that torch's allocator has pinned in this process, its cache included: the same
    in the messages of all its devices. ``None`` where this torch does not count it."""
    reserved_taken: int | None = None
    """Total ever added to ``reserved``; with the next field, it shows whether ``reserved`` changed
    between two moments with equal values."""
    reserved_given_back: int | None = None
    """Total ever subtracted from ``reserved``."""
    workspace: int | None = None
    """Reserved bytes that torch has given to cuBLAS (``workloads.measure.memory``)."""
