"""Drop a file from the system's page cache, and measure how much of the file is still cached."""

from __future__ import annotations

import ctypes
import mmap
import os

NO_FADVISE = "this system has no posix_fadvise to ask for an empty page cache"


def drop(descriptor: int) -> None:
    """Ask the system to drop a file from its page cache; it may decline.

    Raises:
        OSError: the file cannot be written to its disk.
        AttributeError: the system has no such call; see :func:`can_drop`.
    """
    # Pages that are not on the disk yet would stay.
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def can_drop() -> bool:
    """Return whether the system has the call that :func:`drop` needs."""
    return hasattr(os, "posix_fadvise")


def cached_share(descriptor: int) -> float | None:
    """Return the share of a file's pages in the page cache, 0 to 1; ``None`` if unknown.

    Args:
        descriptor: of a file opened for reading and writing, not empty.
    """
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if libc is None or not hasattr(libc, "mincore"):
        return None
    size = os.fstat(descriptor).st_size
    pages = -(-size // mmap.PAGESIZE)
    pages_in_cache = (ctypes.c_ubyte * pages)()
    # The system keeps pages that a mapping has touched; this one touches none, and ends here.
    with mmap.mmap(descriptor, size) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(first))
        failed = libc.mincore(address, ctypes.c_size_t(size), pages_in_cache)
        del first
    return None if failed else sum(page & 1 for page in pages_in_cache) / pages
