"""The figures of a GPU's memory as their sources give them, each with its reason or its age."""

from __future__ import annotations

from dataclasses import fields

from tui.monitor.messages import Device, GpuProcess, Sample, process_of
from tui.state.pairing import DeviceView
from tui.state.reading import STALE_AFTER_S, Absent, Reading, Value, aged, derive, reading
from tui.text import numbers as text
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

NVML = "NVML"
TORCH = "torch memory_stats"
MEM_GET_INFO = "torch mem_get_info"
HOST = "operating system"
DERIVED = "derived"


@frozen
class TorchFigures:
    """The caching allocator's, of the worker that lives now."""

    requested: Reading[int]
    allocated: Reading[int]
    active: Reading[int]
    stuck: Reading[int]
    """Free, but in segments that are partly in use: cannot be returned (inactive split)."""
    reserved: Reading[int]
    workspace: Reading[int]
    """Of what is reserved, given to cuBLAS: neither a tensor's nor free."""


@frozen
class GpuFigures:
    """Everything that is known of a GPU's memory before it is laid out as a bar."""

    total: Reading[int]
    used: Reading[int]
    free: Reading[int]
    driver: Reading[int]
    source: str
    """Who gave the four above."""
    torch: TorchFigures
    process: Reading[int]
    """What NVML says the worker holds."""
    others: Reading[int]
    """The sum over all other processes."""
    other_processes: int | None
    unified: bool

    @property
    def ours_is_unknown(self) -> bool:
        """The worker holds memory here, but NVML does not say how much."""
        return isinstance(self.process, Absent) and not isinstance(self.torch.reserved, Absent)

    @property
    def holds_nothing(self) -> bool:
        """The worker has not touched the device, or there is no worker."""
        return isinstance(self.process, Absent) and isinstance(self.torch.reserved, Absent)

    @property
    def others_known(self) -> bool:
        return not isinstance(self.others, Absent)


def gather(
    view: DeviceView,
    sample: Sample | None,
    torch: TorchMemory | None,
    worker_pid: int | None,
    now: float,
) -> GpuFigures:
    """Collect the figures of one GPU.

    Args:
        view: the device.
        sample: the monitor's newest; ``None`` before the first.
        torch: the allocator's figures, of whichever worker.
        worker_pid: the worker that lives now; figures of another are not used.
        now: Unix time, to tell old figures from current ones.
    """
    live = torch if torch is not None and torch.pid == worker_pid else None
    figures = torch_figures(live, _why_no_torch(view, worker_pid))
    if live is not None and view.nvml is not None and view.nvml.lost:
        figures = _before_the_loss(figures, now - live.at)
    total, used, free, driver, source = _device(view, sample, live, now)
    process, others, count = _processes(view, sample, worker_pid, live is not None, now)
    unified = bool(view.nvml and view.nvml.memory.unified)
    return GpuFigures(
        total=total,
        used=used,
        free=free,
        driver=driver,
        source=source,
        torch=figures,
        process=process,
        others=others,
        other_processes=count,
        unified=unified,
    )


def torch_figures(torch: TorchMemory | None, why_not: str) -> TorchFigures:
    """The allocator's figures as readings."""
    if torch is None:
        nothing = Absent(why_not)
        return TorchFigures(*(nothing for _ in fields(TorchFigures)))
    # The cudaMallocAsync backend counts neither of these two: its zeros mean nothing.
    uncounted = "not counted by torch's cudaMallocAsync backend"
    counts = torch.allocated == 0 or torch.active > 0
    asked = torch.allocated == 0 or torch.requested > 0
    return TorchFigures(
        requested=Value(torch.requested) if asked else Absent(uncounted),
        allocated=Value(torch.allocated),
        active=Value(torch.active) if counts else Absent(uncounted),
        stuck=Value(torch.inactive_split) if counts else Absent(uncounted),
        reserved=Value(torch.reserved),
        workspace=reading(torch.workspace, "the runner has not said how much cuBLAS was given"),
    )


def _before_the_loss(figures: TorchFigures, age_s: float) -> TorchFigures:
    reason = "the device no longer answers"
    return TorchFigures(
        *(aged(getattr(figures, item.name), age_s, reason) for item in fields(TorchFigures))
    )


def device_age(device: Device, sample: Sample, now: float) -> float:
    """Seconds since the device's figures were read."""
    return max(0.0, now - (device.read_at or sample.at))


def why_old(sample: Sample) -> str:
    """Why the figures of a sample have grown old."""
    if sample.nvml_silent_s is not None:
        return "NVML does not answer"
    return "the monitor has sent nothing since"


def _why_no_torch(view: DeviceView, worker_pid: int | None) -> str:
    if view.torch is None:
        return view.unpaired or "torch has not said yet which devices it sees"
    if worker_pid is None:
        return "no worker is running"
    return "the runner has not used this device yet"


_Memory = tuple[Reading[int], Reading[int], Reading[int], Reading[int], str]


def _device(
    view: DeviceView, sample: Sample | None, torch: TorchMemory | None, now: float
) -> _Memory:
    device = view.nvml
    if device is not None and sample is not None and device.memory.unified:
        return _unified(sample, now)
    if device is not None and sample is not None and device.memory.total:
        age = device_age(device, sample, now)

        def take(value: int | None, path: str) -> Reading[int]:
            read = reading(value, device.unavailable.get(path))
            return aged(read, age, why_old(sample)) if age > STALE_AFTER_S else read

        memory = device.memory
        return (
            take(memory.total, "memory.total"),
            take(memory.used, "memory.used"),
            take(memory.free, "memory.free"),
            take(memory.driver_reserved, "memory.driver_reserved"),
            NVML,
        )
    if device is not None and device.lost:
        gone = Absent(device.lost)
        return gone, gone, gone, gone, NVML
    no_driver = Absent("torch does not tell it apart from what is used")
    if torch is not None and torch.device_total and torch.device_free is not None:
        age = now - torch.at

        def seen(value: int) -> Reading[int]:
            # The worker asks while it runs something; other processes do not wait for that.
            why = "the worker has not asked since"
            return aged(Value(value), age, why) if age > STALE_AFTER_S else Value(value)

        used = seen(torch.device_total - torch.device_free)
        free = seen(torch.device_free)
        return Value(torch.device_total), used, free, no_driver, MEM_GET_INFO
    nothing = Absent(_why_no_memory(view, sample))
    total = view.torch_device.total_memory if view.torch_device else None
    return (Value(total) if total else nothing), nothing, nothing, nothing, MEM_GET_INFO


def _why_no_memory(view: DeviceView, sample: Sample | None) -> str:
    if view.nvml is not None:
        return view.nvml.unavailable.get("memory.total", "NVML gives no total")
    if sample is None:
        return "waiting for the monitor"
    return view.unpaired or "NVML does not list this device"


def _unified(sample: Sample, now: float) -> _Memory:
    host = sample.host.memory
    age = now - sample.at

    def take(value: int) -> Reading[int]:
        return aged(Value(value), age, why_old(sample)) if age > STALE_AFTER_S else Value(value)

    driver = Absent("unified memory: part of what the host uses")
    return take(host.total), take(host.total - host.available), take(host.available), driver, HOST


def _processes(
    view: DeviceView,
    sample: Sample | None,
    worker_pid: int | None,
    holds: bool,
    now: float,
) -> tuple[Reading[int], Reading[int], int | None]:
    device = view.nvml
    if device is None or sample is None or device.processes is None:
        reason = _why_no_memory(view, sample)
        if device is not None:
            reason = device.unavailable.get("processes", "NVML lists no processes here")
        return Absent(reason), Absent(reason), None
    ours = process_of(device, worker_pid)
    rest = tuple(row for row in device.processes if row is not ours)
    process: Reading[int]
    if ours is not None:
        process = reading(ours.memory, ours.unavailable.get("memory"))
    elif holds:
        process = Absent(
            f"NVML does not list our pid {worker_pid}: in a container it lists the host's pids"
        )
        # The worker may well be among the listed ones, under the number that the host gives it.
        return process, Absent(process.reason), len(rest)
    else:
        process = Absent(_why_no_torch(view, worker_pid))
    age = device_age(device, sample, now)
    others = _sum(rest)
    if age > STALE_AFTER_S:
        process = aged(process, age, why_old(sample))
        others = aged(others, age, why_old(sample))
    return process, others, len(rest)


def _sum(rows: tuple[GpuProcess, ...]) -> Reading[int]:
    silent = [row for row in rows if row.memory is None]
    known = sum(row.memory for row in rows if row.memory is not None)
    if silent:
        reason = silent[0].unavailable.get("memory", "NVML does not give their memory")
        floor = f"at least {text.size(known)}" if known else "none is known"
        return Absent(f"{len(silent)} of {len(rows)} give no figure, {floor}: {reason}")
    return Value(known)


def cached(figures: TorchFigures) -> Reading[int]:
    """Reserved, and neither allocated nor given to cuBLAS."""
    return derive(
        lambda reserved, allocated, workspace: reserved - allocated - workspace,
        figures.reserved,
        figures.allocated,
        workspace_or_none(figures),
    )


def workspace_or_none(figures: TorchFigures) -> Reading[int]:
    """The part of cuBLAS; zero where it is not told apart, for it is counted as allocated then."""
    absent = isinstance(figures.workspace, Absent) and not isinstance(figures.reserved, Absent)
    return Value(0) if absent else figures.workspace
