"""The monitor's two ways of working: a sample at each tick, or one sample."""

from __future__ import annotations

import threading
import time

from tui.child.channel import ParentChannel, complain
from tui.devices import host
from tui.devices.collector import Collector
from tui.devices.host_processes import HostProcessReader
from tui.devices.look import Looker
from tui.devices.messages import (
    MONITOR_REQUESTS,
    MonitorRequest,
    Pace,
    Sample,
    Watch,
    WatchHost,
)

MOST_WATCHED = 64
"""Processes that are looked at with each sample, at most."""

LEAST_INTERVAL_S = 0.05

_FIRST_LOOK = 1.0
"""Seconds that the first sample waits for NVML, which takes long to start on some boxes."""

_ONE_LOOK = 15.0
"""Seconds that a single sample waits: without persistence mode each GPU takes seconds to wake."""

_LOAD_TAKES = 0.2
"""Seconds between the two looks that a CPU load needs, where there is only one sample."""


class Monitor:
    """Holds what is read between samples."""

    def __init__(self, interval: float) -> None:
        """Take the first look at the host; NVML's waits for the first :meth:`sample`.

        Args:
            interval: Seconds between samples.
        """
        self._host = host.HostReader()
        self.interval = interval
        self.hurry = threading.Event()
        """Set where the next sample is not to wait for its time."""
        total = self._host.machine_memory
        self._collector = Collector(lambda beat: Looker(self.interval, total, beat))
        self._watched: tuple[int, ...] = ()
        self._host_processes: HostProcessReader | None = None
        """Only while they are asked for: reading them all takes some milliseconds."""

    def take_request(self, request: MonitorRequest) -> None:
        """Obey one request of the front end."""
        if isinstance(request, WatchHost):
            self._host_processes = HostProcessReader() if request.wanted else None
        elif isinstance(request, Pace):
            self._set_pace(request.seconds)
        elif isinstance(request, Watch):
            self._watched = tuple(dict.fromkeys(request.pids))[:MOST_WATCHED]

    def _set_pace(self, seconds: float) -> None:
        if not seconds >= LEAST_INTERVAL_S:
            complain(f"not a request: an interval of {seconds} s")
            return
        self.interval = seconds
        # The wait that goes on may be a long one.
        self.hurry.set()

    def begin(self) -> None:
        """Have NVML looked at while the caller does something else."""
        self._collector.request()

    def sample(self, patience: float) -> Sample:
        """Look at everything.

        Args:
            patience: Seconds to wait for NVML; after that its newest figures must do.
        """
        self.begin()
        self._collector.wait(patience)
        silent_s = self._collector.silent_s()
        at, seen = time.time(), self._host.read()
        nvml, processes = self._collector.newest, self._host_processes
        return Sample(
            at=at,
            took_s=nvml.took_s,
            host=seen,
            driver=nvml.driver_while_silent(silent_s),
            devices=nvml.devices,
            watched=tuple(host.watch(pid) for pid in self._watched),
            nvml_silent_s=silent_s,
            problems=(nvml.problem,) if nvml.problem else (),
            host_processes=processes.read() if processes is not None else None,
        )


def serve(parent: ParentChannel, interval: float) -> None:
    """Write a sample at each tick until the front end goes away.

    Args:
        parent: The front end.
        interval: Seconds between samples.
    """
    monitor = Monitor(interval)
    parent.listen(MONITOR_REQUESTS, monitor.take_request)
    patience = _FIRST_LOOK
    while True:
        began = time.monotonic()
        parent.send(monitor.sample(patience))
        patience = min(monitor.interval, 1.0) / 2
        monitor.hurry.wait(max(0.0, began + monitor.interval - time.monotonic()))
        monitor.hurry.clear()


def once(parent: ParentChannel) -> None:
    """Write one sample.

    Args:
        parent: Takes it.
    """
    monitor = Monitor(interval=1.0)
    monitor.begin()
    time.sleep(_LOAD_TAKES)
    parent.send(monitor.sample(_ONE_LOOK))
