"""One process's files under /proc, and the kernel rules that may forbid reading them.

An open folder of /proc belongs to its process: its files disappear when the process ends, even if
another process reuses the pid. Open memory belongs to one program: after ``exec`` there is nothing
more to read.

Source: ptrace(2), "Ptrace access mode checking", and ``Documentation/admin-guide/LSM/Yama.rst``.
Reading memory requires the mode ATTACH, the only mode that Yama restricts. No function requires
root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import stat
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CHUNK = 1 << 18
_MOST_TEXT = 1 << 24


class GoneError(Exception):
    """The process has ended, or now runs another program."""


class ProcessFiles:
    """Reader of one process's files; its user must close it."""

    def __init__(self, pid: int) -> None:
        """Open the folder of a process.

        Raises:
            GoneError: there is no such process.
        """
        self.pid = pid
        self._files: list[int] = []
        try:
            self._folder = os.open(PROC / str(pid), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._files.append(self._folder)
            self._stat = self._open("stat")
        except OSError as error:
            self.close()
            raise GoneError(f"there is no process {pid}") from error
        self.started = self.start_ticks()
        """Start in clock ticks since the machine's boot; with the pid, the process's identity."""

    def close(self) -> None:
        """Close all open files."""
        for descriptor in self._files:
            os.close(descriptor)
        self._files.clear()

    def _open(self, name: str) -> int:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        self._files.append(descriptor)
        return descriptor

    def start_ticks(self) -> int:
        """Read the process's start time in clock ticks.

        Raises:
            GoneError: the process has ended.
        """
        return int(self._after_the_name()[19])

    def state(self) -> str:
        """Return the state letter of ``ps``: R runs, S sleeps, T is stopped, Z has ended.

        Raises:
            GoneError: the process has ended and its parent has collected it.
        """
        return self._after_the_name()[0].decode()

    def parent(self) -> int:
        """Return the pid of its parent.

        Raises:
            GoneError: the process has ended.
        """
        return int(self._after_the_name()[1])

    def _after_the_name(self) -> list[bytes]:
        # The name is in parentheses and may contain any character.
        try:
            text = os.pread(self._stat, 4096, 0)
        except OSError as error:
            raise GoneError(f"process {self.pid} has ended") from error
        if not text:
            raise GoneError(f"process {self.pid} has ended")
        return text.rpartition(b") ")[2].split()

    def read(self, name: str) -> bytes:
        """Return the contents of one of the process's files.

        Raises:
            OSError: the file may not be read, or the process has ended.
        """
        return self._read(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder))

    def resident(self) -> int | None:
        """Return the process's resident bytes of host memory.

        ``None`` if they are unreadable, or if the process is ending and has released its memory.
        """
        try:
            return int(self.read("statm").split()[1]) * _PAGE or None
        except (OSError, IndexError, ValueError):
            return None

    def read_in_root(self, path: str) -> bytes:
        """Return a regular file by the path that the process itself would use.

        Raises:
            OSError: it is no regular file, or may not be read.
        """
        # A path that is no file, such as a pipe, must not block the reader.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(f"root/{path.lstrip('/')}", flags, dir_fd=self._folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "no regular file")
        return self._read(descriptor)

    @staticmethod
    def _read(descriptor: int) -> bytes:
        try:
            parts: list[bytes] = []
            while sum(map(len, parts)) < _MOST_TEXT:
                part = os.read(descriptor, _CHUNK)
                if not part:
                    break
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def link(self, name: str) -> str:
        """Return the target of one of the process's links, such as ``ns/pid``.

        Raises:
            OSError: the link may not be read, or the process has ended.
        """
        return os.readlink(name, dir_fd=self._folder)

    def owner(self) -> int:
        """Return the owner of the process's files; root if the process is not dumpable.

        Raises:
            OSError: the process has ended.
        """
        return os.stat("maps", dir_fd=self._folder).st_uid

    def open_memory(self) -> Memory:
        """Open the process's memory for reading only.

        Raises:
            OSError: the memory may not be read.
        """
        return Memory(self.pid, self._open("mem"))

    def user(self) -> int | None:
        """Return the process's user id, or ``None`` once the process has ended."""
        with contextlib.suppress(OSError):
            match = re.search(rb"^Uid:\s+\d+\s+(\d+)", self.read("status"), re.MULTILINE)
            return int(match[1]) if match else None
        return None


class Memory:
    """The memory of a process, open for reading only."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self._pid = pid
        self.descriptor = descriptor

    def read(self, address: int, size: int) -> bytes:
        """Return the mapped bytes: fewer at the end of the mapping, none outside a mapping.

        Raises:
            GoneError: the process has ended, or runs another program.
        """
        try:
            content = os.pread(self.descriptor, size, address)
        except (OSError, OverflowError):
            return b""
        if not content and size:
            raise GoneError(f"process {self._pid} has ended, or runs another program")
        return content


@dataclass(frozen=True)
class Mapping:
    """A file whose beginning is mapped in a process."""

    base: int
    path: str
    """The path in the process's own file system."""
    deleted: bool


_LINE = re.compile(rb"^([0-9a-f]+)-[0-9a-f]+ \S+ 0+ \S+ \d+ +(/[^\n]*)$", re.MULTILINE)
_DELETED = b" (deleted)"


def library_in(maps: bytes, name: bytes) -> Mapping | None:
    """Find the start of a library by its file name's prefix; return ``None`` if it is not mapped.

    Args:
        maps: the text of ``/proc/PID/maps``.
        name: the prefix, such as ``libc10_cuda``.
    """
    if name not in maps:
        return None
    for match in _LINE.finditer(maps):
        deleted = match[2].endswith(_DELETED)
        # Python 3.8, which some hosts have, lacks removesuffix.
        path = match[2][: len(match[2]) - deleted * len(_DELETED)]
        file = path.rpartition(b"/")[2]
        if file.startswith(name) and b".so" in file:
            return Mapping(int(match[1], 16), os.fsdecode(path), deleted)
    return None


_CAP_SYS_PTRACE = 19
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


@dataclass(frozen=True)
class Refusal:
    """The reason for missing figures, with advice, which is empty if nothing helps."""

    reason: str
    advice: str = ""
    word: str = "denied"
    """The reason in one word."""


@dataclass(frozen=True)
class ReadAccess:
    """Event: whether the running processes of this user can be read."""

    refusal: Refusal | None
    """``None`` if they can."""


@dataclass(frozen=True)
class Access:
    """The facts that decide whether one process may read another."""

    pid: int
    user: int | None
    """The user id of the process; ``None`` if unknown."""
    own_user: int
    may_trace: bool
    """This process has CAP_SYS_PTRACE, as root has."""
    dumpable: bool
    scope: int
    """Yama's ``ptrace_scope``; 0 without Yama."""
    started_it: bool
    """The process descends from this one, so Yama's first level allows reading it."""
    same_namespace: bool
    """The process is in the same PID namespace."""


def refusal(access: Access) -> Refusal:
    """Return the first rule that forbids the reading."""
    sudo = f"sudo gpu-workbench watch --pid {access.pid}"
    if access.scope >= 3:
        return Refusal(
            "Yama's ptrace_scope is 3: nobody may read another process's memory, root included",
            "it can only be lowered by starting the machine with another value",
        )
    if not access.may_trace:
        if access.own_user == 0:
            return Refusal(
                "this root has no CAP_SYS_PTRACE, as in most containers",
                "start the container with --cap-add SYS_PTRACE, or watch from the host",
            )
        if access.user is not None and access.user != access.own_user:
            return Refusal(
                f"it is run by {_name(access.user)}: only that user and root may read it", sudo
            )
        if access.scope == 2:
            return Refusal("Yama's ptrace_scope is 2: only root may read another process", sudo)
        if not access.dumpable:
            return Refusal(
                "it is not dumpable: it has changed its user, asked for that (PR_SET_DUMPABLE), or "
                "its program's file may not be read; only root may read it",
                sudo,
            )
        if access.scope == 1 and not access.started_it:
            return Refusal(
                "Yama's ptrace_scope is 1: a process may only be read by those that started it",
                f"{sudo}; or sudo sysctl kernel.yama.ptrace_scope=0, after which any program of "
                "yours may read and change the memory of all your others, until the next start",
            )
    if not access.same_namespace:
        return Refusal(
            "it is in another PID namespace (a container's), from which it cannot be read",
            "watch within that container, or as root on the host",
        )
    return Refusal(
        "the kernel refuses it: a security module (AppArmor, SELinux, seccomp) or a user namespace "
        "may forbid it",
        sudo if not access.may_trace else "",
    )


def refusal_of_running() -> Refusal | None:
    """Return why this user's running processes are unreadable, or ``None`` if readable."""
    if not (PROC / "self").exists():
        return Refusal("it needs Linux's /proc, which is missing here")
    user, scope, may_trace = os.geteuid(), _scope(), _may_trace()
    if scope == 0 or (may_trace and scope < 3):
        return None
    return refusal(Access(0, user, user, may_trace, True, scope, False, True))


def no_process(pid: int, own_pids: bool) -> Refusal:
    """Explain why no process has a pid.

    Args:
        pid: the requested pid.
        own_pids: this process is in its own PID namespace, as in a container.
    """
    if own_pids:
        return Refusal(
            f"there is no process {pid} here: a container has its own pids",
            "give the pid that ps shows in this container, or watch on the host",
            "gone",
        )
    return Refusal(
        f"there is no process {pid}: it has ended, or is hidden from this user",
        "gpu-workbench watch lists the running ones",
        "gone",
    )


def access_to(files: ProcessFiles) -> Access:
    """Return the settings that decide whether this process may read another.

    Raises:
        OSError: the process has ended.
    """
    user = files.user()
    return Access(
        pid=files.pid,
        user=user,
        own_user=os.geteuid(),
        may_trace=_may_trace(),
        # The files of a process that is not dumpable belong to root.
        dumpable=user is None or files.owner() == user,
        scope=_scope(),
        started_it=_descends(files.pid),
        same_namespace=_same_namespace(files),
    )


def _name(user: int) -> str:
    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"


def _may_trace() -> bool:
    status = (PROC / "self" / "status").read_bytes()
    match = re.search(rb"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return bool(match and int(match[1], 16) >> _CAP_SYS_PTRACE & 1)


def _scope() -> int:
    try:
        return int(_SCOPE.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return 1  # Yama exists, most likely with the usual setting of distributions


def _descends(pid: int) -> bool:
    own = os.getpid()
    with contextlib.suppress(GoneError):
        while pid > 1:
            if pid == own:
                return True
            with contextlib.closing(ProcessFiles(pid)) as files:
                pid = files.parent()
    return False


def _same_namespace(files: ProcessFiles) -> bool:
    try:
        return files.link("ns/pid") == str((PROC / "self" / "ns" / "pid").readlink())
    except PermissionError:
        return True  # unknown: another rule forbids more than this one
