"""The monitor of one host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tui.core.child.process import ChildProcess
from tui.core.text.glyphs import clean
from tui.core.text.redact import with_texts
from tui.hosts.address import HostAddress
from tui.hosts.children import smi_child
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.failures import HostFailure
from tui.hosts.smi import HELLO, SmiLine, SmiSamples
from tui.hosts.supervisor import HostSupervisor, ReadingRounds
from tui.monitor.messages import (
    VERSION,
    MonitorEvent,
    MonitorHello,
    Pace,
    Sample,
    Watch,
    WatchDevice,
    WatchHost,
)
from workloads.protocol.keep_alive import Alive

OUT_OF_SIGHT_S = 3.0
"""Least seconds between two samples of a host that no part of the screen shows."""


class HostMonitor(HostSupervisor[MonitorEvent | Alive | SmiLine]):
    """Keeps a monitor running on one host; without Python there, nvidia-smi in its place.

    Args:
        host: its address.
        publish: receives each sample, and each loss of the connection.
        interval: seconds between two samples.
        python: name or path of a Python there; ``None`` for ``python3``.
        rounds: in which the children of all hosts are read; ``None`` to read each message at once.
    """

    def __init__(
        self,
        host: HostAddress,
        publish: Callable[[HostEvent], object],
        interval: float = 1.0,
        python: str | None = None,
        rounds: ReadingRounds | None = None,
    ) -> None:
        super().__init__(host, python, rounds)
        self._publish = publish
        self._interval = interval
        self._often = True
        self._child_interval = interval
        """Of the child, as it was told."""
        self._lists_processes = False
        self._no_python: HostFailure | None = None
        """Why the present attempt is one with nvidia-smi; ``None`` for one with Python."""
        self._failed_both = ""
        """Why there is no Python, if there is no nvidia-smi either."""
        self._smi = SmiSamples(host.name, interval, "")
        self._device = WatchDevice("", detail=False)
        self._worker: int | None = None

    # ---- requests ----

    def set_interval(self, seconds: float) -> None:
        """Set the interval in seconds, also for further connections."""
        self._interval = seconds
        self._send_interval()

    def sample_often(self, often: bool) -> None:
        """Sample at the interval, or at least :data:`OUT_OF_SIGHT_S` apart."""
        self._often = often
        self._send_interval()

    @property
    def _current_interval(self) -> float:
        return self._interval if self._often else max(self._interval, OUT_OF_SIGHT_S)

    def _send_interval(self) -> None:
        if self.greeted and self._child_interval != self._current_interval:
            self._child_interval = self._current_interval
            self.send(Pace(self._child_interval))

    def list_processes(self, enabled: bool) -> None:
        """List all processes of the host with each sample, or only those of its GPUs."""
        if enabled != self._lists_processes:
            self._lists_processes = enabled
            self._request_processes(always=True)

    def _request_processes(self, *, always: bool = False) -> None:
        if self.greeted and (always or self._lists_processes):
            self.send(WatchHost(self._lists_processes))

    def watch_worker(self, pid: int | None) -> None:
        """Read the memory of this program's worker there, also after another connection."""
        if pid != self._worker:
            self._worker = pid
            if self.greeted:
                self.send(Watch(() if pid is None else (pid,)))

    def watch_device(self, request: WatchDevice) -> None:
        """Read the costly figures of one device, also after another connection."""
        if request != self._device:
            self._device = request
            if self.greeted:
                self.send(request)

    # ---- the child ----

    def make_host_child(self) -> ChildProcess[Any]:
        if self._no_python is not None:
            self._smi = SmiSamples(self.host.name, self._interval, self._no_python.reason)
            return smi_child(self.host, self._interval)
        self._child_interval = self._current_interval
        return self.connection.monitor_child(self._child_interval)

    def falls_back(self, failure: HostFailure) -> bool:
        tried = self._no_python
        self._failed_both = tried.text if tried is not None and failure.no_python else ""
        # After nvidia-smi has ended, Python may be there.
        self._no_python = failure if failure.no_python and tried is None else None
        return self._no_python is not None

    def apply_host_event(self, event: MonitorEvent | Alive | SmiLine) -> None:
        if isinstance(event, SmiLine):
            self._apply_smi_line(event.text)
        elif isinstance(event, MonitorHello):
            if self.greet(event.version, VERSION):
                self._send_interval()
                self._request_processes()
                if self._device.id:
                    self.send(self._device)
                if self._worker is not None:
                    self.send(Watch((self._worker,)))
        elif isinstance(event, Sample) and self.greeted:
            self.is_useful = True
            self._publish(HostSample(self.host.name, event, self.round_trip_s, time.time()))

    def _apply_smi_line(self, text: str) -> None:
        if not self.greeted:
            if text == HELLO:
                self.greet(VERSION, VERSION)
            else:
                self.note_banner(text)
            return
        try:
            smi_sample = self._smi.apply(text)
        except ValueError:
            # What nvidia-smi says instead of figures, such as that it has failed.
            self.note_banner(text)
            return
        if smi_sample is not None:
            self.is_useful = True
            sample = with_texts(smi_sample, clean, keys=False)
            self._publish(HostSample(self.host.name, sample, None, time.time()))

    def report_lost(self, reason: str, seconds: float) -> None:
        why = self._failed_both or reason
        self._publish(HostLost(self.host.name, why, seconds, time.time()))
