"""A child process's protocol channel, and its end together with its parent."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

from workloads.protocol import wire

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_CHUNK = 65_536


def separate_protocol() -> tuple[int, int]:
    """Reserve stdin and stdout for the protocol, so that a stray print goes to stderr.

    Call it before any other import: C libraries keep writing to fd 1, which from here on is stderr,
    and child processes inherit neither channel.

    Returns:
        The file descriptors to read requests from and to write events to.
    """
    requests, events = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 (a descriptor, kept open)
    return requests, events


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all data, in as many parts as the pipe or the file accepts.

    Raises:
        OSError: the data cannot be written; a ``BrokenPipeError`` without a reader.
    """
    while data:
        data = data[os.write(descriptor, data) :]


def die_with_parent(parent: int, number: signal.Signals) -> None:
    """Make the kernel send a signal when the parent's thread that started us ends; Linux only.

    Args:
        parent: the parent's pid before this process started, to detect a parent that ended in
            between.
        number: the signal.
    """
    if sys.platform != "linux":
        return
    # The front end shares this file, needs no ctypes, and should not wait for its import.
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


class Channel:
    """Messages over a pair of file descriptors."""

    def __init__(self, reading: int, writing: int, kinds: tuple[type, ...]) -> None:
        """Read ``kinds`` from one descriptor and write to the other."""
        self.reading = reading
        self.writing = writing
        self._kinds = kinds
        self._buffer = b""
        self.ended = False

    def send(self, message: object) -> None:
        """Write one message whole.

        Raises:
            BrokenPipeError: the channel has no reader.
        """
        self.write(wire.encode(message))

    def write(self, line: bytes) -> None:
        """Write the line of one message whole.

        Raises:
            BrokenPipeError: the channel has no reader.
        """
        write_whole(self.writing, line)

    def receive(self, timeout: float | None = 0.0) -> list[object]:
        """Return the messages available, waiting at most ``timeout`` seconds for the first.

        ``None`` waits for ever. An unreadable line is skipped and reported on stderr. Sets
        ``ended`` when the other side has closed.
        """
        return self._read(timeout, lambda line: wire.decode(line, self._kinds))

    def receive_encoded(self) -> list[wire.EncodedMessage]:
        """Return the available messages still encoded, to forward; reads only each line's type."""
        return self._read(0.0, lambda line: wire.EncodedMessage(line, self._kinds))

    def _read(self, timeout: float | None, make: Callable[[bytes], T]) -> list[T]:
        if b"\n" not in self._buffer and not self.ended:
            ready, _, _ = select.select([self.reading], [], [], timeout)
            if ready:
                chunk = os.read(self.reading, _CHUNK)
                self.ended = not chunk
                self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        messages: list[T] = []
        for line in lines:
            try:
                messages.append(make(line + b"\n"))
            except wire.WireError as error:
                print(f"unreadable message: {error}", file=sys.stderr)  # noqa: T201 (the log)
        return messages


def describe_signal(number: int) -> str:
    """Return the name of a signal that ended a process, and its usual sender."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    hints = {
        signal.SIGKILL: "killed: by the kernel's out-of-memory killer, or by hand",
        signal.SIGSEGV: "crashed with a bad memory access",
        signal.SIGABRT: "aborted itself, after a failed assertion or a device error",
        signal.SIGBUS: "crashed: memory behind a mapping was gone, such as a full /dev/shm",
        signal.SIGILL: "crashed on an instruction that this CPU lacks",
        signal.SIGTERM: "was terminated",
    }
    hint = hints.get(signal.Signals(number))
    return f"{name} ({hint})" if hint else name


def describe_exit_code(code: int) -> str:
    """Describe a process's exit code; -N for signal N, as in :mod:`subprocess`."""
    return describe_signal(-code) if code < 0 else f"exit status {code}"
