"""What is known now, as the front ends read it; the store (:mod:`tui.state.store`) changes it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tui.devices.monitor.messages import Sample
from tui.devices.state.devices import CPU, ConsistentReadings, DeviceView
from tui.devices.state.history import History
from tui.runs.state.parameters import Sweep, defaults
from tui.runs.state.runs import (
    CompareState,
    EarlierResult,
    EarlierResults,
    RunBook,
    RunState,
    standing,
)
from tui.state.events import LogLine, MonitorStatus, RunnerStatus
from workloads.protocol import messages
from workloads.protocol.results import Ceiling, Environment, Setting, WorkloadInfo

if TYPE_CHECKING:
    from tui.state.allocators import Allocators

LOG_LINES = 500
SIMULATED = "simulated GPU, times invented"
"""What is said wherever figures are shown that no hardware gave."""


class WorkbenchState:
    """Everything the screens show.

    Args:
        simulated: the GPUs are no hardware; a recording says so.
    """

    def __init__(self, *, simulated: bool = False) -> None:
        self.simulated = simulated
        self.sample: Sample | None = None
        self.monitor = MonitorStatus("starting")
        self.runner = RunnerStatus("starting")
        self.hello: messages.Hello | None = None
        self.environment: Environment | None = None
        self.worker_pid: int | None = None
        self.busy_with: str | None = None
        self.devices: tuple[DeviceView, ...] = ()
        self.selected = CPU
        self.selected_by_user = False
        self.wanted_device = ""
        """The one to select once it is there: its key or torch's name of it."""
        self.catalogue: tuple[WorkloadInfo, ...] = ()
        self.parameters: dict[str, dict[str, Setting]] = {}
        self.sweeps: dict[str, Sweep] = {}
        """Where several settings of a workload are wanted instead of the present one."""
        self.flags: dict[str, bool] = {}
        self.runs = RunBook()
        self.asked: list[str] = []
        """The ids of the runs that were asked for since none waited last."""
        self.earlier = EarlierResults()
        """What was kept of earlier sessions."""
        self.comparisons: dict[str, CompareState] = {}
        self.ceilings: tuple[Ceiling, ...] = ()
        """Those of this host, under whichever conditions, in the order they came."""
        self.torch_memory: dict[str, messages.TorchMemory] = {}
        """By torch's device name; of the worker that lives now."""
        self.heap: messages.HostHeap | None = None
        self.moments = ConsistentReadings()
        """The newest figures of NVML and torch that are of one moment."""
        self.history = History()
        self.allocators: Allocators | None = None
        """Of all torch processes, read from outside; ``None`` until the watch says something."""
        self.log: deque[LogLine] = deque(maxlen=LOG_LINES)

    @property
    def selected_device(self) -> DeviceView:
        """The device that the gauge and the timing column show."""
        return next((view for view in self.devices if view.key == self.selected), DeviceView(CPU))

    def find_device(self, name: str) -> DeviceView | None:
        """Return the device of that key (``cpu`` or a UUID) or of that name in torch."""
        return next((view for view in self.devices if name in (view.key, view.torch)), None)

    def torch_name(self, key: str) -> str | None:
        """Return torch's name of the device of that key; ``None`` where it does not see it."""
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
        """What a run is for unless a device is named: the CPU, and the GPU column's, in torch."""
        column = self.gpu_column
        return (CPU, column.torch) if column is not None and column.torch else (CPU,)

    def flags_for(self, device: str) -> dict[str, bool]:
        """Return the present settings of the flags that act on a torch device."""
        kind = device.partition(":")[0]
        return {
            flag.name: self.flags.get(flag.name, flag.default)
            for flag in (self.environment.flags if self.environment else ())
            if flag.unavailable is None and kind in flag.device_types
        }

    def device_for_flag(self, flag: str) -> str | None:
        """Return the device to try a flag on: the GPU column's for cuDNN, the CPU for oneDNN."""
        known = {info.name: info for info in self.environment.flags} if self.environment else {}
        if flag not in known or known[flag].unavailable is not None:
            return None
        kinds = known[flag].device_types
        devices = reversed(self.usual_devices)
        return next((name for name in devices if name.partition(":")[0] in kinds), None)

    def points(self, workload: str, *, by_default: bool = False) -> tuple[dict[str, Setting], ...]:
        """Return the wanted settings of a workload's runs: its sweep's, or the present one.

        Args:
            workload: its name.
            by_default: those of the catalogue instead.
        """
        if by_default:
            return tuple(defaults(info) for info in self.catalogue if info.name == workload)
        sweep = self.sweeps.get(workload)
        return sweep.points if sweep else (self.parameters.get(workload, {}),)

    def latest_run(self, workload: str, device: str) -> RunState | None:
        """Return the user's newest run of a workload with its present parameters on a torch device.

        Where there is none, or none but cancelled ones, one of the demo's that came to its end
        stands in for it.
        """
        runs = list(self.runs.newest_first(workload, device, self.parameters.get(workload, {})))
        own = standing(run for run in runs if not run.demo)
        if own is not None and not own.cancelled:
            return own
        return next((run for run in runs if run.demo and run.ended and not run.cancelled), own)

    def earlier_result(self, info: WorkloadInfo, device: str) -> EarlierResult | None:
        """Return the newest earlier result on this device with the present parameters."""
        if info.name in self.sweeps:
            return None
        view = self.find_device(device)
        torch = view.torch_device if view else None
        gpu = (torch.uuid or "") if torch and device != CPU else ""
        if not gpu and device != CPU:
            return None
        return self.earlier.find(info.name, gpu, self.parameters.get(info.name, {}))

    def demo_run(self, info: WorkloadInfo, device: str) -> RunState | None:
        """Return the demo's newest run of a workload on a torch device, with the defaults.

        Where there is none, the user's stands in for it: a demo that may not run shows those.
        """
        runs = list(self.runs.newest_first(info.name, device, defaults(info)))
        return standing(run for run in runs if run.demo) or standing(runs)

    def pending_requests(self) -> tuple[messages.Run | messages.Compare, ...]:
        """Return the runs, then the comparisons, that have not ended; oldest first."""
        runs = [run.request for run in self.runs.values() if not run.ended]
        comparisons = [item.request for item in self.comparisons.values() if not item.done]
        return (*runs, *comparisons)

    def pending(self) -> tuple[str, ...]:
        """Return the ids of runs and comparisons that have not ended."""
        return tuple(request.id for request in self.pending_requests())
