"""A supervisor that restarts the monitor and turns its messages and its end into events."""

from __future__ import annotations

import asyncio
from collections import deque
from sys import intern
from typing import TYPE_CHECKING, NamedTuple, Union

from tui import monitor
from tui.core.child.launch import FOLDER, Launched
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import LogLine, MonitorStatus, Publish, RequestSent
from tui.devices.state.machine import MachineState
from tui.monitor.messages import (
    MONITOR_EVENTS,
    MonitorEvent,
    MonitorHello,
    Pace,
    Sample,
    Watch,
    WatchDevice,
    WatchHost,
)
from workloads.protocol.keep_alive import Alive

if TYPE_CHECKING:
    from tui.hosts.children import HostConnection

MOST_SAMPLES = 600
"""The most stored samples of the monitor: ten minutes at one a second."""


class SampledDevice(NamedTuple):
    """The part of a device's sample that conditions need; minutes of whole samples are large."""

    id: str
    read_at: float
    sm_clock_mhz: int | None
    power_w: float | None
    temperature_c: float | None
    throttle: tuple[str, ...] | None
    processes: tuple[tuple[int, int], ...]
    """Pids and their bytes on the device, if known."""


def sampled(sample: Sample) -> tuple[SampledDevice, ...]:
    """Return the devices of a sample that are not lost."""
    return tuple(
        SampledDevice(
            id=intern(device.id),
            read_at=device.read_at,
            sm_clock_mhz=device.clocks_mhz.sm,
            power_w=device.power_w,
            temperature_c=device.temperature_c,
            throttle=None if device.throttle is None else tuple(map(intern, device.throttle)),
            processes=tuple(
                (row.pid, row.memory)
                for row in device.processes or ()
                # As in ``process_of``: without a start, the pid may belong to another process.
                if row.memory is not None and row.started_at is not None
            ),
        )
        for device in sample.devices
        if device.lost is None
    )


class MonitorSupervisor(ChildSupervisor[Union[MonitorEvent, Alive]]):
    """A supervisor of the monitor that stores its newest samples for conditions.

    Args:
        machine: names the worker to watch.
        publish: receives each event.
        interval: seconds between two samples.
        launched: a running monitor with that interval.
        connection: the host that it runs on; ``None`` for this machine.
    """

    def __init__(
        self,
        machine: MachineState,
        publish: Publish,
        interval: float,
        launched: Launched | None,
        connection: HostConnection | None,
    ) -> None:
        super().__init__()
        self.sampled: deque[tuple[SampledDevice, ...]] = deque(maxlen=MOST_SAMPLES)
        """The devices of the newest samples, reduced to the facts that conditions use."""
        self.first_sample = asyncio.Event()
        """Set after the first sample, or after the first monitor has ended without one."""
        self._newest: Sample | None = None
        self._launched = launched
        self._connection = connection
        self._machine = machine
        self._publish = publish
        self._interval = interval
        self._lists_host = False
        self._device = WatchDevice("", detail=False)

    def make_child(self) -> ChildProcess[MonitorEvent | Alive]:
        if self._connection is not None:
            return self._connection.monitor_child(self._interval, lambda _request: None)
        launched, self._launched = self._launched, None
        return ChildProcess(
            monitor.serve_command(self._interval),
            (*MONITOR_EVENTS, Alive),
            folder=FOLDER,
            sent=lambda request: self._publish(RequestSent("monitor", request)),
            launched=launched,
        )

    def apply_event(self, event: MonitorEvent | Alive) -> None:
        if isinstance(event, Alive):
            return
        if isinstance(event, MonitorHello) and self._device.id and self.child is not None:
            self.child.send(self._device)
        if isinstance(event, Sample):
            self._newest = event
            self.is_useful = True
            self.sampled.append(sampled(event))
        self._publish(event)
        if isinstance(event, Sample):
            self.first_sample.set()
        self.watch_worker()
        self._request_host()

    def report_malformed(self, message: MalformedMessage) -> None:
        text = f"unreadable: {message.reason}: {message.line}"
        self._publish(LogLine("monitor", text, "warning"))

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        self.first_sample.set()
        words = f"the monitor ended: {reason}; it is restarted"
        self._publish(MonitorStatus("restarting", words))
        self._publish(LogLine("monitor", f"ended: {reason}", "error"))
        await asyncio.sleep(seconds)

    def watch_worker(self) -> None:
        """Request the memory of the present worker from the monitor."""
        pid = self._machine.worker_pid
        pids = () if pid is None else (pid,)
        seen = tuple(item.pid for item in self._newest.watched) if self._newest else ()
        if self.child is not None and pids != seen:
            self.child.send(Watch(pids))

    def set_interval(self, seconds: float) -> None:
        """Set the monitor's interval in seconds, also for restarted monitors."""
        self._interval = seconds
        if self.child is not None:
            self.child.send(Pace(seconds))

    def watch_host(self, enabled: bool) -> None:
        """Start or stop the monitor's listing of the host's processes."""
        self._lists_host = enabled
        self._request_host()

    def watch_device(self, request: WatchDevice) -> None:
        """Read the costly figures of one device, also by restarted monitors."""
        if request != self._device:
            self._device = request
            if self.child is not None:
                self.child.send(request)

    def _request_host(self) -> None:
        newest = self._newest
        listed = newest is not None and newest.host_processes is not None
        if self.child is not None and self._lists_host != listed:
            self.child.send(WatchHost(self._lists_host))
