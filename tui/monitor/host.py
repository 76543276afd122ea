"""The machine around the devices: its CPU, its memory, and processes that are being watched."""

from __future__ import annotations

import heapq
import math
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tui.child.cgroup import Cgroup
from tui.monitor.messages import Cpu, GpuProcess, Host, HostMemory, HostProcesses, WatchedProcess
from tui.monitor.process_owners import ProcessOwners

SHORTEST_LOAD = 0.05
"""Seconds between two readings under which a load is noise: the kernel counts in ticks of 10 ms."""

_FREQUENCY_EVERY = 5.0
"""Seconds; the kernel takes long to tell the clock of each of many idle cores."""


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the CPU is called, in the words of the kernel, of macOS, or of Python.

    Args:
        cpuinfo: The kernel's description; on ARM it holds no name.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model") and value.strip():
            return " ".join(value.split())
    if sys.platform == "darwin":
        brand = _sysctl("machdep.cpu.brand_string")
        if brand:
            return brand
    return platform.processor() or platform.machine() or "unknown CPU"


def _sysctl(name: str) -> str:
    try:
        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", name],
            capture_output=True,
            text=True,
            timeout=2,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def cores_usable(cores: int, quota: float | None) -> int:
    """How many cores this process may keep busy.

    Args:
        cores: All that there are.
        quota: CPUs' worth of time that the cgroup allows; ``None`` where it does not limit.
    """
    allowed = cores
    # Not on macOS.
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity is not None:
        allowed = len(affinity(0))
    if quota is not None:
        allowed = min(allowed, math.ceil(quota))
    return max(1, allowed)


class HostReader:
    """Reads the host at each sample; a load is what happened since the sample before."""

    def __init__(self, cgroup: Cgroup | None = None) -> None:
        """Take the first reading, which the first load needs.

        Args:
            cgroup: The limits that hold for this process; found out if None.
        """
        self._cgroup = cgroup or Cgroup()
        self._name = platform.node() or "this machine"
        self._model = cpu_model()
        self._cores = psutil.cpu_count(logical=True) or os.cpu_count() or 1
        self._frequency: tuple[float, float | None, str] | None = None
        psutil.cpu_percent(interval=None)
        self._load_read_at = time.monotonic()
        self._load: float | None = None

    @property
    def machine_memory(self) -> int:
        """Bytes that the machine has, whatever the cgroup's limit is."""
        return int(psutil.virtual_memory().total)

    def read(self) -> Host:
        return Host(name=self._name, cpu=self._read_cpu(), memory=self._read_memory())

    def _read_cpu(self) -> Cpu:
        unavailable: dict[str, str] = {}
        now = time.monotonic()
        if now - self._load_read_at >= SHORTEST_LOAD:
            self._load = psutil.cpu_percent(interval=None)
            self._load_read_at = now
        if self._load is None:
            unavailable["load_percent"] = "needs two looks: known with the next sample"
        frequency, why_not = self._read_frequency(now)
        if frequency is None:
            unavailable["frequency_mhz"] = why_not
        return Cpu(
            model=self._model,
            cores=self._cores,
            cores_usable=cores_usable(self._cores, self._cgroup.cpus()),
            load_percent=self._load,
            frequency_mhz=frequency,
            unavailable=unavailable,
        )

    def _read_frequency(self, now: float) -> tuple[float | None, str]:
        if self._frequency is None or now - self._frequency[0] >= _FREQUENCY_EVERY:
            self._frequency = (now, *_frequency())
        return self._frequency[1:]

    def _read_memory(self) -> HostMemory:
        machine = psutil.virtual_memory()
        limit = self._cgroup.memory()
        if limit is None or limit.total >= machine.total:
            return HostMemory(
                int(machine.total), int(machine.total - machine.available), int(machine.available)
            )
        # The limit is a promise of the cgroup only: the machine may have less to give.
        room = max(0, limit.total - limit.used)
        return HostMemory(limit.total, limit.used, min(room, int(machine.available)))


def _frequency() -> tuple[float | None, str]:
    try:
        answer = psutil.cpu_freq()
    except (OSError, NotImplementedError, RuntimeError, AttributeError) as error:
        return None, f"not given by this system: {error}"
    # psutil writes 0 for "unknown", as on some virtual machines.
    if answer is None or not answer.current:
        return None, "not given by this system"
    return float(answer.current), ""


def watched_process(pid: int) -> WatchedProcess:
    """The host memory of one process.

    Args:
        pid: Of this machine.
    """
    unavailable: dict[str, str] = {}
    unique = resident = None
    try:
        process = psutil.Process(pid)
        resident = int(process.memory_info().rss)
        unique = int(process.memory_full_info().uss)
    except psutil.ZombieProcess:
        unavailable["unique"] = "zombie: it has ended"
    except psutil.NoSuchProcess:
        unavailable["unique"] = "no such process: it has ended"
    except psutil.AccessDenied:
        unavailable["unique"] = "needs root: not allowed to look at this process"
    except (psutil.Error, OSError, ValueError, OverflowError) as error:
        unavailable["unique"] = f"cannot be read: {error}"
    if resident is None:
        unavailable["resident"] = unavailable["unique"]
    return WatchedProcess(pid, unique, resident, unavailable)


LISTED = 40
"""Processes that are named; the memory of all others is one sum."""


class HostProcessReader:
    """Reads the resident memory of every process that has some, and names the largest."""

    def __init__(self) -> None:
        # These PIDs are this namespace's own, whatever NVML's are.
        self._owners = ProcessOwners(own_pids=False)

    def read(self) -> HostProcesses:
        """Read all processes of this PID namespace."""
        sizes: list[tuple[int, int]] = []
        hidden = 0
        for process in psutil.process_iter():
            try:
                resident = int(process.memory_info().rss)
            except psutil.NoSuchProcess:
                continue  # it has ended since it was listed: it holds nothing
            except (psutil.Error, OSError):
                hidden += 1
            else:
                # A kernel's thread has none, and could not be ended either.
                if resident:
                    sizes.append((resident, process.pid))
        largest = heapq.nlargest(LISTED, sizes)
        now = time.time()
        self._owners.keep_only(pid for _, pid in largest)
        rows = tuple(self._row(pid, resident, now) for resident, pid in largest)
        rest = sum(size for size, _ in sizes) - sum(size for size, _ in largest)
        return HostProcesses(rows, len(sizes) - len(largest), rest, hidden)

    def _row(self, pid: int, resident: int, now: float) -> GpuProcess:
        owner = self._owners.look_up(pid, now)
        load = self._owners.load(pid, owner)
        return GpuProcess(
            pid=pid,
            user=owner.user,
            command=owner.command,
            memory=resident,
            kind="resident",
            started_at=owner.started_at,
            ours=owner.ours,
            cpu_percent=load.cpu_percent,
            host_memory=resident,
            parent=owner.parent,
            unavailable={**owner.unavailable, **load.unavailable},
        )
