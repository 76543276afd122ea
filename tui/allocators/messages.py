"""The watch's messages, one JSON line each, and the search for the GPU of a process's figures.

Sizes are bytes. An absent value is ``None``, and ``unavailable`` contains the reason under the
field's name.

A process may set ``CUDA_VISIBLE_DEVICES`` itself, which is invisible from outside. So its initial
value counts only if NVML lists the process on that very device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Tuple, Union

from tui.monitor.messages import Device, GpuProcess, ParentProcess
from workloads.protocol.torch_memory import TorchMemory

VERSION = 1
CPU_BUILD = "this torch is built for the CPU: it has no GPU allocator"
NO_TORCH = "no torch is loaded in this process"
NOT_USED_YET = "CUDA is not used yet: torch has allocated no GPU memory"
NO_TENSOR_YET = "torch had allocated nothing when it was last read"
"""Reasons for missing figures that the screens treat in their own way."""


@dataclass(frozen=True)
class RankJob:
    """The launcher's variables that identify a job; equal in all its ranks."""

    master: str | None = None
    """``MASTER_ADDR`` and ``MASTER_PORT``, such as ``node0:29500``."""
    run_id: str | None = None
    """torchrun's run id; ``None`` also for its default."""
    slurm: str | None = None
    """Slurm's numbers of job and step, such as ``4711.0``."""


@dataclass(frozen=True)
class TorchProcess:
    """A process that has loaded torch, or that a request names."""

    pid: int
    start: float | None
    """Unix time of its start, its identity with the pid; ``None`` for no such process."""
    parent: int | None
    user: str | None
    command: str | None
    torch: str | None
    """Version of torch, from the file beside its library."""
    rank: int | None
    local_rank: int | None
    world_size: int | None
    launcher: str | None
    """The launcher of its ranks: torchrun, srun, Open MPI, MPICH."""
    visible_devices: str | None
    """The initial ``CUDA_VISIBLE_DEVICES``; the process may have changed it."""
    device_order: str | None
    """The initial ``CUDA_DEVICE_ORDER``; the process may have changed it."""
    reason: str = ""
    """The reason for missing figures; empty if there are figures."""
    word: str = ""
    """The reason in one word, for narrow places."""
    advice: str = ""
    """Advice about missing figures."""
    refused: bool = False
    """The kernel forbids reading the process, whatever the process does."""
    ours: bool = False
    """This program has started the process."""
    launched_by: ParentProcess | None = None
    """The process that launched it, as torchrun launches its ranks."""
    job: RankJob | None = None
    """The job of a rank; ``None`` if the environment does not identify it."""
    requested: tuple[int, ...] = ()
    """The requested pids among the process and its ancestors, nearest first; empty for a process
    that is watched because it has torch."""
    unavailable: dict[str, str] = field(default_factory=dict)


def undescribed(pid: int, why: str) -> TorchProcess:
    """Return a process with only its pid and the reason for unknown facts."""
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


@dataclass(frozen=True)
class TorchProcesses:
    """All watched processes; sent after a change."""

    at: float
    """Unix time."""
    processes: tuple[TorchProcess, ...]


@dataclass(frozen=True)
class ProcessFigures:
    """The allocator figures of the watched processes at one moment.

    Each figure has the meaning of :class:`~workloads.protocol.torch_memory.TorchMemory`, but counts
    start with the process, and memory of cuBLAS counts as allocated.
    """

    at: float
    """Unix time."""
    devices: tuple[TorchMemory, ...]
    unavailable: dict[str, str] = field(default_factory=dict)
    """Reasons for a device's missing figures, under ``<pid> cuda:<ordinal>``."""
    host_rss: dict[str, int] = field(default_factory=dict)
    """Resident bytes of host memory per process, including shared pages, by pid."""


@dataclass(frozen=True)
class WatchHello:
    """The first message of the watch child."""

    version: int
    pid: int


@dataclass(frozen=True)
class WatchTargets:
    """Request: watch these processes from now on, or all of this user's that have torch.

    The watch answers with its list, even if it has not changed.
    """

    pids: Tuple[int, ...]  # noqa: UP006 (read at run time, on Python 3.8 too)
    """The processes to watch; empty for all processes of this user, or of all users for root."""
    children: bool = True
    """Also watch the descendants of these processes."""
    others: bool = False
    """Also watch the other processes of this user (of all users for root) that have torch."""


@dataclass(frozen=True)
class ListedProcesses:
    """Request: also report NVML's listed processes that have loaded torch."""

    pids: Tuple[int, ...]  # noqa: UP006 (read at run time, on Python 3.8 too)


@dataclass(frozen=True)
class WatchPace:
    """Request: read the figures at this interval from now on."""

    seconds: float


@dataclass(frozen=True)
class StepsCounted:
    """The step reports of agents at one moment."""

    WIRE_TAG: ClassVar[str] = "steps_told"

    at: float
    """Unix time."""
    steps: dict[str, int]
    """Steps of all optimizers until then, by process identity; from the watch of a host, by pid."""


@dataclass(frozen=True)
class AgentLogPart:
    """Lines that the agent of a process has written, sent once there is an OOM among them.

    Only the watch of a host sends them.
    """

    pid: int
    identity: str
    """Of the program: machine, pid and start of the process, and the program's number."""
    run: str
    """Folder of the run, on the host."""
    number: int
    """Number of the part, from 1, also after a restart of the watch."""
    lines: Tuple[str, ...]  # noqa: UP006 (read at run time, on Python 3.8 too)


WatchEvent = Union[WatchHello, TorchProcesses, ProcessFigures, StepsCounted, AgentLogPart]
WATCH_EVENTS = (WatchHello, TorchProcesses, ProcessFigures, StepsCounted, AgentLogPart)
WatchRequest = Union[WatchTargets, ListedProcesses, WatchPace]
WATCH_REQUESTS: tuple[type[WatchRequest], ...] = (WatchTargets, ListedProcesses, WatchPace)


@dataclass(frozen=True)
class Placed:
    """A device of a process."""

    id: str | None
    """NVML's id; ``None`` if the GPU is not identified."""
    process: int | None
    """NVML's bytes of the process on the device."""
    why_no_id: str = ""
    why_no_process: str = ""
    total: int | None = None
    """NVML's total bytes of the device, with those that its driver reserves."""


@dataclass(frozen=True)
class DevicesPlaced:
    """The GPUs of the devices of a run's processes, with NVML's memory of the processes."""

    at: float
    """Unix time."""
    placed: dict[str, Placed]
    """Changed devices, under ``<pid> cuda:<ordinal>``; others are unchanged."""


Seen = Union[TorchProcesses, ProcessFigures, StepsCounted, DevicesPlaced]
SEEN: tuple[type[Seen], ...] = (TorchProcesses, ProcessFigures, StepsCounted, DevicesPlaced)


def pids_of(devices: Sequence[Device]) -> tuple[int, ...]:
    """Return NVML's listed processes with a known start.

    A row without a start matches no process of this machine: pids differ in a container.
    """
    rows = (row for device in devices for row in device.processes or ())
    return tuple(sorted({row.pid for row in rows if row.started_at is not None}))


def rows_by_pid(devices: Sequence[Device]) -> dict[int, dict[str, GpuProcess]]:
    """Return NVML's rows of the processes with a known start, by their pids and the device's id.

    A GPU that is split is left out: programs use its MIG instances instead.
    """
    rows: dict[int, dict[str, GpuProcess]] = {}
    split = {device.parent for device in devices}
    for device in devices:
        for row in (device.processes or ()) if device.id not in split else ():
            if row.started_at is not None:
                rows.setdefault(row.pid, {}).setdefault(device.id, row)
    return rows


def listed_in(
    process: TorchProcess, rows: Mapping[str, GpuProcess]
) -> dict[str, tuple[int | None, str]]:
    """Return NVML's memory of the process, by the id of each device that lists it.

    Args:
        process: the process.
        rows: those of :func:`rows_by_pid` with its pid.

    Returns:
        Bytes, or ``None`` and the reason.
    """
    return {
        device: (row.memory, row.unavailable.get("memory", ""))
        for device, row in rows.items()
        if is_same(row.started_at, process.start)
    }


def place_listed(
    process: TorchProcess,
    figures: Sequence[TorchMemory],
    devices: Sequence[Device],
    listed: Mapping[str, tuple[int | None, str]],
) -> dict[str, Placed]:
    """Find the GPU of each of a process's devices.

    Args:
        process: the process.
        figures: the figures of all its devices that have any.
        devices: NVML's devices; empty without NVML.
        listed: those that list the process, of :func:`listed_in`.

    Returns:
        By the process's own name of the device, such as ``cuda:0``.
    """
    if not listed:
        reason = _why_not_listed(process, devices)
        return {figure.device: Placed(None, None, reason, reason) for figure in figures}
    totals = {device.id: device.memory.total for device in devices}
    if len(figures) == 1 and len(listed) == 1:
        ((identity, (memory, why)),) = listed.items()
        return {figures[0].device: Placed(identity, memory, "", why, totals.get(identity))}
    visible = _visible(process, devices)
    ids = {figure.device: visible.get(int(figure.device.partition(":")[2])) for figure in figures}
    if all(_may_match(figure, listed.get(ids[figure.device] or "")) for figure in figures):
        placed = {}
        for name, device_id in ids.items():
            assert device_id is not None
            memory, why = listed[device_id]
            placed[name] = Placed(device_id, memory, "", why, totals.get(device_id))
        return placed
    reason = (
        "unknown GPU: NVML lists the process on GPUs that were not in its CUDA_VISIBLE_DEVICES "
        "at the start"
        if process.visible_devices
        else "unknown GPU: CUDA_VISIBLE_DEVICES and NVML's list do not identify it"
    )
    return {figure.device: Placed(None, None, reason, reason) for figure in figures}


def is_same(first: float | None, other: float | None) -> bool:
    """Return whether two Unix times, derived from clock ticks, are the start of one process."""
    # psutil may round the machine's start differently at each call.
    return first is not None and other is not None and abs(first - other) < 2.0


def _may_match(figures: TorchMemory, listed: tuple[int | None, str] | None) -> bool:
    return listed is not None and (listed[0] is None or listed[0] >= figures.reserved)


def _visible(process: TorchProcess, devices: Sequence[Device]) -> dict[int, str]:
    """Return NVML's ids by the process's device ordinals, as far as they are known.

    CUDA's default order puts the fastest device first; it equals NVML's for devices of one kind.
    Only their ids identify MIG instances.
    """
    whole = [device for device in devices if device.parent is None]
    in_order = len(whole) == len(devices) and (
        process.device_order == "PCI_BUS_ID" or len({device.name for device in whole}) == 1
    )
    if process.visible_devices is None:
        return {at: device.id for at, device in enumerate(whole)} if in_order else {}
    visible = {}
    for ordinal, word in enumerate(process.visible_devices.split(",")):
        text = word.strip()
        if text.isascii() and text.isdigit():
            identity = whole[int(text)].id if in_order and int(text) < len(whole) else None
        else:
            fitting = [device.id for device in devices if text and device.id.startswith(text)]
            identity = fitting[0] if len(fitting) == 1 else None
        if identity is None:
            break  # CUDA ignores all entries after a device that does not exist
        visible[ordinal] = identity
    return visible


def _why_not_listed(process: TorchProcess, devices: Sequence[Device]) -> str:
    if not devices:
        return "this machine has no NVML device"
    reasons = [
        device.unavailable.get("processes", "") for device in devices if device.processes is None
    ]
    if len(reasons) == len(devices):
        return reasons[0] or "NVML lists no processes on this machine"
    return f"NVML does not list process {process.pid}: in a container it lists the host's pids"
