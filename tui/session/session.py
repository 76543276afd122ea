"""One session of the workbench: the children, the store, and what a front end can ask for.

The screens and the headless commands are thin over this; it knows neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.core import state_folder
from tui.core.tasks import Tasks
from tui.devices.monitor.messages import Sample
from tui.devices.state.devices import CPU
from tui.runs.state.parameters import Sweep
from tui.session.conditions import conditions_of
from tui.session.supervisors import MonitorSupervisor, RunnerSupervisor
from tui.state.events import (
    AnyEvent,
    CatalogueRead,
    CompareQueued,
    DeviceSelected,
    FlagSet,
    LogLine,
    ParametersSet,
    PeaksReset,
    RunQueued,
    SweepSet,
    Topics,
)
from tui.state.store import Store
from workloads.protocol import messages
from workloads.protocol.messages import Budget
from workloads.protocol.results import Setting

if TYPE_CHECKING:
    from tui.core.child.launch import Launched
    from tui.core.child.process import ChildProcess
    from tui.recordings.recorder import Recorder
    from tui.results.store.keeper import ResultHistory, ResultRecorder
    from tui.session.allocators_supervisor import WatchSupervisor

CANCEL_S = 1.5
"""A runner that has not ended a cancelled run by then is replaced."""
LOOK_S = 2.0
"""A monitor whose first sample takes longer is not waited for; it says something after one second,
whatever the driver does."""

Listener = Callable[[Topics], None]


class Session:
    """The children and the store of one run of the program.

    Args:
        python: the Python that runs the workloads; it needs torch.
        interval: seconds between two samples of the monitor; ``None`` for no monitor.
        files: of workloads that the user brings; the runner reads them.
        recorder: is told all that changes the store and all that the children are asked.
        monitor: one of that interval that has been started already.
        keeper: puts what is measured into the store of results; ``None`` to keep nothing.
        earlier: tells what that store has of earlier sessions; ``None`` to look at none.
        variables: environment variables of the runner, beside those that every runner has.
        readonly: write nothing of its own.
    """

    def __init__(
        self,
        python: str = sys.executable,
        interval: float | None = 1.0,
        files: Sequence[str] = (),
        recorder: Recorder | None = None,
        monitor: Launched | None = None,
        keeper: ResultRecorder | None = None,
        earlier: ResultHistory | None = None,
        *,
        variables: Mapping[str, str] | None = None,
        readonly: bool = False,
    ) -> None:
        self.store = Store()
        self._listeners: list[Listener] = []
        self._tasks = Tasks()
        self._numbers = itertools.count(1)
        self._early: list[tuple[str, bool, Budget]] = []
        """Workload, whether the demo asked, and budget of runs that were asked for before the GPUs
        were known: those on the CPU are queued, those on a GPU follow."""
        self._python = python
        self._files = tuple(files)
        self._variables = variables
        self._interval = interval
        self._runner: RunnerSupervisor | None = None
        self._monitor: MonitorSupervisor | None = None
        self._watch: WatchSupervisor | None = None
        self._torch_is_looked_at = False
        self._recorder = recorder
        self._launched = monitor
        self._keeper = keeper
        self._earlier = earlier
        if recorder is not None:
            recorder.on_end = lambda why: self.apply(LogLine("workbench", why, "error"))
        self.apply(CatalogueRead(state_folder.catalogue(keep=not readonly)))

    # ---- life ----

    def subscribe(self, listener: Listener) -> None:
        """Have a function called with the parts of the store that each event changed."""
        self._listeners.append(listener)

    def on_error(self, handler: Callable[[BaseException], None]) -> None:
        """Have a function called with an error of our own, after which a child is kept no more."""
        self._tasks.on_error = handler

    def watch(self) -> None:
        """Start the monitor; what it says arrives in the store."""
        if self._interval is None or self._monitor is not None:
            return
        written, launched = self._recorder, self._launched
        sent = written.to_monitor if written else None
        self._monitor = MonitorSupervisor(self.store, self.apply, self._interval, sent, launched)
        self._tasks.spawn(self._monitor.supervise())

    async def looked(self, patience: float = LOOK_S) -> None:
        """Wait for the first sample, or until it is known that none comes soon.

        Args:
            patience: seconds, at most.
        """
        if self._monitor is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._monitor.looked.wait(), patience)

    async def start(self) -> None:
        """Start the children; what they say arrives in the store.

        What was asked for before is done once the runner is there.
        """
        self.watch()
        if self._keeper is not None:
            self._keeper.attach(self.apply)
        written = self._recorder
        sent = written.to_runner if written else None
        self._runner = RunnerSupervisor(
            self.store, self.apply, self._python, self._files, sent, self._variables
        )
        self._tasks.spawn(self._runner.supervise())
        self._tasks.spawn(self._runner.watch_silence())
        if self._earlier is not None:
            self._tasks.spawn(self._earlier.read(self.store, self.apply))

    async def stop(self) -> None:
        """End the children and what they started, within two seconds or so."""
        self._tasks.cancel()
        await asyncio.gather(*(child.stop() for child in self._children()))
        await self._tasks.ended()
        if self._keeper is not None:
            await self._keeper.close()
        if self._recorder is not None:
            self._recorder.close()

    def kill(self) -> None:
        """SIGKILL to the children: for an end that cannot wait."""
        for child in self._children():
            if child.running:
                child.kill()

    def _children(self) -> list[ChildProcess[Any]]:
        supervisors = (self._monitor, self._runner, self._watch)
        return [one.child for one in supervisors if one and one.child]

    def apply(self, event: AnyEvent) -> None:
        """Take an event into the store and tell the listeners."""
        worker_pid = self.store.worker_pid
        if self._recorder is not None:
            self._recorder.event(event)
        parts = self.store.apply(event)
        if isinstance(event, messages.Finished) or (
            isinstance(event, messages.Compared) and event.done
        ):
            self._add_conditions(event, worker_pid)
        elif isinstance(event, messages.Ready):
            self._queue_early_on_gpu()
        elif isinstance(event, Sample) and self.store.torch_memory:
            # Right after NVML was read: an account subtracts the one from the other.
            self._send(messages.TellMemory())
        if self._keeper is not None:
            self._keeper.see(event, self.store)
        if self._earlier is not None and isinstance(event, messages.Finished):
            self._tasks.spawn(self._earlier.compare(event.result.id, self.store, self.apply))
        self._update_watch(event)
        if self._monitor is not None and self.store.worker_pid != worker_pid:
            self._monitor.watch_worker()
        for listener in self._listeners if parts else ():
            listener(parts)

    def _update_watch(self, event: AnyEvent) -> None:
        if self._watch is not None:
            if isinstance(event, Sample):
                self._watch.apply_sample(event)
        elif self._torch_is_looked_at:
            self._begin_watch()

    def _begin_watch(self) -> None:
        """Start the watch, but not before what a start needs is there."""
        store = self.store
        if store.sample is None or store.runner.status in ("starting", "importing torch"):
            return
        # It has no part in a start.
        from tui.session.allocators_supervisor import WatchSupervisor

        sent = self._recorder.to_watch if self._recorder else None
        self._watch = WatchSupervisor(self.apply, store.sample, sent)
        self._tasks.spawn(self._watch.supervise())

    def _queue_early_on_gpu(self) -> None:
        early, self._early = self._early, []
        gpus = [device for device in self.store.usual_devices if device != CPU]
        for workload, demo, budget in early if gpus else ():
            self._queue_runs(workload, gpus, budget, demo)

    def _add_conditions(
        self, event: messages.Finished | messages.Compared, worker_pid: int | None
    ) -> None:
        samples = self._monitor.sampled if self._monitor is not None else None
        seen = conditions_of(event, self.store, samples, worker_pid)
        if seen is not None:
            self.apply(seen)

    def _send(self, request: messages.Request) -> bool:
        return self._runner is not None and self._runner.send(request)

    # ---- what a front end asks for, as ``Actions`` describes it ----

    def select_device(self, key: str) -> None:
        self.apply(DeviceSelected(key))

    def set_parameters(self, workload: str, parameters: dict[str, Setting]) -> None:
        self.apply(ParametersSet(workload, parameters))

    def set_sweep(self, workload: str, sweep: Sweep) -> None:
        self.apply(SweepSet(workload, sweep))

    def run(
        self,
        workloads: Sequence[str],
        devices: Sequence[str] | None = None,
        budget: Budget = "normal",
    ) -> None:
        for name in workloads:
            self._queue_runs(name, devices, budget)

    def run_for_demo(self, workload: str) -> None:
        self._queue_runs(workload, None, "quick", demo=True)

    def _queue_runs(
        self, workload: str, devices: Sequence[str] | None, budget: Budget, demo: bool = False
    ) -> None:
        if self._runner is not None:
            self._runner.retry()
        if devices is None and self.store.environment is None:
            self._early.append((workload, demo, budget))
        wanted = devices if devices is not None else self.store.usual_devices
        for parameters in self.store.points(workload, by_default=demo):
            for device in wanted:
                request = messages.Run(
                    id=f"run-{next(self._numbers)}",
                    workload=workload,
                    device=device,
                    parameters=dict(parameters),
                    flags=self.store.flags_for(device),
                    budget=budget,
                )
                self.apply(RunQueued(request, demo))
                self._send(request)

    def cancel(self, run_id: str = "") -> None:
        wanted = [item for item in self.store.pending() if run_id in ("", item)]
        heard = self._send(messages.Cancel(run_id))
        if not heard or self.store.runner.status != "ready":
            # A runner that imports torch hears it later, and finds the same order of things.
            self._forget_early(run_id)
            self._cancel_runs(wanted, "before it began")
        elif wanted:
            self._tasks.spawn(self._replace_unless_cancelled(wanted))

    def _forget_early(self, run_id: str) -> None:
        """Queue nothing on a GPU for the workload of a cancelled run; ``""`` means all runs."""
        run = self.store.runs.get(run_id)
        if not run_id:
            self._early.clear()
        elif run is not None and not run.ended:
            cancelled = (run.request.workload, run.demo)
            self._early = [early for early in self._early if early[:2] != cancelled]

    def _cancel_runs(self, run_ids: Sequence[str], reason: str) -> None:
        for run_id in run_ids:
            self.apply(messages.Rejected(run_id, reason, "cancelled"))

    async def _replace_unless_cancelled(self, wanted: Sequence[str]) -> None:
        await asyncio.sleep(CANCEL_S)
        left = [item for item in wanted if item in self.store.pending()]
        if left:
            self._cancel_runs(left, "the runner did not answer and is replaced")
            self.restart_runner()

    def set_flag(self, name: str, value: bool) -> None:
        before = self.store.flags.get(name)
        self.apply(FlagSet(name, value))
        for info in self.store.catalogue:
            if info.compared:
                self._queue_comparison(
                    info.name, name, (value if before is None else before, value)
                )

    def compare(self, workload: str, flag: str) -> None:
        value = self.store.flags.get(flag, False)
        earlier = [
            item.comparison.pairs_wanted
            for item in self.store.comparisons.values()
            if item.comparison and (item.request.workload, item.request.flag) == (workload, flag)
        ]
        pairs = 2 * earlier[-1] if earlier else None
        self._queue_comparison(workload, flag, (not value, value), pairs)

    def _queue_comparison(
        self, workload: str, flag: str, settings: tuple[bool, bool], pairs: int | None = None
    ) -> None:
        device = self.store.device_for_flag(flag)
        if device is None:
            self.apply(LogLine("workbench", f"{flag}: no device that it acts on", "warning"))
            return
        self.request_comparison(workload, device, flag, settings, pairs)

    def request_comparison(
        self,
        workload: str,
        device: str,
        flag: str,
        settings: tuple[bool, bool],
        pairs: int | None = None,
        budget: Budget = "normal",
    ) -> str:
        """Queue a comparison; returns the id of its request."""
        if self._runner is not None:
            self._runner.retry()
        flags = self.store.flags_for(device)
        request = messages.Compare(
            id=f"compare-{next(self._numbers)}",
            workload=workload,
            device=device,
            parameters=dict(self.store.parameters.get(workload, {})),
            flag=flag,
            settings=settings,
            flags={name: value for name, value in flags.items() if name != flag},
            pairs=pairs,
            budget=budget,
        )
        self.apply(CompareQueued(request))
        self._send(request)
        return request.id

    def empty_cache(self, key: str) -> None:
        if name := self.store.torch_name(key):
            self._ask(messages.EmptyCache(name))

    def reset_peaks(self, key: str) -> None:
        self.apply(PeaksReset(key))
        if name := self.store.torch_name(key):
            self._ask(messages.ResetPeaks(name))

    def set_refresh(self, seconds: float) -> None:
        self._interval = seconds
        if self._monitor is not None:
            self._monitor.set_interval(seconds)

    def watch_host(self, wanted: bool) -> None:
        if self._monitor is not None:
            self._monitor.watch_host(wanted)

    def watch_torch(self, wanted: bool) -> None:
        self._torch_is_looked_at = wanted
        if self._watch is not None:
            self._watch.look_at(wanted)
        elif wanted:
            self._begin_watch()

    def restart_runner(self) -> None:
        if self._runner is not None:
            self._runner.replace()

    def _ask(self, request: messages.EmptyCache | messages.ResetPeaks) -> None:
        if not self._send(request):
            text = f"{request.device}: there is no runner"
            self.apply(LogLine("workbench", text, "warning"))
