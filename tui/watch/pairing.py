"""Which GPU a process means by its own ordinal, and what NVML says that it holds there. Pure.

A process may set ``CUDA_VISIBLE_DEVICES`` itself, which nobody sees from outside. So what it was
started with is believed only where NVML lists the process on that very device.
"""

from __future__ import annotations

from collections.abc import Sequence

from tui.monitor.messages import Device, process_of
from tui.watch.messages import TorchProcess
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory


@frozen
class Placed:
    """A device of a process."""

    id: str | None
    """NVML's; ``None`` where it cannot be told."""
    process: int | None
    """Bytes that NVML says the process holds there."""
    why_no_id: str = ""
    why_no_process: str = ""


def pids_of(devices: Sequence[Device]) -> tuple[int, ...]:
    """The processes that NVML lists and that are here: those whose start is known.

    A row without one cannot be tied to a process of this machine: in a container pids differ.
    """
    rows = (row for device in devices for row in device.processes or ())
    return tuple(sorted({row.pid for row in rows if row.started_at is not None}))


def listed_on(
    process: TorchProcess, devices: Sequence[Device]
) -> dict[str, tuple[int | None, str]]:
    """What NVML says that the process holds, by the id of each device that it is listed on.

    Returns:
        Bytes, or ``None`` and the reason.
    """
    found = {}
    split = {device.parent for device in devices}
    for device in devices:
        if device.id in split:
            continue  # its MIG instances are what is used
        row = process_of(device, process.pid)
        if row is not None and is_same(row.started_at, process.start):
            found[device.id] = (row.memory, row.unavailable.get("memory", ""))
    return found


def place(
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
        "which GPU it is cannot be told: NVML lists the process on others than "
        "CUDA_VISIBLE_DEVICES had when it was started"
        if process.visible_devices
        else "which GPU it is cannot be told from CUDA_VISIBLE_DEVICES and NVML's list"
    )
    return {each.device: Placed(None, None, reason, reason) for each in figures}


def is_same(one: float | None, other: float | None) -> bool:
    """Whether two Unix times are the start of one process, both worked out from clock ticks."""
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
        return "no NVML device here"
    reasons = [each.unavailable.get("processes", "") for each in devices if each.processes is None]
    if len(reasons) == len(devices):
        return reasons[0] or "NVML lists no processes here"
    return f"NVML does not list process {process.pid}: in a container it lists the host's pids"
