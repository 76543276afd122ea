"""Ends the reading of a file that takes far more than a snapshot of its size can, early.

An empty set takes one byte of a pickle and 216 of memory, so a small file may ask for all memory
long before its end. While a pickle is read, what it has become so far is held against the bytes it
was read from: the objects, counted, and the memory, where the system tells it. Snapshots of all
versions come to 0.06 to 0.13 objects and 4 to 11 bytes of memory for a byte of the file.
"""

from __future__ import annotations

import functools
import sys

from tui.snapshots.model.snapshot import SnapshotError
from tui.text import numbers as fmt

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # Windows
    USAGE = None
else:
    USAGE = functools.partial(getrusage, RUSAGE_SELF)

_EVERY = 1 << 20
"""Bytes of the file between two looks, each of which takes a millisecond at the most."""
_OBJECTS_BASE, _OBJECTS_PER_BYTE = 200_000, 0.3
_MEMORY_BASE, _MEMORY_TIMES = 64 << 20, 12


class Guard:
    """Looks at what reading has made of a file; made right before it begins."""

    def __init__(self) -> None:
        self._objects = sys.getallocatedblocks()
        self._memory = _peak()
        self._next = _EVERY

    def __call__(self, read: int) -> None:
        """To be called as bytes of the unpacked file are read.

        Args:
            read: how many so far.

        Raises:
            SnapshotError: they have become more than a snapshot can be.
        """
        if read < self._next:
            return
        self._next = read + _EVERY
        objects = sys.getallocatedblocks() - self._objects
        if objects > _OBJECTS_BASE + _OBJECTS_PER_BYTE * read:
            raise SnapshotError(
                f"its first {fmt.size(read)} hold {fmt.grouped(objects)} objects, far more than"
                " those of a snapshot: damaged or hostile"
            )
        grown = _peak() - self._memory
        if grown > _MEMORY_BASE + _MEMORY_TIMES * read:
            raise SnapshotError(
                f"its first {fmt.size(read)} take {fmt.size(grown)} of memory, far more than"
                " those of a snapshot: damaged or hostile"
            )


def _peak() -> int:
    """The most bytes that this process has held; 0 where the system does not say.

    What it holds now stands in a file on Linux alone, and the peak grows with it.
    """
    if USAGE is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return USAGE().ru_maxrss * unit
