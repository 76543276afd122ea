"""Reading of a device or MIG instance into a :class:`Device`, and rows of lost devices."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tui.monitor import messages, processes
from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import Clocks, Device, DeviceMemory, GpuProcess, Pcie, Utilization
from tui.monitor.nvml import Code, NoAnswer
from tui.monitor.processes import ListedProcess, ProcessOwners


@dataclass(frozen=True)
class Identity:
    """The facts of a device that stay the same while the driver is loaded."""

    id: str
    """The UUID, ``GPU-…`` or ``MIG-…``; ``nvml:<index>`` if unknown."""
    index: int
    name: str
    pci_bus_id: str | None
    parent: str | None = None
    """For a MIG instance the id of its GPU."""


def make_unknown_identity(index: int) -> Identity:
    """Return the identity of a device that has never reported one."""
    return Identity(f"nvml:{index}", index, f"GPU {index}", None)


def identify_device(device: Device) -> Identity:
    """Return the identity of the device that a row describes."""
    return Identity(
        device.id, device.nvml_index, device.name, device.pci_bus_id, parent=device.parent
    )


def make_lost_device(identity: Identity, reason: str, *, read_at: float, lost_at: float) -> Device:
    """Return a row of a lost device, all of its figures absent for the same reason.

    Args:
        identity: Which device.
        reason: Why it no longer answers, in one line.
        read_at: Unix time of the reading that found it still lost.
        lost_at: Unix time of the reading that first found it lost.
    """
    device = Device(
        id=identity.id,
        nvml_index=identity.index,
        torch=None,
        name=identity.name,
        pci_bus_id=identity.pci_bus_id,
        memory=DeviceMemory(None, None, None, None),
        utilization=Utilization(None, None),
        temperature_c=None,
        power_w=None,
        power_limit_w=None,
        fan_percent=None,
        clocks_mhz=Clocks(None, None),
        pstate=None,
        throttle=None,
        pcie=Pcie(None, None),
        ecc_uncorrected=None,
        mig=None,
        processes=None,
        lost=reason,
        lost_at=lost_at,
        read_at=read_at,
        parent=identity.parent,
    )
    return replace(device, unavailable=dict.fromkeys(find_absent_paths(device), reason))


_NOT_FIGURES = frozenset({"torch", "lost", "lost_at", "parent"})


def find_absent_paths(value: Any, prefix: str = "") -> list[str]:
    """Return the dotted paths of a device's absent figures."""
    paths = []
    for item in fields(value):
        part = getattr(value, item.name)
        if is_dataclass(part):
            paths += find_absent_paths(part, f"{prefix}{item.name}.")
        elif part is None and item.name not in _NOT_FIGURES:
            paths.append(prefix + item.name)
    return paths


UNIFIED = "unified memory: shared with the host"
_INTEGRATED = re.compile(r"\b(GB10|Orin|Xavier|Thor|Tegra|Jetson)\b", re.IGNORECASE)
"""Names of devices that have no memory of their own (DGX Spark is a GB10)."""


def parse_device_memory(
    answer: Any, *, name: str, mig: bool, host_total: int
) -> tuple[DeviceMemory, dict[str, str]]:
    """Turn NVML's memory info into figures and reasons.

    Version 2 counts the driver's own memory apart from ``used``; version 1 counts it
    within, so ``driver_reserved`` is absent then and nothing is counted twice.

    Args:
        answer: pynvml's memory info, of version 1 or 2, or an :class:`NoAnswer`.
        name: The device's name, which identifies integrated GPUs.
        mig: MIG mode is on: unified memory is then unknown.
        host_total: The machine's memory in bytes. A device with exactly that total has it in
            common with the host, and its ``used`` would be the host's.
    """
    if not mig and _shares_host_memory(answer, name, host_total):
        return _make_absent_memory(UNIFIED, unified=True)
    if isinstance(answer, NoAnswer):
        return _make_absent_memory(answer.reason)
    reserved = getattr(answer, "reserved", None)
    figures = DeviceMemory(
        total=int(answer.total),
        used=int(answer.used),
        free=int(answer.free),
        driver_reserved=None if reserved is None else int(reserved),
    )
    if reserved is not None:
        return figures, {}
    return figures, {"memory.driver_reserved": "driver too old for this figure: part of used"}


def _shares_host_memory(answer: Any, name: str, host_total: int) -> bool:
    integrated = _INTEGRATED.search(name) is not None
    if isinstance(answer, NoAnswer):
        return integrated and answer.code == Code.NOT_SUPPORTED
    total = int(answer.total)
    # Some drivers report the host's memory, rounded: only the name identifies such devices.
    return total in (0, host_total) or (integrated and abs(total - host_total) < host_total / 20)


def _make_absent_memory(reason: str, unified: bool = False) -> tuple[DeviceMemory, dict[str, str]]:
    paths = ("memory.total", "memory.used", "memory.free", "memory.driver_reserved")
    return DeviceMemory(None, None, None, None, unified), dict.fromkeys(paths, reason)


# nvml.h; an ABI, so no pynvml is needed to know them.
_SLOWDOWN = 1
_MEMORY_V2 = 0x02000028
_PSTATE_UNKNOWN = 32

_TRIES = 3
"""The most attempts to read memory and processes at the same moment."""


class DeviceReader:
    """Reader of one device's figures; slowly changing ones are queried less often."""

    def __init__(
        self,
        fields: FieldReader,
        index: int,
        owners: ProcessOwners,
        host_total: int,
        parent: str | None = None,
    ) -> None:
        """Bind to a device.

        Args:
            fields: Queries the device.
            index: NVML's index; of the GPU, for a MIG instance.
            owners: Finds the owners of processes.
            host_total: The machine's memory in bytes, to recognize unified memory.
            parent: For a MIG instance the id of its GPU.
        """
        self._fields = fields
        self._index = index
        self._owners = owners
        self._host_total = host_total
        self._parent = parent

    @property
    def handle(self) -> Any:
        """NVML's handle of the device."""
        return self._fields.handle

    @property
    def uninitialized(self) -> bool:
        """True if NVML reported that it is not initialised since the last :meth:`read` began."""
        return self._fields.uninitialized

    def read(self, at: float, slow: bool) -> Device:
        """Read the device.

        Args:
            at: Unix time.
            slow: Query slowly changing figures again.

        Raises:
            DeviceGoneError: the device is lost.
        """
        fields = self._fields
        fields.start_reading(slow)
        identity = self.identify()
        mig = self._read_mig()
        figures, listed, memory_read, moved = self._read_memory_and_processes(identity.name)
        plain = fields.read_figures(Device)
        return Device(
            id=identity.id,
            nvml_index=identity.index,
            torch=None,
            name=identity.name,
            pci_bus_id=identity.pci_bus_id,
            memory=figures,
            utilization=self._read_utilization(),
            slowdown_c=self._read_slowdown(plain["temperature_c"]),
            clocks_mhz=Clocks(**fields.read_figures(Clocks, "clocks_mhz.")),
            pstate=self._read_pstate(),
            throttle=self._read_throttle(),
            pcie=Pcie(**fields.read_figures(Pcie, "pcie.")),
            mig=mig,
            processes=self._build_rows(listed, memory_read[0], figures.total),
            read_at=at,
            memory_read=memory_read,
            memory_moved=moved,
            parent=self._parent,
            unavailable=fields.unavailable,
            **plain,
        )

    def identify(self) -> Identity:
        """Return the device's identity; ask until it is known, then remember it.

        Raises:
            DeviceGoneError: the device is lost.
        """
        fields = self._fields
        uuid = fields.parse_text("id", fields.query_until_known("uuid", ("nvmlDeviceGetUUID",)))
        name = fields.parse_text("name", fields.query_until_known("name", ("nvmlDeviceGetName",)))
        bus = fields.query_until_known("bus", ("nvmlDeviceGetPciInfo",))
        return Identity(
            id=uuid or f"nvml:{self._index}",
            index=self._index,
            name=name or f"GPU {self._index}",
            pci_bus_id=fields.parse_text(
                "pci_bus_id", bus if isinstance(bus, NoAnswer) else _parse_bus_id(bus)
            ),
            parent=self._parent,
        )

    def _read_mig(self) -> bool | None:
        fields = self._fields
        if self._parent is not None:
            return True
        answer = fields.query_if_due("mig", ("nvmlDeviceGetMigMode",))
        mig = None if fields.note_missing("mig", answer) else bool(answer[0])
        if mig is not None:
            if fields.mig is not None and mig != fields.mig:
                # The supported figures depend on the mode.
                self._fields.forget_refusals()
            fields.mig = mig
        return mig

    def _read_memory_and_processes(
        self, name: str
    ) -> tuple[DeviceMemory, list[ListedProcess] | None, tuple[float, float], bool]:
        """Read the memory and the processes that use it at the same moment.

        Returns:
            Both, the Unix times before and after, and whether the memory changed in between at
            each of some tries.
        """
        fields, moved = self._fields, True
        for _ in range(_TRIES):
            began = time.time()
            figures = self._read_memory(name)
            listed, missing = processes.query_lists(fields)
            done = time.time()
            fields.unavailable.update(missing)
            moved = figures.used is not None and self._read_memory(name).used != figures.used
            if not moved:
                break
        return figures, listed, (began, done), moved

    def _read_memory(self, name: str) -> DeviceMemory:
        answer = self._fields.query(
            "memory", ("nvmlDeviceGetMemoryInfo", _MEMORY_V2), ("nvmlDeviceGetMemoryInfo",)
        )
        figures, missing = parse_device_memory(
            answer, name=name, mig=bool(self._fields.mig), host_total=self._host_total
        )
        self._fields.unavailable.update(missing)
        return figures

    def _build_rows(
        self, listed: list[ListedProcess] | None, listed_at: float, total: int | None
    ) -> tuple[GpuProcess, ...] | None:
        if listed is None:
            return None
        busy = processes.query_sm_percent(self._fields, listed_at) if listed else {}
        mig = bool(self._fields.mig)
        return processes.build_rows(
            listed, self._owners, listed_at=listed_at, total=total, mig=mig, busy=busy
        )

    def _read_utilization(self) -> Utilization:
        fields = self._fields
        rates = fields.query("utilization", ("nvmlDeviceGetUtilizationRates",))
        if isinstance(rates, NoAnswer):
            fields.note_missing("utilization.gpu", rates)
            fields.note_missing("utilization.memory", rates)
            return Utilization(None, None)
        return Utilization(
            fields.parse_percent("utilization.gpu", rates.gpu),
            fields.parse_percent("utilization.memory", rates.memory),
        )

    def _read_slowdown(self, celsius: float | None) -> float | None:
        """Return the slowdown threshold, or derive it from the distance the driver reports.

        For Ada and later NVML's manual announces the end of the first in favour of the second.
        """
        fields = self._fields
        threshold = fields.query_if_due(
            "slowdown", ("nvmlDeviceGetTemperatureThreshold", _SLOWDOWN)
        )
        if not isinstance(threshold, NoAnswer) and int(threshold) > 0:
            return float(threshold)
        margin = fields.query("margin", ("nvmlDeviceGetMarginTemperature",))
        if isinstance(margin, NoAnswer):
            both = isinstance(threshold, NoAnswer) and margin.permanent
            fields.note_missing("slowdown_c", threshold if both else margin)
            return None
        if celsius is None:
            fields.unavailable["slowdown_c"] = "reported relative to the temperature, which is n/a"
            return None
        return celsius + int(margin)

    def _read_pstate(self) -> int | None:
        fields = self._fields
        state = fields.parse_number(
            "pstate", fields.query_if_due("pstate", ("nvmlDeviceGetPerformanceState",))
        )
        if state != _PSTATE_UNKNOWN:
            return state
        fields.unavailable["pstate"] = "unknown to the driver"
        return None

    def _read_throttle(self) -> tuple[str, ...] | None:
        mask = self._fields.query(
            "throttle",
            ("nvmlDeviceGetCurrentClocksEventReasons",),
            ("nvmlDeviceGetCurrentClocksThrottleReasons",),
        )
        return (
            None
            if self._fields.note_missing("throttle", mask)
            else messages.decode_throttle_reasons(int(mask))
        )


def _parse_bus_id(info: Any) -> str | NoAnswer:
    """Return the bus id as nvidia-smi prints it, ``00000000:18:00.0``."""
    try:
        return str(info.busId)
    except UnicodeDecodeError:
        return NoAnswer("the driver returned text that cannot be read")
