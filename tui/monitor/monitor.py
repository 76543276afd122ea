"""Sampling: the host, read here, and the newest state of the NVML loop."""

from __future__ import annotations

import heapq
import math
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from tui.core.child.inside import LEAST_INTERVAL_S, Cgroup, ParentChannel, complain, until_tick
from tui.monitor.messages import (
    MONITOR_REQUESTS,
    Cpu,
    GpuProcess,
    Host,
    HostMemory,
    HostProcesses,
    MonitorRequest,
    Pace,
    Sample,
    Watch,
    WatchDevice,
    WatchedProcess,
    WatchHost,
)
from tui.monitor.nvml_loop import NvmlLoop
from tui.monitor.processes import ProcessOwners
from workloads.protocol.machine_identity import read_machine_identity

SHORTEST_LOAD = 0.05
"""Seconds between two readings under which a load is noise: the kernel counts in ticks of 10 ms."""

_FREQUENCY_EVERY = 5.0
"""Seconds between two queries: with many idle cores, the kernel takes long to answer."""


def read_cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the CPU's name, as the kernel, macOS or Python gives it.

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
        brand = _read_cpu_brand()
        if brand:
            return brand
    return platform.processor() or platform.machine() or "unknown CPU"


def _read_cpu_brand() -> str:
    """Return the CPU's name on macOS; empty if it cannot be read."""
    try:
        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            timeout=2,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def count_usable_cores(cores: int, quota: float | None) -> int:
    """Count the cores that this process may keep busy.

    Args:
        cores: number of all cores.
        quota: CPUs' worth of time that the cgroup allows; ``None`` where it does not limit.
    """
    allowed = cores
    # macOS has no affinity.
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity is not None:
        allowed = len(affinity(0))
    if quota is not None:
        allowed = min(allowed, math.ceil(quota))
    return max(1, allowed)


class HostReader:
    """Reader of the host; a load covers the time since the previous sample."""

    def __init__(self, cgroup: Cgroup | None = None) -> None:
        """Read the host, as the first load needs.

        Args:
            cgroup: The limits of this process; ``None`` to find them.
        """
        self._cgroup = cgroup or Cgroup()
        self._name = platform.node() or "this machine"
        self._identity = read_machine_identity()
        self._model = read_cpu_model()
        self._cores = psutil.cpu_count(logical=True) or os.cpu_count() or 1
        self._frequency: tuple[float, float | None, str] | None = None
        psutil.cpu_percent(interval=None)
        self._load_read_at = time.monotonic()
        self._load: float | None = None

    @property
    def machine_memory(self) -> int:
        """The machine's memory in bytes, regardless of the cgroup's limit."""
        return int(psutil.virtual_memory().total)

    def read(self) -> Host:
        return Host(self._name, self._read_cpu(), self._read_memory(), self._identity)

    def _read_cpu(self) -> Cpu:
        unavailable: dict[str, str] = {}
        now = time.monotonic()
        if now - self._load_read_at >= SHORTEST_LOAD:
            self._load = psutil.cpu_percent(interval=None)
            self._load_read_at = now
        if self._load is None:
            unavailable["load_percent"] = "needs two samples"
        frequency, why_not = self._read_frequency(now)
        if frequency is None:
            unavailable["frequency_mhz"] = why_not
        return Cpu(
            model=self._model,
            cores=self._cores,
            cores_usable=count_usable_cores(self._cores, self._cgroup.cpus()),
            load_percent=self._load,
            frequency_mhz=frequency,
            unavailable=unavailable,
        )

    def _read_frequency(self, now: float) -> tuple[float | None, str]:
        if self._frequency is None or now - self._frequency[0] >= _FREQUENCY_EVERY:
            self._frequency = (now, *_query_frequency())
        return self._frequency[1:]

    def _read_memory(self) -> HostMemory:
        machine = psutil.virtual_memory()
        limit = self._cgroup.memory()
        if limit is None or limit.total >= machine.total:
            return HostMemory(
                int(machine.total), int(machine.total - machine.available), int(machine.available)
            )
        # The machine may have less memory available than the cgroup allows.
        room = max(0, limit.total - limit.used)
        return HostMemory(limit.total, limit.used, min(room, int(machine.available)))


def _query_frequency() -> tuple[float | None, str]:
    try:
        answer = psutil.cpu_freq()
    except (OSError, NotImplementedError, RuntimeError, AttributeError) as error:
        return None, f"not given by this system: {error}"
    # psutil writes 0 for "unknown", as on some virtual machines.
    if answer is None or not answer.current:
        return None, "not given by this system"
    return float(answer.current), ""


def read_watched_process(pid: int) -> WatchedProcess:
    """Return the host memory of one process.

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
    """Reader of every process's resident memory, which names the largest processes."""

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
                continue  # it has ended since it was listed
            except (psutil.Error, OSError):
                hidden += 1
            else:
                # A thread of the kernel has none, and cannot be ended either.
                if resident:
                    sizes.append((resident, process.pid))
        largest = heapq.nlargest(LISTED, sizes)
        now = time.time()
        self._owners.forget_all_but(pid for _, pid in largest)
        rows = tuple(self._row(pid, resident, now) for resident, pid in largest)
        rest = sum(size for size, _ in sizes) - sum(size for size, _ in largest)
        return HostProcesses(rows, len(sizes) - len(largest), rest, hidden)

    def _row(self, pid: int, resident: int, now: float) -> GpuProcess:
        owner = self._owners.find_owner(pid, now)
        load = self._owners.read_load(pid, owner)
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


MOST_WATCHED = 64
"""Processes whose memory is read with each sample, at most."""

_FIRST_WAIT = 1.0
"""Seconds that the first sample waits for NVML, which takes long to start on some boxes."""

ONLY_WAIT = 15.0
"""Seconds that a single sample waits: without persistence mode each GPU takes seconds to wake."""

LOAD_SPAN = 0.2
"""Seconds between the two readings that a CPU load needs, if there is only one sample."""


class Monitor:
    """Sampler of the host and NVML, with the state that lives between samples."""

    def __init__(self, interval: float) -> None:
        """Read the host, as the first load needs; NVML is not touched before :meth:`start_reading`.

        Args:
            interval: Seconds between samples.
        """
        self._host = HostReader()
        self.interval = interval
        self.sample_now = threading.Event()
        """Set to take the next sample at once."""
        self._nvml = NvmlLoop(interval, self._host.machine_memory)
        self._watched: tuple[int, ...] = ()
        self._host_processes: HostProcessReader | None = None
        """Only while requested: reading them all takes some milliseconds."""

    def apply_request(self, request: MonitorRequest) -> None:
        """Apply one request of the front end."""
        if isinstance(request, WatchHost):
            self._host_processes = HostProcessReader() if request.wanted else None
        elif isinstance(request, Pace):
            if not request.seconds >= LEAST_INTERVAL_S:
                complain(f"not a request: an interval of {request.seconds} s")
                return
            self.interval = request.seconds
            # The present wait may be a long one.
            self.sample_now.set()
        elif isinstance(request, WatchDevice):
            self._nvml.watch = request
            if request.detail:
                self.sample_now.set()
        elif isinstance(request, Watch):
            self._watched = tuple(dict.fromkeys(request.pids))[:MOST_WATCHED]

    def start_reading(self) -> None:
        """Start a reading of NVML without waiting for it."""
        self._nvml.request()

    def sample(self, timeout_s: float) -> Sample:
        """Read everything.

        Args:
            timeout_s: Seconds to wait for NVML before using its newest figures.
        """
        self.start_reading()
        self._nvml.wait(timeout_s)
        silent_s = self._nvml.compute_silence_s()
        at, host = time.time(), self._host.read()
        nvml, processes = self._nvml.newest, self._host_processes
        return Sample(
            at=at,
            took_s=nvml.took_s,
            host=host,
            driver=nvml.describe_driver(silent_s),
            devices=nvml.devices,
            watched=tuple(read_watched_process(pid) for pid in self._watched),
            nvml_silent_s=silent_s,
            problems=(nvml.problem,) if nvml.problem else (),
            host_processes=processes.read() if processes is not None else None,
            interval_s=self.interval,
            traffic=nvml.traffic,
            detail=nvml.detail,
        )


def serve(
    parent: ParentChannel,
    interval: float,
    keep_alive_s: float | None = None,
    *,
    changes: bool = False,
) -> None:
    """Write a sample at each tick until the front end goes away.

    Args:
        parent: The front end.
        interval: Seconds between samples.
        keep_alive_s: Seconds without a request after which the front end counts as gone.
        changes: Write samples as changes, after the first.
    """
    if changes:
        parent.send_changes_of((Sample,))
    monitor = Monitor(interval)
    parent.listen(MONITOR_REQUESTS, monitor.apply_request, keep_alive_s)
    timeout_s = _FIRST_WAIT
    while True:
        began, wait_s = time.monotonic(), until_tick(monitor.interval, time.time())
        parent.send(monitor.sample(timeout_s))
        timeout_s = min(monitor.interval, 1.0) / 2
        monitor.sample_now.wait(max(0.0, began + wait_s - time.monotonic()))
        monitor.sample_now.clear()


def send_one_sample(parent: ParentChannel) -> None:
    """Write one sample to the parent."""
    monitor = Monitor(interval=1.0)
    monitor.start_reading()
    time.sleep(LOAD_SPAN)
    parent.send(monitor.sample(ONLY_WAIT))
