"""The processes that use a device: NVML's lists, one row for each PID, and its owner."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from tui.core.text import secrets
from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import GpuProcess, ParentProcess
from tui.monitor.nvml import Code, NoAnswer, is_windows_driver
from workloads import ENTRY

LONGEST_COMMAND = 2000
"""Characters of a command line that are passed on; some launchers put a whole script there."""

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of /proc/self/ns/pid outside any container (Linux, PROC_PID_INIT_INO)."""

_CLOCK_SLACK = 2.0
"""Tolerance in seconds of a process's start: the kernel gives its boot time in whole seconds."""

_USES_A_GPU = ("/dev/nvidia", "libcuda", "libnvidia-")


@dataclass(frozen=True)
class ProcessOwner:
    """The owner of one PID; ``unavailable`` has the reasons for absent fields."""

    user: str | None = None
    command: str | None = None
    started_at: float | None = None
    """Unix time."""
    ours: bool = False
    """Started by this program, directly or through a descendant."""
    parent: ParentProcess | None = None
    """The process that started it; ``None`` where unknown, or for the system's first process."""
    parent_pid: int | None = None
    """The parent's PID, known or not: it changes where the parent ends."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProcessLoad:
    """A process's load on the host; ``unavailable`` has the reasons for absent fields."""

    cpu_percent: float | None = None
    """Processor time since the previous reading; 100 is one core."""
    resident: int | None = None
    """Bytes."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _LoadReading:
    """One reading of a process's times."""

    started_at: float
    at: float
    """Seconds on a clock that never goes back."""
    cpu_s: float
    load: ProcessLoad


SHORTEST_LOAD_S = 0.05
"""Seconds between readings below which a load is noise: the kernel counts in 10 ms ticks."""
_TWO_SAMPLES = "needs two samples"


def make_unknown_owner(reason: str) -> ProcessOwner:
    """Return an owner without any fields, all absent for one reason."""
    absent = {"user": reason, "command": reason}
    return ProcessOwner(None, None, None, unavailable=absent)


def is_in_pid_namespace() -> bool:
    """Return whether this process is in a PID namespace, where NVML's PIDs may not fit."""
    if sys.platform != "linux":
        return False
    try:
        return Path("/proc/self/ns/pid").stat().st_ino != _FIRST_PID_NAMESPACE
    except OSError:
        return False


class ProcessOwners:
    """Cache of the owners of PIDs, valid while a PID is the same process."""

    def __init__(
        self,
        own_pids: bool | None = None,
        program: int | None = None,
        boot_text: str | None = None,
    ) -> None:
        """Start without any process.

        Args:
            own_pids: Whether PIDs here may differ from NVML's; ``None`` to find out.
            program: The PID whose descendants belong to this program; ``None`` for our parent.
            boot_text: Text in the command of each child of ``program`` that belongs to us: an sshd
                also has the user's shell as a child, and this program the user's own commands.
                Empty if all children do; ``None`` for the text that this Python got with ``-c``,
                or the path of our entry.
        """
        self.own_pids = is_in_pid_namespace() if own_pids is None else own_pids
        self._program = os.getppid() if program is None else program
        self._boot_text = _read_boot_text() if boot_text is None else boot_text
        self._known: dict[int, ProcessOwner] = {}
        self._loads: dict[int, _LoadReading] = {}

    def forget_all_but(self, pids: Iterable[int]) -> None:
        """Forget every process that is not among ``pids``."""
        present = set(pids)
        self._known = {pid: owner for pid, owner in self._known.items() if pid in present}
        self._loads = {pid: reading for pid, reading in self._loads.items() if pid in present}

    def find_owner(self, pid: int, listed_at: float) -> ProcessOwner:
        """Return the owner of a process.

        Args:
            pid: As NVML gives it: the host's, which in a container may be another process here.
            listed_at: Unix time at which NVML listed it; a process that started later is another.
        """
        try:
            process = psutil.Process(pid)
            started_at = process.create_time()
        except psutil.NoSuchProcess:
            return make_unknown_owner(self._explain_absence())
        except psutil.AccessDenied:
            return make_unknown_owner("needs root: not allowed to look at this process")
        except (psutil.Error, ValueError, OverflowError) as error:
            return make_unknown_owner(f"cannot be found: {error}")
        known = self._known.get(pid)
        if known is not None and known.started_at == started_at:
            parent_pid = _read_parent_pid(process)
            if known.parent_pid != parent_pid:
                # Its parent has ended; the other facts stay the same.
                known = replace(known, parent=_read_parent(parent_pid), parent_pid=parent_pid)
                self._known[pid] = known
            return known
        if started_at > listed_at + _CLOCK_SLACK:
            return make_unknown_owner("the PID has been reused since NVML named it")
        owner = self._read(process, started_at)
        # Cache complete rows only: a program may still exec, permissions may still change.
        if not owner.unavailable:
            self._known[pid] = owner
        return owner

    def _explain_absence(self) -> str:
        if self.own_pids:
            return "no such process: in a container, NVML lists the host's PIDs"
        return "no such process: it has ended, is hidden from this user, or runs in a container"

    def _read(self, process: psutil.Process, started_at: float) -> ProcessOwner:
        unavailable: dict[str, str] = {}
        user = command = None
        try:
            user = process.username()
        except psutil.Error as error:
            unavailable["user"] = self._explain_error(error)
        try:
            command = _read_command(process)
        except psutil.Error as error:
            unavailable["command"] = self._explain_error(error)
        zombie = unavailable.get("command", "").startswith("zombie")
        if self.own_pids and not zombie:
            doubt = _explain_pid_doubt(process.pid)
            if doubt:
                return make_unknown_owner(doubt)
        is_own = self._is_ours(process)
        parent_pid = _read_parent_pid(process)
        parent = _read_parent(parent_pid)
        return ProcessOwner(user, command, started_at, is_own, parent, parent_pid, unavailable)

    def read_load(self, pid: int, owner: ProcessOwner) -> ProcessLoad:
        """Return the load that the process puts on the host.

        Args:
            pid: Of this machine.
            owner: The result of :meth:`find_owner`: where the PID is not tied to a process
                here, its figures would be somebody else's.
        """
        if owner.started_at is None:
            why = owner.unavailable.get("user", "not known")
            return ProcessLoad(unavailable={"cpu_percent": why, "host_memory": why})
        now, last = time.monotonic(), self._loads.get(pid)
        if last is not None and last.started_at != owner.started_at:
            last = None
        if last is not None and now - last.at < SHORTEST_LOAD_S:
            return last.load  # it is on several devices, and was read for the one before
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times, resident = process.cpu_times(), int(process.memory_info().rss)
        except psutil.Error as error:
            why = self._explain_error(error)
            return ProcessLoad(unavailable={"cpu_percent": why, "host_memory": why})
        cpu_s = times.user + times.system
        load = ProcessLoad(None, resident, {"cpu_percent": _TWO_SAMPLES})
        if last is not None:
            load = ProcessLoad(100 * max(0.0, cpu_s - last.cpu_s) / (now - last.at), resident)
        self._loads[pid] = _LoadReading(owner.started_at, now, cpu_s, load)
        return load

    def _is_ours(self, process: psutil.Process) -> bool:
        """Return whether this program started a process.

        A process whose parent has ended, as a rank whose torchrun was killed, is still in the
        session of the child that it comes from.
        """
        try:
            if self._is_descendant(process):
                return True
            leader = os.getsid(process.pid)
            return leader not in (0, process.pid) and self._is_descendant(psutil.Process(leader))
        except (psutil.Error, OSError):
            return False

    def _is_descendant(self, process: psutil.Process) -> bool:
        below: psutil.Process | None = None
        for ancestor in (process, *process.parents()):
            if ancestor.pid == self._program:
                return below is None or self._boot_text in " ".join(below.cmdline())
            below = ancestor
        return False

    def _explain_error(self, error: psutil.Error) -> str:
        # ZombieProcess is a NoSuchProcess to psutil.
        if isinstance(error, psutil.ZombieProcess):
            return "zombie: it has ended, but its parent has not collected it"
        if isinstance(error, psutil.NoSuchProcess):
            return self._explain_absence()
        if isinstance(error, psutil.AccessDenied):
            return "needs root: not allowed to look at this process"
        return str(error)


def _read_boot_text() -> str:
    """Return text in the command of each of our children: of this Python's ``-c``, or our entry.

    Another host has the ``-c``. Here, a command that the user runs under the watch is the
    program's child too, through a supervisor that is started without the entry.
    """
    try:
        words = psutil.Process(os.getpid()).cmdline()
    except psutil.Error:
        return ENTRY
    return words[words.index("-c") + 1] if "-c" in words[:-1] else ENTRY


def _read_parent_pid(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.Error:
        return None


def _read_parent(pid: int | None) -> ParentProcess | None:
    """Return a parent by its PID; none for the system's first process, which adopts orphans."""
    if pid is None or pid <= 1:
        return None
    try:
        process = psutil.Process(pid)
        return ParentProcess(pid, process.username(), _read_command(process), process.create_time())
    except psutil.Error:
        return None


def _read_command(process: psutil.Process) -> str:
    """Return a process's command line with likely secrets masked."""
    words = secrets.command_line(process.cmdline() or [process.name()])
    text = " ".join(words).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text if len(text) <= LONGEST_COMMAND else text[: LONGEST_COMMAND - 1] + "…"


def _explain_pid_doubt(pid: int) -> str | None:
    """Explain why a process of this container may not be the one NVML means, or return None.

    The same number may belong to an unrelated process here; only one that has the NVIDIA driver
    mapped can be meant.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return "in a container: the PID may be the host's"
    if any(os.fsencode(mark) in maps for mark in _USES_A_GPU):
        return None
    return "in a container: the PID is the host's, not that of a process in here"


_LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}
NO_SAMPLE = "the driver has no new sample of this process"
_NOT_AVAILABLE = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE where a binding passes it on as it is."""


@dataclass(frozen=True)
class ListedProcess:
    """One entry of one of NVML's lists."""

    pid: int
    kind: str
    memory: int | None
    """Bytes, as NVML gives them; ``None`` or all ones where it does not."""


def query_lists(fields: FieldReader) -> tuple[list[ListedProcess] | None, dict[str, str]]:
    """Query all lists; return ``None`` only if neither compute nor graphics is available.

    Returns:
        The entries, and reasons under ``processes`` or ``processes.<kind>``.

    Raises:
        DeviceGoneError: the whole device is lost.
    """
    listed: list[ListedProcess] = []
    missing: dict[str, str] = {}
    for kind, name in _LISTS.items():
        # The name without a version is the newest that the binding knows; v2 is for old drivers.
        answer = fields.query(f"processes.{kind}", (name,), (f"{name}_v2",))
        if isinstance(answer, NoAnswer):
            missing[f"processes.{kind}"] = answer.reason
            continue
        for entry in answer:
            memory = entry.usedGpuMemory
            memory = None if memory is None else int(memory)
            listed.append(ListedProcess(int(entry.pid), kind, memory))
    if "processes.compute" in missing and "processes.graphics" in missing and not listed:
        return None, {"processes": missing["processes.compute"]}
    return listed, missing


SAMPLED_S = 2.0
"""Maximum age in seconds of a sample of a process's utilisation. The driver samples at least once
a second: a lower limit would miss some processes at times (XuehaiPan/nvitop#91)."""


def query_sm_percent(fields: FieldReader, at: float) -> dict[int, float] | NoAnswer:
    """Query each process's share of busy time: percent by PID, from its newest sample.

    Samples that are older than requested or above 100% are the driver's garbage
    (Syllo/nvtop#110) and left out. That there is no sample at all is an answer.

    Args:
        fields: Queries the device.
        at: Unix time of the reading.

    Raises:
        DeviceGoneError: the whole device is lost.
    """
    since_us = int((at - SAMPLED_S) * 1e6)
    answer = fields.query("process utilization", ("nvmlDeviceGetProcessUtilization", since_us))
    if isinstance(answer, NoAnswer):
        return {} if answer.code == Code.NOT_FOUND else answer
    # The newest comes last, and replaces the others.
    samples = sorted(
        (int(entry.timeStamp), int(entry.pid), float(entry.smUtil)) for entry in answer
    )
    return {pid: sm for taken_us, pid, sm in samples if taken_us >= since_us and sm <= 100}


def build_rows(
    listed: list[ListedProcess],
    owners: ProcessOwners,
    *,
    listed_at: float,
    total: int | None,
    mig: bool,
    busy: dict[int, float] | NoAnswer,
) -> tuple[GpuProcess, ...]:
    """Build one row for each PID, in NVML's order, including PIDs without known owners.

    Args:
        listed: NVML's entries, in which a PID may occur more than once.
        owners: Looks up user and command.
        listed_at: Unix time before NVML's answer.
        total: The device's memory in bytes: a process cannot have more.
        mig: MIG mode is on, which explains a missing figure.
        busy: The result of :func:`query_sm_percent`.
    """
    by_pid: dict[int, list[ListedProcess]] = {}
    for entry in listed:
        by_pid.setdefault(entry.pid, []).append(entry)
    result = []
    for pid, entries in by_pid.items():
        memory, why_not = _choose_memory(entries, total, mig, owners.own_pids)
        owner = owners.find_owner(pid, listed_at)
        load = owners.read_load(pid, owner)
        unavailable = {**owner.unavailable, **load.unavailable}
        sm = None if isinstance(busy, NoAnswer) else busy.get(pid)
        if sm is None:
            unavailable["sm_percent"] = busy.reason if isinstance(busy, NoAnswer) else NO_SAMPLE
        if why_not:
            unavailable["memory"] = why_not
        result.append(
            GpuProcess(
                pid=pid,
                user=owner.user,
                command=owner.command,
                memory=memory,
                kind="+".join(dict.fromkeys(entry.kind for entry in entries)),
                started_at=owner.started_at,
                ours=owner.ours,
                sm_percent=sm,
                cpu_percent=load.cpu_percent,
                host_memory=load.resident,
                parent=owner.parent,
                unavailable=unavailable,
            )
        )
    return tuple(result)


def _choose_memory(
    entries: list[ListedProcess], total: int | None, mig: bool, own_pids: bool
) -> tuple[int | None, str | None]:
    """Return the memory of one PID: the largest of the lists, since each counts all of it."""
    reported = [
        entry.memory
        for entry in entries
        if entry.memory is not None and entry.memory != _NOT_AVAILABLE
    ]
    possible = [memory for memory in reported if total is None or memory <= total]
    if possible:
        return max(possible), None
    if reported:
        return None, f"the driver gave {max(reported)} bytes, more than the device has"
    if mig:
        return None, "not offered under MIG"
    if is_windows_driver():
        return None, "not given by the Windows driver (WDDM)"
    if own_pids:
        return None, "the driver does not give it: in a container the PIDs are the host's"
    return None, "the driver does not give it"
