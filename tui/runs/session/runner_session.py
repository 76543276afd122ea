"""The runner of one machine, and the requests for runs on it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.core.events import EventBus, LogLine, Publish
from tui.devices.state.devices import CPU
from tui.monitor.messages import Sample
from tui.runs.session.conditions import Samples, build_conditions
from tui.runs.state.events import CompareQueued, FlagSet, ParametersSet, RunQueued, SweepSet
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import RunsState
from workloads.protocol import messages
from workloads.protocol.messages import Budget
from workloads.protocol.results import Setting

if TYPE_CHECKING:
    from tui.hosts.children import HostConnection
    from tui.runs.session.runner_supervisor import RunnerSupervisor

CANCEL_S = 1.5
"""Seconds for a runner on this machine to end a cancelled run before it is replaced."""
OFF_ON = (False, True)
"""Compared settings: a verdict always says what a flag does that is on, as it may be now or not."""
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class RunnerSession:
    """Requests of front ends for runs on one machine, which its runner carries out.

    Args:
        bus: the events of the machine.
        runs: the state of the runs on the machine, which these events change.
        publish: publishes an event for that bus.
        spawn: runs a coroutine until it or the whole session ends.
        samples: returns the newest samples of the machine's monitor; ``None`` without a monitor.
    """

    def __init__(
        self,
        bus: EventBus,
        runs: RunsState,
        publish: Publish,
        spawn: Spawn,
        samples: Callable[[], Samples | None],
    ) -> None:
        self.bus, self.runs, self.publish, self.spawn = bus, runs, publish, spawn
        self.machine = runs.machine
        self.supervisor: RunnerSupervisor | None = None
        """Supervises the runner; ``None`` until it is started."""
        self._samples = samples
        self._numbers = itertools.count(1)
        self._early: list[tuple[str, bool, Budget]] = []
        """Workload, demo or not, and budget of runs requested before the GPUs were known: their CPU
        runs are queued, and their GPU runs follow unless those end first."""
        bus.subscribe(messages.Finished, self._add_conditions)
        bus.subscribe(messages.Compared, self._add_conditions)
        bus.subscribe(messages.Ready, self._queue_early_on_gpu)
        bus.subscribe(messages.Rejected, self._forget_early)
        bus.subscribe(Sample, self._request_torch_memory)

    # ---- life ----

    def start(
        self,
        python: str = "",
        files: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Start the runner, which executes earlier requests once it is ready.

        Args:
            python: the Python that runs the workloads on this machine.
            files: the workload files of the user.
            variables: environment variables of this runner, in addition to every runner's.
            connection: the host that it runs on, and its Python; ``None`` for this machine.
        """
        # Deferred: with psutil, it is first needed once the devices are drawn.
        from tui.runs.session.runner_supervisor import RunnerSupervisor

        self.supervisor = RunnerSupervisor(
            self.runs, self.publish, python, files, variables, connection
        )
        self.spawn(self.supervisor.supervise())
        self.spawn(self.supervisor.watch())

    def prepare(self) -> None:
        """Prepare for a request: an unusable runner gets another chance."""
        if self.supervisor is not None:
            self.supervisor.retry()

    def _send(self, request: messages.Request) -> bool:
        return self.supervisor is not None and self.supervisor.send(request)

    # ---- events ----

    def _request_torch_memory(self, _sample: Sample) -> None:
        """Read torch's memory right after NVML's: the account subtracts one from the other."""
        if self.machine.torch_memory:
            self._send(messages.ReportMemory())

    def _queue_early_on_gpu(self, _event: messages.Ready) -> None:
        early, self._early = self._early, []
        gpus = [device for device in self.machine.usual_devices if device != CPU]
        for workload, demo, budget in early if gpus else ():
            self._queue_runs(workload, gpus, budget, demo)

    def _forget_early(self, event: messages.Rejected) -> None:
        """Drop the pending GPU runs of a workload whose CPU run is cancelled or has failed.

        Every pending run is rejected when the runner ends, is unusable or cannot be reached.
        """
        run = self.runs.book.get(event.id)
        if run is not None:
            rejected = (run.request.workload, run.demo)
            self._early = [early for early in self._early if early[:2] != rejected]

    def _add_conditions(self, event: messages.Finished | messages.Compared) -> None:
        if isinstance(event, messages.Compared) and not event.done:
            return
        conditions = build_conditions(event, self.runs, self._samples(), self.machine.worker_pid)
        if conditions is not None:
            self.publish(conditions)

    # ---- requests of front ends, see ``RunActions`` ----

    def set_parameters(self, workload: str, parameters: dict[str, Setting]) -> None:
        self.publish(ParametersSet(workload, parameters))

    def set_sweep(self, workload: str, sweep: Sweep) -> None:
        self.publish(SweepSet(workload, sweep))

    def run(
        self,
        workloads: Sequence[str],
        devices: Sequence[str] | None = None,
        budget: Budget = "normal",
    ) -> None:
        for name in workloads:
            self._queue_runs(name, devices, budget)

    def run_to_present(self, workload: str) -> None:
        self._queue_runs(workload, None, "quick", demo=True)

    def _queue_runs(
        self, workload: str, devices: Sequence[str] | None, budget: Budget, demo: bool = False
    ) -> None:
        self.prepare()
        if devices is None and self.machine.environment is None:
            self._early.append((workload, demo, budget))
        if devices is None:
            devices = self.runs.choose_devices(workload, self.machine.usual_devices)
        for parameters in self.runs.points(workload, by_default=demo):
            for device in devices:
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
            meeting: where its ranks meet other hosts' ranks.
            time_only: skip the check and the further figures.
            demo: it is the program's own, and not the user's.
        """
        request = messages.Run(
            id=f"run-{next(self._numbers)}",
            workload=workload,
            device=device,
            parameters=dict(parameters),
            flags=self.runs.flags_for(device),
            budget=budget,
            time_only=time_only,
            meeting=meeting,
        )
        self.publish(RunQueued(request, demo))
        self._send(request)
        return request.id

    def cancel(self, run_id: str = "") -> None:
        cancelled = [item for item in self.runs.pending() if run_id in ("", item)]
        is_sent = self._send(messages.Cancel(run_id))
        if not is_sent or self.runs.runner.status != "ready":
            # A runner that is importing torch reads the request later, in the same order.
            self._cancel_runs(cancelled, "before it began")
        elif cancelled:
            self.spawn(self._replace_unless_cancelled(cancelled))

    def _cancel_runs(self, run_ids: Sequence[str], reason: str) -> None:
        for run_id in run_ids:
            self.publish(messages.Rejected(run_id, reason, "cancelled"))

    @property
    def cancel_s(self) -> float:
        """Seconds for the runner to end a cancelled run before it is replaced."""
        return CANCEL_S

    async def _replace_unless_cancelled(self, run_ids: Sequence[str]) -> None:
        await asyncio.sleep(self.cancel_s)
        left = [item for item in run_ids if item in self.runs.pending()]
        if left:
            self._cancel_runs(left, "the runner did not answer and is replaced")
            self.restart_runner()

    def set_flag(self, name: str, value: bool) -> None:
        self.publish(FlagSet(name, value))
        for workload in self.runs.compared_workloads(name):
            self._queue_comparison(workload, name)

    def compare(self, workload: str, flag: str) -> None:
        earlier = [
            item.comparison.pairs_wanted
            for item in self.runs.comparisons.values()
            if item.comparison and (item.request.workload, item.request.flag) == (workload, flag)
        ]
        pairs = 2 * earlier[-1] if earlier else None
        self._queue_comparison(workload, flag, pairs)

    def _queue_comparison(self, workload: str, flag: str, pairs: int | None = None) -> None:
        device = self.runs.device_for_flag(flag)
        if device is None:
            self.publish(LogLine("workbench", f"{flag}: no device that it acts on", "warning"))
            return
        self.request_comparison(workload, device, flag, OFF_ON, pairs)

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
        self.prepare()
        flags = self.runs.flags_for(device)
        request = messages.Compare(
            id=f"compare-{next(self._numbers)}",
            workload=workload,
            device=device,
            parameters=dict(self.runs.parameters.get(workload, {})),
            flag=flag,
            settings=settings,
            flags={name: value for name, value in flags.items() if name != flag},
            pairs=pairs,
            budget=budget,
        )
        self.publish(CompareQueued(request))
        self._send(request)
        return request.id

    def empty_cache(self, key: str) -> None:
        self._request_of_worker(messages.EmptyCache, key)

    def reset_peaks(self, key: str) -> None:
        self._request_of_worker(messages.ResetPeaks, key)

    def restart_runner(self) -> None:
        if self.supervisor is not None:
            self.supervisor.replace()

    def _request_of_worker(
        self, kind: type[messages.EmptyCache | messages.ResetPeaks], key: str
    ) -> None:
        device = self.machine.torch_name(key)
        if device and not self._send(kind(device)):
            self.publish(LogLine("workbench", f"{device}: there is no runner", "warning"))
