"""The processes that use a device: NVML's lists joined to one row for each PID."""

from __future__ import annotations

from typing import Any

from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import GpuProcess
from tui.monitor.nvml_call import Code, NoAnswer
from tui.monitor.process_owners import ProcessOwners, on_windows_driver
from workloads.protocol.frozen import frozen

_LISTS = {
    "compute": "nvmlDeviceGetComputeRunningProcesses",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses",
}
NO_SAMPLE = "the driver has no new sample of it: it has not used the multiprocessors of late"
_NOT_AVAILABLE = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE where a binding passes it on as it is."""


@frozen
class ListedProcess:
    """One entry of one of NVML's lists."""

    pid: int
    kind: str
    memory: int | None
    """Bytes, as NVML gives them; ``None`` or all ones where it does not."""


def ask_lists(fields: FieldReader) -> tuple[list[ListedProcess] | None, dict[str, str]]:
    """Ask for all lists; ``None`` only where neither compute nor graphics is to be had.

    Returns:
        The entries, and reasons under ``processes`` or ``processes.<kind>``.

    Raises:
        DeviceGoneError: the whole device is lost.
    """
    found: list[ListedProcess] = []
    missing: dict[str, str] = {}
    for kind, name in _LISTS.items():
        # The name without a version is the newest that the binding knows; v2 is for old drivers.
        answer = fields.ask(f"processes.{kind}", (name,), (f"{name}_v2",))
        if isinstance(answer, NoAnswer):
            missing[f"processes.{kind}"] = answer.reason
            continue
        found += [_listed(entry, kind) for entry in answer]
    if "processes.compute" in missing and "processes.graphics" in missing and not found:
        return None, {"processes": missing["processes.compute"]}
    return found, missing


SAMPLED_S = 2.0
"""How old a sample of a process's utilisation may be. The driver takes them at its own pace, of a
second at most: with less, some processes would be missing at times (XuehaiPan/nvitop#91)."""


def ask_busy(fields: FieldReader, at: float) -> dict[int, float] | NoAnswer:
    """How busy each process keeps the device: percent by PID, of each its newest sample.

    Samples that are older than was asked for or above 100 % are the driver's garbage
    (Syllo/nvtop#110) and left out. That there is no sample at all is an answer.

    Args:
        fields: Asks the device.
        at: Unix time of the reading.

    Raises:
        DeviceGoneError: the whole device is lost.
    """
    since_us = int((at - SAMPLED_S) * 1e6)
    answer = fields.ask("process utilization", ("nvmlDeviceGetProcessUtilization", since_us))
    if isinstance(answer, NoAnswer):
        return {} if answer.code == Code.NOT_FOUND else answer
    newest: dict[int, tuple[int, float]] = {}
    for sample in answer:
        taken_us, percent = int(sample.timeStamp), float(sample.smUtil)
        if taken_us < since_us or percent > 100:
            continue
        newest[int(sample.pid)] = max(
            newest.get(int(sample.pid), (0, 0.0)), (taken_us, percent), key=lambda pair: pair[0]
        )
    return {pid: percent for pid, (_, percent) in newest.items()}


def _listed(entry: Any, kind: str) -> ListedProcess:
    memory = entry.usedGpuMemory
    return ListedProcess(int(entry.pid), kind, None if memory is None else int(memory))


def rows(
    listed: list[ListedProcess],
    owners: ProcessOwners,
    *,
    listed_at: float,
    total: int | None,
    mig: bool,
    busy: dict[int, float] | NoAnswer | None = None,
) -> tuple[GpuProcess, ...]:
    """One row for each PID, in NVML's order; none is left out for what is not known of it.

    Args:
        listed: NVML's entries, in which a PID may occur more than once.
        owners: Looks up user and command.
        listed_at: Unix time before NVML was asked.
        total: The device's memory in bytes: a process cannot have more.
        mig: MIG mode is on, which explains a missing figure.
        busy: What :func:`ask_busy` gives.
    """
    by_pid: dict[int, list[ListedProcess]] = {}
    for entry in listed:
        by_pid.setdefault(entry.pid, []).append(entry)
    result = []
    for pid, entries in by_pid.items():
        memory, why_not = _memory(entries, total, mig, owners.own_pids)
        owner = owners.look_up(pid, listed_at)
        load = owners.load(pid, owner)
        unavailable = {**owner.unavailable, **load.unavailable}
        sm = None if busy is None or isinstance(busy, NoAnswer) else busy.get(pid)
        if sm is None:
            unavailable["sm_percent"] = busy.reason if isinstance(busy, NoAnswer) else NO_SAMPLE
        if why_not:
            unavailable["memory"] = why_not
        result.append(
            GpuProcess(
                pid=pid,
                user=owner.user,
                command=owner.command,
                memory=memory,
                kind="+".join(dict.fromkeys(entry.kind for entry in entries)),
                started_at=owner.started_at,
                ours=owner.ours,
                sm_percent=sm,
                cpu_percent=load.cpu_percent,
                host_memory=load.resident,
                parent=owner.parent,
                unavailable=unavailable,
            )
        )
    return tuple(result)


def _memory(
    entries: list[ListedProcess], total: int | None, mig: bool, own_pids: bool
) -> tuple[int | None, str | None]:
    """The memory of one PID: each list counts all that it holds, so the largest, never the sum."""
    given = [
        entry.memory
        for entry in entries
        if entry.memory is not None and entry.memory != _NOT_AVAILABLE
    ]
    possible = [memory for memory in given if total is None or memory <= total]
    if possible:
        return max(possible), None
    if given:
        return None, f"the driver gave {max(given)} bytes, more than the device has"
    if mig:
        return None, "not offered under MIG"
    if on_windows_driver():
        return None, "not given by the Windows driver (WDDM)"
    if own_pids:
        return None, "the driver does not give it: in a container the PIDs are the host's"
    return None, "the driver does not give it"
