"""What is known now. Events come in through :meth:`Store.apply`, the one place where it changes.

The values are frozen; the store itself is a plain object that the front ends read. ``apply`` says
which parts changed, so that a screen redraws what shows them and nothing else.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Literal, Union

from tui.conditions import Conditions
from tui.devices.messages import MonitorEvent, MonitorHello, Sample
from tui.history import MemoryHistory
from tui.pairing import CPU, DeviceView, pair
from workloads import protocol

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


@dataclass(frozen=True)
class DeviceSelected:
    key: str


@dataclass(frozen=True)
class ParametersSet:
    workload: str
    parameters: dict[str, protocol.Setting]


@dataclass(frozen=True)
class FlagSet:
    name: str
    value: bool


@dataclass(frozen=True)
class RunQueued:
    request: protocol.Run


@dataclass(frozen=True)
class CompareQueued:
    request: protocol.Compare


ChildStatus = Literal["starting", "importing torch", "ready", "unusable", "restarting", "ended"]


@dataclass(frozen=True)
class RunnerStatus:
    """The runner as a process: what it is doing and, where it is not well, why and what to do."""

    status: ChildStatus
    reason: str = ""
    advice: str = ""
    report: str | None = None
    """Path of the saved crash report."""


@dataclass(frozen=True)
class MonitorStatus:
    status: ChildStatus
    reason: str = ""


@dataclass(frozen=True)
class ConditionsSeen:
    """What the monitor saw of the device during a run."""

    run_id: str
    conditions: Conditions


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass
class Store:
    """Everything the screens show. ``clock`` times of events are the sender's Unix times."""

    sample: Sample | None = None
    monitor: MonitorStatus = MonitorStatus("starting")
    runner: RunnerStatus = RunnerStatus("starting")
    hello: protocol.Hello | None = None
    environment: protocol.Environment | None = None
    worker_pid: int | None = None
    busy_with: str | None = None
    devices: tuple[DeviceView, ...] = ()
    selected: str = CPU
    selected_by_user: bool = False
    catalogue: tuple[protocol.WorkloadInfo, ...] = ()
    parameters: dict[str, dict[str, protocol.Setting]] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    runs: dict[str, RunState] = field(default_factory=dict)
    comparisons: dict[str, CompareState] = field(default_factory=dict)
    torch_memory: dict[str, protocol.TorchMemory] = field(default_factory=dict)
    """By torch's device name; of the worker that lives now."""
    heap: protocol.HostHeap | None = None
    history: MemoryHistory = field(default_factory=MemoryHistory)
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LOG_LINES))

    # ---- change ----

    @singledispatchmethod
    def apply(self, event: AnyEvent) -> Parts:
        """Take one event in and say which parts of the store it changed."""
        raise TypeError(f"the store takes no {type(event).__name__}")

    @apply.register
    def _(self, _event: MonitorHello) -> Parts:
        return self.apply(MonitorStatus("ready"))

    @apply.register
    def _(self, event: Sample) -> Parts:
        self.sample = event
        self._pair()
        self.history.take_sample(event, self.devices, self.worker_pid)
        return frozenset({Part.DEVICES, Part.MEMORY})

    @apply.register
    def _(self, event: MonitorStatus) -> Parts:
        self.monitor = event
        return frozenset({Part.DEVICES, Part.MEMORY})

    @apply.register
    def _(self, event: RunnerStatus) -> Parts:
        self.runner = event
        if event.status in ("restarting", "ended", "unusable"):
            self._forget_worker()
        return frozenset({Part.RUNNER, Part.MEMORY, Part.WORKLOADS, Part.BACKEND})

    @apply.register
    def _(self, event: protocol.Hello) -> Parts:
        self.hello = event
        self.catalogue = event.workloads
        for info in event.workloads:
            defaults = {parameter.name: parameter.default for parameter in info.parameters}
            kept = self.parameters.get(info.name, {})
            self.parameters[info.name] = {name: kept.get(name, defaults[name]) for name in defaults}
        self.runner = RunnerStatus("importing torch")
        return frozenset({Part.RUNNER, Part.WORKLOADS})

    @apply.register
    def _(self, event: protocol.Ready) -> Parts:
        self.environment = event.environment
        self.runner = RunnerStatus("ready")
        for flag in event.environment.flags:
            self.flags.setdefault(flag.name, flag.default)
        self._pair()
        return frozenset(
            {Part.RUNNER, Part.DEVICES, Part.MEMORY, Part.WORKLOADS, Part.BACKEND, Part.SELECTION}
        )

    @apply.register
    def _(self, event: protocol.Unusable) -> Parts:
        return self.apply(RunnerStatus("unusable", event.reason, event.advice))

    @apply.register
    def _(self, event: protocol.WorkerStarted) -> Parts:
        self._forget_worker()
        self.worker_pid = event.pid
        return frozenset({Part.RUNNER, Part.MEMORY})

    @apply.register
    def _(self, event: protocol.WorkerEnded) -> Parts:
        if event.pid == self.worker_pid:
            self._forget_worker()
        if not event.expected:
            self.log.append(LogLine("runner", event.reason, "error"))
        return frozenset({Part.RUNNER, Part.MEMORY, Part.LOG})

    @apply.register
    def _(self, event: protocol.Progress) -> Parts:
        if event.id in self.runs:
            self.runs[event.id] = replace(self.runs[event.id], progress=event)
            return frozenset({Part.WORKLOADS})
        if event.id in self.comparisons:
            self.comparisons[event.id] = replace(self.comparisons[event.id], progress=event)
            return frozenset({Part.BACKEND})
        return frozenset()

    @apply.register
    def _(self, event: protocol.Finished) -> Parts:
        result = event.result
        if result.id not in self.runs:
            return frozenset()
        self.runs[result.id] = replace(self.runs[result.id], result=result)
        if result.status == "failed":
            text = f"{result.workload} on {result.device}: {result.reason}"
            self.log.append(LogLine("runner", text, "error"))
        return frozenset({Part.WORKLOADS, Part.LOG})

    @apply.register
    def _(self, event: protocol.Compared) -> Parts:
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

    @apply.register
    def _(self, event: protocol.TorchMemory) -> Parts:
        self.torch_memory[event.device] = event
        self.history.take_torch(event, self.devices)
        return frozenset({Part.MEMORY})

    @apply.register
    def _(self, event: protocol.HostHeap) -> Parts:
        self.heap = event
        return frozenset({Part.MEMORY})

    @apply.register
    def _(self, event: protocol.Emptied) -> Parts:
        text = f"{event.device}: returned {event.freed} bytes"
        self.log.append(LogLine("runner", text))
        return frozenset({Part.MEMORY, Part.LOG})

    @apply.register
    def _(self, event: protocol.Heartbeat) -> Parts:
        changed = event.busy_with != self.busy_with
        self.busy_with = event.busy_with
        return frozenset({Part.RUNNER}) if changed else frozenset()

    @apply.register
    def _(self, event: protocol.Rejected) -> Parts:
        self.log.append(LogLine("runner", event.reason, "error"))
        if event.id in self.runs:
            run = self.runs[event.id]
            self.runs[event.id] = replace(run, result=_failed_run(run.request, event.reason))
        elif event.id in self.comparisons:
            item = self.comparisons[event.id]
            failed = _failed_comparison(item, event.reason)
            self.comparisons[event.id] = replace(item, comparison=failed, done=True)
        return frozenset({Part.LOG, Part.WORKLOADS, Part.BACKEND})

    @apply.register
    def _(self, event: DeviceSelected) -> Parts:
        self.selected = event.key
        self.selected_by_user = True
        return frozenset({Part.SELECTION, Part.DEVICES, Part.MEMORY, Part.WORKLOADS, Part.BACKEND})

    @apply.register
    def _(self, event: ParametersSet) -> Parts:
        self.parameters[event.workload] = dict(event.parameters)
        return frozenset({Part.WORKLOADS})

    @apply.register
    def _(self, event: FlagSet) -> Parts:
        self.flags[event.name] = event.value
        return frozenset({Part.BACKEND, Part.WORKLOADS})

    @apply.register
    def _(self, event: RunQueued) -> Parts:
        self.runs[event.request.id] = RunState(event.request)
        return frozenset({Part.WORKLOADS})

    @apply.register
    def _(self, event: CompareQueued) -> Parts:
        self.comparisons[event.request.id] = CompareState(event.request)
        return frozenset({Part.BACKEND})

    @apply.register
    def _(self, event: ConditionsSeen) -> Parts:
        if event.run_id in self.runs:
            run = self.runs[event.run_id]
            self.runs[event.run_id] = replace(run, conditions=event.conditions)
        return frozenset({Part.WORKLOADS})

    @apply.register
    def _(self, event: LogLine) -> Parts:
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
