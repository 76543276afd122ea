"""Measure how much CPU time other processes use during a timing.

When all cores are busy, any amount disturbs: OpenMP's threads wait for each other at the end of
each parallel loop, so losing one core for a moment delays every call by much more than its share.

Our own processes are this one and all its descendants, such as a DataLoader's workers, running or
ended; in a rank, also the other ranks on this host.
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
"""Cores busy with other processes, beyond those our threads leave free, from which a timing's
blocks do not show how far it is from that of an idle machine."""
NOTICEABLE = 0.06
"""Such cores that a timing mentions. Where threads wait for each other, a call takes longer by as
much as one core gives away: with 2 threads on 2 cores, a product took 3%, 6%, 10% and 18% longer
beside a program that used 0.03, 0.06, 0.1 and 0.2 cores."""
UNKNOWN_EFFECT = 0.2
"""Such cores beyond which it was not measured how much longer a call takes."""
_STAT = Path("/proc/stat")
_IDLE = (3, 4)
"""Columns of idle and iowait in a cpu line of /proc/stat (proc(5))."""
_GUEST_FROM = 8
"""First of the columns guest and guest_nice, which user and nice already include."""
_CHILDREN_TIME = slice(13, 15)
"""cutime and cstime of /proc/PID/stat (proc(5)), counted from the field after the name."""
_root: int | None = None
"""Root of our process tree; ``None`` for this process."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU seconds of all processes on the cores we may use, and of our own."""

    everybody: float
    ours: float


def now() -> CpuTime | None:
    """Return the CPU time; ``None`` if the kernel does not report it."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    try:
        lines = _STAT.read_text().splitlines()
    except OSError:
        return None
    usable = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    ticks = 0
    for line in lines:
        name, *numbers = line.split()
        if name in usable:
            columns = [int(number) for number in numbers[:_GUEST_FROM]]
            ticks += sum(columns) - sum(columns[index] for index in _IDLE)
    return CpuTime(ticks / os.sysconf("SC_CLK_TCK"), _ours())


def count_descendants_of(pid: int) -> None:
    """Count the process tree under ``pid``, which includes this process, as ours."""
    global _root
    _root = pid


def _ours() -> float:
    """Return the CPU seconds of our process tree."""
    if _root is not None:
        return sum(_process_s(pid) for pid in _with_descendants(_root))
    usages = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return own + sum(_process_s(pid) for pid in _with_descendants(os.getpid())[1:])


def _with_descendants(root: int) -> list[int]:
    """Return the ids of a process and of its descendants that nobody has waited for yet."""
    pids = [root]
    for pid in pids:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
        except OSError:
            # It has ended meanwhile, or the kernel does not list children.
            continue
    return pids


def _process_s(pid: int) -> float:
    """Return the CPU seconds of a process, to the nanosecond, and of its reaped children."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        return 0.0
    try:
        own = time.clock_gettime(clock.value)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        # It was reaped meanwhile: its parent's figure includes its time.
        return 0.0
    return own + sum(map(int, fields[_CHILDREN_TIME])) / os.sysconf("SC_CLK_TCK")


def disturbed(others: float | None, threads: int) -> bool:
    """Return whether others kept so many cores busy that a timing has no interval.

    Args:
        others: busy cores, from :func:`other_cores`.
        threads: number of our working threads.
    """
    return lost_cores(others, threads) > TOO_MANY


def has_unknown_effect(others: float | None, threads: int) -> bool:
    """Return whether others kept so many cores busy that their effect on a time is not known.

    Args:
        others: busy cores, from :func:`other_cores`.
        threads: number of our working threads.
    """
    return lost_cores(others, threads) > UNKNOWN_EFFECT


def lost_cores(others: float | None, threads: int) -> float:
    """Return how many cores others kept busy beyond those that our threads leave free.

    Args:
        others: busy cores, from :func:`other_cores`.
        threads: number of our working threads.
    """
    return max(0.0, (others or 0.0) - max(0, cpus() - threads))


def cpus() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def other_cores(before: CpuTime | None, after: CpuTime | None, seconds: float) -> float | None:
    """Return the cores that other processes kept busy in between; ``None`` if unknown."""
    if before is None or after is None or seconds <= 0:
        return None
    everybody = after.everybody - before.everybody
    return max(0.0, everybody - (after.ours - before.ours)) / seconds


@dataclass(frozen=True, slots=True)
class Others:
    """CPU time that other processes used during one or more stretches of time."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    """Seconds over all cores we may use; negative where the clocks disagree by a tick."""

    def __add__(self, more: Others) -> Others:
        """Add up two stretches."""
        return Others(self.seconds + more.seconds, self.cpu_s + more.cpu_s)

    @property
    def cores(self) -> float | None:
        """Lower bound of the cores that were busy throughout; ``None`` for an empty stretch.

        /proc/stat counts whole ticks per core, so the ticks of a short stretch are subtracted.
        """
        if self.seconds <= 0:
            return None
        unsure = cpus() / os.sysconf("SC_CLK_TCK")
        return max(0.0, self.cpu_s - unsure) / self.seconds


@contextmanager
def watched(on_others: Callable[[Others], None]) -> Iterator[None]:
    """Watch other processes during the block, and report their CPU time if the kernel counts it."""
    before, began = now(), time.perf_counter()
    yield
    seconds, after = time.perf_counter() - began, now()
    if before is not None and after is not None:
        theirs = (after.everybody - before.everybody) - (after.ours - before.ours)
        on_others(Others(seconds, theirs))
