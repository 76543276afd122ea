"""Other processes' memory on a GPU: NVML's figure, split by the figures of their torch."""

from __future__ import annotations

from dataclasses import replace

from tui.allocators.messages import TorchProcess
from tui.devices.memory.figures import GpuReadings
from tui.devices.memory.gpu import gpu_gauge
from tui.devices.memory.model import (
    OUTSIDE,
    WORKER,
    Absent,
    AccountWording,
    Gauge,
    ProcessMemory,
    Reading,
    Value,
    derive,
    get_value,
    mark_stale,
    reading,
)
from tui.devices.state.devices import DeviceView
from tui.devices.state.history import MemoryPoint
from tui.devices.state.machine import MachineState, complete_figures
from tui.devices.state.watched_processes import OLD_S, Allocator, WatchedProcesses
from tui.monitor.messages import GpuProcess, Sample, find_process
from workloads.protocol.messages import TorchMemory
from workloads.protocol.results import TorchDevice

OLD = "the watch has read nothing since"
RUNNER = replace(OUTSIDE, about=WORKER.about, others=WORKER.others, frees=WORKER.frees)
"""Words for the runner while it is read from outside."""
FIRST = Absent("NVML has not been read since torch was read for the first time", "unread")
NO_TORCH = Absent("no CUDA build of torch is known to be loaded in it", "")


def other_processes(
    known: WatchedProcesses, view: DeviceView, worker_pid: int | None, now: float
) -> tuple[ProcessMemory, ...]:
    """Return other programs' torch processes on a device, largest first.

    Args:
        known: the processes of the watch.
        view: the device.
        worker_pid: this program's worker.
        now: Unix time.
    """
    rows = view.nvml.processes if view.nvml else None
    processes = [
        other_process(known, view, row, now)
        for row in rows or ()
        if not row.ours
        and row.pid != worker_pid
        and known.process(row.pid, row.started_at) is not None
    ]
    return tuple(sorted(processes, key=lambda other: -(get_value(other.process) or 0)))


def other_process(
    known: WatchedProcesses, view: DeviceView, row: GpuProcess, now: float
) -> ProcessMemory:
    """Return the memory of a process that NVML lists on a device.

    Args:
        known: the processes of the watch.
        view: the device.
        row: the process on it.
        now: Unix time.
    """
    process = reading(row.memory, row.unavailable.get("memory"))
    allocator = known.on(view.key, row.pid, row.started_at)
    if allocator is not None:
        return _split(allocator, view, process, row.command, now)
    seen = known.process(row.pid, row.started_at)
    why = NO_TORCH if seen is None else why_not(seen)
    return ProcessMemory(
        row.pid, row.command, None, process, *(why,) * 6, seen.advice if seen else ""
    )


def unplaced(allocator: Allocator, now: float) -> ProcessMemory:
    """Return a process's memory on an unidentified device.

    Args:
        allocator: of the process on it.
        now: Unix time.
    """
    process = Absent(allocator.placed.why_no_process)
    return _split(allocator, None, process, allocator.process.command, now)


def why_not(process: TorchProcess) -> Absent:
    """Return the reason for missing allocator figures; its short form is one word."""
    if process.reason:
        return Absent(process.reason, process.word or "unread")
    return Absent("its allocator is not tied to this device, or has not been read yet", "unread")


def _split(
    allocator: Allocator,
    view: DeviceView | None,
    process: Reading[int],
    command: str | None,
    now: float,
) -> ProcessMemory:
    figures = allocator.figures

    def make_reading(value: int) -> Reading[int]:
        age = now - figures.at
        read = Value(value)
        return mark_stale(read, age, allocator.ended or OLD) if _is_old(allocator, now) else read

    context: Reading[int] | None = process if isinstance(process, Absent) else None
    if context is None and view is not None:
        moment = allocator.consistent_reading(view, now)
        row = find_process(moment.device, figures.pid) if moment.device else None
        if moment.basis == "one moment" and row is not None and row.memory is not None:
            # The moment may be a little older than the newest figures.
            reserved = (moment.torch or figures).reserved
            outside = max(0, row.memory - reserved)
            context = derive(lambda _: outside, make_reading(outside))
    if context is None:
        unmoved = all(point.reserved == figures.reserved for point in allocator.points)
        context = FIRST if unmoved else Absent(OUTSIDE.busy, "changing")
    return ProcessMemory(
        figures.pid,
        command,
        allocator.key,
        process,
        make_reading(figures.allocated),
        make_reading(figures.reserved - figures.allocated),
        context,
        make_reading(figures.allocated_peak),
        make_reading(figures.alloc_retries),
        make_reading(figures.ooms),
    )


def _is_old(allocator: Allocator, now: float) -> bool:
    return bool(allocator.ended) or now - allocator.figures.at > OLD_S


def account_in(
    machine: MachineState,
    allocator: Allocator,
    now: float,
    unpaired: str = "",
    device: TorchDevice | None = None,
    at_oom: TorchMemory | None = None,
) -> tuple[DeviceView, Gauge]:
    """Return the device of a process, if known, and the account of its memory.

    Args:
        machine: its state.
        allocator: of the process on its device.
        now: Unix time.
        unpaired: the reason that the figures match no present device; empty if they may match.
        device: the device of these figures, if known.
        at_oom: the allocator's figures at the OOM that ended the process, if any.
    """
    if unpaired:
        figures = allocator.figures
        unknown = DeviceView(figures.device, torch_device=device, unpaired=unpaired)
        readings = GpuReadings(
            unknown,
            machine.sample,
            at_oom or figures,
            figures.pid,
            now,
            ended=bool(allocator.ended),
            at_oom=at_oom is not None,
            wording=OUTSIDE,
        )
        gauge = gpu_gauge(readings, allocator.peak)
        return DeviceView(figures.device, torch_device=device), gauge
    view = next((device for device in machine.devices if device.key == allocator.placed.id), None)
    peak = machine.history.sampled_peak(view.key if view else "")
    gauge = account_of(allocator, view, machine.sample, peak, now, at_oom)
    return view or DeviceView(allocator.figures.device), gauge


def _compute_age(
    figures: TorchMemory, newest: TorchMemory, now: float, *, ended: bool
) -> float | None:
    """Return the age of figures in seconds, or ``None`` if the newest ones are the same."""
    if ended or (figures.allocated, figures.reserved) == (newest.allocated, newest.reserved):
        return None
    return max(0.0, now - figures.at)


def account_of(
    allocator: Allocator,
    view: DeviceView | None,
    sample: Sample | None,
    device_peak: MemoryPoint,
    now: float,
    at_oom: TorchMemory | None = None,
    wording: AccountWording = OUTSIDE,
    reported: TorchMemory | None = None,
) -> Gauge:
    """Account for a device's memory from the view of one process, as for this program's worker.

    Args:
        allocator: the process's allocator on the device.
        view: the device; ``None`` if it is not identified.
        sample: the monitor's newest.
        device_peak: the highest samples of the device.
        now: Unix time.
        at_oom: the allocator's figures at the OOM that ended the process; ``None`` without one, or
            if torch has reserved or released memory since.
        wording: the words for the process.
        reported: the last report of the runner, which has what cannot be read from outside:
            cuBLAS's workspaces, and counts since the last run.
    """
    figures, peak = allocator.figures, replace(allocator.peak, used=device_peak.used)
    if view is None:
        nameless = DeviceView(figures.device, unpaired=allocator.placed.why_no_id)
        readings = GpuReadings(nameless, sample, figures, figures.pid, now, wording=wording)
        return gpu_gauge(readings, peak)
    moment = allocator.consistent_reading(view, now)
    old = _is_old(allocator, now) and not allocator.ended
    torch = at_oom or moment.torch or figures
    if reported is not None:
        torch = complete_figures(torch, reported)
    readings = GpuReadings(
        replace(view, nvml=moment.device),
        moment.sample,
        torch,
        figures.pid,
        now,
        "NVML" if old else moment.basis,
        bool(allocator.ended),
        at_oom is not None,
        replace(wording, busy=OLD) if old else wording,
    )
    gauge = gpu_gauge(readings, peak)
    if moment.torch is None or view.nvml is None:
        return gauge
    age_s = _compute_age(moment.torch, figures, now, ended=bool(allocator.ended))
    return replace(gauge, age_s=age_s)


def account_of_busy_runner(machine: MachineState, view: DeviceView, now: float) -> Gauge | None:
    """Account for a device from the runner's allocator as it is read from outside.

    Args:
        machine: its state.
        view: the device.
        now: Unix time.

    Returns:
        ``None`` unless that is newer than its report, which a busy runner does not repeat.
    """
    allocator = machine.find_runner_allocator(view)
    if allocator is None or _is_old(allocator, now):
        return None
    peak = machine.history.sampled_peak(view.key)
    reported = machine.torch_memory.get(view.torch or "")
    wording = RUNNER if reported is None else replace(RUNNER, since=WORKER.since)
    return account_of(
        allocator, view, machine.sample, peak, now, wording=wording, reported=reported
    )
