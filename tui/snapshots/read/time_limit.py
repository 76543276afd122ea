"""How much processor time reading a file may take, and how that is enforced.

Python hashes an integer to itself modulo 2**61 - 1, so a file may hold keys that all have one hash;
each is compared with all before it, and a megabyte takes half a minute. That happens within one
call of the C unpickler, which no exception leaves and no thread interrupts: the kernel has to end
the process. Snapshots of all versions are read at 40 MB/s, columns and analysis included; what is
allowed is a tenth of that, so that a slow machine has room. Time during which the process waits or
others run does not count.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The program takes only the signal and the words.
    from tui.snapshots.read.memory_limit import Estimate

BASE_S = 5.0
PER_MB_S = 0.25
_BYTES_PER_ALLOWED = 10
"""A file is expected to be no larger than this part of the memory that it may take."""
SIGNAL = signal.SIGVTALRM
"""Ends a process that has used up its time."""
WORDS = f"{BASE_S:g} s of processor time and {PER_MB_S:g} s for each MB"


def allowed_s(estimate: Estimate) -> float | None:
    """Return the seconds of processor time for files; ``None`` where nothing is known of them.

    Args:
        estimate: of all files together. Of a pipe, whose size is not known, what memory it may
            take stands for it.
    """
    byte = estimate.unpacked or (estimate.allowed or 0) // _BYTES_PER_ALLOWED
    return BASE_S + PER_MB_S * byte / 1e6 if byte else None


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """End this process by :data:`SIGNAL` where the block takes more processor time.

    Args:
        seconds: in user mode, of all threads; ``None`` for no limit.
    """
    if seconds is None:
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
