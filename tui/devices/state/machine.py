"""The state of the machine: its devices, their memory, and torch's allocators on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Union

from tui.allocators.messages import ProcessFigures, StepsCounted, TorchProcesses, WatchHello
from tui.core.events import EventBus, MonitorStatus, RunnerStatus, Topic, Topics, WatchStatus
from tui.devices.state.devices import (
    CPU,
    NVML_UNAVAILABLE,
    ConsistentReadings,
    DeviceView,
    expect_names,
    pair,
    reconcile_driver,
)
from tui.devices.state.history import History
from tui.devices.state.hosts import HostsState
from tui.devices.state.watched_processes import Allocator, WatchedProcesses
from tui.monitor.messages import Device, MonitorHello, Sample, find_process
from workloads.protocol import messages
from workloads.protocol.machine_identity import UNKNOWN
from workloads.protocol.results import Environment

SIMULATED = "simulated GPU, times invented"
"""The remark beside all figures that come from no hardware."""
SIMULATED_SHORT = "simulated"
"""The remark in a header without room for all of it."""
_ALL = frozenset({Topic.DEVICES, Topic.MEMORY, Topic.SELECTION})
_MEMORY = frozenset({Topic.MEMORY})


@dataclass(frozen=True, slots=True)
class DeviceSelected:
    """The user selected the device with this key."""

    key: str


@dataclass(frozen=True, slots=True)
class PeaksReset:
    """The sampled peaks of a device restart."""

    key: str


DeviceEvent = Union[DeviceSelected, PeaksReset]


class MachineState:
    """The machine as NVML, the host and torch describe it. Times are the senders' Unix times.

    Args:
        bus: whose events change it.
        simulated: the GPUs are simulated, as a recording states.
        processes: creates the state of the watched processes.
        host: name of another host, of which this is the state; empty for this machine.
    """

    def __init__(
        self,
        bus: EventBus,
        *,
        simulated: bool = False,
        processes: Callable[[], WatchedProcesses] = WatchedProcesses,
        host: str = "",
    ) -> None:
        self._make_processes = processes
        self.box = host
        """Name by which the user reaches the host; empty for this machine."""
        self.simulated = simulated
        self.host = host
        self.hosts = HostsState(bus, lambda name, host_bus: MachineState(host_bus, host=name))
        """The other hosts that the session shows."""
        for kind, handler in self._handlers().items():
            bus.subscribe(kind, handler)
        self.forget()

    def forget(self) -> None:
        """Reset all facts in place, since the front ends share this object."""
        self.hosts.forget()
        self.clock_ahead_s: float | None = None
        """Seconds by which the machine's clock is ahead of this one's; ``None`` if unknown."""
        self.lost = ""
        """Why another host is not connected, and what to do; empty while it is."""
        self.sample: Sample | None = None
        self.monitor = MonitorStatus("starting")
        self.environment: Environment | None = None
        self.identity = UNKNOWN
        """What the runner reports of the machine."""
        self.worker_pid: int | None = None
        self.devices: tuple[DeviceView, ...] = ()
        self.selected = CPU
        """Key of the selected device."""
        self.selected_by_user = False
        self.requested_device = ""
        """The device to select once it appears, by its key or torch's name."""
        self.torch_memory: dict[str, messages.TorchMemory] = {}
        """Allocator figures of the present worker, by torch's device name."""
        self.heap: messages.HostHeap | None = None
        self.moments = ConsistentReadings()
        """The newest figures of NVML and torch that date from the same moment."""
        self.history = History()
        self.allocators: WatchedProcesses | None = None
        """All torch processes, read from outside; ``None`` until the watch's first message."""
        self._read: dict[str, Device] = {}
        """The last successful reading of each device in the newest sample, by its id."""
        self.runner_answered = False
        """The runner has reported torch's devices, or that nothing can run."""
        self._torch_problem: str | None = None
        """The reason for a missing or unusable torch."""

    # ---- queries ----

    @property
    def nvml_devices(self) -> tuple[Device, ...]:
        """NVML's devices in the newest sample; none before the first."""
        return self.sample.devices if self.sample is not None else ()

    @property
    def shown(self) -> MachineState:
        """The machine of the selected row: this one, or another host."""
        host = self.hosts.selected_host
        return self if host is None else host.machine

    @property
    def selected_key(self) -> str:
        """Key of the selected row: a device of this machine, or a row of another host."""
        return self.hosts.selected or self.selected

    def now(self, clock: float) -> float:
        """Return the Unix time of this machine's clock, by the time of the front end's clock."""
        return clock + (self.clock_ahead_s or 0.0)

    @property
    def selected_device(self) -> DeviceView:
        """The device that the gauge and the timing column show."""
        return next((view for view in self.devices if view.key == self.selected), DeviceView(CPU))

    def find_device(self, name: str) -> DeviceView | None:
        """Return the device with this key (``cpu`` or a UUID) or this name in torch."""
        return next((view for view in self.devices if name in (view.key, view.torch)), None)

    def torch_name(self, key: str) -> str | None:
        """Return torch's name of the device with this key; ``None`` if torch does not see it."""
        if key == CPU:
            return CPU
        return next((view.torch for view in self.devices if view.key == key), None)

    @property
    def gpu_column(self) -> DeviceView | None:
        """The GPU that the timing column shows: the selected one, else the first usable."""
        if self.selected != CPU:
            return self.selected_device
        return next((view for view in self.devices if view.key != CPU and view.torch), None)

    @property
    def usual_devices(self) -> tuple[str, ...]:
        """The default devices of a run, by torch's names: the CPU and the GPU column's."""
        column = self.gpu_column
        return (CPU, column.torch) if column is not None and column.torch else (CPU,)

    def has_other_processes(self) -> bool:
        """Return whether processes of other programs use memory of the selected GPU."""
        device = self.selected_device.nvml
        rows = device.processes if device else None
        return any(not row.ours and row.pid != self.worker_pid for row in rows or ())

    # ---- events ----

    def _handlers(self) -> dict[type, Callable[[Any], Topics]]:
        return {
            MonitorHello: self._on_monitor_hello,
            MonitorStatus: self._on_monitor_status,
            Sample: self._on_sample,
            RunnerStatus: self._on_runner_status,
            messages.Ready: self._on_ready,
            messages.Unusable: self._on_unusable,
            messages.WorkerStarted: self._on_worker_started,
            messages.WorkerEnded: self._on_worker_ended,
            messages.TorchMemory: self._on_torch_memory,
            messages.HostHeap: self._on_host_heap,
            DeviceSelected: self._on_device_selected,
            PeaksReset: self._on_peaks_reset,
            WatchStatus: self._on_watch,
            WatchHello: self._on_watch,
            TorchProcesses: self._on_watch,
            ProcessFigures: self._on_watch,
            StepsCounted: self._on_watch,
        }

    def _on_monitor_hello(self, _event: MonitorHello) -> Topics:
        return self._on_monitor_status(MonitorStatus("ready"))

    def _on_monitor_status(self, event: MonitorStatus) -> Topics:
        self.monitor = event
        return frozenset({Topic.DEVICES, Topic.MEMORY})

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
            self._record_busy_runner()
        self.history.apply_sample(event, self.devices, self.worker_pid)
        return frozenset({Topic.DEVICES, Topic.MEMORY})

    def _record_busy_runner(self) -> None:
        """Use the runner's allocators as they are read from outside, where they are newer."""
        for view in self.devices:
            allocator = self.find_runner_allocator(view)
            if allocator is not None and view.torch is not None:
                reported, figures = self.torch_memory.get(view.torch), allocator.figures
                if reported is not None:
                    figures = complete_figures(figures, reported)
                figures = replace(figures, device=view.torch)
                self.history.apply_torch(figures, (view,))

    def find_runner_allocator(self, view: DeviceView) -> Allocator | None:
        """Return the runner's allocator on a device as the watch reads it.

        Args:
            view: the device.

        Returns:
            ``None`` unless the watch has read it since the last report of the runner, which reports
            nothing while it is busy.
        """
        if self.allocators is None or view.nvml is None:
            return None
        row = find_process(view.nvml, self.worker_pid)
        started_at = row.started_at if row is not None else None
        allocator = self.allocators.on(view.key, self.worker_pid, started_at)
        reported = self.torch_memory.get(view.torch or "")
        if allocator is None or (reported and allocator.figures.at <= reported.at):
            return None
        return allocator

    def _on_runner_status(self, event: RunnerStatus) -> Topics:
        if event.status in ("not started", "restarting", "ended", "unusable"):
            self._forget_worker()
            self.moments.forget_torch()
            self.runner_answered = True
        has_no_torch = event.status in ("not started", "unusable")
        self._torch_problem = event.reason or None if has_no_torch else None
        if not has_no_torch:
            return _MEMORY
        self._pair()
        return _ALL

    def _on_ready(self, event: messages.Ready) -> Topics:
        self.environment = event.environment
        self.identity = event.identity
        self.runner_answered = True
        self._torch_problem = None
        self._pair()
        return _ALL

    def _on_unusable(self, event: messages.Unusable) -> Topics:
        return self._on_runner_status(RunnerStatus("unusable", event.reason, event.advice))

    def _on_worker_started(self, event: messages.WorkerStarted) -> Topics:
        self._forget_worker()
        self.worker_pid = event.pid
        return _MEMORY

    def _on_worker_ended(self, event: messages.WorkerEnded) -> Topics:
        if event.pid == self.worker_pid:
            self._forget_worker()
        return _MEMORY

    def _on_torch_memory(self, event: messages.TorchMemory) -> Topics:
        self.torch_memory[event.device] = event
        self.moments.apply_torch(event)
        self.history.apply_torch(event, self.devices)
        return _MEMORY

    def _on_host_heap(self, event: messages.HostHeap) -> Topics:
        self.heap = event
        return _MEMORY

    def _on_device_selected(self, event: DeviceSelected) -> Topics:
        host = self.hosts.select(event.key)
        if host is not None:
            host.bus.publish(DeviceSelected(host.find_key(event.key)))
        else:
            self.selected = event.key
            self.selected_by_user = True
        return _ALL | {Topic.WORKLOADS, Topic.BACKEND}

    def _on_peaks_reset(self, event: PeaksReset) -> Topics:
        shown = self.shown
        if shown is self:
            self.history.reset_peak(event.key)
        else:
            shown.history.reset_peak(shown.selected)
        return _MEMORY

    def _on_watch(
        self, event: WatchStatus | WatchHello | TorchProcesses | ProcessFigures | StepsCounted
    ) -> Topics:
        if self.allocators is None:
            self.allocators = self._make_processes()
            if self.sample is not None:
                self.allocators.apply_sample(self.sample)
        changed = self.allocators.apply(event)
        return frozenset({Topic.ALLOCATORS}) if changed else frozenset()

    def _forget_worker(self) -> None:
        self.worker_pid = None
        self.torch_memory.clear()
        self.heap = None

    def _pair(self) -> None:
        nvml = self.nvml_devices
        torch = self.environment.devices if self.environment else ()
        absent = self.environment.unavailable if self.environment else {}
        if self.sample is not None:
            driver = reconcile_driver(self.sample.driver, self.environment)
            if driver is not self.sample.driver:
                self.sample = replace(self.sample, driver=driver)
        no_nvml = NVML_UNAVAILABLE if self.sample and self.sample.driver.error else ""
        views = pair(
            nvml, torch, absent.get("devices", ""), no_nvml, self._torch_problem, self.host
        )
        if not self.host and not any(view.torch for view in views if view.key != CPU):
            names = expect_names(
                nvml,
                os.environ.get("CUDA_VISIBLE_DEVICES"),
                by_bus=os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID",
            )
            views = tuple(replace(view, expected=names.get(view.key, "")) for view in views)
        self.devices = tuple(self._add_last_reading(view) for view in views)
        keys = [view.key for view in self.devices]
        if self.selected_by_user and self.selected not in keys:
            # It may come back, as after a restart of the driver or of the connection.
            self.requested_device, self.selected_by_user = self.selected, False
        device = self.find_device(self.requested_device) if self.requested_device else None
        if device is not None and not self.selected_by_user:
            self.selected = device.key
        elif not self.selected_by_user:
            # Select the first GPU that torch can use. If torch sees none or has not reported its
            # devices yet, select the first GPU.
            gpus = [view for view in self.devices if view.key != CPU]
            usable = [view.key for view in gpus if view.torch] or [view.key for view in gpus]
            if self.selected not in usable:
                self.selected = next(iter(usable), CPU)

    def _add_last_reading(self, view: DeviceView) -> DeviceView:
        last = self._read.get(view.key)
        if view.nvml is None or view.nvml.lost is None or last is None or last.lost:
            return view
        return replace(view, before_loss=last)


def complete_figures(
    torch: messages.TorchMemory, reported: messages.TorchMemory
) -> messages.TorchMemory:
    """Return the runner's figures from outside with what only the runner itself has reported.

    From outside, cuBLAS's workspaces look like tensors: those of the last report count. So do its
    counts, which begin with the last run.

    Args:
        torch: the figures, read from outside.
        reported: the last report of the runner.
    """
    workspace = reported.workspace
    if workspace is not None:
        torch = replace(
            torch,
            requested=max(0, torch.requested - workspace),
            allocated=max(0, torch.allocated - workspace),
            active=max(0, torch.active - workspace),
            workspace=workspace,
        )
    return replace(torch, alloc_retries=reported.alloc_retries, ooms=reported.ooms)
