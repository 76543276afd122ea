"""The allocator figures of one GPU, as a runner and a watch report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class TorchMemory:
    """One GPU's figures of the caching allocator, bytes, with the terms of ``memory_stats``.

    Requested, allocated and active bytes are those of tensors, without ``workspace``; reserved
    bytes include it.
    """

    WIRE_KEYS: ClassVar[Mapping[str, str]] = {
        "reserved_allocated": "reserved_taken",
        "reserved_freed": "reserved_given_back",
    }

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
    reserved_allocated: int | None = None
    """Bytes ever added to ``reserved``; with the next field, it shows whether ``reserved`` changed
    between two readings with equal values."""
    reserved_freed: int | None = None
    """Bytes ever subtracted from ``reserved``."""
    workspace: int | None = None
    """Reserved bytes that torch has given to cuBLAS (``workloads.measure.memory``)."""
    workspace_peak: int | None = None
    """Bytes of cuBLAS in torch's own peak of allocated bytes, which ``allocated_peak`` excludes."""
