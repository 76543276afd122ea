"""How much of the CPU other processes used meanwhile: with all cores at work, any is too much.

OpenMP's threads wait for each other at the end of each parallel loop, so one core that is taken
away for a while makes every call late, by much more than its share.

Ours are this process and all that it has started, such as the workers of a DataLoader, whether they
have ended or not; in a rank the other ranks of this host too.
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOO_MANY = 0.1
"""Busy cores of other processes, beyond those that no thread of ours needs, that spoil a timing."""
_STAT = Path("/proc/stat")
_IDLE = (3, 4)
"""Columns of idle and iowait in a cpu line of /proc/stat (proc(5))."""
_GUEST_FROM = 8
"""guest and guest_nice are counted in user and nice already."""
_CHILDREN_TIME = slice(13, 15)
"""cutime and cstime of /proc/PID/stat (proc(5)), counted from what follows the name."""
_root: int | None = None
"""The process whose tree is ours; ``None``: this one."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU seconds so far: of all processes on the cores that we may use, and of our own."""

    everybody: float
    ours: float


def now() -> CpuTime | None:
    """CPU time so far; ``None`` where the kernel does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    try:
        lines = _STAT.read_text().splitlines()
    except OSError:
        return None
    wanted = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for line in lines:
        name, *numbers = line.split()
        if name in wanted:
            columns = [int(number) for number in numbers[:_GUEST_FROM]]
            ticks += sum(columns) - sum(columns[index] for index in _IDLE)
    return CpuTime(ticks / os.sysconf("SC_CLK_TCK"), _ours())


def count_descendants_of(pid: int) -> None:
    """Count as ours what that process has started, which this one is among."""
    global _root
    _root = pid


def _ours() -> float:
    """CPU seconds of this process and of all that it has started, or of the tree that is ours."""
    if _root is not None:
        return sum(_process_s(pid) for pid in _with_descendants(_root))
    usages = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return own + sum(_process_s(pid) for pid in _with_descendants(os.getpid())[1:])


def _with_descendants(root: int) -> list[int]:
    """Return the ids of a process and of its descendants that were not waited for yet."""
    found = [root]
    for pid in found:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            # It has ended meanwhile, or the kernel does not tell of children.
            continue
    return found


def _process_s(pid: int) -> float:
    """CPU seconds of a process, to the nanosecond, and of the children that it has waited for."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        return 0.0
    try:
        own = time.clock_gettime(clock.value)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        # It was waited for meanwhile: what it took is in its parent's figure.
        return 0.0
    return own + sum(map(int, fields[_CHILDREN_TIME])) / os.sysconf("SC_CLK_TCK")


def disturbed(others: float | None, threads: int) -> bool:
    """Return whether others kept more cores busy than ours leave free.

    Args:
        others: cores, of :func:`other_cores`.
        threads: that work for us.
    """
    return (others or 0.0) - max(0, cpus() - threads) > TOO_MANY


def cpus() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def other_cores(before: CpuTime | None, after: CpuTime | None, seconds: float) -> float | None:
    """Cores that other processes kept busy in between; ``None`` where it is not known."""
    if before is None or after is None or seconds <= 0:
        return None
    everybody = after.everybody - before.everybody
    return max(0.0, everybody - (after.ours - before.ours)) / seconds


@dataclass(frozen=True, slots=True)
class Others:
    """CPU time that other processes took meanwhile; stretches of time can be added up."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of all cores that we may use together; below zero where the clocks disagree by a tick."""

    def __add__(self, more: Others) -> Others:
        """Both stretches together."""
        return Others(self.seconds + more.seconds, self.cpu_s + more.cpu_s)

    @property
    def cores(self) -> float | None:
        """Cores that were busy all the time, at the least; ``None`` of no time at all.

        /proc/stat counts whole ticks, for each core by itself: of a short time they are left out.
        """
        if self.seconds <= 0:
            return None
        unsure = cpus() / os.sysconf("SC_CLK_TCK")
        return max(0.0, self.cpu_s - unsure) / self.seconds


@contextmanager
def watched(tell: Callable[[Others], None]) -> Iterator[None]:
    """Watch other processes while something is timed; tells at the end, where the kernel does."""
    before, began = now(), time.perf_counter()
    yield
    seconds, after = time.perf_counter() - began, now()
    if before is not None and after is not None:
        theirs = (after.everybody - before.everybody) - (after.ours - before.ours)
        tell(Others(seconds, theirs))
