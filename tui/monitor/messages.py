"""The monitor's messages, one JSON line each, and the names of throttle reasons.

The same shape as ``gpu-workbench devices --json``.
Sizes are bytes, clocks MHz, percent 0-100. A value that is absent is ``None``, and ``unavailable``
holds the reason under the field's dotted path. Zero always means zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Tuple, Union

from workloads.protocol.machine_identity import UNKNOWN, MachineIdentity

VERSION = 1


def nvml_query(
    function: str,
    *arguments: int,
    otherwise: str | None = None,
    often: Literal["always", "if due", "until known"] = "always",
    answer: Literal["number", "milliwatts", "text"] = "number",
) -> dict[str, object]:
    """Return the metadata by which the monitor reads a figure with one NVML query.

    Args:
        function: The NVML function's name; code that shows figures does not import NVML.
        arguments: Its arguments after the device's handle.
        otherwise: The fallback function for drivers and devices that lack the first.
        often: At each reading, when slow fields are due, or until NVML has answered once.
        answer: The kind of NVML's answer; a number is in the figure's unit.
    """
    functions = (function,) if otherwise is None else (function, otherwise)
    return {"functions": functions, "arguments": arguments, "often": often, "answer": answer}


# nvml.h; an ABI, so no pynvml is needed to know them.
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a device, in bytes."""

    total: int | None
    used: int | None
    """NVML memory info v2: without the driver's own memory."""
    free: int | None
    driver_reserved: int | None
    """The driver's own memory, not part of ``used``."""
    unified: bool = False
    """The device has no memory of its own: the host's memory is the bar to draw, never as VRAM."""


@dataclass(frozen=True)
class Utilization:
    """The share of the last period in which a device was busy, in percent."""

    gpu: float | None
    memory: float | None
    """Share of time in which device memory was read or written, not how full it is."""


@dataclass(frozen=True)
class Clocks:
    """The clocks of a device, in MHz."""

    sm: int | None = field(metadata=nvml_query("nvmlDeviceGetClockInfo", _CLOCK_SM))
    memory: int | None = field(metadata=nvml_query("nvmlDeviceGetClockInfo", _CLOCK_MEMORY))


@dataclass(frozen=True)
class Pcie:
    """The PCIe link of a device: generation and number of lanes."""

    generation: int | None = field(
        metadata=nvml_query("nvmlDeviceGetCurrPcieLinkGeneration", often="if due")
    )
    width: int | None = field(metadata=nvml_query("nvmlDeviceGetCurrPcieLinkWidth", often="if due"))
    max_generation: int | None = field(
        default=None, metadata=nvml_query("nvmlDeviceGetMaxPcieLinkGeneration", often="until known")
    )
    """Of the device in this slot; an idle link may run at less."""
    max_width: int | None = field(
        default=None, metadata=nvml_query("nvmlDeviceGetMaxPcieLinkWidth", often="until known")
    )


@dataclass(frozen=True)
class ParentProcess:
    """The process that started another one, as torchrun its ranks."""

    pid: int
    user: str | None
    command: str | None
    started_at: float
    """Unix time."""


@dataclass(frozen=True)
class GpuProcess:
    """A process that NVML says uses the device; the pid is the host's."""

    pid: int
    user: str | None
    command: str | None
    memory: int | None
    kind: str
    """compute, graphics or mps; joined by ``+`` where NVML lists it more than once."""
    started_at: float | None = None
    """Unix time at which the process started: with the pid, its identity. ``None`` where the pid
    cannot be tied to a process here; such a row must not be sent a signal."""
    ours: bool = False
    """Started by this program: a worker, a rank, or one of their descendants."""
    sm_percent: float | None = None
    """Share of time in which it kept multiprocessors busy, by NVML's newest sample."""
    cpu_percent: float | None = None
    """Processor time since the sample before; 100 is one core."""
    host_memory: int | None = None
    """Resident memory of the host in bytes."""
    parent: ParentProcess | None = None
    """``None`` if unknown, or if it is the system's first process."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Device:
    """One NVML device at one moment."""

    id: str
    nvml_index: int
    torch: str | None
    """torch's name for it, filled in by UUID where the runner's environment is known."""
    name: str
    pci_bus_id: str | None
    memory: DeviceMemory
    utilization: Utilization
    temperature_c: float | None = field(
        metadata=nvml_query(
            "nvmlDeviceGetTemperatureV", _SENSOR_GPU, otherwise="nvmlDeviceGetTemperature"
        )
    )
    power_w: float | None = field(
        metadata=nvml_query("nvmlDeviceGetPowerUsage", answer="milliwatts")
    )
    power_limit_w: float | None = field(
        metadata=nvml_query(
            "nvmlDeviceGetEnforcedPowerLimit",
            otherwise="nvmlDeviceGetPowerManagementLimit",
            often="if due",
            answer="milliwatts",
        )
    )
    fan_percent: float | None = field(metadata=nvml_query("nvmlDeviceGetFanSpeed", often="if due"))
    clocks_mhz: Clocks
    pstate: int | None
    throttle: tuple[str, ...] | None
    """NVML's clocks event reasons in words; empty when none is set."""
    pcie: Pcie
    ecc_uncorrected: int | None = field(
        metadata=nvml_query("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE, often="if due")
    )
    mig: bool | None
    """MIG mode is on; the instances follow their GPU as devices with a ``parent``."""
    processes: tuple[GpuProcess, ...] | None
    lost: str | None = None
    """Why the device no longer answers; ``None`` while it does."""
    lost_at: float | None = None
    """Unix time at which it was first found lost."""
    read_at: float = 0.0
    """Unix time at which these figures were read; older than ``Sample.at`` while NVML is silent."""
    memory_read: tuple[float, float] | None = None
    """Unix times before and after ``memory`` and ``processes`` were read, one right after the
    other; ``None`` where they were not, as of a lost device."""
    slowdown_c: float | None = None
    """Temperature at which the device lowers its clocks, degrees Celsius."""
    memory_moved: bool = False
    """``used`` changed while the processes were read: they are not of one moment."""
    parent: str | None = None
    """For a MIG instance the id of its GPU; ``None`` for a whole GPU."""
    vbios: str | None = field(
        default=None,
        metadata=nvml_query("nvmlDeviceGetVbiosVersion", often="until known", answer="text"),
    )
    """Version of the GPU's own firmware."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PcieTraffic:
    """Traffic of one device's PCIe link in the driver's newest 20 ms; bytes per second."""

    id: str
    """The device's."""
    sent: int | None
    """From the device."""
    received: int | None
    """To the device."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NvLink:
    """One NVLink of a device."""

    number: int
    active: bool
    remote: str | None
    """PCI bus id of the device at its other end."""
    is_switch: bool = False
    """An NVSwitch is at its other end."""


@dataclass(frozen=True)
class TopologyRow:
    """How one GPU is connected to each GPU, as one row of ``nvidia-smi topo -m``."""

    id: str
    nvml_index: int
    links: tuple[str | None, ...]
    """By column: X itself, NV# that many NVLinks, else the closest PCIe part that both are below:
    INT, PIX, PXB, PHB, NODE or SYS. ``None`` if the driver does not say."""
    cpus: tuple[int, ...] | None
    """The nearest CPUs."""
    numa_nodes: tuple[int, ...] | None
    """The nearest memory."""


@dataclass(frozen=True)
class DeviceDetail:
    """The facts of a device that only its page of details shows."""

    id: str
    max_sm_clock_mhz: int | None = field(
        metadata=nvml_query("nvmlDeviceGetMaxClockInfo", _CLOCK_SM, often="until known")
    )
    max_memory_clock_mhz: int | None = field(
        metadata=nvml_query("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY, often="until known")
    )
    default_power_limit_w: float | None = field(
        metadata=nvml_query(
            "nvmlDeviceGetPowerManagementDefaultLimit", often="until known", answer="milliwatts"
        )
    )
    pcie_replays: int | None = field(
        metadata=nvml_query("nvmlDeviceGetPcieReplayCounter", often="if due")
    )
    """PCIe packets sent again since the driver was loaded."""
    ecc_corrected: int | None = field(
        metadata=nvml_query("nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE, often="if due")
    )
    ecc_uncorrected_ever: int | None = field(
        metadata=nvml_query("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _AGGREGATE, often="if due")
    )
    """Over the life of the device."""
    ecc: bool | None
    """ECC is on."""
    encoder_percent: float | None
    """Share of time in which the video encoder was busy."""
    decoder_percent: float | None
    nvlinks: tuple[NvLink, ...] | None
    topology: tuple[TopologyRow, ...] | None
    """All GPUs of the machine."""
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cpu:
    """The processors of the host."""

    model: str
    cores: int
    cores_usable: int
    """The cores that this process may use: affinity and the cgroup's quota, rounded up."""
    load_percent: float | None
    """Busy share of all cores since the sample before."""
    frequency_mhz: float | None
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostMemory:
    """The memory of the host, in bytes."""

    total: int
    """The machine's memory, or the cgroup's limit if lower."""
    used: int
    available: int


@dataclass(frozen=True)
class Host:
    """The machine that the monitor runs on."""

    name: str
    cpu: Cpu
    memory: HostMemory
    identity: MachineIdentity = UNKNOWN
    """What tells it from other machines."""


@dataclass(frozen=True)
class Driver:
    """NVIDIA's driver, or why it cannot be queried."""

    version: str | None
    cuda: str | None
    """The highest CUDA version that the driver supports, as nvidia-smi prints it."""
    error: str | None
    """Why NVML cannot be queried, in one line that ends with what to do."""
    missing: bool = False
    """No trace of a driver was found: not NVML alone is missing."""


@dataclass(frozen=True)
class WatchedProcess:
    """Host memory of a process that this program started."""

    pid: int
    unique: int | None
    """Memory that would be freed if it ended (USS)."""
    resident: int | None
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HostProcesses:
    """The host's largest processes by resident size, which counts shared pages in each."""

    rows: tuple[GpuProcess, ...]
    """The largest, the largest first; their ``kind`` is ``resident``."""
    others: int
    """Processes with resident memory that are not among the rows."""
    others_memory: int
    """Resident memory of those others together, in bytes."""
    hidden: int
    """Processes whose memory this user may not see."""


@dataclass(frozen=True)
class Sample:
    """All devices and the host at one moment."""

    at: float
    """Unix time."""
    took_s: float
    """How long the newest complete reading of NVML took; above the interval, it sets the pace."""
    host: Host
    driver: Driver
    devices: tuple[Device, ...]
    watched: tuple[WatchedProcess, ...] = ()
    nvml_silent_s: float | None = None
    """For how long NVML has not answered; ``None`` while it does. The devices are old then."""
    problems: tuple[str, ...] = ()
    """Errors in the monitor itself, one line each."""
    host_processes: HostProcesses | None = None
    """``None`` unless :class:`WatchHost` requested them."""
    interval_s: float = 1.0
    """Seconds until the next one, where NVML is no slower than that."""
    traffic: PcieTraffic | None = None
    """Of the device that :class:`WatchDevice` names; ``None`` without one."""
    detail: DeviceDetail | None = None
    """Of the same device, if :class:`WatchDevice` requested it."""


@dataclass(frozen=True)
class MonitorHello:
    """The first message of the monitor."""

    version: int
    pid: int


@dataclass(frozen=True)
class Watch:
    """Request: report the host memory of these processes with each sample from now on."""

    pids: Tuple[int, ...]  # noqa: UP006 (read at run time, on Python 3.8 too)


@dataclass(frozen=True)
class WatchHost:
    """Request: list the host's processes with each sample from now on, or no longer."""

    wanted: bool


@dataclass(frozen=True)
class WatchDevice:
    """Request: read the costly figures of one device with each sample from now on.

    The driver measures the traffic of a PCIe link for 20 ms in each direction, during which the
    call does not return: too long for each device of a large machine.
    """

    id: str
    """The device's; empty for none."""
    detail: bool
    """Read :class:`DeviceDetail` too."""


@dataclass(frozen=True)
class Pace:
    """Request: take the samples this far apart from now on."""

    seconds: float


MonitorEvent = Union[MonitorHello, Sample]
MONITOR_EVENTS = (MonitorHello, Sample)
MonitorRequest = Union[Watch, WatchHost, WatchDevice, Pace]
MONITOR_REQUESTS: tuple[type[MonitorRequest], ...] = (Watch, WatchHost, WatchDevice, Pace)


def find_process(device: Device, pid: int | None) -> GpuProcess | None:
    """Return the row of a process that this program started.

    In a container the list may contain the host's pids, and the same number may belong to another
    process: a row counts only if the monitor identified it as the local process.
    """
    rows = device.processes or ()
    return next((row for row in rows if row.pid == pid and row.started_at is not None), None)


THROTTLE_REASONS: dict[int, str] = {
    0x001: "idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
"""nvmlClocksEventReason* (nvml.h); the last two under their older name, ThrottleReason."""

HARMFUL_REASONS = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "sw_thermal_slowdown",
    "hw_power_brake_slowdown",
)
"""Reasons that mean a fault or heat; a software power cap is normal under load."""

_WIDTH = 64


def decode_throttle_reasons(mask: int) -> tuple[str, ...]:
    """Return the reasons set in ``mask``, lowest bit first; an unknown bit stays a number."""
    return tuple(
        THROTTLE_REASONS.get(1 << position, f"bit 0x{1 << position:x}")
        for position in range(_WIDTH)
        if mask & (1 << position)
    )
