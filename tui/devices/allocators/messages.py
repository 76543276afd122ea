"""What the watch says, one JSON line each, and on which GPU the figures of a process are.

Sizes are bytes. A value that is absent is ``None``, and ``unavailable`` holds the reason under the
field's name.

A process may set ``CUDA_VISIBLE_DEVICES`` itself, which nobody sees from outside. So what it was
started with is believed only where NVML lists the process on that very device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from tui.devices.monitor.messages import Device, ParentProcess, find_process
from workloads.protocol.messages import TorchMemory

VERSION = 1


@dataclass(frozen=True, slots=True)
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
    """Return a process of which nothing is known but its pid, and why."""
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


@dataclass(frozen=True, slots=True)
class TorchProcesses:
    """All that are watched; sent when something of it has changed."""

    at: float
    """Unix time."""
    processes: tuple[TorchProcess, ...]


@dataclass(frozen=True, slots=True)
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
    host_rss: dict[str, int] = field(default_factory=dict)
    """Bytes of the host's memory that each process has resident, shared pages included, by pid."""


@dataclass(frozen=True, slots=True)
class WatchHello:
    version: int
    pid: int


@dataclass(frozen=True, slots=True)
class LookFor:
    """Request: watch these processes from now on, or all of this user's that have torch."""

    pids: tuple[int, ...]
    """Empty for all of this user's; root's are everybody's."""
    children: bool = True
    """Also those that they have started."""


@dataclass(frozen=True, slots=True)
class ListedProcesses:
    """Request: these use a GPU, as NVML says; those of them that have torch are told too."""

    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WatchPace:
    """Request: read the figures this far apart from now on."""

    seconds: float


WatchEvent = Union[WatchHello, TorchProcesses, ProcessFigures]
WATCH_EVENTS = (WatchHello, TorchProcesses, ProcessFigures)
WatchRequest = Union[LookFor, ListedProcesses, WatchPace]
WATCH_REQUESTS: tuple[type[WatchRequest], ...] = (LookFor, ListedProcesses, WatchPace)


@dataclass(frozen=True, slots=True)
class Placed:
    """A device of a process."""

    id: str | None
    """NVML's; ``None`` where it cannot be told."""
    process: int | None
    """Bytes that NVML says the process holds there."""
    why_no_id: str = ""
    why_no_process: str = ""


@dataclass(frozen=True, slots=True)
class StepsTold:
    """What the agents of a run have told at one moment."""

    at: float
    """Unix time."""
    steps: dict[str, int]
    """Steps of all optimizers until then, by the identity of the process."""


@dataclass(frozen=True, slots=True)
class DevicesPlaced:
    """Which GPUs the devices of a run's processes are, and what NVML says that is held there."""

    at: float
    """Unix time."""
    placed: dict[str, Placed]
    """Under ``<pid> cuda:<ordinal>``; those that are not in it are as they were."""


Seen = Union[TorchProcesses, ProcessFigures, StepsTold, DevicesPlaced]
SEEN: tuple[type[Seen], ...] = (TorchProcesses, ProcessFigures, StepsTold, DevicesPlaced)


def pids_of(devices: Sequence[Device]) -> tuple[int, ...]:
    """Return the processes that NVML lists and that are here: those whose start is known.

    A row without one cannot be tied to a process of this machine: in a container pids differ.
    """
    rows = (row for device in devices for row in device.processes or ())
    return tuple(sorted({row.pid for row in rows if row.started_at is not None}))


def listed_on(
    process: TorchProcess, devices: Sequence[Device]
) -> dict[str, tuple[int | None, str]]:
    """Return NVML's memory of the process, by the id of each device that lists it.

    Returns:
        Bytes, or ``None`` and the reason.
    """
    found = {}
    split = {device.parent for device in devices}
    for device in devices:
        if device.id in split:
            continue  # its MIG instances are what is used
        row = find_process(device, process.pid)
        if row is not None and is_same(row.started_at, process.start):
            found[device.id] = (row.memory, row.unavailable.get("memory", ""))
    return found


def placed_on(
    process: TorchProcess, figures: Sequence[TorchMemory], devices: Sequence[Device]
) -> dict[str, Placed]:
    """Find the GPU of each of a process's devices.

    Args:
        process: whose they are.
        figures: of all its devices that have any.
        devices: as NVML has them; empty without NVML.

    Returns:
        By the process's own name of the device, such as ``cuda:0``.
    """
    listed = listed_on(process, devices)
    if not listed:
        reason = _why_not_listed(process, devices)
        return {each.device: Placed(None, None, reason, reason) for each in figures}
    if len(figures) == 1 and len(listed) == 1:
        ((identity, (memory, why)),) = listed.items()
        return {figures[0].device: Placed(identity, memory, "", why)}
    visible = _visible(process, devices)
    ids = {each.device: visible.get(int(each.device.partition(":")[2])) for each in figures}
    if all(_can_be(each, listed.get(ids[each.device] or "")) for each in figures):
        placed = {}
        for name, found in ids.items():
            assert found is not None
            memory, why = listed[found]
            placed[name] = Placed(found, memory, "", why)
        return placed
    reason = (
        "unknown GPU: NVML lists the process on GPUs that were not in its CUDA_VISIBLE_DEVICES "
        "at the start"
        if process.visible_devices
        else "unknown GPU: CUDA_VISIBLE_DEVICES and NVML's list do not identify it"
    )
    return {each.device: Placed(None, None, reason, reason) for each in figures}


def is_same(one: float | None, other: float | None) -> bool:
    """Return whether two Unix times, derived from clock ticks, are the start of one process."""
    # psutil may round the machine's start anew.
    return one is not None and other is not None and abs(one - other) < 2.0


def _can_be(figures: TorchMemory, listed: tuple[int | None, str] | None) -> bool:
    return listed is not None and (listed[0] is None or listed[0] >= figures.reserved)


def _visible(process: TorchProcess, devices: Sequence[Device]) -> dict[int, str]:
    """NVML's ids by the ordinals that the process was given, as far as they can be told.

    CUDA's own order puts the fastest first; it is NVML's where the devices are of one kind. MIG
    instances are told by their ids alone.
    """
    whole = [device for device in devices if device.parent is None]
    in_order = len(whole) == len(devices) and (
        process.device_order == "PCI_BUS_ID" or len({each.name for each in whole}) == 1
    )
    if process.visible_devices is None:
        return {at: each.id for at, each in enumerate(whole)} if in_order else {}
    found = {}
    for ordinal, word in enumerate(process.visible_devices.split(",")):
        text = word.strip()
        if text.isascii() and text.isdigit():
            identity = whole[int(text)].id if in_order and int(text) < len(whole) else None
        else:
            fitting = [each.id for each in devices if text and each.id.startswith(text)]
            identity = fitting[0] if len(fitting) == 1 else None
        if identity is None:
            break  # CUDA ignores what follows a device that is not there
        found[ordinal] = identity
    return found


def _why_not_listed(process: TorchProcess, devices: Sequence[Device]) -> str:
    if not devices:
        return "this machine has no NVML device"
    reasons = [each.unavailable.get("processes", "") for each in devices if each.processes is None]
    if len(reasons) == len(devices):
        return reasons[0] or "NVML lists no processes on this machine"
    return f"NVML does not list process {process.pid}: in a container it lists the host's pids"
