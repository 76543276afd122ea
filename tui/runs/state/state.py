"""The state of the runs, and the state of the whole workbench with its event bus.

Only events change the states; front ends read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from tui.core.events import EventBus, EventLog, LogLine, RunnerStatus, Topic, Topics
from tui.core.text.numbers import rate, size
from tui.devices.state.devices import CPU
from tui.devices.state.machine import MachineState
from tui.hosts.events import HostsNamed
from tui.runs.state.events import (
    CatalogueRead,
    CeilingsRead,
    ComparedWithEarlier,
    CompareQueued,
    ConditionsRecorded,
    EarlierRead,
    FlagSet,
    HostRunEvent,
    ParametersSet,
    RunQueued,
    SweepSet,
)
from tui.runs.state.parameters import Sweep, get_defaults
from tui.runs.state.runs import (
    CompareState,
    EarlierResult,
    EarlierResults,
    RunBook,
    RunState,
    end_comparison,
    select_standing,
)
from workloads.measure.comparison import withdraw_ratio
from workloads.protocol import messages
from workloads.protocol.flag_words import compares
from workloads.protocol.messages import ended_run
from workloads.protocol.results import (
    COPY,
    Ceiling,
    FlagInfo,
    Setting,
    WorkloadInfo,
    drop_invalid_claims,
)

_RUNNER = frozenset({Topic.RUNNER, Topic.WORKLOADS, Topic.BACKEND})


CEILINGS = "ceiling"
"""The workload that measures the limits of a device."""


def runs_on(info: WorkloadInfo, device: str) -> bool:
    """Return whether a workload is made for a kind of torch device."""
    return device.partition(":")[0] in info.devices


class RunsState:
    """Runs and comparisons on one machine, and the parameters and flags that they depend on.

    Args:
        bus: the events that change the state.
        machine: the machine that they run on.
        log: the log for their failures.
    """

    def __init__(self, bus: EventBus, machine: MachineState, log: EventLog) -> None:
        self.machine = machine
        self.log = log
        for kind, handler in self._handlers().items():
            bus.subscribe(kind, handler)
        self.forget()

    def forget(self) -> None:
        """Clear the state in place, so that references of the front ends stay valid."""
        self.of_hosts: dict[str, RunsState] = {}
        """The runs on the other hosts of the session, by the names of the hosts."""
        self.runner = RunnerStatus("not started" if self.machine.host else "starting")
        self.hello: messages.Hello | None = None
        self.busy_with: str | None = None
        self.catalogue: tuple[WorkloadInfo, ...] = ()
        self.parameters: dict[str, dict[str, Setting]] = {}
        self.sweeps: dict[str, Sweep] = {}
        """Sweeps by workload; a sweep replaces the present setting."""
        self.flags: dict[str, bool] = {}
        self.book = RunBook()
        self.requested: list[str] = []
        """Ids of the runs that were requested since the queue was last empty."""
        self.earlier = EarlierResults()
        """Stored results of earlier sessions."""
        self.comparisons: dict[str, CompareState] = {}
        self.ceilings: tuple[Ceiling, ...] = ()
        """Ceilings of this host under any conditions, in the order of arrival."""

    # ---- queries ----

    @property
    def now(self) -> float:
        """Unix time of the newest sample, else of the reading of the earlier results."""
        return self.machine.sample.at if self.machine.sample else self.earlier.at

    @property
    def known_flags(self) -> tuple[FlagInfo, ...]:
        """The flags of torch; none before the runner has imported it."""
        return self.machine.environment.flags if self.machine.environment else ()

    @property
    def started(self) -> bool:
        """True once a run or a sweep has been requested in this session."""
        return bool(self.book or self.sweeps)

    @property
    def shown(self) -> RunsState:
        """The runs on the machine of the selected row: this one, or another host."""
        host = self.machine.hosts.selected_host
        return self if host is None else self.of_hosts[host.name]

    @property
    def everywhere(self) -> tuple[RunsState, ...]:
        """The runs on this machine, then those on each other host."""
        return (self, *self.of_hosts.values())

    def find_workload(self, name: str | None) -> WorkloadInfo | None:
        """Return the workload of that name; ``None`` if the catalogue has none."""
        return next((info for info in self.catalogue if info.name == name), None)

    def choose_devices(self, workload: str, devices: Sequence[str]) -> tuple[str, ...]:
        """Return the devices that a workload can run on; all if there is none.

        Of a run on a device that the workload cannot use, the runner says why.

        Args:
            workload: its name.
            devices: torch's names, in order.
        """
        info = self.find_workload(workload)
        able = [each for each in devices if info is not None and runs_on(info, each)]
        return tuple(able or devices)

    def flags_for(self, device: str) -> dict[str, bool]:
        """Return the present settings of the flags that act on a torch device."""
        kind = device.partition(":")[0]
        return {
            flag.name: self.flags.get(flag.name, flag.default)
            for flag in self.known_flags
            if flag.unavailable is None and kind in flag.device_types
        }

    def compared_workloads(self, flag: str) -> list[str]:
        """Return the workloads that are compared at once when a flag is switched."""
        return [
            info.name
            for info in self.catalogue
            if info.compared and compares(flag, info.convolutions)
        ]

    def device_for_flag(self, flag: str) -> str | None:
        """Return the device to try a flag on: the GPU column's, or the CPU for oneDNN."""
        known = {info.name: info for info in self.known_flags}
        if flag not in known or known[flag].unavailable is not None:
            return None
        kinds = known[flag].device_types
        devices = reversed(self.machine.usual_devices)
        return next((name for name in devices if name.partition(":")[0] in kinds), None)

    def points(self, workload: str, *, by_default: bool = False) -> tuple[dict[str, Setting], ...]:
        """Return the requested settings of a workload: those of its sweep, or the present one.

        Args:
            workload: name of the workload.
            by_default: return the catalogue's settings instead.
        """
        if by_default:
            return tuple(get_defaults(info) for info in self.catalogue if info.name == workload)
        sweep = self.sweeps.get(workload)
        return sweep.points if sweep else (self.parameters.get(workload, {}),)

    def is_sweeping(self, workload: str) -> bool:
        """Return whether a run of a workload's present sweep is queued or running."""
        sweep = self.sweeps.get(workload)
        return sweep is not None and any(
            not run.ended
            and run.request.workload == workload
            and run.request.parameters in sweep.points
            for run in self.book.values()
        )

    def latest_run(self, workload: str, device: str) -> RunState | None:
        """Return the user's newest run of a workload with its present parameters on a torch device.

        If the user has none, or only cancelled ones, return a finished run of the presentation.
        """
        runs = list(self.book.newest_first(workload, device, self.parameters.get(workload, {})))
        own = select_standing(run for run in runs if not run.demo)
        if own is not None and not own.cancelled:
            return own
        return next((run for run in runs if run.demo and run.ended and not run.cancelled), own)

    def earlier_result(self, info: WorkloadInfo, device: str) -> EarlierResult | None:
        """Return the newest earlier result on this device with the present parameters."""
        if info.name in self.sweeps:
            return None
        view = self.machine.find_device(device)
        torch = view.torch_device if view else None
        gpu = (torch.uuid or "") if torch and device != CPU else ""
        if not gpu and device != CPU:
            return None
        return self.earlier.find(info.name, gpu, self.parameters.get(info.name, {}))

    def present_run(self, info: WorkloadInfo, device: str) -> RunState | None:
        """Return the newest run for a page of a workload on a torch device, with the defaults.

        If it has none, return the user's: a presentation that may not run anything shows those.
        """
        runs = list(self.book.newest_first(info.name, device, get_defaults(info)))
        return select_standing(run for run in runs if run.demo) or select_standing(runs)

    def describe_activity(self) -> str:
        """Return the current activity, such as ``running matmul``; empty if nothing runs."""
        pending = self.pending_requests()
        return f"running {pending[0].workload}" if pending else ""

    def pending_requests(self) -> tuple[messages.Run | messages.Compare, ...]:
        """Return the unfinished runs, then the unfinished comparisons, oldest first."""
        runs = [run.request for run in self.book.values() if not run.ended]
        comparisons = [item.request for item in self.comparisons.values() if not item.done]
        return (*runs, *comparisons)

    def pending(self) -> tuple[str, ...]:
        """Return the ids of unfinished runs and comparisons."""
        return tuple(request.id for request in self.pending_requests())

    # ---- events ----

    def _handlers(self) -> dict[type, Callable[[Any], Topics]]:
        return {
            RunnerStatus: self._on_runner_status,
            messages.Hello: self._on_hello,
            messages.Ready: self._on_ready,
            messages.Unusable: self._on_unusable,
            messages.WorkerStarted: lambda _event: frozenset({Topic.RUNNER}),
            messages.WorkerEnded: self._on_worker_ended,
            messages.Heartbeat: self._on_heartbeat,
            messages.Progress: self._on_progress,
            messages.Measured: self._on_measured,
            messages.Finished: self._on_finished,
            messages.Compared: self._on_compared,
            messages.Rejected: self._on_rejected,
            messages.Emptied: self._on_emptied,
            messages.CeilingMeasured: self._on_ceiling_measured,
            CatalogueRead: self._on_catalogue_read,
            ParametersSet: self._on_parameters_set,
            SweepSet: self._on_sweep_set,
            FlagSet: self._on_flag_set,
            RunQueued: self._on_run_queued,
            CompareQueued: self._on_compare_queued,
            ConditionsRecorded: self._on_conditions_recorded,
            CeilingsRead: self._on_ceilings_read,
            EarlierRead: self._on_earlier_read,
            ComparedWithEarlier: self._on_compared_with_earlier,
            HostsNamed: self._on_hosts_named,
            HostRunEvent: self._on_host_run,
        }

    def _on_runner_status(self, event: RunnerStatus) -> Topics:
        self.runner = event
        return _RUNNER

    def _on_ready(self, event: messages.Ready) -> Topics:
        self.runner = RunnerStatus("ready")
        for flag in event.environment.flags:
            self.flags.setdefault(flag.name, flag.default)
        return _RUNNER

    def _on_unusable(self, event: messages.Unusable) -> Topics:
        return self._on_runner_status(RunnerStatus("unusable", event.reason, event.advice))

    def _on_worker_ended(self, event: messages.WorkerEnded) -> Topics:
        # If another runner follows at once, as in a comparison of fresh processes, this runner's
        # figures are shown until that one has its own.
        if self.machine.worker_pid is None and not self.pending_requests():
            self.machine.moments.forget_torch()
        if not event.expected:
            self._note(event.reason, "error")
        return frozenset({Topic.RUNNER, Topic.MEMORY, Topic.LOG})

    def _on_hello(self, event: messages.Hello) -> Topics:
        self.hello = event
        self.runner = replace(self.runner, status="importing torch")
        for problem in event.problems:
            self._note(problem, "error")
        for host in self.machine.hosts.all:
            if self.of_hosts[host.name].hello is None:
                # A host gets the user's files, too: its runner will have the same workloads.
                host.bus.publish(CatalogueRead(event.workloads))
        return self._on_catalogue_read(CatalogueRead(event.workloads)) | {Topic.RUNNER, Topic.LOG}

    def _on_catalogue_read(self, event: CatalogueRead) -> Topics:
        self.catalogue = event.workloads
        for info in event.workloads:
            usual = get_defaults(info)
            stored = self.parameters.get(info.name, {})
            self.parameters[info.name] = {name: stored.get(name, usual[name]) for name in usual}
            if stored and stored.keys() != usual.keys():
                # The reloaded workload may have other parameters than the sweep.
                self.sweeps.pop(info.name, None)
        return frozenset({Topic.WORKLOADS})

    def _on_progress(self, event: messages.Progress) -> Topics:
        return self._change_run(event.id, progress=event) or self._change_comparison(
            event.id, progress=event
        )

    def _on_measured(self, event: messages.Measured) -> Topics:
        result = drop_invalid_claims(event.result)
        return self._change_run(result.id, so_far=result)

    def _on_finished(self, event: messages.Finished) -> Topics:
        # A recording may come from a program that did not validate this.
        result = drop_invalid_claims(event.result)
        if not self._change_run(result.id, result=result):
            return frozenset()
        if result.status == "failed":
            self._note(f"{result.workload} on {result.device}: {result.reason}", "error")
        return frozenset({Topic.WORKLOADS, Topic.LOG})

    def _on_compared(self, event: messages.Compared) -> Topics:
        # A recording may come from a version that stored a ratio of pairs that disagree.
        comparison = withdraw_ratio(event.comparison)
        if not self._change_comparison(comparison.id, comparison=comparison, done=event.done):
            return frozenset()
        if comparison.status == "failed":
            self._note(f"{comparison.flag} on {comparison.workload}: {comparison.reason}", "error")
        # A finished comparison stands in the row of a workload without a run.
        return frozenset({Topic.BACKEND, Topic.LOG, *([Topic.WORKLOADS] if event.done else [])})

    def _on_emptied(self, event: messages.Emptied) -> Topics:
        self._note(f"{event.device}: {size(event.freed)} returned")
        return frozenset({Topic.MEMORY, Topic.LOG})

    def _on_ceiling_measured(self, event: messages.CeilingMeasured) -> Topics:
        ceiling = event.ceiling
        value = rate(ceiling.value, "B/s" if ceiling.kind == COPY else "FLOP/s")
        self._note(f"ceiling of {ceiling.kind}: {value}, {ceiling.how}")
        self.ceilings = (*self.ceilings, ceiling)
        return frozenset({Topic.LOG, Topic.WORKLOADS})

    def _on_ceilings_read(self, event: CeilingsRead) -> Topics:
        self.ceilings = (*event.ceilings, *self.ceilings)
        return frozenset({Topic.WORKLOADS})

    def _on_heartbeat(self, event: messages.Heartbeat) -> Topics:
        changed = event.busy_with != self.busy_with
        self.busy_with = event.busy_with
        return frozenset({Topic.RUNNER}) if changed else frozenset()

    def _on_rejected(self, event: messages.Rejected) -> Topics:
        self._note(event.reason, "error" if event.status == "failed" else "info")
        if event.id in self.book:
            run = self.book[event.id]
            result = ended_run(
                run.request, run.progress, run.so_far, status=event.status, reason=event.reason
            )
            self.book.change(event.id, result=result)
        elif event.id in self.comparisons:
            ended = end_comparison(self.comparisons[event.id], event)
            self._change_comparison(event.id, comparison=ended, done=True)
        return frozenset({Topic.LOG, Topic.WORKLOADS, Topic.BACKEND})

    def _on_parameters_set(self, event: ParametersSet) -> Topics:
        self.parameters[event.workload] = dict(event.parameters)
        self.sweeps.pop(event.workload, None)
        return frozenset({Topic.WORKLOADS})

    def _on_sweep_set(self, event: SweepSet) -> Topics:
        self.sweeps[event.workload] = event.sweep
        return frozenset({Topic.WORKLOADS})

    def _on_flag_set(self, event: FlagSet) -> Topics:
        self.flags[event.name] = event.value
        return frozenset({Topic.BACKEND, Topic.WORKLOADS})

    def _on_run_queued(self, event: RunQueued) -> Topics:
        if all(run.ended for run in self.book.values()):
            self.requested.clear()
        self.requested.append(event.request.id)
        self.book.add(RunState(event.request, demo=event.demo))
        return frozenset({Topic.WORKLOADS})

    def _on_compare_queued(self, event: CompareQueued) -> Topics:
        self.comparisons[event.request.id] = CompareState(event.request)
        return frozenset({Topic.BACKEND})

    def _on_conditions_recorded(self, event: ConditionsRecorded) -> Topics:
        return self._change_run(
            event.run_id, conditions=event.conditions
        ) or self._change_comparison(event.run_id, conditions=event.conditions)

    def _on_earlier_read(self, event: EarlierRead) -> Topics:
        self.earlier = EarlierResults(event.results, event.at)
        return frozenset({Topic.WORKLOADS})

    def _on_compared_with_earlier(self, event: ComparedWithEarlier) -> Topics:
        return self._change_run(event.run_id, against=event.against)

    def _on_hosts_named(self, _event: HostsNamed) -> Topics:
        for host in self.machine.hosts.all:
            runs = RunsState(host.bus, host.machine, self.log)
            # The host gets the workloads of this program, and begins with the same parameters.
            runs.catalogue = self.catalogue
            runs.parameters = {name: dict(values) for name, values in self.parameters.items()}
            self.of_hosts[host.name] = runs
        return _RUNNER

    def _on_host_run(self, event: HostRunEvent) -> Topics:
        host = self.machine.hosts.find_named(event.host)
        if host is None:
            return frozenset()
        changed = host.bus.publish(event.event)
        if host is not self.machine.hosts.selected_host:
            # A run on another host changes the log, and the row of that host.
            changed &= {Topic.LOG}
        activity = self.of_hosts[event.host].describe_activity()
        if activity == host.activity:
            return changed
        host.activity = activity
        return changed | {Topic.DEVICES}

    def _change_run(self, run_id: str, **changes: Any) -> Topics:
        """Replace fields of a run; return the changed topics, none for an unknown run."""
        return frozenset({Topic.WORKLOADS} if self.book.change(run_id, **changes) else ())

    def _change_comparison(self, run_id: str, **changes: Any) -> Topics:
        """Replace fields of a comparison; return the changed topics, none for an unknown one."""
        if run_id not in self.comparisons:
            return frozenset()
        self.comparisons[run_id] = replace(self.comparisons[run_id], **changes)
        return frozenset({Topic.BACKEND})

    def _note(self, text: str, level: Literal["info", "error"] = "info") -> None:
        """Append a line to the log; one about another host begins with its name."""
        host = f"{self.machine.host}: " if self.machine.host else ""
        self.log.append(LogLine("runner", f"{host}{text}", level))


class WorkbenchState:
    """State of the machine and of the runs, and the event bus that changes it.

    Args:
        simulated: the GPUs are simulated, according to a recording.
        clock: returns the current Unix time, or that of a recording.
    """

    def __init__(self, *, simulated: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.bus = EventBus()
        self.log = EventLog(self.bus, clock)
        self.machine = MachineState(self.bus, simulated=simulated)
        self.runs = RunsState(self.bus, self.machine, self.log)

    def publish(self, event: object) -> Topics:
        """Deliver an event to the states; return the changed topics."""
        return self.bus.publish(event)

    def forget(self) -> None:
        """Reset all states, so that a recording can start again."""
        self.log.clear()
        self.machine.forget()
        self.runs.forget()
        self.bus.announce(frozenset(Topic))
