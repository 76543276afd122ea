"""Helpers for tests of screens: a store of realistic samples, a recorder, one pane on a screen.

Times are frozen: every sample has the time :data:`NOW`, and :func:`clock` returns it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from textual.app import App, ComposeResult
from textual.strip import Strip

from tui.kit.pane import Pane
from tui.kit.themes import find_frame_color
from tui.monitor.messages import (
    Clocks,
    Cpu,
    Device,
    DeviceMemory,
    Driver,
    GpuProcess,
    Host,
    HostMemory,
    Pcie,
    Sample,
    Utilization,
    WatchedProcess,
)
from tui.recordings.lines import AnyEvent
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages
from workloads.protocol.messages import Budget
from workloads.protocol.results import (
    Environment,
    FlagInfo,
    ParameterInfo,
    Setting,
    TorchDevice,
    WorkloadInfo,
)

NOW = 1_750_000_000.0
MIB = 1024**2
GIB = 1024**3
WORKER = 4242
STRANGER = 777
NO_DRIVER = (
    "no NVIDIA driver: libnvidia-ml.so.1 was not found; install the driver, or in a container "
    "start it with --gpus all"
)
HOSTILE = "[/x] [cuda:0] aten::conv[NHWC] [red]"
"""Text that a markup parser would swallow or fail on."""

_WORD = re.compile(r"[^\W\d_]{2}")

Kind = Literal["empty", "no gpu", "one gpu", "two gpus"]


def clock() -> float:
    return NOW


def count_words(rows: Sequence[str]) -> int:
    """Count what stands between blanks and has two letters in a row; figures are no words."""
    return sum(bool(_WORD.search(word)) for row in rows for word in row.split())


def uuid(index: int) -> str:
    return f"GPU-{index:08d}-aaaa-bbbb-cccc-{index:012d}"


# ---- the monitor's messages --------------------------------------------------------------------


def gpu_process(
    pid: int = WORKER, memory: int | None = int(16.6 * GIB), **changes: object
) -> GpuProcess:
    values: dict[str, object] = {
        "pid": pid,
        "user": "ada",
        "command": "python train.py",
        "memory": memory,
        "kind": "compute",
        "started_at": 1_750_000_000.0,
        **changes,
    }
    return GpuProcess(**values)  # type: ignore[arg-type]


def gpu(index: int = 0, **changes: object) -> Device:
    """Return one H200: the first is busy with the worker and a foreign process, others are idle."""
    busy = index == 0
    reserved = int(0.6 * GIB)
    total = int(139.8 * GIB)
    used = int(20.7 * GIB) if busy else 4 * MIB
    values: dict[str, object] = {
        "id": uuid(index),
        "nvml_index": index,
        "torch": None,
        "name": "NVIDIA H200",
        "pci_bus_id": f"00000000:{0x17 + index:02X}:00.0",
        "memory": DeviceMemory(total, used, total - used - reserved, reserved),
        "utilization": Utilization(61.0 if busy else 0.0, 23.0 if busy else 0.0),
        "temperature_c": 45.0 if busy else 31.0,
        "power_w": 310.0 if busy else 74.0,
        "power_limit_w": 700.0,
        "fan_percent": None,
        "clocks_mhz": Clocks(1980 if busy else 345, 3201),
        "pstate": 0,
        "throttle": () if busy else ("idle",),
        "pcie": Pcie(5, 16),
        "ecc_uncorrected": 0,
        "mig": False,
        "processes": (gpu_process(), gpu_process(STRANGER, int(4.1 * GIB))) if busy else (),
        "unavailable": {"fan_percent": "not supported by this device: it has no fan of its own"},
        **changes,
    }
    return Device(**values)  # type: ignore[arg-type]


def host(**changes: object) -> Host:
    values: dict[str, object] = {
        "name": "gpu-box-3",
        "cpu": Cpu("AMD EPYC 9654 96-Core Processor", 192, 16, 23.0, 2400.0),
        "memory": HostMemory(128 * GIB, 12 * GIB, 116 * GIB),
        **changes,
    }
    return Host(**values)  # type: ignore[arg-type]


def sample(*devices: Device, at: float = NOW, **changes: object) -> Sample:
    error = None if devices else NO_DRIVER
    version, cuda = ("580.159.03", "13.0") if devices else (None, None)
    values: dict[str, object] = {
        "at": at,
        "took_s": 0.012,
        "host": host(),
        "driver": Driver(version, cuda, error, missing=not devices),
        "devices": devices,
        "watched": (WatchedProcess(WORKER, 900 * MIB, 1300 * MIB),),
        **changes,
    }
    return Sample(**values)  # type: ignore[arg-type]


# ---- the runner's messages ---------------------------------------------------------------------

CUDNN_FLAGS = (
    FlagInfo("cudnn.enabled", "enabled", "use cuDNN at all", ("cuda",), False, True, None),
    FlagInfo(
        "cudnn.benchmark",
        "benchmark",
        "time the algorithms on first use and keep the fastest",
        ("cuda",),
        True,
        False,
        None,
    ),
    FlagInfo(
        "cudnn.deterministic",
        "deterministic",
        "use algorithms that give the same bits every time",
        ("cuda",),
        True,
        False,
        None,
    ),
    FlagInfo(
        "cudnn.conv.fp32_precision",
        "fp32_precision",
        "round inputs to ten bits",
        ("cuda",),
        False,
        True,
        None,
    ),
    FlagInfo(
        "cuda.matmul.fp32_precision",
        "fp32_precision",
        "round inputs to ten bits",
        ("cuda",),
        False,
        False,
        None,
    ),
)

_DTYPES = ("float32", "bfloat16", "float16")


def workload(
    name: str = "matmul", group: str = "health", title: str = "matrix product", **changes: object
) -> WorkloadInfo:
    values: dict[str, object] = {
        "name": name,
        "group": group,
        "title": title,
        "about": "Two square matrices multiplied.",
        "look_for": "How near it comes to the device's limit.",
        "parameters": (
            ParameterInfo("size", 4096, "rows and columns", (), 16, 65536),
            ParameterInfo("dtype", "float32", "element type", _DTYPES),
        ),
        "devices": ("cpu", "cuda"),
        "code": "c = a @ b",
        **changes,
    }
    return WorkloadInfo(**values)  # type: ignore[arg-type]


CATALOGUE = (
    workload(),
    workload("mlp", "training", "one training step"),
    workload("conv2d", "flags", "2-D convolution", compared=True, convolutions="only"),
)


def torch_gpu(index: int = 0, **changes: object) -> TorchDevice:
    values: dict[str, object] = {
        "id": f"cuda:{index}",
        "name": "NVIDIA H200",
        "uuid": uuid(index),
        "pci_bus_id": f"0000:{0x17 + index:02x}:00.0",
        "total_memory": int(139.8 * GIB),
        "capability": "9.0",
        "multi_processors": 132,
        "l2_bytes": 60 * MIB,
        **changes,
    }
    return TorchDevice(**values)  # type: ignore[arg-type]


def environment(*gpus: TorchDevice, **changes: object) -> Environment:
    cpu = TorchDevice("cpu", "AMD EPYC 9654 96-Core Processor", total_memory=128 * GIB)
    why = None if gpus else "torch sees no CUDA device"
    values: dict[str, object] = {
        "python": "3.12.4",
        "executable": "/usr/bin/python3",
        "torch": "2.13.0+cu130",
        "cuda": "13.0" if gpus else None,
        "cudnn": "9.20.0" if gpus else None,
        "cpu": "AMD EPYC 9654 96-Core Processor",
        "cpus_usable": 16,
        "threads": 16,
        "interop_threads": 16,
        "malloc": "glibc 2.39",
        "variables": {},
        "devices": (*gpus, cpu),
        "flags": tuple(replace(flag, unavailable=why) for flag in CUDNN_FLAGS),
        **changes,
    }
    return Environment(**values)  # type: ignore[arg-type]


def hello(*workloads: WorkloadInfo) -> messages.Hello:
    return messages.Hello(
        messages.VERSION, 4000, "3.12.4", "/usr/bin/python3", workloads or CATALOGUE
    )


def torch_memory(device: str = "cuda:0", **changes: object) -> messages.TorchMemory:
    """Return the worker's allocator, consistent with the figures of :func:`gpu`."""
    values: dict[str, object] = {
        "device": device,
        "pid": WORKER,
        "at": NOW,
        "requested": int(12.2 * GIB),
        "allocated": int(12.3 * GIB),
        "active": int(12.3 * GIB),
        "reserved": 16 * GIB,
        "inactive_split": int(1.2 * GIB),
        "allocated_peak": 15 * GIB,
        "reserved_peak": int(18.2 * GIB),
        "alloc_retries": 0,
        "ooms": 0,
        "device_free": int(118.5 * GIB),
        "device_total": int(139.8 * GIB),
        "pinned": 0,
        "workspace": 0,
        **changes,
    }
    return messages.TorchMemory(**values)  # type: ignore[arg-type]


def host_heap(**changes: object) -> messages.HostHeap:
    values: dict[str, object] = {
        "pid": WORKER,
        "at": NOW,
        "in_use": 640 * MIB,
        "cached": 220 * MIB,
        **changes,
    }
    return messages.HostHeap(**values)  # type: ignore[arg-type]


def make_store(kind: Kind = "one gpu", *more: AnyEvent) -> WorkbenchState:
    """Return a store after one event of each kind.

    Args:
        kind: ``empty`` for no events; ``no gpu`` for neither driver nor GPU.
        more: further events, applied last.
    """
    state = WorkbenchState(clock=lambda: NOW)
    if kind != "empty":
        count = {"no gpu": 0, "one gpu": 1, "two gpus": 2}[kind]
        feed(
            state,
            sample(*(gpu(index) for index in range(count))),
            hello(),
            messages.Ready(environment(*(torch_gpu(index) for index in range(count))), 1.8),
            messages.WorkerStarted(WORKER),
        )
        if count:
            state.publish(torch_memory())
        state.publish(host_heap())
        if count:
            state.publish(sample(*(gpu(index) for index in range(count))))
    feed(state, *more)
    return state


def feed(state: WorkbenchState, *events: AnyEvent) -> None:
    for event in events:
        state.publish(event)


# ---- a recorder of a pane's requests -----------------------------------------------------------


@dataclass
class Recorder:
    """Actions that only record; ``select_device`` may also update a store."""

    asked: list[tuple[object, ...]] = field(default_factory=list)
    torch_is_looked_at: bool = False
    hosts_are_looked_at: bool = True
    device_details: list[bool] = field(default_factory=list)

    def select_device(self, key: str) -> None:
        self.asked.append(("select_device", key))

    def set_parameters(self, workload: str, parameters: dict[str, Setting]) -> None:
        self.asked.append(("set_parameters", workload, parameters))

    def set_sweep(self, workload: str, sweep: Sweep) -> None:
        self.asked.append(("set_sweep", workload, sweep))

    def run(
        self,
        workloads: Sequence[str],
        devices: Sequence[str] | None = None,
        budget: Budget = "normal",
    ) -> None:
        asked_devices = None if devices is None else tuple(devices)
        self.asked.append(("run", tuple(workloads), asked_devices, budget))

    def run_to_present(self, workload: str) -> None:
        self.asked.append(("run_to_present", workload))

    def cancel(self, run_id: str = "") -> None:
        self.asked.append(("cancel", run_id))

    def cancel_shown(self) -> None:
        self.asked.append(("cancel_shown",))

    def set_flag(self, name: str, value: bool) -> None:
        self.asked.append(("set_flag", name, value))

    def compare(self, workload: str, flag: str) -> None:
        self.asked.append(("compare", workload, flag))

    def empty_cache(self, key: str) -> None:
        self.asked.append(("empty_cache", key))

    def reset_peaks(self, key: str) -> None:
        self.asked.append(("reset_peaks", key))

    def restart_runner(self) -> None:
        self.asked.append(("restart_runner",))

    def set_refresh(self, seconds: float) -> None:
        self.asked.append(("set_refresh", seconds))

    def sample_hosts(self, *, often: bool) -> None:
        self.hosts_are_looked_at = often

    def watch_torch(self, wanted: bool) -> None:
        self.torch_is_looked_at = wanted

    def watch_host(self, wanted: bool) -> None:
        self.asked.append(("watch_host", wanted))

    def watch_device(self, *, detail: bool) -> None:
        self.device_details.append(detail)


# ---- screens -----------------------------------------------------------------------------------


def screen_strips(app: App[Any]) -> list[Strip]:
    """Return the screen's rows.

    The compositor has no public name; only this function uses it.
    """
    return app.screen._compositor.render_strips()


def screen_text(app: App[Any]) -> list[str]:
    """Return the screen's text, one plain string per row, without trailing blanks."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in screen_strips(app)]


def stylesheets() -> list[str | Path]:
    """Return every stylesheet of the program, as the program itself collects them."""
    root = Path(__file__).resolve().parents[2] / "tui"
    return [*sorted(root.rglob("*.tcss"))]


class StyledApp(App[None]):
    """An app for parts of the program, whose styles name colors that the program defines."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return what the program's styles name, as the program does."""
        return {"frame": find_frame_color(self.current_theme)}


class PaneApp(StyledApp):
    """One pane that fills the screen, or has its own natural height."""

    def __init__(self, make: Callable[[], Pane], sheets: Sequence[str | Path] = ()) -> None:
        super().__init__(css_path=list(sheets))
        self.animation_level = "none"  # as the program has it
        self._make = make

    def compose(self) -> ComposeResult:
        yield self._make()

    @property
    def pane(self) -> Pane:
        return self.query_one(Pane)

    def tell(self, state: WorkbenchState, *events: AnyEvent) -> None:
        """Update the store and notify the pane, like the program."""
        changed: frozenset[object] = frozenset()
        for event in events:
            changed |= state.publish(event)
        if changed & self.pane.SHOWS:
            self.pane.state_changed()
