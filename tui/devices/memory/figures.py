"""The figures of a GPU's memory from their sources, each with its reason or its age."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeVar

from tui.core.text import numbers as text
from tui.devices.memory.model import (
    WORKER,
    Absent,
    AccountWording,
    Reading,
    Value,
    derive,
    get_value,
    mark_stale,
    reading,
)
from tui.devices.state.devices import Basis, DeviceView
from tui.devices.state.history import stale_after
from tui.monitor.messages import Device, GpuProcess, Sample, find_process
from workloads.protocol.messages import TorchMemory

T = TypeVar("T")
NVML = "NVML"
MEM_GET_INFO = "torch mem_get_info"
HOST = "operating system"
DERIVED = "derived"
MOVED = "torch reserved or released memory after NVML was read"
"""The reason that torch's figures do not split NVML's."""


class GpuReadings(NamedTuple):
    """The newest readings of a GPU, and the process to account for."""

    view: DeviceView
    sample: Sample | None
    """The monitor's newest; ``None`` before the first."""
    torch: TorchMemory | None
    """The allocator's figures, of any worker; those of other workers are ignored."""
    worker_pid: int | None
    """The worker to account for."""
    now: float
    """Unix time, to recognize old figures."""
    basis: Basis = "one moment"
    """The source whose moment the account describes; figures of other moments are absent or old."""
    ended: bool = False
    """The worker has ended."""
    at_oom: bool = False
    """The allocator's figures are those of the OOM that ended the process."""
    wording: AccountWording = WORKER
    """The words for the process."""
    lost: str = ""
    """Why the monitor's host is not connected; empty while it is."""

    @property
    def live(self) -> TorchMemory | None:
        """The allocator's figures of the worker; ``None`` without any."""
        torch = self.torch
        return torch if torch is not None and torch.pid == self.worker_pid else None


@dataclass(frozen=True, slots=True)
class TorchFigures:
    """The caching allocator's figures of the present worker."""

    requested: Reading[int]
    allocated: Reading[int]
    active: Reading[int]
    stuck: Reading[int]
    """Free memory in partly used segments, which cannot be returned (inactive split)."""
    reserved: Reading[int]
    workspace: Reading[int]
    """Reserved memory that cuBLAS uses: neither a tensor's nor free."""


class GpuFigures(NamedTuple):
    """All known figures of a GPU's memory, from which the bar is made."""

    total: Reading[int]
    used: Reading[int]
    free: Reading[int]
    driver: Reading[int]
    source: str
    """The source of the used and free bytes."""
    total_source: str
    """The source of the total and of the driver's part."""
    torch: TorchFigures
    process: Reading[int]
    """NVML's memory of the worker."""
    ours: Reading[int]
    """The sum over the other processes of this program."""
    our_processes: int
    others: Reading[int]
    """The sum over the processes that are not this program's."""
    other_processes: int | None
    unified: bool
    wording: AccountWording = WORKER
    basis: Basis = "one moment"
    """The source whose moment the figures describe; the other source's are not subtracted."""
    gone: bool = False
    """The process has ended, and NVML's figures are later."""
    past: bool = False
    """The process has ended, and all figures are those of its last reading."""
    at_oom: bool = False
    """The allocator's figures are those of the OOM that ended the process."""

    @property
    def ours_is_unknown(self) -> bool:
        """The program uses memory on the device, but NVML does not report how much."""
        if isinstance(self.ours, Absent) and self.our_processes:
            return True
        if self.gone:
            return False
        return isinstance(self.process, Absent) and not isinstance(self.torch.reserved, Absent)

    @property
    def uses_no_memory(self) -> bool:
        """The worker has not touched the device, or there is no worker."""
        return isinstance(self.process, Absent) and isinstance(self.torch.reserved, Absent)

    @property
    def process_splits(self) -> bool:
        """NVML's figure of the process and torch's figures date from the same moment."""
        return self.basis == "one moment"

    @property
    def used_splits(self) -> bool:
        """The used memory and torch's figures date from the same moment."""
        return self.basis != "NVML" and not self.gone

    @property
    def others_known(self) -> bool:
        return not isinstance(self.others, Absent)


def collect_figures(readings: GpuReadings) -> GpuFigures:
    """Collect the figures of one GPU."""
    view, now, wording = readings.view, readings.now, readings.wording
    live, ended = readings.live, readings.ended
    torch = make_torch_figures(live, _explain_no_torch(view, readings.worker_pid), wording)
    if live is not None and view.nvml is not None and view.nvml.lost:
        torch = _mark_old(torch, now - live.at, "the device no longer answers")
    elif live is not None and ended:
        torch = _mark_old(torch, now - live.at, wording.ended)
    elif live is not None and readings.basis == "NVML":
        torch = _mark_old(torch, now - live.at, wording.busy)
    has_ended = ended and not wording.pinned
    past = has_ended and (view.nvml is None or _precedes_end(view.nvml, live))
    at_oom = has_ended and readings.at_oom
    if past and view.nvml is not None:
        # Nothing is late: no later figures can come.
        readings = readings._replace(lost=wording.ended)
    if at_oom:
        torch = _leave_out_unrecorded(torch)
    total, used, free, driver, source = _device(readings)
    holders = _holders(readings)
    if has_ended and not past:
        # Another process may have reused the pid, and the ended worker's memory is free again.
        holders = _holders(readings._replace(worker_pid=None))
        holders = holders._replace(process=Absent(wording.ended))
    total_source = source
    if live is not None and live.device_free is not None and readings.basis == "torch":
        # Use torch's moment for all; total and driver do not change.
        free, source = Value(live.device_free), MEM_GET_INFO
        free = mark_stale(free, now - live.at, wording.ended) if ended else free
        reserve = get_value(driver) or 0
        used = derive(lambda whole, left: max(0, whole - reserve - left), total, free)
        holders = _Holders(_CHANGING, _CHANGING, 0, _CHANGING, None)
    return GpuFigures(
        total=total,
        used=used,
        free=free,
        driver=driver,
        source=source,
        total_source=total_source,
        torch=torch,
        process=holders.process,
        ours=holders.ours,
        our_processes=holders.our_processes,
        others=holders.others,
        other_processes=holders.other_processes,
        unified=bool(view.nvml and view.nvml.memory.unified),
        wording=wording,
        basis=readings.basis,
        gone=has_ended and not past,
        past=past,
        at_oom=at_oom,
    )


def _precedes_end(device: Device | None, live: TorchMemory | None) -> bool:
    """Return whether NVML's memory was read before the allocator's last figures."""
    if device is None or device.memory_read is None or live is None:
        return False
    return device.memory_read[1] <= live.at


def make_torch_figures(
    torch: TorchMemory | None, why_not: str, wording: AccountWording = WORKER
) -> TorchFigures:
    """Return the allocator's figures as readings."""
    if torch is None:
        nothing = Absent(why_not)
        return TorchFigures(*(nothing for _ in fields(TorchFigures)))
    # The cudaMallocAsync backend counts neither of these: its zeros mean unknown.
    uncounted = "not counted by torch's cudaMallocAsync backend"
    counts = torch.allocated == 0 or torch.active > 0
    has_requested = torch.allocated == 0 or torch.requested > 0
    return TorchFigures(
        requested=Value(torch.requested) if has_requested else Absent(uncounted),
        allocated=Value(torch.allocated),
        active=Value(torch.active) if counts else Absent(uncounted),
        stuck=Value(torch.inactive_split) if counts else Absent(uncounted),
        reserved=Value(torch.reserved),
        workspace=reading(torch.workspace, wording.no_workspace),
    )


def _mark_old(figures: TorchFigures, age_s: float, reason: str) -> TorchFigures:
    return TorchFigures(
        *(mark_stale(getattr(figures, item.name), age_s, reason) for item in fields(TorchFigures))
    )


_UNRECORDED = Absent("not recorded at the OOM")


def _leave_out_unrecorded(torch: TorchFigures) -> TorchFigures:
    """Return the figures at an OOM without those of the last reading, which may be later."""
    requested = torch.requested if get_value(torch.requested) else _UNRECORDED
    return replace(torch, requested=requested, active=_UNRECORDED, stuck=_UNRECORDED)


def compute_device_age(device: Device, sample: Sample, now: float) -> float:
    """Return the seconds since the device's figures were read."""
    return max(0.0, now - (device.read_at or sample.at))


def explain_age(sample: Sample, lost: str = "") -> str:
    """Explain why the figures of a sample are old.

    Args:
        sample: the newest.
        lost: why the monitor's host is not connected; empty while it is.
    """
    if lost:
        return lost
    if sample.nvml_silent_s is not None:
        return "NVML does not answer"
    return "the monitor has sent nothing since"


NEXT_RUN = "torch starts with the next run"
"""Why the runner has no figures once torch is imported: the process that has them is not forked."""
NOT_USED = "the runner has not used this device yet"


def _explain_no_torch(view: DeviceView, worker_pid: int | None) -> str:
    if view.torch is None:
        return view.unpaired or "torch has not reported its devices yet"
    if worker_pid is None:
        return NEXT_RUN
    if view.nvml is not None and find_process(view.nvml, worker_pid) is not None:
        return "torch has reported no memory on this device"
    return NOT_USED


def mark_if_old(read: Reading[T], age_s: float, sample: Sample, lost: str) -> Reading[T]:
    """Return a reading of a sample as an old one once it is older than figures may be.

    Args:
        read: the reading.
        age_s: seconds since it was read.
        sample: the newest.
        lost: why the monitor's host is not connected; empty while it is.
    """
    return (
        mark_stale(read, age_s, explain_age(sample, lost)) if age_s > stale_after(sample) else read
    )


_Memory = tuple[Reading[int], Reading[int], Reading[int], Reading[int], str]
"""Total, used, free, the driver's part, and the source of these figures."""


def _device(readings: GpuReadings) -> _Memory:
    device, sample, torch = readings.view.nvml, readings.sample, readings.live
    if device is not None and sample is not None and device.memory.unified:
        return (
            *read_host_memory(sample, readings.now, readings.lost),
            Absent("unified memory: part of the host's used memory"),
            HOST,
        )
    if device is not None and sample is not None and device.memory.total:
        age = compute_device_age(device, sample, readings.now)

        def read_figure(value: int | None, path: str) -> Reading[int]:
            read = reading(value, device.unavailable.get(path))
            return mark_if_old(read, age, sample, readings.lost)

        memory = device.memory
        return (
            read_figure(memory.total, "memory.total"),
            read_figure(memory.used, "memory.used"),
            read_figure(memory.free, "memory.free"),
            read_figure(memory.driver_reserved, "memory.driver_reserved"),
            NVML,
        )
    if device is not None and device.lost:
        gone = Absent(device.lost)
        return gone, gone, gone, gone, NVML
    if torch is not None and torch.device_total and torch.device_free is not None:
        age = readings.now - torch.at

        def make_reading(value: int) -> Reading[int]:
            # The worker queries memory while it runs a program, but other processes continue.
            why = "the runner has not measured it since"
            return mark_stale(Value(value), age, why) if age > stale_after(sample) else Value(value)

        used = make_reading(torch.device_total - torch.device_free)
        free = make_reading(torch.device_free)
        no_driver = Absent("torch does not report it separately")
        return Value(torch.device_total), used, free, no_driver, MEM_GET_INFO
    nothing = Absent(_explain_no_memory(readings))
    total = readings.view.torch_device.total_memory if readings.view.torch_device else None
    return (Value(total) if total else nothing), nothing, nothing, nothing, MEM_GET_INFO


def read_host_memory(
    sample: Sample, now: float, lost: str
) -> tuple[Reading[int], Reading[int], Reading[int]]:
    """Return the total, used and available memory of a sample's host."""
    memory = sample.host.memory
    age = now - sample.at
    return (
        mark_if_old(Value(memory.total), age, sample, lost),
        mark_if_old(Value(memory.total - memory.available), age, sample, lost),
        mark_if_old(Value(memory.available), age, sample, lost),
    )


def explain_no_processes(device: Device) -> str:
    """Explain why NVML lists no processes on a device."""
    return device.unavailable.get("processes", "NVML lists no processes on this machine")


def _explain_no_memory(readings: GpuReadings) -> str:
    view = readings.view
    if view.nvml is not None:
        return view.nvml.unavailable.get("memory.total", "NVML gives no total")
    if readings.sample is None:
        return readings.lost or "waiting for the monitor"
    return view.unpaired or "NVML does not list this device"


class _Holders(NamedTuple):
    """NVML's memory of the worker, of this program's other processes, and of all others."""

    process: Reading[int]
    ours: Reading[int]
    our_processes: int
    others: Reading[int]
    other_processes: int | None


_CHANGING = Absent(MOVED, "changing")


def _holders(readings: GpuReadings) -> _Holders:
    device, sample, worker_pid = readings.view.nvml, readings.sample, readings.worker_pid
    if device is None or sample is None or device.processes is None:
        reason = _explain_no_memory(readings)
        if device is not None:
            reason = explain_no_processes(device)
        nothing = Absent(reason)
        return _Holders(nothing, nothing, 0, nothing, None)
    worker = find_process(device, worker_pid)
    rest = tuple(row for row in device.processes if row is not worker)
    our_rows = tuple(row for row in rest if row.ours)
    strangers = tuple(row for row in rest if not row.ours)
    process: Reading[int]
    if worker is not None:
        process = reading(worker.memory, worker.unavailable.get("memory"))
    elif readings.live is not None:
        # The list may contain the worker under its pid on the host.
        process = Absent(
            f"NVML does not list our pid {worker_pid}: in a container it lists the host's pids"
        )
        return _Holders(process, _sum(our_rows), len(our_rows), process, len(strangers))
    else:
        process = Absent(_explain_no_torch(readings.view, worker_pid))
    age = compute_device_age(device, sample, readings.now)
    process, ours, others = (
        mark_if_old(read, age, sample, readings.lost)
        for read in (process, _sum(our_rows), _sum(strangers))
    )
    return _Holders(process, ours, len(our_rows), others, len(strangers))


def _sum(rows: tuple[GpuProcess, ...]) -> Reading[int]:
    silent = [row for row in rows if row.memory is None]
    known = sum(row.memory for row in rows if row.memory is not None)
    if silent:
        reason = silent[0].unavailable.get("memory", "NVML does not give their memory")
        floor = f"at least {text.size(known)}" if known else "none is known"
        return Absent(f"{len(silent)} of {len(rows)} give no figure, {floor}: {reason}")
    return Value(known)


def cached(figures: TorchFigures) -> Reading[int]:
    """Return the reserved memory that neither tensors nor cuBLAS use."""
    return derive(
        lambda reserved, allocated, workspace: reserved - allocated - workspace,
        figures.reserved,
        figures.allocated,
        workspace_or_none(figures),
    )


def workspace_or_none(figures: TorchFigures) -> Reading[int]:
    """Return the memory of cuBLAS, or zero if torch counts it as allocated."""
    absent = isinstance(figures.workspace, Absent) and not isinstance(figures.reserved, Absent)
    return Value(0) if absent else figures.workspace
