"""Make the C library's allocator independent of earlier allocations: fixed thresholds, huge pages.

glibc raises its mmap threshold as blocks are freed, up to 32 MiB. So earlier frees decide whether a
result of 12.8 MB faults in new pages at each call (7 ms instead of 1 ms). This module sets the
threshold to that maximum from the start. Larger tensors are mapped, and unmapped when freed;
smaller ones come from the heap, which keeps its pages.

A higher threshold would also save the faults of large tensors, but the heap cannot reuse their
blocks. ``posix_memalign`` requests the size, the alignment and the smallest chunk together, cuts
off the rest, and keeps it for small allocations (tcache). The freed block then has exactly the
tensor's size, so the next tensor of that size does not fit: a loop that keeps one tensor of
500 MiB used 4 GiB. At page alignment, which torch uses for tensors with huge pages, the rest is
mostly too large for tcache and the blocks merge again.

Torch itself has a switch for huge pages, which affects tensors from 2 MiB on. Without them a large
tensor causes a fault for every 4 KiB: 128 MiB took 175 ms instead of 7 ms.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_AT_TOP = 2**30
MAPPED_FROM = 32 * 2**20
"""DEFAULT_MMAP_THRESHOLD_MAX: the highest value to which glibc itself raises the threshold."""
MAPPED_ALONE_FROM = 128 * 2**10
"""DEFAULT_MMAP_THRESHOLD_MIN: a mapped block's extra page is 3% of this size."""
LARGEST_FILLER = 64 * 2**20
MOST_FILLERS = 2000
"""Above this many free pieces, the heap is left unfilled; finding them takes too long."""
HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"
"""Torch reads it at its first allocation (c10/core/impl/alloc_cpu.cpp); older ones ignore it."""
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
    """Set the thresholds and enable huge pages, before torch is imported.

    Args:
        variables: the environment; the user's own setting for huge pages stays.

    Returns:
        The settings in effect, as text for the conditions.
    """
    global _fixed
    library = _glibc()
    if library is None:
        return f"{platform.system()}'s own malloc, thresholds not set"
    library.gnu_get_libc_version.restype = ctypes.c_char_p
    version = library.gnu_get_libc_version().decode()
    library.mallopt(_M_TRIM_THRESHOLD, _KEPT_AT_TOP)
    if not library.mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM):
        return f"glibc {version}, mmap threshold could not be set"
    variables.setdefault(HUGE_PAGES, "1")
    _fixed = True
    return f"glibc {version}, mmap threshold {MAPPED_FROM // 2**20} MiB, {_pages(variables)}"


@contextmanager
def map_each_block() -> Iterator[bool]:
    """Map larger blocks one by one, and unmap them when freed, until the context ends.

    Yields:
        Whether it works: only with the thresholds that :func:`fix_thresholds` sets.
    """
    library = _glibc() if _fixed else None
    if library is None:
        yield False
        return
    trim()
    library.mallopt(_M_MMAP_THRESHOLD, MAPPED_ALONE_FROM)
    fillers = _fill(library)
    try:
        yield True
    finally:
        for filler in fillers:
            library.free(filler)
        library.mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM)
        trim()


def _fill(library: ctypes.CDLL) -> list[ctypes.c_void_p]:
    """Allocate the heap's larger free pieces, which malloc would use before mapping anything.

    Nothing writes to them, so they use no memory.
    """
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    fillers: list[ctypes.c_void_p] = []
    size, heap = LARGEST_FILLER, _read(library)
    free = heap.fordblks if heap else 0
    while heap and size >= MAPPED_ALONE_FROM and len(fillers) < MOST_FILLERS:
        # A mapped block did not come from the heap. Another malloc in place of glibc's takes
        # nothing from this heap.
        filler = library.malloc(size) if size <= free else None
        current = _read(library)
        if filler and current and current.hblks == heap.hblks:
            fillers.append(filler)
            free -= size
            continue
        library.free(filler)
        size //= 2
    return fillers


def _pages(variables: MutableMapping[str, str]) -> str:
    if variables[HUGE_PAGES] != "1":
        return f"no huge pages: {HUGE_PAGES}={variables[HUGE_PAGES]}"
    try:
        allowed = "[never]" not in _HUGE_PAGES_ALLOWED.read_text()
    except OSError:
        allowed = False
    return "huge pages requested" if allowed else "the kernel gives no huge pages"


@dataclass(frozen=True, slots=True)
class Heap:
    """Bytes of the C library's heap."""

    in_use: int
    cached: int


def heap() -> Heap | None:
    """Return the heap's bytes in use and cached; ``None`` without glibc 2.33's mallinfo2."""
    library = _glibc()
    info = _read(library) if library is not None else None
    if info is None:
        return None
    global _returned
    # Allocations since then took their pages back from the kernel.
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
    """Return freed memory to the kernel; ``False`` where this C library cannot."""
    global _returned
    library = _glibc()
    if library is None:
        return False
    library.malloc_trim(0)
    left = _read(library)
    _returned = left.fordblks if left else 0
    return True


_fixed = False
"""The thresholds were set, and must be restored after a temporary change."""
_returned = 0
"""Free bytes of the heap right after a trim: the kernel already has their pages.

The heap does not report which free block it uses. It seems to use returned pages first, so the
cache since the trim is an upper bound.
"""
