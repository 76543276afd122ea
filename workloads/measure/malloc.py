"""Keep the C library from giving memory back after every call.

glibc returns an allocation above its mmap threshold to the kernel when it is freed, and the next
call faults every page in again: a convolution with a 12.8 MB result takes 7 ms instead of 1 ms,
until some other allocation happens to raise the threshold. Fixed thresholds make a timing the same
whatever ran before it.
"""

from __future__ import annotations

import ctypes
import platform

from workloads.protocol.frozen import frozen

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_WANTED = 2**30
_OLD_MAXIMUM = 32 * 2**20
"""HEAP_MAX_SIZE / 2: what glibc before 2.35 takes at most."""


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


def keep_freed_memory() -> str:
    """Set the thresholds, before torch is imported; says what holds now, for the conditions."""
    library = _glibc()
    if library is None:
        return f"{platform.system()}'s own malloc, thresholds not set"
    library.gnu_get_libc_version.restype = ctypes.c_char_p
    version = library.gnu_get_libc_version().decode()
    library.mallopt(_M_TRIM_THRESHOLD, _WANTED)
    for threshold in (_WANTED, _OLD_MAXIMUM):
        if library.mallopt(_M_MMAP_THRESHOLD, threshold):
            return f"glibc {version}, mmap threshold {threshold // 2**20} MiB"
    return f"glibc {version}, mmap threshold could not be set"


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
