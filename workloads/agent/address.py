"""Shared by both ends of a watched process's socket: its address, and the peer's identity."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile

LONGEST_LINE = 64 << 10
"""Bytes of a request or of an answer."""


def place() -> str:
    """Return the folder of this user's sockets, which may not exist yet."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if folder and os.path.isabs(folder):
        return os.path.join(folder, "gpu-workbench")
    return os.path.join(tempfile.gettempdir(), "gpu-workbench-%d" % os.getuid())


def open_socket_folder(path: str) -> int:
    """Open the folder, which must belong to this user alone.

    Raises:
        OSError: the folder is accessible to others, or is a link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    facts = os.fstat(descriptor)
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        os.close(descriptor)
        raise PermissionError("%s is not this user's alone" % path)
    return descriptor


def read_peer(connection: socket.socket) -> tuple[int, int]:
    """Return pid and user of the other end."""
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return struct.unpack("3i", credentials)[:2]
