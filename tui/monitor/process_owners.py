"""Who owns a process that NVML names: user and command from this machine's process table."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path

import psutil

from tui.monitor.messages import ParentProcess
from workloads.protocol.frozen import frozen

LONGEST_COMMAND = 2000
"""Characters of a command line that are passed on; some launchers put a whole script there."""

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of /proc/self/ns/pid outside any container (Linux, PROC_PID_INIT_INO)."""

_CLOCK_SLACK = 2.0
"""Seconds that the start of a process may be off: the kernel gives its boot time in whole ones."""

_USES_A_GPU = ("/dev/nvidia", "libcuda", "libnvidia-")


@frozen
class ProcessOwner:
    """What this machine knows of one PID; ``unavailable`` says why it does not know the rest."""

    user: str | None = None
    command: str | None = None
    started_at: float | None = None
    """Unix time."""
    ours: bool = False
    """The program started it, itself or through a process that it started."""
    parent: ParentProcess | None = None
    """Who started it; ``None`` where that is not known, or is the system's first process."""
    parent_pid: int | None = None
    """The parent's PID, known or not: it changes where the parent ends."""
    unavailable: dict[str, str] = field(default_factory=dict)


@frozen
class ProcessLoad:
    """What a process takes of the host; ``unavailable`` says why something is not known."""

    cpu_percent: float | None = None
    """Processor time since it was last looked at; 100 is one core."""
    resident: int | None = None
    """Bytes."""
    unavailable: dict[str, str] = field(default_factory=dict)


@frozen
class _Look:
    """One look at a process's times."""

    started_at: float
    at: float
    """Seconds on a clock that never goes back."""
    cpu_s: float
    load: ProcessLoad


SHORTEST_LOAD_S = 0.05
"""Seconds between two looks under which a load is noise: the kernel counts in ticks of 10 ms."""
_TWO_LOOKS = "needs two looks: known with the next sample"


def unknown_owner(reason: str, started_at: float | None = None) -> ProcessOwner:
    """The owner of a PID of which nothing can be said, and why."""
    absent = {"user": reason, "command": reason}
    return ProcessOwner(None, None, started_at, unavailable=absent)


def has_own_pids() -> bool:
    """Whether this process lives in a PID namespace of its own, where NVML's PIDs may not fit."""
    if sys.platform != "linux":
        return False
    try:
        return Path("/proc/self/ns/pid").stat().st_ino != _FIRST_PID_NAMESPACE
    except OSError:
        return False


def on_windows_driver() -> bool:
    """Whether the driver is Windows' (WDDM), as under WSL: it keeps memory per process secret."""
    return sys.platform == "win32" or "microsoft" in platform.release().lower()


class ProcessOwners:
    """Looks PIDs up, and remembers them for as long as they are the same process."""

    def __init__(self, own_pids: bool | None = None, program: int | None = None) -> None:
        """Start without any process.

        Args:
            own_pids: Whether PIDs here may differ from those that NVML gives; found out if None.
            program: The PID whose descendants are the program's own; if None, who started us.
        """
        self.own_pids = has_own_pids() if own_pids is None else own_pids
        self._program = os.getppid() if program is None else program
        self._known: dict[int, ProcessOwner] = {}
        self._looks: dict[int, _Look] = {}

    def keep_only(self, pids: Iterable[int]) -> None:
        """Forget every process that is not among ``pids``."""
        wanted = set(pids)
        self._known = {pid: owner for pid, owner in self._known.items() if pid in wanted}
        self._looks = {pid: look for pid, look in self._looks.items() if pid in wanted}

    def look_up(self, pid: int, listed_at: float) -> ProcessOwner:
        """The owner of a process.

        Args:
            pid: As NVML gives it: the host's, which in a container may be another process here.
            listed_at: Unix time at which NVML named it; a process that started later is another.
        """
        try:
            process = psutil.Process(pid)
            started_at = process.create_time()
        except psutil.NoSuchProcess:
            return unknown_owner(self._not_here())
        except psutil.AccessDenied:
            return unknown_owner("needs root: not allowed to look at this process")
        except (psutil.Error, ValueError, OverflowError) as error:
            return unknown_owner(f"cannot be looked up: {error}")
        known = self._known.get(pid)
        if known is not None and known.started_at == started_at:
            parent_pid = _parent_pid(process)
            if known.parent_pid != parent_pid:
                # It is an orphan; whose it is stays as it was.
                known = replace(known, parent=_parent(parent_pid), parent_pid=parent_pid)
                self._known[pid] = known
            return known
        if started_at > listed_at + _CLOCK_SLACK:
            return unknown_owner("the PID has been reused since NVML named it")
        owner = self._read(process, started_at)
        # Only what is complete is kept: a program may still exec, permissions may still change.
        if not owner.unavailable:
            self._known[pid] = owner
        return owner

    def _not_here(self) -> str:
        if self.own_pids:
            return "no such process here: in a container the PID is the host's"
        return "no such process here: it has ended, is hidden from this user, or is a container's"

    def _read(self, process: psutil.Process, started_at: float) -> ProcessOwner:
        unavailable: dict[str, str] = {}
        user = command = None
        try:
            user = process.username()
        except psutil.Error as error:
            unavailable["user"] = self._reason(error)
        try:
            command = _command(process)
        except psutil.Error as error:
            unavailable["command"] = self._reason(error)
        zombie = unavailable.get("command", "").startswith("zombie")
        if self.own_pids and not zombie:
            doubt = _doubt(process.pid)
            if doubt:
                return unknown_owner(doubt)
        ours = self._is_ours(process)
        parent_pid = _parent_pid(process)
        parent = _parent(parent_pid)
        return ProcessOwner(user, command, started_at, ours, parent, parent_pid, unavailable)

    def load(self, pid: int, owner: ProcessOwner) -> ProcessLoad:
        """What the process takes of the host.

        Args:
            pid: Of this machine.
            owner: What :meth:`look_up` has just said of it: where the PID is not tied to a process
                here, its figures would be somebody else's.
        """
        if owner.started_at is None:
            why = owner.unavailable.get("user", "not known")
            return ProcessLoad(unavailable={"cpu_percent": why, "host_memory": why})
        now, last = time.monotonic(), self._looks.get(pid)
        if last is not None and last.started_at != owner.started_at:
            last = None
        if last is not None and now - last.at < SHORTEST_LOAD_S:
            return last.load  # it is on several devices, and was looked at for the one before
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times, resident = process.cpu_times(), int(process.memory_info().rss)
        except psutil.Error as error:
            why = self._reason(error)
            return ProcessLoad(unavailable={"cpu_percent": why, "host_memory": why})
        cpu_s = times.user + times.system
        load = ProcessLoad(None, resident, {"cpu_percent": _TWO_LOOKS})
        if last is not None:
            load = ProcessLoad(100 * max(0.0, cpu_s - last.cpu_s) / (now - last.at), resident)
        self._looks[pid] = _Look(owner.started_at, now, cpu_s, load)
        return load

    def _is_ours(self, process: psutil.Process) -> bool:
        """Whether the program started it.

        A process whose parent has ended, as a rank whose torchrun was killed, is still in the
        session of the child that it comes from.
        """
        try:
            if self._descends(process):
                return True
            leader = os.getsid(process.pid)
            return leader not in (0, process.pid) and self._descends(psutil.Process(leader))
        except (psutil.Error, OSError):
            return False

    def _descends(self, process: psutil.Process) -> bool:
        return any(each.pid == self._program for each in (process, *process.parents()))

    def _reason(self, error: psutil.Error) -> str:
        # ZombieProcess is a NoSuchProcess to psutil.
        if isinstance(error, psutil.ZombieProcess):
            return "zombie: it has ended, but its parent has not collected it"
        if isinstance(error, psutil.NoSuchProcess):
            return self._not_here()
        if isinstance(error, psutil.AccessDenied):
            return "needs root: not allowed to look at this process"
        return str(error)


def _parent_pid(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.Error:
        return None


def _parent(pid: int | None) -> ParentProcess | None:
    """A parent by its PID; the system's first process adopts the orphans and started none."""
    if pid is None or pid <= 1:
        return None
    try:
        process = psutil.Process(pid)
        return ParentProcess(pid, process.username(), _command(process), process.create_time())
    except psutil.Error:
        return None


def _command(process: psutil.Process) -> str:
    words = process.cmdline() or [process.name()]
    text = " ".join(words).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text if len(text) <= LONGEST_COMMAND else text[: LONGEST_COMMAND - 1] + "…"


def _doubt(pid: int) -> str | None:
    """Why a process of this container may not be the one that NVML means; None if it is.

    The same number may belong to an unrelated process here; only one that has the NVIDIA driver
    mapped can be meant.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return "a container: cannot tell whether the PID is the host's"
    if any(os.fsencode(mark) in maps for mark in _USES_A_GPU):
        return None
    return "a container: the PID is the host's, and not the process of that number here"
