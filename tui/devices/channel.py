"""The pipes to the front end, and the promise to end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

_LONGEST_REQUEST = 1 << 20
"""Bytes; what is longer is no request of ours."""


def separate_protocol() -> int:
    """Take standard output for the protocol alone; stray prints, C's too, go to standard error.

    Returns:
        The descriptor that the protocol is written to. Children do not inherit it.
    """
    protocol = os.dup(1)
    os.dup2(2, 1)
    return protocol


def end_by_signals_alone() -> None:
    """Let signals end the process at once, even while C code holds the interpreter.

    Also SIGHUP, which a front end that was started with nohup has inherited as ignored.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends, however that ends (Linux only)."""
    from workloads.process import die_with_parent

    die_with_parent(os.getppid(), signal.SIGKILL)


def quit_now() -> NoReturn:
    """End at once: a thread that hangs in the driver would keep a regular exit waiting."""
    os._exit(0)


def complain(text: str) -> None:
    """Write to standard error; that nobody reads it any more is no reason to fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text.rstrip("\n") + "\n")


def send(descriptor: int, line: bytes) -> None:
    """Write a whole line; a front end that is gone ends this process.

    Args:
        descriptor: From :func:`separate_protocol`.
        line: One message, newline included.
    """
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    except (BrokenPipeError, ConnectionError):
        quit_now()


def listen(take: Callable[[bytes], None]) -> None:
    """Pass on each line from standard input, and end the process when it closes.

    In a thread: the main loop may be writing to a front end that does not read.

    Args:
        take: Called in that thread with each line, without its newline.
    """
    threading.Thread(target=_listen, args=(take,), name="requests", daemon=True).start()


def _listen(take: Callable[[bytes], None]) -> None:
    rest = b""
    while True:
        try:
            chunk = os.read(0, 65536)
        except OSError:
            chunk = b""
        if not chunk:
            quit_now()
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:_LONGEST_REQUEST]
        for line in lines:
            take(line)
