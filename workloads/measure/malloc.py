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
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_AT_TOP = 2**30
MAPPED_FROM = 32 * 2**20
"""DEFAULT_MMAP_THRESHOLD_MAX: the highest that glibc itself lets the threshold rise to."""
MAPPED_ALONE_FROM = 128 * 2**10
"""DEFAULT_MMAP_THRESHOLD_MIN: the page that a mapped block has beyond its size is 3 % of it."""
LARGEST_FILLER = 64 * 2**20
MOST_FILLERS = 2000
"""A heap in more pieces than that is left as it is; to look for them takes a while."""
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
    """Have larger blocks mapped one by one and given back when freed, until the block ends.

    Yields:
        Whether it is so: not without the thresholds that :func:`fix_thresholds` sets.
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
    """Take the larger free pieces of the heap, which would be used before anything is mapped.

    They are not written to, so they cost no memory.
    """
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    fillers: list[ctypes.c_void_p] = []
    size, heap = LARGEST_FILLER, _read(library)
    free = heap.fordblks if heap else 0
    while heap and size >= MAPPED_ALONE_FROM and len(fillers) < MOST_FILLERS:
        # A piece that is mapped did not come from the heap. Another malloc in the place of glibc's
        # takes nothing out of this heap.
        filler = library.malloc(size) if size <= free else None
        found = _read(library)
        if filler and found and found.hblks == heap.hblks:
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
    return "huge pages asked for" if allowed else "the kernel gives no huge pages"


@dataclass(frozen=True, slots=True)
class Heap:
    """Bytes of the C library's heap."""

    in_use: int
    cached: int


def heap() -> Heap | None:
    """Return the bytes in use and freed but kept; ``None`` without glibc 2.33's mallinfo2."""
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


_fixed = False
"""The thresholds were set, and are to be set again after others."""
_returned = 0
"""What the heap counts as free after a trim: its pages are with the kernel already.

The heap does not tell which free piece it takes; as it seems to take returned pages first, what is
cached since the trim is an upper bound.
"""
