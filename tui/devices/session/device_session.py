"""A session that reads the machine: the monitor, and the watch once somebody needs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tui.core.child.launch import Launched
from tui.core.child.process import ChildProcess
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import EventBus, RunnerStatus
from tui.core.tasks import Tasks
from tui.devices.allocators.messages import pids_of
from tui.devices.monitor.messages import Sample
from tui.devices.session.monitor_supervisor import MonitorSupervisor
from tui.devices.session.watch_supervisor import (
    IN_BACKGROUND_S,
    ON_SCREEN_S,
    WatchSupervisor,
)
from tui.devices.state.machine import DeviceSelected, MachineState
from workloads.protocol import messages

FIRST_SAMPLE_S = 2.0
"""A monitor whose first sample takes longer is not waited for; it says something after one second,
whatever the driver does."""
Children = list[ChildProcess[Any]]


class DeviceSession:
    """The monitor and the watch, and the tasks that keep them running.

    Args:
        bus: on which they publish.
        machine: the state that they change.
        interval: seconds between two samples of the monitor; ``None`` for no monitor.
        launched: a monitor of that interval that has been started already.
    """

    def __init__(
        self,
        bus: EventBus,
        machine: MachineState,
        interval: float | None = 1.0,
        launched: Launched | None = None,
    ) -> None:
        self._bus = bus
        self._machine = machine
        self._interval = interval
        self._launched = launched
        self._tasks = Tasks()
        self._monitor: MonitorSupervisor | None = None
        self._watch: WatchSupervisor | None = None
        self._worker_pid: int | None = None
        """The worker whose memory the monitor was last told to read."""
        self._reads_torch = False
        """The allocators of other processes are on the screen."""
        bus.subscribe(Sample, self._pass_on_sample)
        # Of the runner, whatever changes which worker there is or whether it is starting.
        for kind in (
            messages.WorkerStarted,
            messages.WorkerEnded,
            messages.Ready,
            messages.Unusable,
            RunnerStatus,
        ):
            bus.subscribe(kind, self._follow_runner)

    # ---- life ----

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Have a function called with an error of our own, after which a child is kept no more."""
        self._tasks.on_error = handler

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something until it ends or the session does."""
        self._tasks.spawn(work)

    def watch(self) -> None:
        """Start the monitor; what it says arrives in the state of the machine."""
        if self._interval is None or self._monitor is not None:
            return
        self._monitor = MonitorSupervisor(
            self._machine, self._bus.publish, self._interval, self._launched
        )
        self.spawn(self._monitor.supervise())

    async def looked(self, patience: float = FIRST_SAMPLE_S) -> None:
        """Wait for the first sample, or until it is known that none comes soon.

        Args:
            patience: seconds, at most.
        """
        if self._monitor is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._monitor.looked.wait(), patience)

    async def stop(self) -> None:
        """End the children and what they started, within two seconds or so."""
        self._tasks.cancel()
        await asyncio.gather(*(child.stop() for child in self._children()))
        await self._tasks.ended()

    def kill(self) -> None:
        """SIGKILL to the children: for an end that cannot wait."""
        for child in self._children():
            if child.running:
                child.kill()

    def _children(self) -> Children:
        supervisors: tuple[ChildSupervisor[Any] | None, ...] = self._supervisors()
        return [one.child for one in supervisors if one and one.child]

    def _supervisors(self) -> tuple[ChildSupervisor[Any] | None, ...]:
        return self._monitor, self._watch

    # ---- events ----

    def _follow_runner(self, _event: object) -> None:
        self._start_watch()
        if self._monitor is not None and self._worker_pid != self._machine.worker_pid:
            self._worker_pid = self._machine.worker_pid
            self._monitor.watch_worker()

    def _pass_on_sample(self, sample: Sample) -> None:
        if self._watch is not None:
            self._watch.set_listed(pids_of(sample.devices))
        self._start_watch()

    def watch_processes(
        self, pace: float, pids: Sequence[int] = (), *, children: bool = True
    ) -> None:
        """Start the watch at once, for a command that has no screen and no runner.

        Args:
            pace: seconds between two readings.
            pids: watch these processes alone; none for all of this user's.
            children: also those that ``pids`` have started.
        """
        sample = self._machine.sample
        listed = () if sample is None else pids_of(sample.devices)
        self._watch = WatchSupervisor(
            self._bus.publish, pace=pace, pids=pids, listed=listed, children=children
        )
        self.spawn(self._watch.supervise())

    def _start_watch(self) -> None:
        """Start the watch where it is needed, but not before what a start needs is there."""
        sample = self._machine.sample
        if not self._reads_torch or self._watch is not None or sample is None:
            return
        if not self._machine.runner_answered:
            return
        self._watch = WatchSupervisor(self._bus.publish, listed=pids_of(sample.devices))
        self.spawn(self._watch.supervise())

    # ---- what a front end requests, as ``DeviceActions`` describes it ----

    def select_device(self, key: str) -> None:
        self._bus.publish(DeviceSelected(key))

    def set_refresh(self, seconds: float) -> None:
        self._interval = seconds
        if self._monitor is not None:
            self._monitor.set_interval(seconds)

    def watch_host(self, wanted: bool) -> None:
        if self._monitor is not None:
            self._monitor.watch_host(wanted)

    def watch_torch(self, wanted: bool) -> None:
        self._reads_torch = wanted
        if self._watch is not None:
            self._watch.set_pace(ON_SCREEN_S if wanted else IN_BACKGROUND_S)
        self._start_watch()
