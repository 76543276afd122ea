"""One session of the workbench: the children, the states, and the requests of front ends.

The screens and the headless commands are thin layers over a session, which imports neither.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tui.core import state_folder
from tui.core.child.launch import Launched
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import LogLine, RunnerStatus
from tui.devices.session.device_session import DeviceSession
from tui.devices.state.devices import CPU
from tui.devices.state.machine import PeaksReset
from tui.monitor.messages import Sample
from tui.runs.session.conditions import build_conditions
from tui.runs.state.events import (
    CatalogueRead,
    CompareQueued,
    FlagSet,
    ParametersSet,
    RunQueued,
    SweepSet,
)
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.messages import Budget
from workloads.protocol.results import Setting

if TYPE_CHECKING:
    from tui.hosts.children import HostConnection
    from tui.hosts.plan import HostPlan
    from tui.runs.session.runner_supervisor import RunnerSupervisor

CANCEL_S = 1.5
"""Seconds for a runner to end a cancelled run before it is replaced."""


class Attachment(Protocol):
    """A subscriber to the events of a session, such as a recorder."""

    def attach(self, session: Session) -> None:
        """Subscribe to the events of a new session."""

    def start(self) -> None:
        """Begin work that needs a running event loop; the session starts its children now."""

    async def detach(self) -> None:
        """End all work; the session's children have ended."""


class Session(DeviceSession):
    """The children and the states of one run of the program.

    Args:
        python: the Python that runs the workloads; it needs torch.
        interval: seconds between two samples of the monitor; ``None`` for no monitor.
        files: the workload files of the user; the runner reads them.
        attachments: subscribers to the session's events, from the first event on.
        monitor: a started monitor with that interval.
        variables: environment variables of the runner, in addition to those of every runner.
        readonly: write no files.
        connection: the host that the children run on, in ``python`` of that host; ``None`` for
            this machine.
        hosts: the other hosts to connect to; ``None`` for none.
    """

    def __init__(
        self,
        python: str = sys.executable,
        interval: float | None = 1.0,
        files: Sequence[str] = (),
        attachments: Sequence[Attachment] = (),
        monitor: Launched | None = None,
        *,
        variables: Mapping[str, str] | None = None,
        readonly: bool = False,
        hosts: HostPlan | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        self.state = WorkbenchState()
        self._runs = self.state.runs
        if connection is not None:
            self.state.machine.box = connection.host.name
        super().__init__(self.state.bus, self.state.machine, interval, monitor, hosts, connection)
        self._numbers = itertools.count(1)
        self._early: list[tuple[str, bool, Budget]] = []
        """Workload, demo or not, and budget of runs requested before the GPUs were known: their CPU
        runs are queued, and their GPU runs follow."""
        self._python = python
        self._files = tuple(files)
        self._variables = variables
        self._runner: RunnerSupervisor | None = None
        subscribe = self.state.bus.subscribe
        subscribe(messages.Finished, self._add_conditions)
        subscribe(messages.Compared, self._add_conditions)
        subscribe(messages.Ready, self._queue_early_on_gpu)
        subscribe(Sample, self._request_torch_memory)
        self._attachments = tuple(attachments)
        for attachment in self._attachments:
            attachment.attach(self)
        self.state.publish(CatalogueRead(state_folder.catalogue(store=not readonly)))

    # ---- life ----

    async def start(self) -> None:
        """Start the children; their messages update the states.

        The runner executes earlier requests once it is ready.
        """
        self.watch()
        for attachment in self._attachments:
            attachment.start()
        if self._hosts is not None and not self._hosts.here:
            advice = "start without --no-here to run workloads on this machine"
            self.state.publish(RunnerStatus("unusable", "this machine is left out", advice))
            return
        # Deferred: with psutil, it is first needed once the devices are drawn.
        from tui.runs.session.runner_supervisor import RunnerSupervisor

        self._runner = RunnerSupervisor(
            self._runs,
            self.state.publish,
            self._python,
            self._files,
            self._variables,
            self._connection,
        )
        self.spawn(self._runner.supervise())
        if self._connection is None:
            self.spawn(self._runner.watch_silence())
        else:
            self.spawn(self.send_keep_alives())
            self.spawn(self._runner.watch_connection())

    async def stop(self) -> None:
        """End the children and their child processes, within about two seconds."""
        await super().stop()
        for attachment in self._attachments:
            await attachment.detach()

    def _supervisors(self) -> tuple[ChildSupervisor[Any] | None, ...]:
        return *super()._supervisors(), self._runner

    def _send(self, request: messages.Request) -> bool:
        return self._runner is not None and self._runner.send(request)

    # ---- events ----

    def _request_torch_memory(self, _sample: Sample) -> None:
        """Read torch's memory right after NVML's: the account subtracts one from the other."""
        if self.state.machine.torch_memory:
            self._send(messages.ReportMemory())

    def _queue_early_on_gpu(self, _event: messages.Ready) -> None:
        early, self._early = self._early, []
        gpus = [device for device in self.state.machine.usual_devices if device != CPU]
        for workload, demo, budget in early if gpus else ():
            self._queue_runs(workload, gpus, budget, demo)

    def _add_conditions(self, event: messages.Finished | messages.Compared) -> None:
        if isinstance(event, messages.Compared) and not event.done:
            return
        samples = self._monitor.sampled if self._monitor is not None else None
        found = build_conditions(event, self._runs, samples, self.state.machine.worker_pid)
        if found is not None:
            self.state.publish(found)

    # ---- requests of front ends, see ``RunActions`` ----

    def set_parameters(self, workload: str, parameters: dict[str, Setting]) -> None:
        self.state.publish(ParametersSet(workload, parameters))

    def set_sweep(self, workload: str, sweep: Sweep) -> None:
        self.state.publish(SweepSet(workload, sweep))

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
        if devices is None and self.state.machine.environment is None:
            self._early.append((workload, demo, budget))
        wanted = devices if devices is not None else self.state.machine.usual_devices
        for parameters in self._runs.points(workload, by_default=demo):
            for device in wanted:
                self.request_run(workload, device, parameters, budget, demo=demo)

    def request_run(
        self,
        workload: str,
        device: str,
        parameters: Mapping[str, Setting],
        budget: Budget,
        *,
        meeting: messages.Meeting | None = None,
        time_only: bool = False,
        demo: bool = False,
    ) -> str:
        """Queue one run; return the id of its request.

        Args:
            workload: its name.
            device: torch's name of the device.
            parameters: values that differ from the catalogue's, or all of them.
            budget: time for the measurement.
            meeting: where its ranks meet those of other hosts.
            time_only: skip the check and the further figures.
            demo: it is the program's own, and not the user's.
        """
        request = messages.Run(
            id=f"run-{next(self._numbers)}",
            workload=workload,
            device=device,
            parameters=dict(parameters),
            flags=self._runs.flags_for(device),
            budget=budget,
            time_only=time_only,
            meeting=meeting,
        )
        self.state.publish(RunQueued(request, demo))
        self._send(request)
        return request.id

    def cancel(self, run_id: str = "") -> None:
        wanted = [item for item in self._runs.pending() if run_id in ("", item)]
        heard = self._send(messages.Cancel(run_id))
        if not heard or self._runs.runner.status != "ready":
            # A runner that is importing torch reads the request later, in the same order.
            self._forget_early(run_id)
            self._cancel_runs(wanted, "before it began")
        elif wanted:
            self.spawn(self._replace_unless_cancelled(wanted))

    def _forget_early(self, run_id: str) -> None:
        """Drop the pending GPU runs of a cancelled run's workload; ``""`` means all runs."""
        run = self._runs.book.get(run_id)
        if not run_id:
            self._early.clear()
        elif run is not None and not run.ended:
            cancelled = (run.request.workload, run.demo)
            self._early = [early for early in self._early if early[:2] != cancelled]

    def _cancel_runs(self, run_ids: Sequence[str], reason: str) -> None:
        for run_id in run_ids:
            self.state.publish(messages.Rejected(run_id, reason, "cancelled"))

    async def _replace_unless_cancelled(self, wanted: Sequence[str]) -> None:
        await asyncio.sleep(CANCEL_S)
        left = [item for item in wanted if item in self._runs.pending()]
        if left:
            self._cancel_runs(left, "the runner did not answer and is replaced")
            self.restart_runner()

    def set_flag(self, name: str, value: bool) -> None:
        before = self._runs.flags.get(name)
        self.state.publish(FlagSet(name, value))
        for workload in self._runs.compared_workloads(name):
            self._queue_comparison(workload, name, (value if before is None else before, value))

    def compare(self, workload: str, flag: str) -> None:
        value = self._runs.flags.get(flag, False)
        earlier = [
            item.comparison.pairs_wanted
            for item in self._runs.comparisons.values()
            if item.comparison and (item.request.workload, item.request.flag) == (workload, flag)
        ]
        pairs = 2 * earlier[-1] if earlier else None
        self._queue_comparison(workload, flag, (not value, value), pairs)

    def _queue_comparison(
        self, workload: str, flag: str, settings: tuple[bool, bool], pairs: int | None = None
    ) -> None:
        device = self._runs.device_for_flag(flag)
        if device is None:
            self.state.publish(
                LogLine("workbench", f"{flag}: no device that it acts on", "warning")
            )
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
        """Queue a comparison; return the id of its request."""
        if self._runner is not None:
            self._runner.retry()
        flags = self._runs.flags_for(device)
        request = messages.Compare(
            id=f"compare-{next(self._numbers)}",
            workload=workload,
            device=device,
            parameters=dict(self._runs.parameters.get(workload, {})),
            flag=flag,
            settings=settings,
            flags={name: value for name, value in flags.items() if name != flag},
            pairs=pairs,
            budget=budget,
        )
        self.state.publish(CompareQueued(request))
        self._send(request)
        return request.id

    def empty_cache(self, key: str) -> None:
        if name := self.state.machine.torch_name(key):
            self._request_of_worker(messages.EmptyCache(name))

    def reset_peaks(self, key: str) -> None:
        self.state.publish(PeaksReset(key))
        if self.state.machine.hosts.find(key) is not None:
            return
        if name := self.state.machine.torch_name(key):
            self._request_of_worker(messages.ResetPeaks(name))

    def restart_runner(self) -> None:
        if self._runner is not None:
            self._runner.replace()

    def _request_of_worker(self, request: messages.EmptyCache | messages.ResetPeaks) -> None:
        if not self._send(request):
            text = f"{request.device}: there is no runner"
            self.state.publish(LogLine("workbench", text, "warning"))
