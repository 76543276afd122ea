"""cuBLAS's workspaces: memory of torch's allocator that no tensor holds.

At its first product each handle of cuBLAS is given a workspace for each stream; autograd's thread
has a handle of its own. torch takes them from its caching allocator, 32 MiB each at capability 9.0
(``torch.backends.cuda.cublas_workspace_size``, ``CUBLAS_WORKSPACE_CONFIG``), keeps them until it is
told otherwise, counts them as allocated, and does not say how many there are. So they are let go of
and taken anew before a run, and what the allocator then has more is theirs.

Those that a workload makes cuBLAS take later, on streams or devices of its own, are not known:
they count as allocated until the run ends.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_held: dict[int, int] = {}
"""Bytes of those that are known, by the device's index."""
_in_peak: dict[int, int] = {}
"""Bytes of them in the allocator's peak, which is as old as its last reset."""


def held(device: torch.device) -> int:
    """Bytes of the workspaces that are known to be held on a CUDA device."""
    return _held.get(_index(device), 0)


def in_peak(device: torch.device) -> int:
    """Bytes of them that the allocator's peak of a device holds."""
    return _in_peak.get(_index(device), 0)


def peaks_were_reset(device: torch.device) -> None:
    """Note what the peak starts with: it stays in it, even after the workspaces are let go of."""
    _in_peak[_index(device)] = held(device)


def let_go() -> None:
    """Give those of all devices back to torch's cache; nothing of torch may be at work."""
    # No public function does it; this one is what torch's own tests call.
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # noqa: SLF001
    if clear is not None and torch.cuda.is_initialized():
        clear()
        _held.clear()


@contextmanager
def counted(device: torch.device) -> Iterator[None]:
    """Take what the block makes the allocator hold on a CUDA device for cuBLAS's.

    Args:
        device: on which the block makes cuBLAS start; it must leave no tensor of its own behind.
    """
    gc.collect()
    before = torch.cuda.memory_allocated(device)
    yield
    taken = torch.cuda.memory_allocated(device) - before
    _held[_index(device)] = held(device) + max(0, taken)


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index
