"""What is put into a watched process, by a folder in ``PYTHONPATH``. Standard library, Python 3.8.

In the process it is the package ``gpu_workbench_agent``, found by its place: none of this program
is importable there. This file is what both sides agree on: the names of the variables that the
agent reads, what it calls its process, and where it listens.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile

RUN = "GPU_WORKBENCH_RUN"
"""The folder in which it leaves what it has to tell. Without it there is no agent."""
RECORD = "GPU_WORKBENCH_RECORD"
"""Entries of torch's memory history that are kept from the first CUDA call on."""
ENTRIES = 100_000
LONGEST_LINE = 64 << 10
"""Bytes of a request or of an answer."""


def identity(pid: object = "self") -> str:
    """Machine, pid and the kernel's start time of a process: no other has the same.

    Raises:
        OSError: there is no such process.
    """
    with open("/proc/%s/stat" % pid, "rb") as file:
        text = file.read()
    number, start = text.split(b" ", 1)[0].decode(), text.rpartition(b") ")[2].split()[19].decode()
    return "%s-%s-%s" % (os.uname().nodename.partition(".")[0][:40], number, start)


def place() -> str:
    """The folder of this user's sockets, which may not be there yet."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if folder and os.path.isabs(folder):
        return os.path.join(folder, "gpu-workbench")
    return os.path.join(tempfile.gettempdir(), "gpu-workbench-%d" % os.getuid())


def open_place(path: str) -> int:
    """Open the folder, which has to be this user's alone.

    Raises:
        OSError: it is not, or is a link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    facts = os.fstat(descriptor)
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        os.close(descriptor)
        raise PermissionError("%s is not this user's alone" % path)
    return descriptor


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Pid and user of the other end."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", told)[:2]
