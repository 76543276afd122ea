"""A child on one host: connected, fed with keep-alives, and started again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import abstractmethod
from collections import deque
from dataclasses import replace
from typing import Protocol, TypeVar

from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import ChildSupervisor
from tui.hosts.address import HostAddress, share_connection, socket_folder
from tui.hosts.children import BANNER_LINES, CONNECT_WITHIN_S, SILENT_AFTER_S, HostConnection
from tui.hosts.failures import (
    HostFailure,
    explain_failure,
    explain_no_start,
    explain_silence,
)
from workloads.protocol.keep_alive import EVERY_S, Alive, KeepAlive

E = TypeVar("E")

RECONNECT_S = (1.0, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before the next attempt: after a connection that was of use, and after one failure, two
and so on."""
ANSWERED_EVERY = 2
"""Of so many keep-alives one is answered: a child sends samples as well, and two answers of each of
ten hosts take as much processor time as many of these."""
MOST_PER_S = 500
"""Messages of a child within a second. Ours send a few; more would keep this side busy."""
_CONFIGURATION_WITHIN_S = 5.0
ROUND_S = 0.14
"""Seconds of a round: a little less than what passes from a sample to its drawing, which then shows
what all hosts have sent meanwhile."""


class Reader(Protocol):
    """What reads the messages of one child."""

    def pause_reading(self) -> None:
        """Leave the next messages in the pipe, unless one of them must not wait."""

    def resume_reading(self) -> None:
        """Read on."""


class ReadingRounds:
    """Lets messages that arrive shortly after another wait for the end of a round.

    Hosts are read at full seconds, so what they send arrives one after the other within a tenth of
    a second. If each message woke the program, it would run with cold caches twenty times a second,
    and ten hosts would cost twice as much.

    Args:
        seconds: how long a round takes.
    """

    def __init__(self, seconds: float = ROUND_S) -> None:
        self._seconds = seconds
        self._readers: list[Reader] = []
        self._running = False

    def join(self, reader: Reader) -> None:
        """Let a reader take part in the rounds."""
        self._readers.append(reader)

    def begin(self) -> None:
        """Begin a round, because a message has arrived; during a round this does nothing."""
        if self._running:
            return
        self._running = True
        for reader in self._readers:
            reader.pause_reading()
        asyncio.get_running_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._running = False
        for reader in self._readers:
            reader.resume_reading()


class HostSupervisor(ChildSupervisor[E]):
    """Keeps one child running on one host.

    A subclass says what is started and what becomes of its events.

    Args:
        host: its address.
        python: name or path of a Python there; ``None`` for ``python3``.
        rounds: in which the children of all hosts are read; ``None`` to read each message at once.
    """

    waits_s = RECONNECT_S

    def __init__(
        self, host: HostAddress, python: str | None = None, rounds: ReadingRounds | None = None
    ) -> None:
        super().__init__()
        self._rounds = rounds
        if rounds is not None:
            rounds.join(self)
        self.connection = HostConnection(host, python, alone=host)
        self.greeted = False
        """The child there has confirmed our protocol version."""
        self.round_trip_s: float | None = None
        """Seconds of the newest answered keep-alive; ``None`` until one was answered."""
        self._banner: deque[str] = deque(maxlen=BANNER_LINES)
        self._newest_at = 0.0
        self._number = 0
        self._sent_at: dict[int, float] = {}
        self._why_ended = ""
        self._second = 0
        self._in_second = 0
        """Messages in the present second of the monotonic clock."""

    @property
    def host(self) -> HostAddress:
        """The host as the next attempt connects to it."""
        return self.connection.host

    async def watch(self) -> None:
        """Connect, and connect again whenever the connection is lost; never returns."""
        self.connection = replace(self.connection, host=await with_shared_connection(self.host))
        await asyncio.gather(self._keep_alive(), self.supervise())

    async def close(self) -> None:
        """End the connection, and with it the child there."""
        if self.child is not None:
            await self.child.stop()

    # ---- rounds of reading ----

    def pause_reading(self) -> None:
        """Leave the next messages in the pipe, unless an answer is due whose time counts."""
        if self.child is not None and not self._sent_at:
            self.child.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self.child is not None:
            self.child.resume_reading()

    # ---- what a subclass says ----

    @abstractmethod
    def make_host_child(self) -> ChildProcess[E]:
        """Return the child to start on :attr:`host`."""

    @abstractmethod
    def apply_host_event(self, event: E) -> None:
        """Do what an event of the child asks for; keep-alives are answered already."""

    @abstractmethod
    def report_lost(self, reason: str, seconds: float) -> None:
        """Report why the connection is lost.

        Args:
            reason: in one line, with what to do.
            seconds: until the next attempt.
        """

    def falls_back(self, failure: HostFailure) -> bool:  # noqa: ARG002 (for subclasses)
        """Return whether the next attempt is another way, at once and without a report."""
        return False

    def note_banner(self, line: str) -> None:
        """Store a line that came before the first message."""
        self._banner.append(line)

    def greet(self, speaks: int, expected: int) -> bool:
        """Apply the child's greeting; return ``False`` if it speaks another version."""
        self.greeted = speaks == expected
        if self.greeted:
            self._send_keep_alive(answer=True)
        else:
            self.give_up(f"its child speaks version {speaks} and not {expected}")
        return self.greeted

    def give_up(self, why: str) -> None:
        """End the connection for a reason."""
        self._why_ended = self._why_ended or why
        if self.child is not None:
            self.child.abandon()

    # ---- the child ----

    def make_child(self) -> ChildProcess[E]:
        self._banner.clear()
        self._sent_at.clear()
        self.greeted, self.round_trip_s, self._why_ended = False, None, ""
        self._newest_at = time.monotonic()
        return self.make_host_child()

    def apply_event(self, event: E) -> None:
        self._newest_at = time.monotonic()
        if self._is_flooded():
            self.is_useful = False
            self.give_up(f"it sent more than {MOST_PER_S} messages within a second")
            return
        if isinstance(event, Alive):
            sent_at = self._sent_at.pop(event.number, None)
            if sent_at is not None:
                self.round_trip_s = self._newest_at - sent_at
        else:
            self.apply_host_event(event)
            if self._rounds is not None:
                self._rounds.begin()

    def _is_flooded(self) -> bool:
        second = int(self._newest_at)
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        return self._in_second > MOST_PER_S

    def report_malformed(self, message: MalformedMessage) -> None:
        if self.greeted:
            self.give_up(f"it sent an unreadable line: {message.reason}")
        else:
            self._banner.append(message.line or message.reason)

    def report_no_start(self, error: OSError) -> str:
        return explain_no_start(self.host, error)

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        if self._why_ended:
            failure = HostFailure(self._why_ended)
        elif self.child is not None and self.child.pid is not None:
            errors = self.child.stderr.last()
            failure = explain_failure(self.host, reason, errors, tuple(self._banner))
        else:
            failure = HostFailure(reason)
        if self.falls_back(failure):
            return
        self.report_lost(failure.text, seconds)
        await asyncio.sleep(seconds)

    async def _keep_alive(self) -> None:
        """Tell the host that we are there, and give up a connection that has gone silent."""
        while True:
            # All hosts' in one turn of the event loop, which takes less processor time than many.
            await asyncio.sleep(EVERY_S - time.monotonic() % EVERY_S)
            now = time.monotonic()
            silent_s = now - self._newest_at
            if self.child is None or not self.child.running:
                continue
            if not self.greeted and silent_s > CONNECT_WITHIN_S:
                failure = explain_silence(self.host, CONNECT_WITHIN_S)
                self._give_up_silent(failure.text)
            elif self.greeted and silent_s > SILENT_AFTER_S:
                self._give_up_silent(f"not answering for {silent_s:.0f} s")
            elif self.greeted:
                self._send_keep_alive(answer=round(now / EVERY_S) % ANSWERED_EVERY == 0)

    def _give_up_silent(self, why: str) -> None:
        # The shared connection itself may be stuck, and whatever joins it would be, too.
        self.connection = self.connection.unshared()
        self.give_up(why)

    def _send_keep_alive(self, *, answer: bool) -> None:
        self._number += 1
        if answer:
            self._sent_at[self._number] = time.monotonic()
            # In a round, the answer would wait for its end.
            self.resume_reading()
        self.send(KeepAlive(self._number, answer))


async def with_shared_connection(host: HostAddress) -> HostAddress:
    """Return a host of ssh with one connection for its children; others as they are."""
    folder = socket_folder() if host.shareable else None
    if folder is None:
        return host
    try:
        process = await asyncio.create_subprocess_exec(
            # With the port and the options of the connection itself.
            *(host.prefix[0], "-G", *host.prefix[1:]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        # Connecting fails for the same reason, and says so.
        return host
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _CONFIGURATION_WITHIN_S)
    except asyncio.TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return host
    return share_connection(host, output.decode("utf-8", "replace"), folder)
