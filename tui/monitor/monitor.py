"""The monitor's two ways of working: a sample at each tick, or one sample."""

from __future__ import annotations

import threading
import time

from tui.child.channel import ParentChannel, complain
from tui.monitor.host import HostProcessReader, HostReader, watched_process
from tui.monitor.messages import MONITOR_REQUESTS, MonitorRequest, Pace, Sample, Watch, WatchHost
from tui.monitor.nvml_loop import NvmlLoop

MOST_WATCHED = 64
"""Processes whose memory is read with each sample, at most."""

LEAST_INTERVAL_S = 0.05

_FIRST_WAIT = 1.0
"""Seconds that the first sample waits for NVML, which takes long to start on some boxes."""

ONLY_WAIT = 15.0
"""Seconds that a single sample waits: without persistence mode each GPU takes seconds to wake."""

LOAD_SPAN = 0.2
"""Seconds between the two readings that a CPU load needs, where there is only one sample."""


class Monitor:
    """Takes the samples, and holds what is kept between them."""

    def __init__(self, interval: float) -> None:
        """Read the host, as the first load needs; NVML is not touched before :meth:`begin`.

        Args:
            interval: Seconds between samples.
        """
        self._host = HostReader()
        self.interval = interval
        self.sample_now = threading.Event()
        """Set where the next sample is not to wait for its time."""
        self._nvml = NvmlLoop(interval, self._host.machine_memory)
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
        self.sample_now.set()

    def begin(self) -> None:
        """Have NVML read while the caller does something else."""
        self._nvml.request()

    def sample(self, patience: float) -> Sample:
        """Read everything.

        Args:
            patience: Seconds to wait for NVML; after that its newest figures must do.
        """
        self.begin()
        self._nvml.wait(patience)
        silent_s = self._nvml.silent_s()
        at, host = time.time(), self._host.read()
        nvml, processes = self._nvml.newest, self._host_processes
        return Sample(
            at=at,
            took_s=nvml.took_s,
            host=host,
            driver=nvml.driver_while_silent(silent_s),
            devices=nvml.devices,
            watched=tuple(watched_process(pid) for pid in self._watched),
            nvml_silent_s=silent_s,
            problems=(nvml.problem,) if nvml.problem else (),
            host_processes=processes.read() if processes is not None else None,
            interval_s=self.interval,
        )


def serve(parent: ParentChannel, interval: float) -> None:
    """Write a sample at each tick until the front end goes away.

    Args:
        parent: The front end.
        interval: Seconds between samples.
    """
    monitor = Monitor(interval)
    parent.listen(MONITOR_REQUESTS, monitor.take_request)
    patience = _FIRST_WAIT
    while True:
        began = time.monotonic()
        parent.send(monitor.sample(patience))
        patience = min(monitor.interval, 1.0) / 2
        monitor.sample_now.wait(max(0.0, began + monitor.interval - time.monotonic()))
        monitor.sample_now.clear()


def once(parent: ParentChannel) -> None:
    """Write one sample.

    Args:
        parent: Takes it.
    """
    monitor = Monitor(interval=1.0)
    monitor.begin()
    time.sleep(LOAD_SPAN)
    parent.send(monitor.sample(ONLY_WAIT))
