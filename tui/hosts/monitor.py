"""The monitor of one host: connected, fed with keep-alives, and connected again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable

from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import ChildSupervisor
from tui.core.text.glyphs import clean
from tui.core.text.redact import with_texts
from tui.devices.monitor.messages import VERSION, MonitorEvent, MonitorHello, Pace, WatchHost
from tui.hosts.address import HostAddress, share_connection, socket_folder
from tui.hosts.children import (
    BANNER_LINES,
    CONNECT_WITHIN_S,
    SILENT_AFTER_S,
    HostConnection,
    monitor_child,
)
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.failures import explain_failure
from workloads.protocol.keep_alive import EVERY_S, Alive, KeepAlive

RECONNECT_S = (1.0, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before the next attempt: after a connection that was of use, and after one failure, two
and so on."""
_CONFIGURATION_WITHIN_S = 5.0


class HostMonitor(ChildSupervisor[MonitorEvent | Alive]):
    """Keeps a monitor running on one host.

    Args:
        host: its address.
        publish: receives each sample, and each loss of the connection.
        interval: seconds between two samples.
        python: name or path of a Python there.
    """

    waits_s = RECONNECT_S

    def __init__(
        self,
        host: HostAddress,
        publish: Callable[[HostEvent], object],
        interval: float = 1.0,
        python: str = "python3",
    ) -> None:
        super().__init__()
        self.host = host
        self._publish = publish
        self._interval = interval
        self._python = python
        self._lists_processes = False
        self._banner: deque[str] = deque(maxlen=BANNER_LINES)
        self._greeted = False
        self._newest_at = 0.0
        self._number = 0
        self._sent_at: dict[int, float] = {}
        self._round_trip_s: float | None = None
        self._why_ended = ""

    async def watch(self) -> None:
        """Connect, and connect again whenever the connection is lost; never returns."""
        self.host = await with_shared_connection(self.host)
        await asyncio.gather(self._keep_alive(), self.supervise())

    async def close(self) -> None:
        """End the connection, and with it the child there."""
        if self.child is not None:
            await self.child.stop()

    # ---- requests ----

    def set_interval(self, seconds: float) -> None:
        """Set the interval in seconds, also for further connections."""
        self._interval = seconds
        if self._greeted:
            self.send(Pace(seconds))

    def list_processes(self, wanted: bool) -> None:
        """List all processes of the host with each sample, or only those of its GPUs."""
        if wanted != self._lists_processes:
            self._lists_processes = wanted
            self._request_processes(always=True)

    def _request_processes(self, *, always: bool = False) -> None:
        if self._greeted and (always or self._lists_processes):
            self.send(WatchHost(self._lists_processes))

    # ---- the child ----

    def make_child(self) -> ChildProcess[MonitorEvent | Alive]:
        self._banner.clear()
        self._sent_at.clear()
        self._greeted, self._round_trip_s, self._why_ended = False, None, ""
        self._newest_at = time.monotonic()
        connection = HostConnection(self.host, self._python)
        return monitor_child(connection, self._interval)

    def apply_event(self, event: MonitorEvent | Alive) -> None:
        self._newest_at = time.monotonic()
        if isinstance(event, MonitorHello):
            self._greeted = event.version == VERSION
            if self._greeted:
                self._send_keep_alive()
                self._request_processes()
            else:
                self._give_up(f"its monitor speaks version {event.version} and not {VERSION}")
        elif isinstance(event, Alive):
            sent_at = self._sent_at.pop(event.number, None)
            if sent_at is not None:
                self._round_trip_s = self._newest_at - sent_at
        elif self._greeted:
            self.is_useful = True
            # A host may be anybody's: its texts must not control this terminal.
            sample = with_texts(event, clean, keys=False)
            self._publish(HostSample(self.host.name, sample, self._round_trip_s, time.time()))

    def report_malformed(self, message: MalformedMessage) -> None:
        if self._greeted:
            self._give_up(f"it sent an unreadable line: {message.reason}")
        else:
            self._banner.append(message.line or message.reason)

    def report_no_start(self, error: OSError) -> str:
        return f"{self.host.prefix[0]} cannot be started: {error.strerror or error}"

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        if self._why_ended:
            why = self._why_ended
        elif self.child is not None and self.child.pid is not None:
            errors = self.child.stderr.last()
            why = explain_failure(self.host, reason, errors, tuple(self._banner)).text
        else:
            why = reason
        self._publish(HostLost(self.host.name, why, seconds, time.time()))
        await asyncio.sleep(seconds)

    async def _keep_alive(self) -> None:
        """Tell the host that we are there, and give up a connection that has gone silent."""
        while True:
            await asyncio.sleep(EVERY_S)
            silent_s = time.monotonic() - self._newest_at
            if self.child is None or not self.child.running:
                continue
            if not self._greeted and silent_s > CONNECT_WITHIN_S:
                self._give_up(f"no answer within {CONNECT_WITHIN_S:g} s")
            elif self._greeted and silent_s > SILENT_AFTER_S:
                self._give_up(f"not answering for {silent_s:.0f} s")
            elif self._greeted:
                self._send_keep_alive()

    def _send_keep_alive(self) -> None:
        self._number += 1
        self._sent_at[self._number] = time.monotonic()
        self.send(KeepAlive(self._number))

    def _give_up(self, why: str) -> None:
        self._why_ended = self._why_ended or why
        if self.child is not None:
            self.child.kill()


async def with_shared_connection(host: HostAddress) -> HostAddress:
    """Return a host of ssh with one connection for its children; others as they are."""
    folder = socket_folder() if host.shareable else None
    if folder is None:
        return host
    try:
        asked = await asyncio.create_subprocess_exec(
            *("ssh", "-G", "--", host.name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        # Connecting fails for the same reason, and says so.
        return host
    try:
        output, _ = await asyncio.wait_for(asked.communicate(), _CONFIGURATION_WITHIN_S)
    except asyncio.TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            asked.kill()
        return host
    return share_connection(host, output.decode("utf-8", "replace"), folder)
