"""One process's files under /proc, all of the same process however long they are kept.

A folder of /proc that is open stays with its process: when that has ended, its files are gone, also
where the pid belongs to another process by then. The memory that is open stays with one program:
after ``exec`` there is nothing more to read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path

from workloads.protocol.frozen import frozen

PROC = Path("/proc")
_CHUNK = 1 << 18
_MOST_TEXT = 1 << 24


class GoneError(Exception):
    """The process has ended, or runs another program by now."""


class ProcessFiles:
    """Reads one process's files; to be closed."""

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
        """When it started, in clock ticks since the machine did; with the pid, its identity."""

    def close(self) -> None:
        """Close all that is open."""
        for descriptor in self._files:
            os.close(descriptor)
        self._files.clear()

    def _open(self, name: str) -> int:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        self._files.append(descriptor)
        return descriptor

    def start_ticks(self) -> int:
        """When the process started, as the kernel says now.

        Raises:
            GoneError: it has ended.
        """
        return int(self._after_the_name()[19])

    def state(self) -> str:
        """The letter of ``ps``: R runs, S sleeps, T is stopped, Z has ended.

        Raises:
            GoneError: it has ended and was collected.
        """
        return self._after_the_name()[0].decode()

    def parent(self) -> int:
        """The pid of its parent.

        Raises:
            GoneError: it has ended.
        """
        return int(self._after_the_name()[1])

    def _after_the_name(self) -> list[bytes]:
        # The name is in parentheses and may hold any character.
        try:
            text = os.pread(self._stat, 4096, 0)
        except OSError as error:
            raise GoneError(f"process {self.pid} has ended") from error
        if not text:
            raise GoneError(f"process {self.pid} has ended")
        return text.rpartition(b") ")[2].split()

    def read(self, name: str) -> bytes:
        """One of its files, whole.

        Raises:
            OSError: it may not be read, or the process has ended.
        """
        return self._read(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder))

    def read_in_root(self, path: str) -> bytes:
        """A regular file by the path that the process itself would use.

        Raises:
            OSError: it is none, or may not be read.
        """
        # What is no file, such as a pipe, must keep nobody waiting.
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
        """Where one of its links leads, such as ``ns/pid``.

        Raises:
            OSError: it may not be read, or the process has ended.
        """
        return os.readlink(name, dir_fd=self._folder)

    def owner_of(self, name: str) -> int:
        """The user who owns one of its files; root, for a process that is not dumpable.

        Raises:
            OSError: the process has ended.
        """
        return os.stat(name, dir_fd=self._folder).st_uid

    def open_memory(self) -> Memory:
        """Its memory, to be read alone.

        Raises:
            OSError: it may not be read.
        """
        return Memory(self.pid, self._open("mem"))

    def user(self) -> int | None:
        """The user who runs it, by number; ``None`` once it has ended."""
        with contextlib.suppress(OSError):
            found = re.search(rb"^Uid:\s+\d+\s+(\d+)", self.read("status"), re.MULTILINE)
            return int(found[1]) if found else None
        return None


class Memory:
    """The memory of a process, opened to be read alone."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self._pid = pid
        self.descriptor = descriptor

    def read(self, address: int, size: int) -> bytes:
        """What is mapped there, fewer bytes where that ends; none where nothing is mapped.

        Raises:
            GoneError: the process has ended, or runs another program.
        """
        try:
            found = os.pread(self.descriptor, size, address)
        except (OSError, OverflowError):
            return b""
        if not found and size:
            raise GoneError(f"process {self._pid} has ended, or runs another program")
        return found


@frozen
class Mapping:
    """A file of which a process has the beginning mapped."""

    base: int
    path: str
    """As the process itself would name it."""
    deleted: bool


_LINE = re.compile(rb"^([0-9a-f]+)-[0-9a-f]+ \S+ 0+ \S+ \d+ +(/[^\n]*)$", re.MULTILINE)
_GONE = b" (deleted)"


def library_in(maps: bytes, name: bytes) -> Mapping | None:
    """Where a library begins, by the start of its file's name; ``None`` where it is not mapped.

    Args:
        maps: the text of ``/proc/PID/maps``.
        name: such as ``libc10_cuda``.
    """
    if name not in maps:
        return None
    for found in _LINE.finditer(maps):
        path = found[2].removesuffix(_GONE)
        file = path.rpartition(b"/")[2]
        if file.startswith(name) and b".so" in file:
            return Mapping(int(found[1], 16), os.fsdecode(path), path != found[2])
    return None
