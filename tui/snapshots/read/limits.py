"""The limits on memory and processor time for reading a file, and their enforcement.

A pickle is unpacked whole before it becomes columns, so its size alone decides the memory:

==============  ==================  ===============================
what            expected            allowed
==============  ==================  ===============================
a pickle        48 MiB + 5 x size   256 MiB + 14 x size
JSON            48 MiB + 4 x size   256 MiB + 10 x size
from a pipe     unknown             a quarter of available memory
==============  ==================  ===============================

Sizes are unpacked sizes. Measurements on snapshots of a million entries, Python included: 3.7 x for
stacks of 41 frames, 5.9 x for stacks of 11, 7.4 x without stacks (66 bytes per entry); hence the
large margin between the expected and the allowed amount. The allowance never exceeds a quarter of
the available memory (the kernel's ``MemAvailable``, or the remainder in the control group,
whichever is less): when memory runs out, the kernel may kill any process, on a shared machine
perhaps a neighbor's training. The caller may choose another amount, up to all available memory.

:func:`restrict` is for a process whose only task is to read a file: beyond the limit an allocation
fails there, and :func:`tui.snapshots.read.load.load` reports that in one line.

An empty set takes one byte of a pickle and 216 of memory, so a small file may exhaust memory long
before its end. While a pickle is read, :class:`Guard` compares the number of objects, and the
memory if the system reports it, with the bytes read so far. Snapshots of all versions need 0.06 to
0.13 objects and 4 to 11 bytes of memory per byte of the file.

Python hashes an integer to itself modulo 2**61 - 1, so a file may contain keys with equal hashes;
Python compares each key with all earlier ones, and a megabyte takes half a minute. That happens
within one call of the C unpickler, which no exception leaves and no thread interrupts: the kernel
has to end the process. Snapshots of all versions are read at 40 MB/s, columns and analysis
included; the time limit corresponds to a tenth of that speed, as a margin for slow machines. Time
spent waiting or in other processes does not count.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tui.core.child.inside import Cgroup
from tui.core.text import numbers as fmt
from tui.snapshots import MEMORY_OPTION
from tui.snapshots.model.snapshot import SnapshotError

MIB = 1 << 20

_EXPECTED_BASE = 48 * MIB
_ALLOWED_BASE = 256 * MIB
_PICKLE = (5, 14)
_JSON = (4, 10)

_UNPACKED_BASE = 64 * MIB
_UNPACKED_TIMES = 256
"""Maximum ratio of unpacked to packed size: real snapshots reach 10 to 40, a bomb 1 000."""

_SPARE = 64 * MIB
"""Bytes of available memory reserved for other processes, regardless of the requested amount."""

_QUARTER = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of reading a file.

    Attributes:
        byte: size of the file on disk; 0 for a pipe.
        unpacked: estimated unpacked size.
        expected: resident bytes at the peak, Python included; ``None`` for a pipe.
        allowed: bytes that a process restricted to this estimate may allocate in addition to its
            current memory; ``None`` if neither the file nor the machine provides a limit.
        available: free bytes in the machine or container; ``None`` if unknown.
        memory: bytes requested with :data:`MEMORY_OPTION`; ``None`` for a quarter.
    """

    byte: int
    unpacked: int
    expected: int | None
    allowed: int | None
    available: int | None
    memory: int | None = None

    @property
    def enough(self) -> bool:
        """True if reading is expected to succeed, or if either figure is unknown."""
        limit = limit_of(self.available, self.memory)
        return self.expected is None or limit is None or self.expected <= limit

    @property
    def remedy(self) -> str:
        """The remedy if the file needs more memory than allowed."""
        limit = limit_of(self.available, self.memory) or 0
        if self.available is not None and (
            limit >= self.available or (self.expected or 0) > self.available
        ):
            return "read it on a machine with more memory"
        return f"{MEMORY_OPTION} SIZE allows more"

    def __str__(self) -> str:
        if self.expected is None:
            need = "needs an unknown amount of memory (a pipe)"
        else:
            need = f"needs about {fmt.size(self.expected)} of memory"
        if self.allowed is None:
            return f"{need}; no limit, as the available memory is unknown"
        limit = f"limit {fmt.size(self.allowed)}"
        if self.available is None:
            return f"{need}; {limit} (available: unknown)"
        is_share = self.memory is None and self.allowed == limit_of(self.available, None)
        share = "a quarter of " if is_share else ""
        return f"{need}; {limit} ({share}{fmt.size(self.available)} available)"


def limit_of(available: int | None, memory: int | None) -> int | None:
    """Return the most bytes for reading: as requested, else a quarter, ``None`` if unknown."""
    if available is None:
        return memory
    return available // _QUARTER if memory is None else min(memory, available)


def estimate_memory(
    byte: int, unpacked: int, *, json: bool, available: int | None, memory: int | None = None
) -> Estimate:
    """Estimate the memory for a file of a given size; 0 stands for an unknown size.

    Args:
        byte: size of the file on disk.
        unpacked: unpacked size in bytes.
        json: true for JSON, false for a pickle.
        available: bytes of free memory on the machine.
        memory: requested bytes, allowed regardless of the file's size.
    """
    expected_times, allowed_times = _JSON if json else _PICKLE
    expected = _EXPECTED_BASE + expected_times * unpacked if unpacked else None
    allowed = _ALLOWED_BASE + allowed_times * unpacked if unpacked and memory is None else None
    limits = [limit for limit in (allowed, limit_of(available, memory)) if limit is not None]
    return Estimate(byte, unpacked, expected, min(limits, default=None), available, memory)


def most_unpacked(byte: int) -> int:
    """Return the unpacked size above which a gzip of ``byte`` bytes counts as a bomb."""
    return _UNPACKED_BASE + _UNPACKED_TIMES * byte


def available(meminfo: Path = Path("/proc/meminfo"), cgroup: Cgroup | None = None) -> int | None:
    """Return the bytes that this process can still allocate; ``None`` if that is unknown."""
    limits = []
    try:
        lines = meminfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split()[:1] and rest.split()[0].isdigit():
            limits.append(int(rest.split()[0]) * 1024)
    limit = (cgroup or Cgroup()).memory()
    if limit is not None:
        limits.append(limit.total - limit.used)
    return max(0, min(limits) - _SPARE) if limits else None


def restrict(estimate: Estimate) -> bool:
    """Limit this process to an estimate's allowance, and disable core files.

    The limit applies to address space (``RLIMIT_AS``), in addition to the currently mapped memory.
    It cannot be undone: call this in a process that reads only this file.

    Returns:
        True if a limit is active; false if the system has none or ignores it.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mapped = _mapped()
    if estimate.allowed is None or mapped is None:
        return False
    most = mapped + estimate.allowed
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return True


def _mapped(statm: Path = Path("/proc/self/statm")) -> int | None:
    try:
        pages = statm.read_text(encoding="ascii").split()[0]
    except (OSError, IndexError):
        return None
    return int(pages) * resource.getpagesize()


_EVERY = 1 << 20
"""Bytes of the file between two checks, each of which takes at most a millisecond."""
_OBJECTS_BASE, _OBJECTS_PER_BYTE = 200_000, 0.3
_MEMORY_BASE, _MEMORY_TIMES = 64 << 20, 12


class Guard:
    """Checks the memory that reading a file uses; create it right before reading starts."""

    def __init__(self) -> None:
        self._objects = sys.getallocatedblocks()
        self._memory = _peak()
        self._next = _EVERY

    def __call__(self, read: int) -> None:
        """Check the objects and memory created so far.

        Args:
            read: number of bytes of the unpacked file read so far.

        Raises:
            SnapshotError: the data has grown beyond any possible snapshot.
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
    """Return the maximum number of bytes that this process has used.

    Only Linux reports the current use in a file; the peak serves the same purpose.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# ---- processor time ----

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
