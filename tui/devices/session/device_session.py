"""A session that reads the machine with the monitor and, on demand, the watch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tui.allocators.messages import (
    AgentLogPart,
    ProcessFigures,
    StepsCounted,
    TorchProcesses,
    pids_of,
)
from tui.core.child.launch import Launched
from tui.core.child.process import ChildProcess
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import EventBus, RunnerStatus
from tui.core.tasks import Tasks
from tui.devices.session.monitor_supervisor import MonitorSupervisor
from tui.devices.session.shared_watch import (
    IN_BACKGROUND_S,
    ON_SCREEN_S,
    ScreenPace,
    SharedWatch,
    WatchInterest,
    WatchParty,
)
from tui.devices.state.devices import CPU
from tui.devices.state.machine import DeviceSelected, MachineState
from tui.hosts.events import HostSample, HostsNamed, HostTorch
from tui.monitor.messages import Sample, WatchDevice
from workloads.protocol import messages

if TYPE_CHECKING:
    from tui.hosts.address import HostAddress
    from tui.hosts.children import HostConnection
    from tui.hosts.monitor import HostMonitor
    from tui.hosts.plan import HostPlan
    from tui.hosts.process_watch import HostWatch, HostWatchEvent

FIRST_SAMPLE_S = 2.0
"""Seconds to wait for the monitor's first sample. The monitor reports after one second even if the
driver does not answer."""
RUNNER_CHANGES: tuple[type, ...] = (
    messages.WorkerStarted,
    messages.WorkerEnded,
    messages.Ready,
    messages.Unusable,
    RunnerStatus,
)
"""All events that change the runner's worker or its start."""
Children = list[ChildProcess[Any]]


def _of_host(host: str, event: HostWatchEvent) -> HostTorch:
    """Return an event of a host's watch as an event of the session."""
    if isinstance(event, TorchProcesses):
        return HostTorch(host, processes=event)
    if isinstance(event, ProcessFigures):
        return HostTorch(host, figures=event)
    if isinstance(event, StepsCounted):
        return HostTorch(host, steps=event)
    if isinstance(event, AgentLogPart):
        return HostTorch(host, log=event)
    return HostTorch(host, lost=f"torch processes are not read: {event.reason}")


class DeviceSession:
    """The monitor and the watch, and the tasks that keep them running.

    Args:
        bus: receives their events.
        machine: the state that they change.
        interval: seconds between two samples of the monitor; ``None`` for no monitor.
        launched: a running monitor with that interval.
        connection: the host that the children run on; ``None`` for this machine.
        hosts: the other hosts to connect to; ``None`` for none.
    """

    def __init__(
        self,
        bus: EventBus,
        machine: MachineState,
        interval: float | None = 1.0,
        launched: Launched | None = None,
        hosts: HostPlan | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        self._connection = connection
        self._bus = bus
        self._machine = machine
        self._interval = interval
        self._launched = launched
        self._hosts = hosts
        self._host_monitors: tuple[HostMonitor, ...] = ()
        self._host_watches: dict[str, HostWatch] = {}
        """The watches of other hosts, from the first time that the screen shows allocators."""
        self._tasks = Tasks()
        self._monitor: MonitorSupervisor | None = None
        self.shared_watch = SharedWatch(bus, self._tasks.spawn)
        """The watch, which an open run uses too."""
        self._party: WatchParty | None = None
        """The party of the processes tab, or of the command that prints processes."""
        self._worker_pid: int | None = None
        """The worker in the last request to the monitor to read a worker's memory."""
        self._reads_torch = False
        """The screen shows the allocators of other processes."""
        self._pace = ScreenPace()
        self._shows_hosts = True
        """The screen shows the hosts that are not selected."""
        self._reads_device: bool | None = None
        """The costly figures of the selected device are read: the details too, or only its PCIe
        traffic; ``None`` for neither."""
        bus.subscribe(Sample, self._follow_sample)
        bus.subscribe(HostSample, self._follow_host_sample)
        bus.subscribe(ProcessFigures, self._follow_figures)
        bus.subscribe(DeviceSelected, self._follow_selection)
        for kind in RUNNER_CHANGES:
            bus.subscribe(kind, self._follow_runner)

    # ---- life ----

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Call a function with an internal error, after which a child is no longer restarted."""
        self._tasks.on_error = handler

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it or the session ends."""
        self._tasks.spawn(work)

    def watch(self) -> None:
        """Start the monitor, whose samples change the state of the machine."""
        if self._interval is None or self._monitor is not None or self._host_monitors:
            return
        if self._hosts is not None:
            self._connect(self._hosts, self._interval)
            if not self._hosts.here:
                return
        self._monitor = MonitorSupervisor(
            self._machine, self._bus.publish, self._interval, self._launched, self._connection
        )
        self.spawn(self._monitor.supervise())

    def _connect(self, plan: HostPlan, interval: float) -> None:
        names = tuple(host.name for host in plan.hosts)
        self._bus.publish(HostsNamed(names, plan.here))
        self._host_monitors = tuple(
            plan.create_monitor(host, self._bus.publish, interval) for host in plan.hosts
        )
        for monitor in self._host_monitors:
            self._watch_worker_of(monitor)
            self.spawn(monitor.watch())

    def _watch_worker_of(self, monitor: HostMonitor) -> None:
        """Have the monitor of a host read the memory of this program's worker there."""
        host = self._machine.hosts.find_named(monitor.host.name)
        if host is None:
            return
        machine = host.machine
        for kind in RUNNER_CHANGES:
            host.bus.subscribe(kind, lambda _event: monitor.watch_worker(machine.worker_pid))
            host.bus.subscribe(kind, lambda _event: self._set_sample_intervals())

    async def wait_for_sample(self, timeout_s: float = FIRST_SAMPLE_S) -> None:
        """Wait for the first sample, or until none is to be expected soon.

        Args:
            timeout_s: the most seconds to wait.
        """
        if self._monitor is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._monitor.first_sample.wait(), timeout_s)

    async def stop(self) -> None:
        """End the children and their descendants within about two seconds."""
        self._tasks.cancel()
        await asyncio.gather(*(child.stop() for child in self._children()))
        await self._tasks.ended()

    def kill(self) -> None:
        """Send SIGKILL to the children, for an end that cannot wait."""
        for child in self._children():
            if child.running:
                child.kill()

    def _children(self) -> Children:
        supervisors: tuple[ChildSupervisor[Any] | None, ...] = self._supervisors()
        own = [supervisor.child for supervisor in supervisors if supervisor and supervisor.child]
        return [*own, *self.shared_watch.children]

    def _supervisors(self) -> tuple[ChildSupervisor[Any] | None, ...]:
        return self._monitor, *self._host_monitors, *self._host_watches.values()

    # ---- events ----

    def _follow_runner(self, _event: object) -> None:
        self._start_watch()
        if self._monitor is not None and self._worker_pid != self._machine.worker_pid:
            self._worker_pid = self._machine.worker_pid
            self._monitor.watch_worker()

    def _follow_sample(self, _sample: Sample) -> None:
        self._start_watch()
        self._request_device()

    def _follow_host_sample(self, event: HostSample) -> None:
        if event.host == self._machine.shown.host:
            self._request_device()
        watch = self._host_watches.get(event.host)
        if watch is not None:
            watch.set_listed(pids_of(event.sample.devices))

    def _follow_figures(self, event: ProcessFigures) -> None:
        """Read allocators on the screen more often while one of them reserves memory."""
        if self._reads_torch and self._party is not None:
            self._party.set_interest(WatchInterest(self._pace.decide(event), others=True))

    def _follow_selection(self, _event: DeviceSelected) -> None:
        self._request_device()
        self._set_watch_intervals()
        self._set_sample_intervals()

    def _set_sample_intervals(self) -> None:
        """Sample those hosts seldom that are out of sight and run nothing of this program."""
        selected = self._machine.hosts.selected_host
        for monitor in self._host_monitors:
            host = self._machine.hosts.find_named(monitor.host.name)
            works = host is not None and host.machine.worker_pid is not None
            monitor.sample_often(self._shows_hosts or host is selected or works)

    def _set_watch_intervals(self) -> None:
        """Read the torch processes of a host that is shown as often as those of this machine."""
        shown = self._machine.shown.host if self._reads_torch else ""
        for name, watch in self._host_watches.items():
            watch.set_interval(ON_SCREEN_S if name == shown else IN_BACKGROUND_S)

    def watch_processes(
        self, pace: float, pids: Sequence[int] = (), *, children: bool = True
    ) -> None:
        """Start the watch at once, for a command that has no screen and no runner.

        Args:
            pace: seconds between two readings.
            pids: watch only these processes; empty for all processes of this user.
            children: also watch the descendants of ``pids``.
        """
        self._watch(WatchInterest(pace, frozenset(pids), children, others=not pids))

    def _watch(self, interest: WatchInterest) -> None:
        if self._party is None:
            self._party = self.shared_watch.join(interest, self._bus.publish)
        else:
            self._party.set_interest(interest)

    def _start_watch(self) -> None:
        """Start the watch if it is needed and its requirements are met."""
        if not self._reads_torch or self._party is not None:
            return
        if self._machine.sample is not None and self._machine.runner_answered:
            self._watch(WatchInterest(ON_SCREEN_S, others=True))

    # ---- requests of a front end, described in ``DeviceActions`` ----

    def select_device(self, key: str) -> None:
        self._bus.publish(DeviceSelected(key))

    def set_refresh(self, seconds: float) -> None:
        self._interval = seconds
        if self._monitor is not None:
            self._monitor.set_interval(seconds)
        for monitor in self._host_monitors:
            monitor.set_interval(seconds)

    def sample_hosts(self, *, often: bool) -> None:
        self._shows_hosts = often
        self._set_sample_intervals()

    def watch_host(self, enabled: bool) -> None:
        shown = self._machine.shown.host
        if self._monitor is not None:
            self._monitor.watch_host(enabled and not shown)
        for monitor in self._host_monitors:
            monitor.list_processes(enabled and monitor.host.name == shown)

    def watch_device(self, *, detail: bool) -> None:
        self._reads_device = detail
        self._request_device()

    def _request_device(self) -> None:
        """Request the costly figures of the selected device alone."""
        if self._reads_device is None:
            return
        shown = self._machine.shown
        nothing = WatchDevice("", detail=False)
        key = "" if shown.selected == CPU else shown.selected
        request = WatchDevice(key, self._reads_device) if key else nothing
        if self._monitor is not None:
            self._monitor.watch_device(nothing if shown.host else request)
        for monitor in self._host_monitors:
            monitor.watch_device(request if monitor.host.name == shown.host else nothing)

    def _watch_hosts(self, plan: HostPlan) -> None:
        """Start a watch on every host: the ranks of a job may be on any of them."""

        def start(host: HostAddress) -> HostWatch:
            def publish(event: HostWatchEvent) -> None:
                self._bus.publish(_of_host(host.name, event))

            return plan.create_watch(host, publish, IN_BACKGROUND_S)

        self._host_watches = {host.name: start(host) for host in plan.hosts}
        for watch in self._host_watches.values():
            self.spawn(watch.watch())

    def watch_torch(self, enabled: bool) -> None:
        self._reads_torch = enabled
        if enabled and self._host_monitors and self._hosts is not None and not self._host_watches:
            self._watch_hosts(self._hosts)
        self._set_watch_intervals()
        if self._party is not None:
            pace = ON_SCREEN_S if enabled else IN_BACKGROUND_S
            self._watch(WatchInterest(pace, others=True))
        self._start_watch()
