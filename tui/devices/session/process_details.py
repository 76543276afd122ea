"""The facts of a process of this machine that only its page of details shows.

psutil reads them once, when the user opens the page. The environment is masked before it
leaves this module; it is neither sent nor recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from tui.core.text import secrets
from tui.devices.session.terminate import is_still
from tui.monitor.messages import GpuProcess

T = TypeVar("T")
MOST_RELATIVES = 200
"""Descendants that are listed, at most."""


@dataclass(frozen=True, slots=True)
class ThreadDetails:
    """One thread of a process."""

    id: int
    name: str | None
    cpu_s: float
    """Seconds of processor time since it started."""


@dataclass(frozen=True, slots=True)
class Relative:
    """The process, an ancestor, or a descendant."""

    pid: int
    command: str
    depth: int
    """Steps below the oldest ancestor."""


@dataclass(frozen=True, slots=True)
class ProcessDetails:
    """The system's facts about a process; a missing fact has its reason in ``unavailable``."""

    pid: int
    executable: str | None = None
    folder: str | None = None
    """The current directory."""
    state: str | None = None
    """The system's word, such as sleeping or running."""
    open_files: int | None = None
    """File descriptors."""
    threads: tuple[ThreadDetails, ...] | None = None
    """Threads with the most processor time first."""
    environment: tuple[tuple[str, str], ...] | None = None
    """Sorted by name, with likely secrets masked."""
    tree: tuple[Relative, ...] | None = None
    """Its ancestors, itself and its descendants, each below its parent."""
    unavailable: dict[str, str] = field(default_factory=dict)


def read_process_details(row: GpuProcess) -> ProcessDetails:
    """Read the details of a listed process, if it is still the same process.

    Each fact is absent with its reason where the system refuses it, and all are where the process
    has ended or its PID belongs to another one.

    Args:
        row: the process as it was listed; it must have a start.
    """
    absent: dict[str, str] = {}
    try:
        if not is_still(row):
            return ProcessDetails(
                row.pid, unavailable={"process": "it has ended: its PID is reused"}
            )
        process = psutil.Process(row.pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return ProcessDetails(row.pid, unavailable={"process": "it has ended"})
    except (PermissionError, psutil.AccessDenied):
        return ProcessDetails(row.pid, unavailable={"process": "the system denies you access"})

    def read(name: str, get: Callable[[], T]) -> T | None:
        try:
            return get()
        except psutil.AccessDenied:
            absent[name] = f"it belongs to {row.user or 'another user'}, not to you"
        except psutil.NoSuchProcess:
            absent[name] = "it has ended"
        except (psutil.Error, OSError, NotImplementedError) as error:
            absent[name] = f"cannot be read: {error}"
        return None

    return ProcessDetails(
        row.pid,
        executable=read("executable", process.exe),
        folder=read("folder", process.cwd),
        state=read("state", process.status),
        open_files=read("open_files", process.num_fds),
        threads=read("threads", lambda: _read_threads(process)),
        environment=read("environment", lambda: mask(process.environ())),
        tree=read("tree", lambda: _read_tree(process)),
        unavailable=absent,
    )


def _read_threads(process: psutil.Process) -> tuple[ThreadDetails, ...]:
    threads = [
        ThreadDetails(
            thread.id,
            _read_thread_name(process.pid, thread.id),
            thread.user_time + thread.system_time,
        )
        for thread in process.threads()
    ]
    return tuple(sorted(threads, key=lambda thread: -thread.cpu_s))


def _read_thread_name(pid: int, thread: int) -> str | None:
    """Return the thread's name; ``None`` where it has ended or the system has no such file."""
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text(errors="replace").strip()
    except OSError:
        return None


FOLDERS = ("PWD", "OLDPWD")
"""The shell's folders, which only look like the name of a password."""


def mask(environment: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables by name, with likely secrets masked.

    Args:
        environment: a process's environment.
    """
    return tuple(
        (
            name,
            secrets.MASK
            if value and name not in FOLDERS and secrets.is_secret_name(name)
            else secrets.text(value),
        )
        for name, value in sorted(environment.items())
    )


def _read_tree(process: psutil.Process) -> tuple[Relative, ...]:
    ancestors = process.parents()[::-1]
    relatives = [
        Relative(ancestor.pid, _command(ancestor), depth)
        for depth, ancestor in enumerate(ancestors)
    ]
    below: dict[int, list[psutil.Process]] = {}
    for descendant in process.children(recursive=True)[:MOST_RELATIVES]:
        try:
            below.setdefault(descendant.ppid(), []).append(descendant)
        except psutil.NoSuchProcess:
            continue  # it has ended since it was listed

    def add(process: psutil.Process, depth: int) -> None:
        relatives.append(Relative(process.pid, _command(process), depth))
        for child in below.get(process.pid, ()):
            add(child, depth + 1)

    add(process, len(ancestors))
    return tuple(relatives)


def _command(process: psutil.Process) -> str:
    """Return the command, masked; the name where there is none, as of a kernel's thread."""
    try:
        return " ".join(secrets.command_line(process.cmdline())) or process.name()
    except psutil.Error:
        return "n/a"
