"""Our children on a host, started through its prefix, and the messages when they end."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from tui import allocators
from tui.allocators.messages import WATCH_EVENTS, WatchEvent
from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.text.glyphs import clean
from tui.core.text.redact import with_texts
from tui.hosts.address import HostAddress
from tui.hosts.archive import build_archive, build_runner_archive
from tui.hosts.boot import OLDEST_FOR_RUNS, boot_command, preamble, torch_command
from tui.hosts.failures import (
    HostFailure,
    HostFailureError,
    explain_failure,
    explain_no_start,
    explain_silence,
)
from tui.hosts.smi import SmiLine, parse_line, smi_command
from tui.monitor.messages import MONITOR_EVENTS, MonitorEvent
from workloads.declare import user_workloads
from workloads.protocol.change_reader import ChangeReader
from workloads.protocol.keep_alive import MISSED_AFTER_S, Alive
from workloads.protocol.messages import EVENTS, Event

E = TypeVar("E")

CONNECT_WITHIN_S = 20.0
"""Seconds for the first word: ssh gives up after 10, a slow login shell may take as long."""
IMPORT_WITHIN_S = 180.0
"""Seconds from a runner's greeting to its next word: torch is imported, devices are described."""
SILENT_AFTER_S = 10.0
"""Seconds without a word, a heartbeat at least, after which a connection is given up."""
BANNER_LINES = 20
"""The newest lines before the first message that are stored: a login prints a banner."""


@dataclass(frozen=True, slots=True)
class HostConnection:
    """A host, and the Python of our children there."""

    host: HostAddress
    python: str | None = None
    """Name or path; ``None`` for ``python3``, and for runs the first that has torch."""
    alone: HostAddress | None = None
    """The host with a connection of its own; children otherwise share :attr:`host`'s."""

    def unshared(self) -> HostConnection:
        """Return the same with a connection of its own: the shared one may be stuck."""
        return replace(self, host=self.alone or self.host)

    def monitor_child(
        self, interval: float, sent: Callable[[object], object] | None = None
    ) -> ChildProcess[MonitorEvent | Alive]:
        """Return the monitor there, not started yet.

        Args:
            interval: seconds between two samples.
            sent: called with each request to it; ``None`` for nothing.
        """
        end_after = ("--keep-alive", str(MISSED_AFTER_S))
        serving = ("serve", "--interval", str(interval), "--changes", *end_after)
        return self.module_child((*MONITOR_EVENTS, Alive), "tui.monitor", serving, sent)

    def watch_child(
        self,
        interval: float,
        pids: Sequence[int] = (),
        listed: Sequence[int] = (),
        *,
        children: bool = True,
    ) -> ChildProcess[WatchEvent | Alive]:
        """Return the watch there, not started yet.

        Args:
            interval: seconds between two readings.
            pids: watch only these processes; empty for all processes of the user there.
            listed: the processes that NVML lists there.
            children: also watch the descendants of ``pids``.
        """
        arguments = allocators.serve_arguments(
            interval,
            pids,
            listed,
            children=children,
            keep_alive_s=MISSED_AFTER_S,
            steps=True,
            changes=True,
        )
        return self.module_child((*WATCH_EVENTS, Alive), allocators.MODULE, arguments)

    def module_child(
        self,
        kinds: tuple[type[E], ...],
        module: str,
        arguments: Sequence[str],
        sent: Callable[[object], object] | None = None,
    ) -> ChildProcess[E]:
        """Return a child that runs one of our modules there without torch, not started yet.

        Args:
            kinds: the messages that it may send.
            module: whose ``main`` runs.
            arguments: for its ``sys.argv``.
            sent: called with each request to it; ``None`` for nothing.
        """
        return ChildProcess(
            self.host.command(boot_command(self.python)),
            kinds,
            folder=FOLDER,
            sent=sent,
            decode=ChangeReader(kinds, without_controls).decode,
            preamble=preamble(build_archive(), module, arguments),
        )

    def runner_child(
        self,
        variables: Mapping[str, str],
        sent: Callable[[object], object],
        files: Sequence[str] = (),
    ) -> ChildProcess[Event]:
        """Return the runner there, not started yet.

        Args:
            variables: environment variables of the runner.
            sent: called with each request to it.
            files: the workload files of the user on this machine, which are sent along.
        """
        serving = ("serve", "--keep-alive", str(MISSED_AFTER_S), *user_workloads.options(files))
        return ChildProcess(
            self.host.command(torch_command(self.python, variables)),
            EVENTS,
            folder=FOLDER,
            sent=sent,
            preamble=preamble(build_runner_archive(files), "workloads", serving, OLDEST_FOR_RUNS),
        )

    def create_connection_watch(self, files: Sequence[str] = ()) -> ConnectionWatch:
        """Return an object that follows one new connection to the runner there.

        Args:
            files: the workload files of the user, which the runner reads before its first word.
        """
        within_s = CONNECT_WITHIN_S + (user_workloads.READ_S if files else 0.0)
        return ConnectionWatch(self.host, within_s)


class HostExchange(Generic[E]):
    """A short-lived child on a host, whose messages are read one by one.

    Args:
        host: the host.
        child: the child, not started yet.
    """

    def __init__(self, host: HostAddress, child: ChildProcess[E]) -> None:
        self.child = child
        self._host = host
        self._banner: deque[str] = deque(maxlen=BANNER_LINES)

    async def start(self) -> None:
        """Start the child.

        Raises:
            HostFailureError: it does not start.
        """
        try:
            await self.child.start()
        except OSError as error:
            failure = HostFailure(explain_no_start(self._host, error))
            raise HostFailureError(failure) from error

    async def close(self) -> None:
        """End the child, if it was started."""
        await self.child.stop()

    async def find_next(self, within_s: float) -> E | None:
        """Return the next message; ``None`` at the end.

        Args:
            within_s: seconds to wait for it.

        Raises:
            HostFailureError: it did not come in time.
        """
        try:
            return await asyncio.wait_for(self._read(), within_s)
        except asyncio.TimeoutError as error:
            raise HostFailureError(explain_silence(self._host, within_s)) from error

    async def next(self, within_s: float) -> E:
        """Return the next message, as :meth:`find_next`.

        Raises:
            HostFailureError: it did not come in time, or the child has ended.
        """
        event = await self.find_next(within_s)
        if event is None:
            ended, errors = await self.child.ended(), self.child.stderr.last()
            raise HostFailureError(explain_failure(self._host, ended, errors, tuple(self._banner)))
        return event

    async def _read(self) -> E | None:
        async for event in self.child.events():
            if not isinstance(event, MalformedMessage):
                return event
            self._banner.append(event.line or event.reason)
        return None


def without_controls(event: E, line: bytes) -> E:
    """Return a message in whose texts nothing controls this terminal.

    A host may be anybody's.

    Args:
        event: the message of a host.
        line: that has brought it, or the newest of its parts.
    """
    # JSON has no bare control characters but DEL, so most lines need no second pass over a
    # sample's hundreds of texts, which would take longer than decoding it.
    if line.isascii() and b"\\" not in line and b"\x7f" not in line:
        return event
    return with_texts(event, clean, keys=False)


def smi_child(host: HostAddress, interval: float) -> ChildProcess[SmiLine]:
    """Return what prints the figures of a host without Python, not started yet.

    Args:
        host: the host.
        interval: seconds between two readings, at least 1.
    """
    command = host.command(smi_command(interval, MISSED_AFTER_S))
    return ChildProcess(command, (SmiLine,), folder=FOLDER, decode=parse_line)


class ConnectionWatch:
    """What is known of one connection to a runner: its banner, its silence, why it ended.

    Args:
        host: the host.
        connect_within_s: time limit for the first word.
    """

    def __init__(self, host: HostAddress, connect_within_s: float) -> None:
        self._host = host
        self._connect_within_s = connect_within_s
        self._banner: deque[str] = deque(maxlen=BANNER_LINES)
        self._newest_at = time.monotonic()
        self._greeted = self._ready = False
        self._given_up = ""

    @property
    def greeted(self) -> bool:
        """True if the child there has sent its first message."""
        return self._greeted

    def note_banner(self, line: str) -> None:
        """Store a line that came before the first message."""
        self._banner.append(line)

    def note_event(self, *, ready: bool) -> None:
        """Note that a message has arrived.

        Args:
            ready: it says that torch is imported.
        """
        self._greeted = True
        self._ready = self._ready or ready
        self._newest_at = time.monotonic()

    def give_up_if_silent(self) -> bool:
        """Return whether the connection has been silent for too long, and remember why it ends."""
        silent_s = time.monotonic() - self._newest_at
        if not self._greeted:
            limit = self._connect_within_s
            why = explain_silence(self._host, limit).text
        elif not self._ready:
            limit, why = IMPORT_WITHIN_S, f"torch gave no answer within {IMPORT_WITHIN_S:g} s"
        else:
            limit, why = SILENT_AFTER_S, f"not answering for {silent_s:.0f} s"
        if silent_s > limit:
            self._given_up = why
        return silent_s > limit

    def explain_end(self, ended: str, errors: list[str]) -> str:
        """Return why the connection ended, in one line.

        Args:
            ended: how the program that connects ended.
            errors: its last lines on standard error.
        """
        why = self._given_up
        if not why:
            why = explain_failure(self._host, ended, errors, tuple(self._banner)).text
        return f"connection to {self._host.name} lost: {why}" if self._ready else why
