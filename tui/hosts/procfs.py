"""Stands in for psutil on a host whose Python lacks it: the calls of the monitor, from /proc.

A zip file cannot hold psutil, whose core is C. Here are its names, units and errors, as far as the
monitor uses them; Linux only. Fields are described in proc(5).
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_IDLE = (3, 4)
"""Columns of idle and iowait in the cpu line of /proc/stat."""
_GUEST_FROM = 8
"""guest and guest_nice are counted in user and nice already."""
_STATE, _PARENT, _USER_TIME, _SYSTEM_TIME, _START = 0, 1, 11, 12, 19
"""Columns of /proc/PID/stat, counted from what follows the name."""


class Error(Exception):
    """A process cannot be read."""


class NoSuchProcess(Error):  # noqa: N818 (psutil's name)
    """No process has this id."""


class ZombieProcess(NoSuchProcess):
    """The process has ended, and its parent has not collected it."""


class AccessDenied(Error):  # noqa: N818 (psutil's name)
    """This user may not read the process."""


class VirtualMemory(NamedTuple):
    """Memory of the machine, bytes."""

    total: int
    available: int


class MemoryInfo(NamedTuple):
    """Memory of a process, bytes."""

    rss: int
    uss: int = 0


class CpuTimes(NamedTuple):
    """Processor time of a process, seconds."""

    user: float
    system: float


class Frequency(NamedTuple):
    """Clock of the processor, MHz."""

    current: float


class Process:
    """One process.

    Args:
        pid: its id.

    Raises:
        NoSuchProcess: there is none.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._stat()

    def create_time(self) -> float:
        """Return the Unix time at which it started, to a tick."""
        return _boot_time() + int(self._stat()[_START]) / _TICKS

    def name(self) -> str:
        """Return the name of its program, cut by the kernel to 15 characters."""
        return self._read("comm").rstrip("\n")

    def cmdline(self) -> list[str]:
        """Return its command line; empty for a thread of the kernel."""
        words = self._read("cmdline")
        if not words and self._stat()[_STATE] == "Z":
            raise ZombieProcess(f"process {self.pid} has ended")
        # A program may have written another text there, without the last zero.
        return words[: -1 if words.endswith("\0") else None].split("\0") if words else []

    def username(self) -> str:
        """Return the name of its real user, or the number where that has no name."""
        for line in self._read("status").splitlines():
            if line.startswith("Uid:"):
                user = int(line.split()[1])
                try:
                    return pwd.getpwuid(user).pw_name
                except KeyError:
                    return str(user)
        raise AccessDenied(f"the user of process {self.pid} is hidden")

    def ppid(self) -> int:
        """Return the id of its parent."""
        return int(self._stat()[_PARENT])

    def parents(self) -> list[Process]:
        """Return its readable ancestors, from its parent on."""
        parents: list[Process] = []
        process = self
        try:
            while process.ppid() > 0 and len(parents) < 1000:
                process = Process(process.ppid())
                parents.append(process)
        except Error:
            pass
        return parents

    def cpu_times(self) -> CpuTimes:
        """Return the processor time that it has used, seconds."""
        fields = self._stat()
        return CpuTimes(int(fields[_USER_TIME]) / _TICKS, int(fields[_SYSTEM_TIME]) / _TICKS)

    def memory_info(self) -> MemoryInfo:
        """Return its resident memory, bytes."""
        return MemoryInfo(int(self._read("statm").split()[1]) * _PAGE)

    def memory_full_info(self) -> MemoryInfo:
        """Return its memory with what would be freed if it ended, bytes."""
        unique = 0
        for line in self._read("smaps_rollup").splitlines():
            if line.startswith("Private_"):
                unique += int(line.split()[1]) * 1024
        return MemoryInfo(self.memory_info().rss, unique)

    @contextmanager
    def oneshot(self) -> Iterator[None]:
        """Provide psutil's interface for several figures at once; each is read by itself here."""
        yield

    def _stat(self) -> list[str]:
        return self._read("stat").rpartition(")")[2].split()

    def _read(self, name: str) -> str:
        try:
            data = (_PROC / str(self.pid) / name).read_bytes()
        except PermissionError as error:
            raise AccessDenied(str(error)) from error
        except (FileNotFoundError, ProcessLookupError) as error:
            raise NoSuchProcess(f"no process {self.pid}") from error
        except OSError as error:
            raise Error(str(error)) from error
        return data.decode("utf-8", "surrogateescape")


def process_iter() -> Iterator[Process]:
    """Yield every process, by id."""
    for pid in sorted(int(entry.name) for entry in _PROC.glob("[0-9]*")):
        try:
            yield Process(pid)
        except Error:
            continue


def cpu_count(logical: bool = True) -> int | None:
    """Return how many processors the machine has."""
    del logical
    return os.cpu_count()


_newest_times: tuple[int, int] | None = None


def cpu_percent(interval: float | None = None) -> float:
    """Return the busy share of all processors since the call before, percent; first 0."""
    del interval
    global _newest_times
    with (_PROC / "stat").open() as file:
        columns = [int(number) for number in file.readline().split()[1:][:_GUEST_FROM]]
    total, idle = sum(columns), sum(columns[index] for index in _IDLE)
    before, _newest_times = _newest_times, (total, idle)
    if before is None or total <= before[0]:
        return 0.0
    share = 1 - (idle - before[1]) / (total - before[0])
    return round(100 * min(1.0, max(0.0, share)), 1)


def virtual_memory() -> VirtualMemory:
    """Return the machine's memory."""
    figures = {}
    for line in (_PROC / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        figures[name] = int(value.split()[0]) * 1024
    # Kernels before 3.14 have no MemAvailable.
    available = figures.get("MemAvailable", figures["MemFree"] + figures.get("Cached", 0))
    return VirtualMemory(figures["MemTotal"], available)


def cpu_freq() -> Frequency | None:
    """Return the mean clock of the processors; ``None`` where the kernel does not give it."""
    clocks = []
    for line in (_PROC / "cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "cpu MHz":
            clocks.append(float(value))
    return Frequency(sum(clocks) / len(clocks)) if clocks else None


def _boot_time() -> float:
    for line in (_PROC / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise Error("the kernel does not give the time of its start")
