"""Make the C library treat memory alike whatever ran before: fixed thresholds, huge pages.

glibc moves its mmap threshold with what is freed, up to 32 MiB: whether a result of 12.8 MB is
faulted in anew at each call (7 ms instead of 1 ms) depends on what was freed before. Here the
threshold stands at that maximum from the start. Tensors above it are mapped, and given back when
they are freed; those below it come from the heap, which keeps its pages.

A higher threshold would save the faults of large tensors too, but the heap does not find their
places again. ``posix_memalign`` asks for the size, the alignment and the smallest chunk together,
cuts the rest off, and keeps it for small allocations (tcache); the freed piece then has exactly the
size, so the next tensor of that size does not fit. A loop that holds one tensor of 500 MiB took 4
GiB. On a page's boundary, where torch aligns tensors for which it asks for huge pages, the rest is
mostly too large for tcache and the piece is joined again.

The huge pages are torch's own switch, for tensors from 2 MiB on. Without them a large tensor costs
a fault for each 4 KiB: 128 MiB that take 7 ms to compute took 175 ms.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import MutableMapping
from pathlib import Path

from workloads.protocol.frozen import frozen

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_AT_TOP = 2**30
MAPPED_FROM = 32 * 2**20
"""DEFAULT_MMAP_THRESHOLD_MAX: the highest that glibc itself lets the threshold rise to."""
HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"
"""Torch reads it at its first allocation (c10/core/impl/alloc_cpu.cpp); older ones know it not."""
_HUGE_PAGES_ALLOWED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class _MallInfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _glibc() -> ctypes.CDLL | None:
    if platform.system() != "Linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None


def fix_thresholds(variables: MutableMapping[str, str] = os.environ) -> str:
    """Set the thresholds and ask for huge pages, before torch is imported.

    Args:
        variables: the environment; what a user has set about huge pages stays.

    Returns:
        What holds, for the conditions.
    """
    library = _glibc()
    if library is None:
        return f"{platform.system()}'s own malloc, thresholds not set"
    library.gnu_get_libc_version.restype = ctypes.c_char_p
    version = library.gnu_get_libc_version().decode()
    library.mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_TOP)
    if not library.mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM):
        return f"glibc {version}, mmap threshold could not be set"
    variables.setdefault(HUGE_PAGES, "1")
    return f"glibc {version}, mmap threshold {MAPPED_FROM // 2**20} MiB, {_pages(variables)}"


def _pages(variables: MutableMapping[str, str]) -> str:
    if variables[HUGE_PAGES] != "1":
        return f"no huge pages: {HUGE_PAGES}={variables[HUGE_PAGES]}"
    try:
        allowed = "[never]" not in _HUGE_PAGES_ALLOWED.read_text()
    except OSError:
        allowed = False
    return "huge pages asked for" if allowed else "the kernel gives no huge pages"


@frozen
class Heap:
    """Bytes of the C library's heap."""

    in_use: int
    cached: int


def heap() -> Heap | None:
    """What is allocated and what is freed but kept; ``None`` without glibc 2.33's mallinfo2."""
    library = _glibc()
    info = _read(library) if library is not None else None
    if info is None:
        return None
    global _returned
    # What was taken out of the returned pages since then is no longer with the kernel.
    _returned = min(_returned, info.fordblks)
    cached = info.fordblks - _returned
    return Heap(in_use=info.uordblks + info.hblkhd, cached=cached)


def _read(library: ctypes.CDLL) -> _MallInfo2 | None:
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _MallInfo2
    info = library.mallinfo2()
    assert isinstance(info, _MallInfo2)
    return info


def trim() -> bool:
    """Give freed memory back to the kernel; ``False`` where this C library cannot."""
    global _returned
    library = _glibc()
    if library is None:
        return False
    library.malloc_trim(0)
    left = _read(library)
    _returned = left.fordblks if left else 0
    return True


_returned = 0
"""What the heap counts as free after a trim: its pages are with the kernel already.

The heap does not tell which free piece it takes; as it seems to take returned pages first, what is
cached since the trim is an upper bound.
"""
