"""Reads one device, or one MIG instance, into a :class:`Device`."""

from __future__ import annotations

import time
from typing import Any

from tui.devices import processes, throttle
from tui.devices.device_memory import device_memory
from tui.devices.field_reader import FieldReader
from tui.devices.identity import Identity
from tui.devices.messages import Clocks, Device, DeviceMemory, GpuProcess, Pcie, Utilization
from tui.devices.nvml_call import NoAnswer
from tui.devices.process_owners import ProcessOwners
from workloads.fact import fact

# nvml.h; an ABI, so no pynvml is needed to know them.
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0
_UNCORRECTED, _VOLATILE = 1, 0
_MEMORY_V2 = 0x02000028
_PSTATE_UNKNOWN = 32


@fact
class Due:
    """Which of the figures that are kept between readings are to be asked for anew."""

    processes: bool = True
    slow: bool = True


class DeviceReader:
    """Asks one device for its figures; what changes slowly is asked less often."""

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
            fields: Asks the device.
            index: NVML's index; of the GPU, for a MIG instance.
            owners: Looks up whose the processes are.
            host_total: The machine's memory in bytes, to tell unified memory.
            parent: For a MIG instance the id of its GPU.
        """
        self._fields = fields
        self._index = index
        self._owners = owners
        self._host_total = host_total
        self._parent = parent
        self._rows: tuple[GpuProcess, ...] | None = None
        self._rows_missing: dict[str, str] = {}

    @property
    def handle(self) -> Any:
        """NVML's handle of the device."""
        return self._fields.handle

    @property
    def uninitialized(self) -> bool:
        """Whether NVML said that it is not initialised, since the last :meth:`read` began."""
        return self._fields.uninitialized

    def read(self, at: float, due: Due) -> Device:
        """Read the device.

        Args:
            at: Unix time.
            due: Which of the slow figures are to be asked for anew.

        Raises:
            DeviceGoneError: the device is lost.
        """
        fields = self._fields
        fields.begin(due.slow)
        identity = self.identify()
        mig = self._read_mig()
        figures = self._read_memory(identity.name)
        rows = self._read_processes(due, figures.total)
        return Device(
            id=identity.id,
            nvml_index=identity.index,
            torch=None,
            name=identity.name,
            pci_bus_id=identity.pci_bus_id,
            memory=figures,
            utilization=self._read_utilization(),
            temperature_c=self._read_temperature(),
            power_w=fields.watts("power_w", fields.ask("power", ("nvmlDeviceGetPowerUsage",))),
            power_limit_w=self._read_power_limit(),
            fan_percent=fields.number(
                "fan_percent", fields.ask_if_due("fan", ("nvmlDeviceGetFanSpeed",))
            ),
            clocks_mhz=self._read_clocks(),
            pstate=self._read_pstate(),
            throttle=self._read_throttle(),
            pcie=self._read_pcie(),
            ecc_uncorrected=fields.number(
                "ecc_uncorrected",
                fields.ask_if_due("ecc", ("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)),
            ),
            mig=mig,
            processes=rows,
            read_at=at,
            parent=self._parent,
            unavailable=fields.unavailable,
        )

    def identify(self) -> Identity:
        """What the device is called; asked until it is known, then remembered.

        Raises:
            DeviceGoneError: the device is lost.
        """
        fields = self._fields
        uuid = fields.text("id", fields.ask_until_known("uuid", ("nvmlDeviceGetUUID",)))
        name = fields.text("name", fields.ask_until_known("name", ("nvmlDeviceGetName",)))
        bus = fields.ask_until_known("bus", ("nvmlDeviceGetPciInfo",))
        return Identity(
            id=uuid or f"nvml:{self._index}",
            index=self._index,
            name=name or f"GPU {self._index}",
            pci_bus_id=fields.text(
                "pci_bus_id", bus if isinstance(bus, NoAnswer) else _bus_id(bus)
            ),
            parent=self._parent,
        )

    def _read_mig(self) -> bool | None:
        fields = self._fields
        if self._parent is not None:
            return True
        answer = fields.ask_if_due("mig", ("nvmlDeviceGetMigMode",))
        mig = None if fields.missing("mig", answer) else bool(answer[0])
        if mig is not None:
            if fields.mig is not None and mig != fields.mig:
                # What a device supports depends on the mode.
                self._fields.forget_refusals()
            fields.mig = mig
        return mig

    def _read_memory(self, name: str) -> DeviceMemory:
        answer = self._fields.ask(
            "memory", ("nvmlDeviceGetMemoryInfo", _MEMORY_V2), ("nvmlDeviceGetMemoryInfo",)
        )
        figures, missing = device_memory(
            answer, name=name, mig=bool(self._fields.mig), host_total=self._host_total
        )
        self._fields.unavailable.update(missing)
        return figures

    def _read_processes(self, due: Due, total: int | None) -> tuple[GpuProcess, ...] | None:
        if due.processes or self._rows is None:
            listed_at = time.time()
            listed, self._rows_missing = processes.ask_lists(self._fields)
            self._rows = None
            if listed is not None:
                self._rows = processes.rows(
                    listed,
                    self._owners,
                    listed_at=listed_at,
                    total=total,
                    mig=bool(self._fields.mig),
                )
        self._fields.unavailable.update(self._rows_missing)
        return self._rows

    def _read_utilization(self) -> Utilization:
        fields = self._fields
        rates = fields.ask("utilization", ("nvmlDeviceGetUtilizationRates",))
        if isinstance(rates, NoAnswer):
            fields.missing("utilization.gpu", rates)
            fields.missing("utilization.memory", rates)
            return Utilization(None, None)
        return Utilization(
            fields.percent("utilization.gpu", rates.gpu),
            fields.percent("utilization.memory", rates.memory),
        )

    def _read_temperature(self) -> float | None:
        answer = self._fields.ask(
            "temperature",
            ("nvmlDeviceGetTemperatureV", _SENSOR_GPU),
            ("nvmlDeviceGetTemperature", _SENSOR_GPU),
        )
        return self._fields.number("temperature_c", answer)

    def _read_power_limit(self) -> float | None:
        answer = self._fields.ask_if_due(
            "power limit",
            ("nvmlDeviceGetEnforcedPowerLimit",),
            ("nvmlDeviceGetPowerManagementLimit",),
        )
        return self._fields.watts("power_limit_w", answer)

    def _read_clocks(self) -> Clocks:
        fields = self._fields
        sm = fields.ask("sm clock", ("nvmlDeviceGetClockInfo", _CLOCK_SM))
        of_memory = fields.ask("memory clock", ("nvmlDeviceGetClockInfo", _CLOCK_MEMORY))
        return Clocks(
            fields.number("clocks_mhz.sm", sm), fields.number("clocks_mhz.memory", of_memory)
        )

    def _read_pstate(self) -> int | None:
        fields = self._fields
        state = fields.number(
            "pstate", fields.ask_if_due("pstate", ("nvmlDeviceGetPerformanceState",))
        )
        if state != _PSTATE_UNKNOWN:
            return state
        fields.unavailable["pstate"] = "unknown to the driver"
        return None

    def _read_throttle(self) -> tuple[str, ...] | None:
        mask = self._fields.ask(
            "throttle",
            ("nvmlDeviceGetCurrentClocksEventReasons",),
            ("nvmlDeviceGetCurrentClocksThrottleReasons",),
        )
        return None if self._fields.missing("throttle", mask) else throttle.names(int(mask))

    def _read_pcie(self) -> Pcie:
        fields = self._fields
        generation = fields.ask_if_due("generation", ("nvmlDeviceGetCurrPcieLinkGeneration",))
        width = fields.ask_if_due("width", ("nvmlDeviceGetCurrPcieLinkWidth",))
        return Pcie(
            fields.number("pcie.generation", generation), fields.number("pcie.width", width)
        )


def _bus_id(info: Any) -> str | NoAnswer:
    """The bus id as nvidia-smi prints it, ``00000000:18:00.0``."""
    try:
        return str(info.busId)
    except UnicodeDecodeError:
        return NoAnswer("the driver returned text that cannot be read")
