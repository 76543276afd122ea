"""What the watch says, one JSON line each: torch processes, and what their allocators hold.

Sizes are bytes. A value that is absent is ``None``, and ``unavailable`` holds the reason under the
field's name.
"""

from __future__ import annotations

from dataclasses import field
from typing import Union

from tui.monitor.messages import ParentProcess
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

VERSION = 1


@frozen
class TorchProcess:
    """A process that has torch loaded, or of which that was asked."""

    pid: int
    start: float | None
    """Unix time at which it started: with the pid, its identity. ``None`` where there is none."""
    parent: int | None
    user: str | None
    command: str | None
    torch: str | None
    """Version of torch, from the file beside its library."""
    rank: int | None
    local_rank: int | None
    world_size: int | None
    launcher: str | None
    """What started its ranks: torchrun, srun, Open MPI, MPICH."""
    visible_devices: str | None
    """``CUDA_VISIBLE_DEVICES`` as the process was started with; it may have set another itself."""
    device_order: str | None
    """``CUDA_DEVICE_ORDER``, in the same way."""
    reason: str = ""
    """Why there are no figures of it; empty where there are."""
    word: str = ""
    """The reason in one word, for where there is no room for more."""
    advice: str = ""
    """What would help."""
    refused: bool = False
    """The kernel does not let it be read: not a matter of what the process does."""
    ours: bool = False
    """The program that asks has started it."""
    launched_by: ParentProcess | None = None
    """What started it, as torchrun its ranks."""
    unavailable: dict[str, str] = field(default_factory=dict)


def undescribed(pid: int, why: str) -> TorchProcess:
    """A process of which nothing is known but its pid, and why."""
    names = ("start", "parent", "user", "command", "torch", "rank", "local_rank", "world_size")
    return TorchProcess(
        pid=pid,
        start=None,
        parent=None,
        user=None,
        command=None,
        torch=None,
        rank=None,
        local_rank=None,
        world_size=None,
        launcher=None,
        visible_devices=None,
        device_order=None,
        reason=why,
        unavailable=dict.fromkeys((*names, "launcher", "visible_devices"), why),
    )


@frozen
class TorchProcesses:
    """All that are watched; sent when something of it has changed."""

    at: float
    """Unix time."""
    processes: tuple[TorchProcess, ...]


@frozen
class ProcessFigures:
    """What the allocators of the watched processes hold at one moment.

    Each figure is as :class:`~workloads.protocol.messages.TorchMemory` has it of the runner's
    worker, but counted since the process began, and with what cuBLAS was given among the allocated.
    """

    at: float
    """Unix time."""
    devices: tuple[TorchMemory, ...]
    unavailable: dict[str, str] = field(default_factory=dict)
    """Why a device's are not among them, under ``<pid> cuda:<ordinal>``."""


@frozen
class WatchHello:
    version: int
    pid: int


@frozen
class LookFor:
    """Request: watch these processes from now on, or all of this user's that have torch."""

    pids: tuple[int, ...]
    """Empty for all of this user's; root's are everybody's."""
    children: bool = True
    """Also those that they have started."""


@frozen
class ListedProcesses:
    """Request: these use a GPU, as NVML says; those of them that have torch are told too."""

    pids: tuple[int, ...]


@frozen
class WatchPace:
    """Request: read the figures this far apart from now on."""

    seconds: float


WatchEvent = Union[WatchHello, TorchProcesses, ProcessFigures]
WATCH_EVENTS = (WatchHello, TorchProcesses, ProcessFigures)
WatchRequest = Union[LookFor, ListedProcesses, WatchPace]
WATCH_REQUESTS: tuple[type[WatchRequest], ...] = (LookFor, ListedProcesses, WatchPace)
