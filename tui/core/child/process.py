"""Start, feed, read and end one child process that speaks JSON lines. No Textual.

Started from the event loop's thread only: the signal that a child gets when its parent dies is
tied to the thread that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, TypeVar

from tui.core.child.launch import Launched, launch
from workloads.protocol import wire
from workloads.protocol.process import describe_exit_code

E = TypeVar("E")
A = TypeVar("A")

LINE_LIMIT = 4 * 2**20
STDERR_BYTES = 256 * 1024
DRAIN_S = 0.5
TERM_S = 0.8
SWEEPS = 3
"""Searches for remaining processes: a process may start another between two searches."""
NEVER_STARTED = "was never started"


def _in_session(leader: int) -> list[int]:
    """Return the processes of a session, but for its leader; none where the system has no /proc."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid != leader and os.getsid(pid) == leader:
                members.append(pid)
    return members


@dataclass(frozen=True, slots=True)
class MalformedMessage:
    """A line on the protocol channel that is no known message."""

    reason: str
    line: str


class Ring:
    """The newest lines of a stream, up to :data:`STDERR_BYTES`."""

    def __init__(self) -> None:
        self._size = 0
        self._lines: deque[str] = deque()

    def add(self, line: str) -> None:
        """Append a line and drop the oldest lines beyond the limit."""
        self._lines.append(line)
        self._size += len(line)
        while self._size > STDERR_BYTES:
            self._size -= len(self._lines.popleft())

    def last(self, count: int | None = None) -> list[str]:
        """Return the newest lines, oldest first."""
        lines = list(self._lines)
        return lines if count is None else lines[-count:]


class ChildProcess(Generic[E]):
    """One child process.

    Args:
        argv: program and arguments.
        kinds: the messages that the child may send.
        variables: environment variables on top of ours.
        folder: working directory; ``None`` for the present one.
        inherit: descriptors that the child inherits under their own numbers.
        sent: called with each message that was sent to the child.
        launched: the process, if it has been started already.
        preamble: bytes that the child reads before the first message.
        decode: makes a message of a line, for a child that does not speak JSON; may raise
            ``WireError``.
    """

    def __init__(
        self,
        argv: Sequence[str],
        kinds: tuple[type[E], ...],
        variables: Mapping[str, str] | None = None,
        folder: str | None = None,
        inherit: Sequence[int] = (),
        sent: Callable[[object], object] | None = None,
        launched: Launched | None = None,
        preamble: bytes = b"",
        decode: Callable[[bytes], E] | None = None,
    ) -> None:
        self._argv = list(argv)
        self._variables = dict(variables or {})
        self._folder = folder
        self._inherit = tuple(inherit)
        self._sent = sent
        self._process = launched
        self._preamble = preamble
        self._decode = decode or (lambda line: wire.decode(line, kinds))
        self._requests: asyncio.WriteTransport | None = None
        self._events: asyncio.StreamReader | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._reading: list[asyncio.ReadTransport] = []
        self._draining: asyncio.Task[None] | None = None
        self.stderr = Ring()

    @property
    def pid(self) -> int | None:
        """The process's id, once it is started."""
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        """True if the process is started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_open(self) -> bool:
        """True if the child's output is still read, even if another process holds its pipes."""
        return any(not pipe.is_closing() for pipe in self._reading)

    async def start(self) -> None:
        """Start the child, unless it is running already, and listen to it.

        Raises:
            OSError: the child cannot be started; the text is the reason.
        """
        if self._process is None:
            self._process = launch(self._argv, self._variables, self._folder, self._inherit)
        process, loop = self._process, asyncio.get_running_loop()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._requests, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        if self._preamble:
            self._requests.write(self._preamble)
        self._events, self._stdout = await self._read_from(process.stdout)
        # Unread, a full stderr would stop the child, and waiting for it would never return.
        errors, _ = await self._read_from(process.stderr)
        self._draining = asyncio.create_task(self._drain_stderr(errors))

    async def _read_from(
        self, pipe: IO[bytes]
    ) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._reading.append(transport)
        return reader, transport

    def pause_reading(self) -> None:
        """Leave the child's further output in its pipe."""
        if self._stdout is not None:
            self._stdout.pause_reading()

    def resume_reading(self) -> None:
        """Read the pipe again."""
        if self._stdout is not None:
            self._stdout.resume_reading()

    def send(self, message: object) -> bool:
        """Send one message; returns ``False`` if no child is there to read it."""
        if not self.running:
            return False
        if self._requests is None or self._requests.is_closing():
            return False
        self._requests.write(wire.encode(message))
        if self._sent is not None:
            self._sent(message)
        return True

    async def events(self) -> AsyncIterator[E | MalformedMessage]:
        """Yield the messages of the child until it closes the channel."""
        assert self._events is not None
        while True:
            try:
                line = await self._events.readline()
            except ValueError:
                # asyncio has dropped the buffer and continues with the next bytes.
                yield MalformedMessage(f"a line of more than {LINE_LIMIT} bytes", "")
                continue
            if not line:
                return
            try:
                yield self._decode(line)
            except wire.WireError as error:
                yield MalformedMessage(str(error), line[:200].decode(errors="replace").rstrip())

    async def stop(self) -> str:
        """End the child by closed stdin, then SIGTERM, then SIGKILL; returns how it ended.

        Never waits unbounded: a process in an uninterruptible system call is left to the kernel.
        """
        if self._process is None:
            return NEVER_STARTED
        if self._requests is not None:
            self._requests.close()
        elif self._process.stdin is not None:
            self._process.stdin.close()
        for number, timeout_s in ((None, DRAIN_S), (signal.SIGTERM, TERM_S), (signal.SIGKILL, 1.0)):
            if number is not None:
                self._signal_group(number)
            if await self._ended_within(timeout_s):
                break
        self._kill_session()
        await self._finish_draining()
        return self.describe_end()

    async def ended(self) -> str:
        """Return how the child ended after its channel closed; ends it if it is still running."""
        if self._process is None:
            return NEVER_STARTED
        if await self._ended_within(DRAIN_S):
            # It may not have ended by itself, and other processes of its session have its pipes
            # open.
            self._kill_session()
            await self._finish_draining()
            return self.describe_end()
        return await self.stop()

    def kill(self) -> None:
        """Send SIGKILL to the child's process group, at once."""
        if self._process is not None:
            self._signal_group(signal.SIGKILL)

    def abandon(self) -> None:
        """Send SIGKILL to the child's process group, and read nothing more from it.

        Another process may have its pipes open: ssh passes them to its master process.
        """
        self.kill()
        for pipe in self._reading:
            pipe.close()

    def describe_end(self) -> str:
        """Return how the process ended: its exit status, or the signal and its usual sender."""
        code = self._process.poll() if self._process else None
        if code is None:
            return "does not end: it may be stuck in the driver"
        return describe_exit_code(code)

    def _signal_group(self, number: signal.Signals) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # the group is empty

    def _kill_session(self) -> None:
        """Send SIGKILL to all remaining processes of the child's group and session.

        The kernel does not reuse the number of a session while a process is in it.
        """
        assert self._process is not None
        self._signal_group(signal.SIGKILL)
        for _ in range(SWEEPS):
            left = _in_session(self._process.pid)
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    async def _ended_within(self, seconds: float) -> bool:
        assert self._process is not None
        deadline = asyncio.get_running_loop().time() + seconds
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True

    async def _finish_draining(self) -> None:
        if self._draining is not None:
            await asyncio.wait({self._draining}, timeout=DRAIN_S)
            self._draining.cancel()
        # A process that left its session may hold the other ends open.
        for pipe in (self._requests, *self._reading):
            if pipe is not None:
                pipe.close()

    async def _drain_stderr(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await reader.read(65_536):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > STDERR_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self.stderr.add(line.decode(errors="replace"))
        if rest:
            self.stderr.add(rest.decode(errors="replace"))


class NoAnswerError(Exception):
    """A child has not answered; the text, which follows the child's name, says how."""


async def first_answer(child: ChildProcess[E], kinds: tuple[type[A], ...]) -> A:
    """Start a child, return its first message of some kinds, and end it.

    Args:
        child: not started yet.
        kinds: of messages, each of which is an answer.

    Raises:
        NoAnswerError: it has ended before, or has sent a line that is no message.
        OSError: it cannot be started.
    """
    try:
        await child.start()
        async for event in child.events():
            if isinstance(event, kinds):
                return event
            if isinstance(event, MalformedMessage):
                raise NoAnswerError(f"says {event.line!r}: {event.reason}")
        ended = await child.ended()
    finally:
        # Its further work has no receiver.
        child.kill()
        await child.ended()
    last = " ".join(child.stderr.last(1))
    raise NoAnswerError(f"ended without an answer: {ended} {last}".rstrip())
