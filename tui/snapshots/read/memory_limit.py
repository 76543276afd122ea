"""How much memory reading a file takes, how much it may take, and how that is enforced.

A pickle is unpacked whole before it becomes columns, so the need follows from its size alone:

==============  ==================  ===============================
what            expected            allowed
==============  ==================  ===============================
a pickle        48 MiB + 5 x size   256 MiB + 14 x size
JSON            48 MiB + 4 x size   256 MiB + 10 x size
from a pipe     cannot be told      a quarter of what is available
==============  ==================  ===============================

Sizes are those unpacked. Measured on snapshots of a million entries, Python included: 3.7 x for
stacks of 41 frames, 5.9 x for stacks of 11, 7.4 x without stacks (66 bytes an entry), which is
why so much more is allowed than is expected. What is allowed is never more than a quarter of what
is available (the kernel's ``MemAvailable``, or what the control group leaves, whichever is less):
the kernel ends whom it likes where memory runs out, and on a shared box that may be a neighbour's
training. Who reads the file may give another figure, up to all that is available.

:func:`restrict` is for a process whose only work is to read a file: past the limit an allocation
fails there, and :func:`tui.snapshots.read.load.load` says so in one line.

An empty set takes one byte of a pickle and 216 of memory, so a small file may ask for all memory
long before its end. While a pickle is read, what it has become so far is held against the bytes it
was read from: the objects, counted, and the memory, where the system tells it. Snapshots of all
versions come to 0.06 to 0.13 objects and 4 to 11 bytes of memory for a byte of the file.
"""

from __future__ import annotations

import resource
import sys
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
"""Real snapshots pack 10 to 40 times; a bomb 1 000 times."""

_SPARE = 64 * MIB
"""Bytes of what is available that are left to others, whatever was asked for."""

_QUARTER = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """What reading a file takes.

    Attributes:
        byte: the file as it lies on the disk; 0 where it comes through a pipe.
        unpacked: bytes once unpacked, as far as can be told.
        expected: resident bytes at the peak, Python included; ``None`` for a pipe.
        allowed: bytes that a process restricted to this estimate may take on top of what it has;
            ``None`` where neither the file nor the machine tells.
        available: bytes that the machine or the container has left; ``None`` if it does not say.
        memory: bytes that were asked for with :data:`MEMORY_OPTION`; ``None`` for a quarter.
    """

    byte: int
    unpacked: int
    expected: int | None
    allowed: int | None
    available: int | None
    memory: int | None = None

    @property
    def enough(self) -> bool:
        """Whether the file can be expected to be read; true where one of both is not known."""
        limit = limit_of(self.available, self.memory)
        return self.expected is None or limit is None or self.expected <= limit

    @property
    def remedy(self) -> str:
        """What helps where the file needs more than is allowed."""
        need = self.expected if self.expected is not None else 0
        if self.available is not None and need > self.available:
            return "read it on a machine with more memory"
        limit = limit_of(self.available, self.memory)
        if self.available is not None and limit is not None and limit >= self.available:
            return "read it on a machine with more memory"
        return f"{MEMORY_OPTION} SIZE allows more of what is available, which others then lack"

    def __str__(self) -> str:
        if self.expected is None:
            need = "what it needs cannot be told for a pipe"
        else:
            packed = " unpacked" if self.unpacked != self.byte else ""
            need = f"needs about {fmt.size(self.expected)} for {fmt.size(self.unpacked)}{packed}"
        if self.allowed is None:
            return f"{need}, may take any amount: unknown how much is available"
        limit = limit_of(self.available, self.memory)
        if self.available is None:
            of = "unknown how much is available"
        elif self.memory is None and self.allowed == limit:
            of = f"a quarter of the {fmt.size(self.available)} available"
        else:
            of = f"{fmt.size(self.available)} available"
        return f"{need}, may take {fmt.size(self.allowed)}, {of}"


def limit_of(available: int | None, memory: int | None) -> int | None:
    """Return the most bytes for reading: as asked, else a quarter, ``None`` if unknown."""
    if available is None:
        return memory
    return available // _QUARTER if memory is None else min(memory, available)


def estimate_memory(
    byte: int, unpacked: int, *, json: bool, available: int | None, memory: int | None = None
) -> Estimate:
    """Estimate the memory for a file of a size; 0 stands for an unknown size.

    Args:
        byte: of the file as it lies on the disk.
        unpacked: bytes once unpacked.
        json: it is JSON and no pickle.
        available: bytes that the machine has left.
        memory: bytes that were asked for; then they are allowed whatever the file's size.
    """
    expected_times, allowed_times = _JSON if json else _PICKLE
    expected = _EXPECTED_BASE + expected_times * unpacked if unpacked else None
    wanted = _ALLOWED_BASE + allowed_times * unpacked if unpacked and memory is None else None
    limits = [one for one in (wanted, limit_of(available, memory)) if one is not None]
    return Estimate(byte, unpacked, expected, min(limits, default=None), available, memory)


def most_unpacked(byte: int) -> int:
    """Bytes that may come out of a gzip of ``byte`` bytes before it is taken for a bomb."""
    return _UNPACKED_BASE + _UNPACKED_TIMES * byte


def available(meminfo: Path = Path("/proc/meminfo"), cgroup: Cgroup | None = None) -> int | None:
    """Bytes that this process could still take; ``None`` where the system does not say."""
    found = []
    try:
        lines = meminfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "MemAvailable" and rest.split()[:1] and rest.split()[0].isdigit():
            found.append(int(rest.split()[0]) * 1024)
    limit = (cgroup or Cgroup()).memory()
    if limit is not None:
        found.append(limit.total - limit.used)
    return max(0, min(found) - _SPARE) if found else None


def restrict(estimate: Estimate) -> bool:
    """Limit this process to what an estimate allows, and leave no core file when it dies.

    The limit is on address space (``RLIMIT_AS``), on top of what the process has mapped by now.
    There is no way back: call it in a process that reads this one file.

    Returns:
        Whether a limit holds now; false where the system has none or does not heed it.
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
    """Return the most bytes that this process has held.

    The bytes it holds now are in a file only on Linux, and the peak grows with them.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
