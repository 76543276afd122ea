"""A process between a runner and a front end on another machine, which ends the runner in time.

A link that is cut closes no pipe, and a runner that imports torch reads none for seconds. So the
runner is forked from a guard, which only reads: it passes requests on, and when the front end's
keep-alives stop or the pipe closes, it ends the runner, whose death ends its workers.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from workloads.protocol.keep_alive import KeepAlive
from workloads.protocol.process import write_whole
from workloads.protocol.wire import EncodedMessage, WireError

CLOSE_S = 1.0
"""Seconds for a runner to end after its requests have ended, before it gets SIGTERM."""
TERM_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""
_CHUNK = 65_536
_LONGEST_REQUEST = 1 << 20
"""Bytes; a longer line is no request of ours."""


def read_through_guard(reading: int, writing: int, silence_s: float) -> int:
    """Fork a runner from this process, which becomes its guard; returns in the runner alone.

    Args:
        reading: descriptor of the front end's requests and keep-alives.
        writing: descriptor of the events, which the guard closes.
        silence_s: seconds without any input after which the front end counts as gone.

    Returns:
        The descriptor of the requests, for the runner.
    """
    requests_out, requests_in = os.pipe()
    lives, living = os.pipe()
    runner = os.fork()
    if not runner:
        # ``living`` stays open until the runner has ended.
        for descriptor in (reading, requests_in, lives):
            os.close(descriptor)
        return requests_out
    for descriptor in (writing, requests_out, living):
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        _pass_on(reading, requests_in, lives, silence_s)
    os.close(requests_in)
    os._exit(os.waitstatus_to_exitcode(_end(runner, lives)) & 0xFF)


def _pass_on(reading: int, requests: int, lives: int, silence_s: float) -> None:
    """Pass requests on until the front end is gone or the runner has ended."""
    rest = b""
    while True:
        ready, _, _ = select.select([reading, lives], [], [], silence_s)
        if lives in ready or not ready:
            return
        chunk = os.read(reading, _CHUNK)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:_LONGEST_REQUEST]
        write_whole(requests, b"".join(line + b"\n" for line in lines if not _is_keep_alive(line)))


def _is_keep_alive(line: bytes) -> bool:
    try:
        return EncodedMessage(line, (KeepAlive,)).kind is KeepAlive
    except WireError:
        return False


def _end(runner: int, lives: int) -> int:
    """End the runner if it does not end by itself; return its wait status."""
    for number, timeout_s in ((None, CLOSE_S), (signal.SIGTERM, TERM_S), (signal.SIGKILL, None)):
        if number is not None:
            os.kill(runner, number)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while deadline is None or time.monotonic() < deadline:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if select.select([lives], [], [], left)[0]:
                return os.waitpid(runner, 0)[1]
    return os.waitpid(runner, 0)[1]
