"""The limit on processor time for reading a file, and its enforcement.

Python hashes an integer to itself modulo 2**61 - 1, so a file may contain keys with equal hashes;
Python compares each key with all earlier ones, and a megabyte takes half a minute. That happens
within one call of the C unpickler, which no exception leaves and no thread interrupts: the kernel
has to end the process. Snapshots of all versions are read at 40 MB/s, columns and analysis
included; the limit corresponds to a tenth of that speed, as a margin for slow machines. Time spent
waiting or in other processes does not count.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The program needs only the signal and the messages.
    from tui.snapshots.read.memory_limit import Estimate

BASE_S = 5.0
PER_MB_S = 0.25
_BYTES_PER_ALLOWED = 10
"""Divisor of a file's memory allowance that gives its expected maximum size."""
SIGNAL = signal.SIGVTALRM
"""The signal that ends a process at its time limit."""
WORDS = f"{BASE_S:g} s of processor time and {PER_MB_S:g} s for each MB"


def allowed_s(estimate: Estimate) -> float | None:
    """Return the allowed seconds of processor time for files; ``None`` if their size is unknown.

    Args:
        estimate: of all files together. For a pipe, whose size is unknown, its memory allowance is
            used instead.
    """
    byte = estimate.unpacked or (estimate.allowed or 0) // _BYTES_PER_ALLOWED
    return BASE_S + PER_MB_S * byte / 1e6 if byte else None


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """End this process with :data:`SIGNAL` if the block takes more processor time.

    Args:
        seconds: user-mode time of all threads; ``None`` for no limit.
    """
    if seconds is None:
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
