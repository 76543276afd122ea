"""How what is known changes: events come in through :meth:`Store.apply`, and nowhere else.

The values are frozen; the store itself is a plain object that the front ends read. ``apply`` says
which parts changed, so that a screen redraws what shows them and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

from tui.core.text.numbers import rate, size
from tui.devices.monitor.messages import Device, MonitorHello, Sample
from tui.devices.state.devices import CPU, NOT_ASKED, DeviceView, as_torch_knows, pair
from tui.runs.state.parameters import defaults
from tui.runs.state.runs import (
    CompareState,
    EarlierResults,
    RunState,
    ended_comparison,
)
from tui.state.events import (
    AnyEvent,
    CatalogueRead,
    CeilingsRead,
    CompareQueued,
    ConditionsSeen,
    DeviceSelected,
    EarlierRead,
    FlagSet,
    HeldAgainst,
    LogLine,
    MonitorStatus,
    ParametersSet,
    PeaksReset,
    RunnerStatus,
    RunQueued,
    SweepSet,
    Topic,
    Topics,
)
from tui.state.known import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.messages import ended_run
from workloads.protocol.results import COPY, only_claims_that_hold


class Store(WorkbenchState):
    """All that is known, and what the events make of it. Their times are the senders' Unix times.

    Args:
        simulated: the GPUs are no hardware; a recording says so.
    """

    def __init__(self, *, simulated: bool = False) -> None:
        super().__init__(simulated=simulated)
        self._read: dict[str, Device] = {}
        """Of the devices that the newest sample lists: as each was read last, by its id."""

    def apply(self, event: AnyEvent) -> Topics:
        """Take one event in and say which parts of the store it changed."""
        handler = self._HANDLERS.get(type(event))
        return self._apply_watch(event) if handler is None else handler(self, event)

    def forget(self) -> Topics:
        """Know nothing again; the store stays the one that the front ends hold."""
        vars(self).update(vars(Store(simulated=self.simulated)))
        return frozenset(Topic)

    def _apply_watch(self, event: AnyEvent) -> Topics:
        if self.allocators is None:
            # What the watch says is looked at once it says something: no start needs it.
            from tui.state.allocators import Allocators

            self.allocators = Allocators()
            if self.sample is not None:
                self.allocators.apply_sample(self.sample)
        return frozenset({Topic.ALLOCATORS}) if self.allocators.take(event) else frozenset()

    def _on_monitor_hello(self, _event: MonitorHello) -> Topics:
        return self.apply(MonitorStatus("ready"))

    def _on_sample(self, event: Sample) -> Topics:
        self.sample = event
        self._read = {
            device.id: self._read.get(device.id, device) if device.lost else device
            for device in event.devices
        }
        self._pair()
        self.moments.apply_sample(event)
        if self.allocators is not None:
            self.allocators.apply_sample(event)
        self.history.apply_sample(event, self.devices, self.worker_pid)
        return frozenset({Topic.DEVICES, Topic.MEMORY})

    def _on_monitor_status(self, event: MonitorStatus) -> Topics:
        self.monitor = event
        return frozenset({Topic.DEVICES, Topic.MEMORY})

    def _on_runner_status(self, event: RunnerStatus) -> Topics:
        self.runner = event
        if event.status in ("restarting", "ended", "unusable"):
            self._forget_worker()
            self.moments.forget_torch()
        if event.status != "unusable":
            return frozenset({Topic.RUNNER, Topic.MEMORY, Topic.WORKLOADS, Topic.BACKEND})
        self._pair()
        return frozenset(
            {
                Topic.RUNNER,
                Topic.DEVICES,
                Topic.MEMORY,
                Topic.WORKLOADS,
                Topic.BACKEND,
                Topic.SELECTION,
            }
        )

    def _on_hello(self, event: messages.Hello) -> Topics:
        self.hello = event
        self.runner = replace(self.runner, status="importing torch")
        self.log.extend(LogLine("runner", problem, "error") for problem in event.problems)
        return self.apply(CatalogueRead(event.workloads)) | {Topic.RUNNER, Topic.LOG}

    def _on_catalogue_read(self, event: CatalogueRead) -> Topics:
        self.catalogue = event.workloads
        for info in event.workloads:
            usual = defaults(info)
            kept = self.parameters.get(info.name, {})
            self.parameters[info.name] = {name: kept.get(name, usual[name]) for name in usual}
            if kept and kept.keys() != usual.keys():
                # Read anew, it takes other parameters than the sweep was made of.
                self.sweeps.pop(info.name, None)
        return frozenset({Topic.WORKLOADS})

    def _on_ready(self, event: messages.Ready) -> Topics:
        self.environment = event.environment
        self.runner = RunnerStatus("ready")
        for flag in event.environment.flags:
            self.flags.setdefault(flag.name, flag.default)
        self._pair()
        return frozenset(
            {
                Topic.RUNNER,
                Topic.DEVICES,
                Topic.MEMORY,
                Topic.WORKLOADS,
                Topic.BACKEND,
                Topic.SELECTION,
            }
        )

    def _on_unusable(self, event: messages.Unusable) -> Topics:
        return self.apply(RunnerStatus("unusable", event.reason, event.advice))

    def _on_worker_started(self, event: messages.WorkerStarted) -> Topics:
        self._forget_worker()
        self.worker_pid = event.pid
        return frozenset({Topic.RUNNER, Topic.MEMORY})

    def _on_worker_ended(self, event: messages.WorkerEnded) -> Topics:
        if event.pid == self.worker_pid:
            self._forget_worker()
            # Where another follows at once, as in a comparison of fresh processes, the figures
            # of this one stand in for its own until it has some.
            if not self.pending_requests():
                self.moments.forget_torch()
        if not event.expected:
            self.log.append(LogLine("runner", event.reason, "error"))
        return frozenset({Topic.RUNNER, Topic.MEMORY, Topic.LOG})

    def _on_progress(self, event: messages.Progress) -> Topics:
        if event.id in self.runs:
            self.runs.change(event.id, progress=event)
            return frozenset({Topic.WORKLOADS})
        if event.id in self.comparisons:
            self.comparisons[event.id] = replace(self.comparisons[event.id], progress=event)
            return frozenset({Topic.BACKEND})
        return frozenset()

    def _on_measured(self, event: messages.Measured) -> Topics:
        result = only_claims_that_hold(event.result)
        if result.id not in self.runs:
            return frozenset()
        self.runs.change(result.id, so_far=result)
        return frozenset({Topic.WORKLOADS})

    def _on_finished(self, event: messages.Finished) -> Topics:
        # A recording may have been made by a program that passed on what did not hold.
        result = only_claims_that_hold(event.result)
        if result.id not in self.runs:
            return frozenset()
        self.runs.change(result.id, result=result)
        if result.status == "failed":
            text = f"{result.workload} on {result.device}: {result.reason}"
            self.log.append(LogLine("runner", text, "error"))
        return frozenset({Topic.WORKLOADS, Topic.LOG})

    def _on_compared(self, event: messages.Compared) -> Topics:
        comparison = event.comparison
        if comparison.id not in self.comparisons:
            return frozenset()
        self.comparisons[comparison.id] = replace(
            self.comparisons[comparison.id], comparison=comparison, done=event.done
        )
        if comparison.status == "failed":
            text = f"{comparison.flag} on {comparison.workload}: {comparison.reason}"
            self.log.append(LogLine("runner", text, "error"))
        return frozenset({Topic.BACKEND, Topic.LOG})

    def _on_torch_memory(self, event: messages.TorchMemory) -> Topics:
        self.torch_memory[event.device] = event
        self.moments.apply_torch(event)
        self.history.apply_torch(event, self.devices)
        return frozenset({Topic.MEMORY})

    def _on_host_heap(self, event: messages.HostHeap) -> Topics:
        self.heap = event
        return frozenset({Topic.MEMORY})

    def _on_emptied(self, event: messages.Emptied) -> Topics:
        text = f"{event.device}: {size(event.freed)} returned"
        self.log.append(LogLine("runner", text))
        return frozenset({Topic.MEMORY, Topic.LOG})

    def _on_ceiling_measured(self, event: messages.CeilingMeasured) -> Topics:
        ceiling = event.ceiling
        value = rate(ceiling.value, "B/s" if ceiling.kind == COPY else "FLOP/s")
        self.log.append(LogLine("runner", f"ceiling of {ceiling.kind}: {value}, {ceiling.how}"))
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
        level: Literal["info", "error"] = "error" if event.status == "failed" else "info"
        self.log.append(LogLine("runner", event.reason, level))
        if event.id in self.runs:
            run = self.runs[event.id]
            result = ended_run(
                run.request, run.progress, run.so_far, status=event.status, reason=event.reason
            )
            self.runs.change(event.id, result=result)
        elif event.id in self.comparisons:
            item = self.comparisons[event.id]
            ended = ended_comparison(item, event)
            self.comparisons[event.id] = replace(item, comparison=ended, done=True)
        return frozenset({Topic.LOG, Topic.WORKLOADS, Topic.BACKEND})

    def _on_device_selected(self, event: DeviceSelected) -> Topics:
        self.selected = event.key
        self.selected_by_user = True
        return frozenset(
            {Topic.SELECTION, Topic.DEVICES, Topic.MEMORY, Topic.WORKLOADS, Topic.BACKEND}
        )

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

    def _on_peaks_reset(self, event: PeaksReset) -> Topics:
        self.history.reset_peak(event.key)
        return frozenset({Topic.MEMORY})

    def _on_run_queued(self, event: RunQueued) -> Topics:
        if all(run.ended for run in self.runs.values()):
            self.asked.clear()
        self.asked.append(event.request.id)
        self.runs.add(RunState(event.request, demo=event.demo))
        return frozenset({Topic.WORKLOADS})

    def _on_compare_queued(self, event: CompareQueued) -> Topics:
        self.comparisons[event.request.id] = CompareState(event.request)
        return frozenset({Topic.BACKEND})

    def _on_conditions_seen(self, event: ConditionsSeen) -> Topics:
        if event.run_id in self.runs:
            self.runs.change(event.run_id, conditions=event.conditions)
        elif event.run_id in self.comparisons:
            item = self.comparisons[event.run_id]
            self.comparisons[event.run_id] = replace(item, conditions=event.conditions)
            return frozenset({Topic.BACKEND})
        return frozenset({Topic.WORKLOADS})

    def _on_earlier_read(self, event: EarlierRead) -> Topics:
        self.earlier = EarlierResults(event.results, event.at)
        return frozenset({Topic.WORKLOADS})

    def _on_held_against(self, event: HeldAgainst) -> Topics:
        if event.run_id not in self.runs:
            return frozenset()
        self.runs.change(event.run_id, against=event.against)
        return frozenset({Topic.WORKLOADS})

    def _on_log_line(self, event: LogLine) -> Topics:
        self.log.append(event)
        return frozenset({Topic.LOG})

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any], Topics]]] = {
        MonitorHello: _on_monitor_hello,
        Sample: _on_sample,
        MonitorStatus: _on_monitor_status,
        RunnerStatus: _on_runner_status,
        messages.Hello: _on_hello,
        messages.Ready: _on_ready,
        messages.Unusable: _on_unusable,
        messages.WorkerStarted: _on_worker_started,
        messages.WorkerEnded: _on_worker_ended,
        messages.Progress: _on_progress,
        messages.Measured: _on_measured,
        messages.Finished: _on_finished,
        messages.Compared: _on_compared,
        messages.TorchMemory: _on_torch_memory,
        messages.HostHeap: _on_host_heap,
        messages.Emptied: _on_emptied,
        messages.CeilingMeasured: _on_ceiling_measured,
        messages.Heartbeat: _on_heartbeat,
        messages.Rejected: _on_rejected,
        CatalogueRead: _on_catalogue_read,
        DeviceSelected: _on_device_selected,
        ParametersSet: _on_parameters_set,
        SweepSet: _on_sweep_set,
        FlagSet: _on_flag_set,
        PeaksReset: _on_peaks_reset,
        RunQueued: _on_run_queued,
        CompareQueued: _on_compare_queued,
        ConditionsSeen: _on_conditions_seen,
        CeilingsRead: _on_ceilings_read,
        EarlierRead: _on_earlier_read,
        HeldAgainst: _on_held_against,
        LogLine: _on_log_line,
    }

    def _forget_worker(self) -> None:
        self.worker_pid = None
        self.torch_memory.clear()
        self.heap = None

    def _pair(self) -> None:
        nvml = self.sample.devices if self.sample else ()
        torch = self.environment.devices if self.environment else ()
        absent = self.environment.unavailable if self.environment else {}
        if self.sample is not None:
            driver = as_torch_knows(self.sample.driver, self.environment)
            self.sample = replace(self.sample, driver=driver)
        no_nvml = NOT_ASKED if self.sample and self.sample.driver.error else ""
        no_torch = self.runner.reason if self.runner.status == "unusable" else None
        views = pair(nvml, torch, absent.get("devices", ""), no_nvml, no_torch or None)
        self.devices = tuple(self._with_last(view) for view in views)
        keys = [view.key for view in self.devices]
        wanted = self.find_device(self.wanted_device) if self.wanted_device else None
        if wanted is not None and not self.selected_by_user:
            self.selected = wanted.key
        elif self.selected not in keys or not self.selected_by_user:
            # The first GPU that torch can use is what people came for; where torch sees none, or
            # has not said yet which, that the first is looked at.
            gpus = [view for view in self.devices if view.key != CPU]
            usable = [view.key for view in gpus if view.torch] or [view.key for view in gpus]
            if self.selected not in usable:
                self.selected = next(iter(usable), CPU)

    def _with_last(self, view: DeviceView) -> DeviceView:
        last = self._read.get(view.key)
        if view.nvml is None or view.nvml.lost is None or last is None or last.lost:
            return view
        return replace(view, before_loss=last)
