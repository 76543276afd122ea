"""The child's own end: the pipes to the process that started it, and the promise to end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

from workloads.process import die_with_parent, separate_protocol, write_whole
from workloads.wire import WireError, decode, encode

T = TypeVar("T")

_CHUNK = 65_536
_LONGEST_REQUEST = 1 << 20
"""Bytes; what is longer is no request of ours."""


class ParentChannel:
    """Requests from the parent and events to it; when the parent is gone, this process ends.

    Standard output is the protocol's alone from here on: stray prints, C's too, go to standard
    error, and children inherit neither pipe.
    """

    def __init__(self) -> None:
        self._reading, self._writing = separate_protocol()

    def send(self, event: object) -> None:
        """Write one event whole."""
        self.write(encode(event))

    def write(self, line: bytes) -> None:
        """Write one encoded event whole."""
        try:
            write_whole(self._writing, line)
        except ConnectionError:
            quit_now()

    def listen(self, kinds: tuple[type[T], ...], take: Callable[[T], None]) -> None:
        """Pass on each request, and end the process when the parent closes the pipe.

        In a thread: the main loop may be writing to a parent that does not read. A line that is no
        request is named on standard error and dropped.

        Args:
            kinds: the requests that may come.
            take: called in that thread with each of them.
        """
        listening = threading.Thread(
            target=self._listen, args=(kinds, take), name="requests", daemon=True
        )
        listening.start()

    def _listen(self, kinds: tuple[type[T], ...], take: Callable[[T], None]) -> None:
        rest = b""
        while True:
            try:
                chunk = os.read(self._reading, _CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                quit_now()
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:_LONGEST_REQUEST]
            for line in filter(bytes.strip, lines):
                try:
                    request = decode(line, kinds)
                except WireError as error:
                    complain(f"not a request: {error}")
                else:
                    take(request)


def end_by_signals_alone() -> None:
    """Let signals end the process at once, even while C code holds the interpreter.

    Also SIGHUP, which a parent that was started with nohup has inherited as ignored.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends, however that ends (Linux only)."""
    die_with_parent(os.getppid(), signal.SIGKILL)


def quit_now() -> NoReturn:
    """End at once: a thread that hangs in the driver would keep a regular exit waiting."""
    os._exit(0)


def complain(text: str) -> None:
    """Write to standard error; that nobody reads it any more is no reason to fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text.rstrip("\n") + "\n")
