"""What is known now. Events come in through :meth:`Store.apply`, the one place where it changes.

The values are frozen; the store itself is a plain object that the front ends read. ``apply`` says
which parts changed, so that a screen redraws what shows them and nothing else.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, Union

from tui.conditions import Conditions
from tui.devices.messages import MonitorEvent, MonitorHello, Sample
from tui.history import MemoryHistory
from tui.pairing import CPU, DeviceView, pair
from workloads import protocol
from workloads.fact import fact

LOG_LINES = 500


class Part(enum.Enum):
    """A part of the store that some pane shows."""

    DEVICES = "devices"
    SELECTION = "selection"
    MEMORY = "memory"
    WORKLOADS = "workloads"
    BACKEND = "backend"
    RUNNER = "runner"
    LOG = "log"


Parts = frozenset[Part]


# ---- local events: what the front end itself did or saw ----------------------------------------


@fact
class DeviceSelected:
    key: str


@fact
class ParametersSet:
    workload: str
    parameters: dict[str, protocol.Setting]


@fact
class FlagSet:
    name: str
    value: bool


@fact
class RunQueued:
    request: protocol.Run


@fact
class CompareQueued:
    request: protocol.Compare


ChildStatus = Literal["starting", "importing torch", "ready", "unusable", "restarting", "ended"]


@fact
class RunnerStatus:
    """The runner as a process: what it is doing and, where it is not well, why and what to do."""

    status: ChildStatus
    reason: str = ""
    advice: str = ""
    report: str | None = None
    """Path of the saved crash report."""


@fact
class MonitorStatus:
    status: ChildStatus
    reason: str = ""


@fact
class ConditionsSeen:
    """What the monitor saw of the device during a run."""

    run_id: str
    conditions: Conditions


@fact
class LogLine:
    """A line for the log pane."""

    source: Literal["runner", "monitor", "workbench"]
    text: str
    level: Literal["info", "warning", "error"] = "info"


LocalEvent = Union[
    DeviceSelected,
    ParametersSet,
    FlagSet,
    RunQueued,
    CompareQueued,
    RunnerStatus,
    MonitorStatus,
    ConditionsSeen,
    LogLine,
]
AnyEvent = Union[LocalEvent, protocol.Event, MonitorEvent]


# ---- what is kept of runs ----------------------------------------------------------------------


@fact
class RunState:
    """One requested run: queued, going on (``progress``) or ended (``result``)."""

    request: protocol.Run
    progress: protocol.Progress | None = None
    result: protocol.RunResult | None = None
    conditions: Conditions | None = None
    """Of a GPU, as the monitor saw it; ``None`` on the CPU or where there is no monitor."""

    @property
    def ended(self) -> bool:
        return self.result is not None


@fact
class CompareState:
    """One requested comparison with what it has found so far."""

    request: protocol.Compare
    progress: protocol.Progress | None = None
    comparison: protocol.Comparison | None = None
    done: bool = False


def _failed_run(request: protocol.Run, reason: str) -> protocol.RunResult:
    return protocol.RunResult(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=request.parameters,
        flags=request.flags,
        status="failed",
        reason=reason,
    )


def _failed_comparison(state: CompareState, reason: str) -> protocol.Comparison:
    request = state.request
    so_far = state.comparison or protocol.Comparison(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=request.parameters,
        flag=request.flag,
        arms=(
            protocol.Arm(request.settings[0], None, None),
            protocol.Arm(request.settings[1], None, None),
        ),
        ratio=None,
        ci95=None,
        pairs=0,
        pairs_wanted=request.pairs or 0,
        verdict="unclear",
        break_even_calls=None,
        fresh_process=False,
    )
    return replace(so_far, status="failed", reason=reason)


def _same(parameters: Mapping[str, protocol.Setting]) -> tuple[tuple[str, protocol.Setting], ...]:
    return tuple(sorted(parameters.items()))


class Store:
    """Everything the screens show. Times of events are the sender's Unix times."""

    def __init__(self) -> None:
        self.sample: Sample | None = None
        self.monitor = MonitorStatus("starting")
        self.runner = RunnerStatus("starting")
        self.hello: protocol.Hello | None = None
        self.environment: protocol.Environment | None = None
        self.worker_pid: int | None = None
        self.busy_with: str | None = None
        self.devices: tuple[DeviceView, ...] = ()
        self.selected = CPU
        self.selected_by_user = False
        self.catalogue: tuple[protocol.WorkloadInfo, ...] = ()
        self.parameters: dict[str, dict[str, protocol.Setting]] = {}
        self.flags: dict[str, bool] = {}
        self.runs: dict[str, RunState] = {}
        self.comparisons: dict[str, CompareState] = {}
        self.torch_memory: dict[str, protocol.TorchMemory] = {}
        """By torch's device name; of the worker that lives now."""
        self.heap: protocol.HostHeap | None = None
        self.history = MemoryHistory()
        self.log: deque[LogLine] = deque(maxlen=LOG_LINES)

    # ---- change ----

    def apply(self, event: AnyEvent) -> Parts:
        """Take one event in and say which parts of the store it changed."""
        return _HANDLERS[type(event)](self, event)

    def _on_monitor_hello(self, _event: MonitorHello) -> Parts:
        return self.apply(MonitorStatus("ready"))

    def _on_sample(self, event: Sample) -> Parts:
        self.sample = event
        self._pair()
        self.history.take_sample(event, self.devices, self.worker_pid)
        return frozenset({Part.DEVICES, Part.MEMORY})

    def _on_monitor_status(self, event: MonitorStatus) -> Parts:
        self.monitor = event
        return frozenset({Part.DEVICES, Part.MEMORY})

    def _on_runner_status(self, event: RunnerStatus) -> Parts:
        self.runner = event
        if event.status in ("restarting", "ended", "unusable"):
            self._forget_worker()
        return frozenset({Part.RUNNER, Part.MEMORY, Part.WORKLOADS, Part.BACKEND})

    def _on_hello(self, event: protocol.Hello) -> Parts:
        self.hello = event
        self.catalogue = event.workloads
        for info in event.workloads:
            defaults = {parameter.name: parameter.default for parameter in info.parameters}
            kept = self.parameters.get(info.name, {})
            self.parameters[info.name] = {name: kept.get(name, defaults[name]) for name in defaults}
        self.runner = RunnerStatus("importing torch")
        return frozenset({Part.RUNNER, Part.WORKLOADS})

    def _on_ready(self, event: protocol.Ready) -> Parts:
        self.environment = event.environment
        self.runner = RunnerStatus("ready")
        for flag in event.environment.flags:
            self.flags.setdefault(flag.name, flag.default)
        self._pair()
        return frozenset(
            {Part.RUNNER, Part.DEVICES, Part.MEMORY, Part.WORKLOADS, Part.BACKEND, Part.SELECTION}
        )

    def _on_unusable(self, event: protocol.Unusable) -> Parts:
        return self.apply(RunnerStatus("unusable", event.reason, event.advice))

    def _on_worker_started(self, event: protocol.WorkerStarted) -> Parts:
        self._forget_worker()
        self.worker_pid = event.pid
        return frozenset({Part.RUNNER, Part.MEMORY})

    def _on_worker_ended(self, event: protocol.WorkerEnded) -> Parts:
        if event.pid == self.worker_pid:
            self._forget_worker()
        if not event.expected:
            self.log.append(LogLine("runner", event.reason, "error"))
        return frozenset({Part.RUNNER, Part.MEMORY, Part.LOG})

    def _on_progress(self, event: protocol.Progress) -> Parts:
        if event.id in self.runs:
            self.runs[event.id] = replace(self.runs[event.id], progress=event)
            return frozenset({Part.WORKLOADS})
        if event.id in self.comparisons:
            self.comparisons[event.id] = replace(self.comparisons[event.id], progress=event)
            return frozenset({Part.BACKEND})
        return frozenset()

    def _on_finished(self, event: protocol.Finished) -> Parts:
        result = event.result
        if result.id not in self.runs:
            return frozenset()
        self.runs[result.id] = replace(self.runs[result.id], result=result)
        if result.status == "failed":
            text = f"{result.workload} on {result.device}: {result.reason}"
            self.log.append(LogLine("runner", text, "error"))
        return frozenset({Part.WORKLOADS, Part.LOG})

    def _on_compared(self, event: protocol.Compared) -> Parts:
        comparison = event.comparison
        if comparison.id not in self.comparisons:
            return frozenset()
        self.comparisons[comparison.id] = replace(
            self.comparisons[comparison.id], comparison=comparison, done=event.done
        )
        if comparison.status == "failed":
            text = f"{comparison.flag} on {comparison.workload}: {comparison.reason}"
            self.log.append(LogLine("runner", text, "error"))
        return frozenset({Part.BACKEND, Part.LOG})

    def _on_torch_memory(self, event: protocol.TorchMemory) -> Parts:
        self.torch_memory[event.device] = event
        self.history.take_torch(event, self.devices)
        return frozenset({Part.MEMORY})

    def _on_host_heap(self, event: protocol.HostHeap) -> Parts:
        self.heap = event
        return frozenset({Part.MEMORY})

    def _on_emptied(self, event: protocol.Emptied) -> Parts:
        text = f"{event.device}: returned {event.freed} bytes"
        self.log.append(LogLine("runner", text))
        return frozenset({Part.MEMORY, Part.LOG})

    def _on_heartbeat(self, event: protocol.Heartbeat) -> Parts:
        changed = event.busy_with != self.busy_with
        self.busy_with = event.busy_with
        return frozenset({Part.RUNNER}) if changed else frozenset()

    def _on_rejected(self, event: protocol.Rejected) -> Parts:
        self.log.append(LogLine("runner", event.reason, "error"))
        if event.id in self.runs:
            run = self.runs[event.id]
            self.runs[event.id] = replace(run, result=_failed_run(run.request, event.reason))
        elif event.id in self.comparisons:
            item = self.comparisons[event.id]
            failed = _failed_comparison(item, event.reason)
            self.comparisons[event.id] = replace(item, comparison=failed, done=True)
        return frozenset({Part.LOG, Part.WORKLOADS, Part.BACKEND})

    def _on_device_selected(self, event: DeviceSelected) -> Parts:
        self.selected = event.key
        self.selected_by_user = True
        return frozenset({Part.SELECTION, Part.DEVICES, Part.MEMORY, Part.WORKLOADS, Part.BACKEND})

    def _on_parameters_set(self, event: ParametersSet) -> Parts:
        self.parameters[event.workload] = dict(event.parameters)
        return frozenset({Part.WORKLOADS})

    def _on_flag_set(self, event: FlagSet) -> Parts:
        self.flags[event.name] = event.value
        return frozenset({Part.BACKEND, Part.WORKLOADS})

    def _on_run_queued(self, event: RunQueued) -> Parts:
        self.runs[event.request.id] = RunState(event.request)
        return frozenset({Part.WORKLOADS})

    def _on_compare_queued(self, event: CompareQueued) -> Parts:
        self.comparisons[event.request.id] = CompareState(event.request)
        return frozenset({Part.BACKEND})

    def _on_conditions_seen(self, event: ConditionsSeen) -> Parts:
        if event.run_id in self.runs:
            run = self.runs[event.run_id]
            self.runs[event.run_id] = replace(run, conditions=event.conditions)
        return frozenset({Part.WORKLOADS})

    def _on_log_line(self, event: LogLine) -> Parts:
        self.log.append(event)
        return frozenset({Part.LOG})

    def _forget_worker(self) -> None:
        self.worker_pid = None
        self.torch_memory.clear()
        self.heap = None

    def _pair(self) -> None:
        nvml = self.sample.devices if self.sample else ()
        torch = self.environment.devices if self.environment else ()
        self.devices = pair(nvml, torch)
        keys = [view.key for view in self.devices]
        if self.selected not in keys or (not self.selected_by_user and self.selected == CPU):
            # The first GPU that torch can use is what people came for.
            usable = [view.key for view in self.devices if view.torch and view.key != CPU]
            self.selected = next(iter(usable), CPU)

    # ---- look ----

    @property
    def selected_device(self) -> DeviceView:
        """The device that the gauge and the timing column show."""
        return next((view for view in self.devices if view.key == self.selected), DeviceView(CPU))

    @property
    def gpu_column(self) -> DeviceView | None:
        """The GPU that the timing column shows: the selected one, else the first usable."""
        if self.selected != CPU:
            return self.selected_device
        return next((view for view in self.devices if view.key != CPU and view.torch), None)

    def latest_run(self, workload: str, device: str) -> RunState | None:
        """The newest run of a workload with its present parameters on a torch device."""
        wanted = _same(self.parameters.get(workload, {}))
        for run in reversed(self.runs.values()):
            request = run.request
            if (
                request.workload == workload
                and request.device == device
                and _same(request.parameters) == wanted
            ):
                return run
        return None

    def pending_requests(self) -> tuple[protocol.Run | protocol.Compare, ...]:
        """The runs, then the comparisons, that have not ended; oldest first."""
        runs = [run.request for run in self.runs.values() if not run.ended]
        comparisons = [item.request for item in self.comparisons.values() if not item.done]
        return (*runs, *comparisons)

    def pending(self) -> tuple[str, ...]:
        """Their ids."""
        return tuple(request.id for request in self.pending_requests())


_HANDLERS: dict[type, Callable[[Store, Any], Parts]] = {
    MonitorHello: Store._on_monitor_hello,
    Sample: Store._on_sample,
    MonitorStatus: Store._on_monitor_status,
    RunnerStatus: Store._on_runner_status,
    protocol.Hello: Store._on_hello,
    protocol.Ready: Store._on_ready,
    protocol.Unusable: Store._on_unusable,
    protocol.WorkerStarted: Store._on_worker_started,
    protocol.WorkerEnded: Store._on_worker_ended,
    protocol.Progress: Store._on_progress,
    protocol.Finished: Store._on_finished,
    protocol.Compared: Store._on_compared,
    protocol.TorchMemory: Store._on_torch_memory,
    protocol.HostHeap: Store._on_host_heap,
    protocol.Emptied: Store._on_emptied,
    protocol.Heartbeat: Store._on_heartbeat,
    protocol.Rejected: Store._on_rejected,
    DeviceSelected: Store._on_device_selected,
    ParametersSet: Store._on_parameters_set,
    FlagSet: Store._on_flag_set,
    RunQueued: Store._on_run_queued,
    CompareQueued: Store._on_compare_queued,
    ConditionsSeen: Store._on_conditions_seen,
    LogLine: Store._on_log_line,
}
