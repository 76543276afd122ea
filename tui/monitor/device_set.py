"""All devices of the machine: their handles, the lost ones, MIG instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tui.monitor.device_reader import DeviceReader
from tui.monitor.driver import NvmlSession
from tui.monitor.field_reader import FieldReader
from tui.monitor.identity import Identity, identity_of, lost_device, unknown_identity
from tui.monitor.messages import Device
from tui.monitor.nvml_call import DeviceGoneError, NoAnswer, call
from tui.monitor.process_owners import ProcessOwners
from workloads.protocol.frozen import frozen


@frozen
class _Lost:
    reason: str
    at: float
    """Unix time."""


class DeviceSet:
    """Reads all devices of one NVML session.

    Handles are fetched once and used until a device is lost or the number of devices changes: to
    fetch them at each reading is what makes other monitors dear.
    """

    def __init__(
        self,
        session: NvmlSession,
        owners: ProcessOwners,
        host_total: int,
        on_answer: Callable[[], None],
    ) -> None:
        """Start without any device.

        Args:
            session: NVML, initialised.
            owners: Looks up whose the processes are.
            host_total: The machine's memory in bytes.
            on_answer: Called after each call that came back.
        """
        self.session = session
        self._owners = owners
        self._host_total = host_total
        self._on_answer = on_answer
        self._count: int | None = None
        self._readers: dict[int, DeviceReader] = {}
        self._instances: dict[int, dict[int, DeviceReader]] = {}
        self._identities: dict[int, Identity] = {}
        self._lost: dict[int, _Lost] = {}

    def read(self, at: float, slow: bool) -> Iterator[Device]:
        """Read all devices in NVML's order, each followed by its MIG instances.

        Args:
            at: Unix time of the reading.
            slow: Ask anew for the figures that change slowly.

        Raises:
            NoDriverError: NVML as a whole no longer answers.
        """
        count = self.session.count()
        self._on_answer()
        if count != self._count:
            # The indices may mean other devices now.
            self._count = count
            self._readers.clear()
            self._instances.clear()
            self._identities.clear()
            self._lost.clear()
        pids: set[int] = set()
        for index in range(count):
            for device in self._read_device(index, at, slow):
                pids.update(row.pid for row in device.processes or ())
                yield device
        self._owners.keep_only(pids)
        if any(reader.uninitialized for reader in self._readers.values()):
            # One figure, or all of NVML? The count tells.
            self.session.count()

    def _read_device(self, index: int, at: float, slow: bool) -> Iterator[Device]:
        lost = self._lost.get(index)
        if lost is not None and not slow:
            yield self._lost_row(index, lost, at)
            return
        try:
            reader = self._readers.get(index) or self._open(index)
            device = reader.read(at, slow)
        except DeviceGoneError as gone:
            # What was remembered of the device goes with its reader: it must not be shown again.
            self._readers.pop(index, None)
            self._instances.pop(index, None)
            self._lost[index] = lost = _Lost(str(gone), lost.at if lost is not None else at)
            yield self._lost_row(index, lost, at)
            return
        self._lost.pop(index, None)
        self._readers[index] = reader
        self._identities[index] = identity_of(device)
        yield device
        yield from self._read_instances(index, device, at, slow)

    def _lost_row(self, index: int, lost: _Lost, at: float) -> Device:
        identity = self._identities.get(index, unknown_identity(index))
        return lost_device(identity, lost.reason, read_at=at, lost_at=lost.at)

    def _open(self, index: int) -> DeviceReader:
        """The reader of a device whose handle is not held yet.

        Raises:
            DeviceGoneError: there is no handle to be had.
        """
        handle = call(self.session.nvml, "nvmlDeviceGetHandleByIndex", index)
        self._on_answer()
        if isinstance(handle, NoAnswer):
            raise DeviceGoneError(f"the driver gives no handle for it: {handle.reason}")
        reader = self._reader(handle, index)
        # Should it be lost before its first figure, its row can still be named.
        self._identities[index] = reader.identify()
        return reader

    def _reader(self, handle: Any, index: int, parent: str | None = None) -> DeviceReader:
        instance = parent is not None
        fields = FieldReader(self.session.nvml, handle, self._on_answer, instance)
        return DeviceReader(fields, index, self._owners, self._host_total, parent)

    def _read_instances(self, index: int, gpu: Device, at: float, slow: bool) -> Iterator[Device]:
        if not gpu.mig:
            self._instances.pop(index, None)
            return
        if slow or index not in self._instances:
            self._instances[index] = self._find_instances(index, gpu)
        for slot, reader in list(self._instances[index].items()):
            try:
                device = reader.read(at, slow)
            except DeviceGoneError:
                # Taken apart by its owner; should the GPU be lost, its own row says so.
                del self._instances[index][slot]
                continue
            yield device

    def _find_instances(self, index: int, gpu: Device) -> dict[int, DeviceReader]:
        nvml = self.session.nvml
        parent = self._readers[index].handle
        slots = call(nvml, "nvmlDeviceGetMaxMigDeviceCount", parent)
        found: dict[int, DeviceReader] = {}
        for slot in range(0 if isinstance(slots, NoAnswer) else int(slots)):
            try:
                handle = call(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", parent, slot)
                self._on_answer()
                # Most slots are empty.
                if not isinstance(handle, NoAnswer):
                    found[slot] = self._reader(handle, index, gpu.id)
            except DeviceGoneError:
                continue
        return found
