"""The watch's reports of a foreign training, consistent with the other helpers."""

from __future__ import annotations

from typing import Any

from tests.screens.helpers import GIB, MIB, NOW, STRANGER, gpu, gpu_process, sample, torch_memory
from tui.allocators.messages import ProcessFigures, TorchProcess, TorchProcesses
from tui.monitor.messages import ParentProcess, Sample
from workloads.protocol.messages import TorchMemory

START = 1_750_000_000.0
"""Start time of the processes that NVML lists in ``tests.screens.helpers``."""
TORCHRUN = ParentProcess(900, "ada", "torchrun train.py", START - 1)


def torch_process(pid: int = STRANGER, **changes: object) -> TorchProcess:
    values: dict[str, object] = {
        "pid": pid,
        "start": START,
        "parent": 1,
        "user": "ada",
        "command": "python train.py",
        "torch": "2.13.0+cu130",
        "rank": None,
        "local_rank": None,
        "world_size": None,
        "launcher": None,
        "visible_devices": None,
        "device_order": None,
        **changes,
    }
    return TorchProcess(**values)  # type: ignore[arg-type]


def figures(
    pid: int = STRANGER, device: str = "cuda:0", at: float = NOW, **changes: object
) -> TorchMemory:
    """Return figures of 4.1 GiB by NVML: 2 GiB in tensors, 1.5 GiB cached."""
    values: dict[str, object] = {
        "pid": pid,
        "at": at,
        "requested": 2 * GIB,
        "allocated": 2 * GIB,
        "active": 2 * GIB,
        "reserved": int(3.5 * GIB),
        "inactive_split": 256 * MIB,
        "allocated_peak": 3 * GIB,
        "reserved_peak": int(3.5 * GIB),
        "reserved_allocated": int(3.5 * GIB),
        "reserved_freed": 0,
        "device_free": None,
        "device_total": None,
        "pinned": None,
        "workspace": None,
        **changes,
    }
    return torch_memory(device, **values)


def said(*each: TorchMemory, at: float = NOW) -> ProcessFigures:
    return ProcessFigures(at, each)


def told(*processes: TorchProcess) -> TorchProcesses:
    return TorchProcesses(NOW, processes)


def seen(at: float = NOW, held: int = int(4.1 * GIB), **changes: Any) -> Sample:
    """Return one GPU with the foreign process, read while its figures are constant."""
    rows = (gpu_process(), gpu_process(STRANGER, held))
    read: dict[str, object] = {"read_at": at, "memory_read": (at - 0.01, at)}
    return sample(gpu(0, processes=rows, **read, **changes), at=at)


STORY = (told(torch_process()), said(figures(at=NOW - 0.5)), seen(NOW - 0.2), said(figures()))
"""A training is found, and read before and after NVML."""
