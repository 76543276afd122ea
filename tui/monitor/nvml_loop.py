"""The loop that reads all devices, lost ones and MIG instances, and restarts NVML on errors."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tui.core.child.inside import complain
from tui.monitor.device_reader import (
    DeviceReader,
    Identity,
    identify_device,
    make_lost_device,
    make_unknown_identity,
)
from tui.monitor.field_reader import FieldReader
from tui.monitor.messages import (
    Device,
    DeviceDetail,
    Driver,
    PcieTraffic,
    WatchDevice,
)
from tui.monitor.nvml import DeviceGoneError, NoAnswer, NoDriverError, NvmlSession, call
from tui.monitor.processes import ProcessOwners
from tui.monitor.topology import ConnectedGpu
from tui.monitor.watched_device import WatchedDeviceReader


@dataclass(frozen=True)
class _Lost:
    reason: str
    at: float
    """Unix time."""


class DeviceSet:
    """Reader of all devices of one NVML session.

    Handles are fetched once and used until a device is lost or the number of devices changes:
    fetching them at each reading is expensive.
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
            owners: Finds the owners of processes.
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
        self._watched: tuple[Any, WatchedDeviceReader] | None = None
        """The handle and the reader of the device whose costly figures are read."""

    def read(self, at: float, slow: bool) -> Iterator[Device]:
        """Read all devices in NVML's order, each followed by its MIG instances.

        Args:
            at: Unix time of the reading.
            slow: Query slowly changing figures again.

        Raises:
            NoDriverError: NVML as a whole no longer answers.
        """
        count = self.session.count_devices()
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
        self._owners.forget_all_but(pids)
        if any(reader.uninitialized for reader in self._readers.values()):
            # If all of NVML has stopped and not one figure only, the count fails too.
            self.session.count_devices()

    def read_watched(
        self, watch: WatchDevice, slow: bool
    ) -> tuple[PcieTraffic | None, DeviceDetail | None]:
        """Read the costly figures of one device; nothing if it is lost or unknown.

        Args:
            watch: which device, and whether to read its details.
            slow: query slowly changing figures again.
        """
        device_reader = self._find_reader(watch.id)
        if device_reader is None:
            return None, None
        handle, instance = device_reader
        if self._watched is None or self._watched[0] is not handle:
            fields = self._make_fields(handle, instance)
            self._watched = (handle, WatchedDeviceReader(fields, watch.id))
            slow = True
        reader = self._watched[1]
        try:
            traffic = reader.read_traffic()
            detail = reader.read_detail(self._find_connected(), slow) if watch.detail else None
        except DeviceGoneError:
            # The next reading finds the lost device and says why.
            return None, None
        return traffic, detail

    def _find_reader(self, id: str) -> tuple[Any, bool] | None:  # noqa: A002 (the messages' name)
        """Return a device's handle, and whether it is a MIG instance."""
        for reader in self._readers.values():
            if reader.identify().id == id:
                return reader.handle, False
        for slots in self._instances.values():
            for reader in slots.values():
                if reader.identify().id == id:
                    return reader.handle, True
        return None

    def _find_connected(self) -> list[ConnectedGpu]:
        return [
            ConnectedGpu(
                identity.id, index, identity.pci_bus_id, self._make_fields(reader.handle, False)
            )
            for index, reader in sorted(self._readers.items())
            for identity in (reader.identify(),)
        ]

    def _make_fields(self, handle: Any, instance: bool) -> FieldReader:
        return FieldReader(self.session.nvml, handle, self._on_answer, instance)

    def _read_device(self, index: int, at: float, slow: bool) -> Iterator[Device]:
        lost = self._lost.get(index)
        if lost is not None and not slow:
            yield self._make_lost_row(index, lost, at)
            return
        try:
            reader = self._readers.get(index) or self._open(index)
            device = reader.read(at, slow)
        except DeviceGoneError as gone:
            # The device's cached figures go with its reader: they must not be shown again.
            self._readers.pop(index, None)
            self._instances.pop(index, None)
            self._lost[index] = lost = _Lost(str(gone), lost.at if lost is not None else at)
            yield self._make_lost_row(index, lost, at)
            return
        self._lost.pop(index, None)
        self._readers[index] = reader
        self._identities[index] = identify_device(device)
        yield device
        yield from self._read_instances(index, device, at, slow)

    def _make_lost_row(self, index: int, lost: _Lost, at: float) -> Device:
        identity = self._identities.get(index, make_unknown_identity(index))
        return make_lost_device(identity, lost.reason, read_at=at, lost_at=lost.at)

    def _open(self, index: int) -> DeviceReader:
        """Open a device and return its reader.

        Raises:
            DeviceGoneError: there is no handle to be had.
        """
        handle = call(self.session.nvml, "nvmlDeviceGetHandleByIndex", index)
        self._on_answer()
        if isinstance(handle, NoAnswer):
            raise DeviceGoneError(f"the driver gives no handle for it: {handle.reason}")
        reader = self._make_reader(handle, index)
        # If it is lost before its first figure, its row still has a name.
        self._identities[index] = reader.identify()
        return reader

    def _make_reader(self, handle: Any, index: int, parent: str | None = None) -> DeviceReader:
        instance = parent is not None
        return DeviceReader(
            self._make_fields(handle, instance), index, self._owners, self._host_total, parent
        )

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
                # The instance was deleted. If the whole GPU is lost, its own row reports that.
                del self._instances[index][slot]
                continue
            yield device

    def _find_instances(self, index: int, gpu: Device) -> dict[int, DeviceReader]:
        nvml = self.session.nvml
        parent = self._readers[index].handle
        slots = call(nvml, "nvmlDeviceGetMaxMigDeviceCount", parent)
        instances: dict[int, DeviceReader] = {}
        for slot in range(0 if isinstance(slots, NoAnswer) else int(slots)):
            try:
                handle = call(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", parent, slot)
                self._on_answer()
                # Most slots are empty.
                if not isinstance(handle, NoAnswer):
                    instances[slot] = self._make_reader(handle, index, gpu.id)
            except DeviceGoneError:
                continue
        return instances


SILENT_AFTER = 3.0
"""Seconds without an answer from NVML after which its figures are called old."""

LONGEST_WAIT = 10.0
"""Seconds between two attempts to start NVML, at most: a driver that comes later is seen."""


@dataclass(frozen=True)
class NvmlState:
    """The newest state of NVML and its devices."""

    driver: Driver
    devices: tuple[Device, ...] = ()
    took_s: float = 0.0
    """Seconds that the last complete reading took."""
    readings: int = 0
    """Number of completed readings, including readings without a driver."""
    problem: str | None = None
    """Error in the monitor itself at the last reading, in one line."""
    traffic: PcieTraffic | None = None
    """Of the watched device."""
    detail: DeviceDetail | None = None
    """Of the watched device, if requested."""

    def describe_driver(self, silent_s: float | None) -> Driver:
        """Return the driver, with NVML's silence as its error.

        Args:
            silent_s: Seconds for which NVML has owed an answer; ``None`` while it is prompt.
        """
        if silent_s is None:
            return self.driver
        state = "is still starting: no answer" if self.readings == 0 else "has not answered"
        advice = "wait, or look in `dmesg` for lines with NVRM"
        return replace(self.driver, error=f"NVML {state} for {silent_s:.0f} s; {advice}")


NOT_YET = NvmlState(Driver(version=None, cuda=None, error="NVML is still starting"))


class Schedule:
    """Schedule of the slowly changing figures, on the caller's clock."""

    def __init__(self, interval: float) -> None:
        """Set the pace.

        Args:
            interval: Seconds between readings. The slow figures are due at every fifth, and at
                least every 5 s.
        """
        self._slack = interval / 2
        self._every = min(5.0, 5 * interval)
        self._last: float | None = None

    def is_slow_due(self, now: float) -> bool:
        """Return whether the slow figures are due at a reading.

        Args:
            now: Seconds on a clock that never goes back.
        """
        if self._last is not None and now < self._last + self._every - self._slack:
            return False
        self._last = now
        return True

    def reset(self) -> None:
        """Make the slow figures due at the next reading."""
        self._last = None


class NvmlLoop:
    """Thread that reads all devices on request and stores the newest state.

    A call to the driver that hangs stops nothing but this thread. There is never a second one: a
    thread that hangs in the driver cannot be ended, and those that are started beside it hang
    there too.
    """

    def __init__(self, interval: float, host_total: int) -> None:
        """Start the thread; NVML is not touched before the first :meth:`request`.

        Args:
            interval: Seconds between readings.
            host_total: The machine's memory in bytes.
        """
        self.newest: NvmlState = NOT_YET
        self.watch = WatchDevice("", detail=False)
        """The device whose costly figures are read."""
        self._requested = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._answered_at = time.monotonic()
        # The following belongs to the thread.
        self._interval = interval
        self._host_total = host_total
        self._owners = ProcessOwners()
        self._schedule = Schedule(interval)
        self._devices: DeviceSet | None = None
        """The devices of the NVML session under way."""
        self._ran_before = False
        self._failures = 0
        self._start_at = 0.0
        threading.Thread(target=self._run, name="nvml", daemon=True).start()

    def request(self) -> None:
        """Request a reading unless one is under way."""
        if self._idle.is_set():
            self._answered_at = time.monotonic()
            self._idle.clear()
            self._requested.set()

    def wait(self, timeout: float) -> bool:
        """Wait for the reading under way.

        Args:
            timeout: Seconds.

        Returns:
            Whether it is done.
        """
        return self._idle.wait(timeout)

    def compute_silence_s(self) -> float | None:
        """Return the seconds that NVML has owed an answer; ``None`` while it is prompt."""
        if self._idle.is_set():
            return None
        silent = time.monotonic() - self._answered_at
        return silent if silent > SILENT_AFTER or self.newest.readings == 0 else None

    # ---- in the thread ----

    def _run(self) -> None:
        while True:
            self._requested.wait()
            self._requested.clear()
            before = self.newest
            try:
                self._read(before)
            except Exception as error:  # noqa: BLE001  # shown in the sample, old figures marked
                complain(traceback.format_exc())
                self._end_session(shut_down=False)
                text = f"reading NVML failed and is tried again: {type(error).__name__}: {error}"
                self.newest = replace(
                    self.newest, readings=before.readings + 1, problem=" ".join(text.split())
                )
            self._idle.set()

    def _on_answer(self) -> None:
        self._answered_at = time.monotonic()

    def _read(self, before: NvmlState) -> None:
        began = time.monotonic()
        try:
            if self._devices is None:
                if began < self._start_at:
                    self.newest = replace(before, readings=before.readings + 1)
                    return
                self._devices = self._start()
            state = self._read_devices(self._devices, before)
        except NoDriverError as error:
            self._end_session(shut_down=True)
            state = _mark_devices_lost(before, error)
        else:
            self._failures = 0
        took_s = time.monotonic() - began
        self.newest = replace(state, took_s=took_s, readings=before.readings + 1, problem=None)

    def _start(self) -> DeviceSet:
        session = NvmlSession.start(self._on_answer, ran_before=self._ran_before)
        self._ran_before = True
        self._schedule.reset()
        return DeviceSet(session, self._owners, self._host_total, self._on_answer)

    def _end_session(self, *, shut_down: bool) -> None:
        """End the session; the next one is started after a wait that grows up to 10 s.

        Args:
            shut_down: Also shut NVML down; not after an unexpected error.
        """
        devices, self._devices = self._devices, None
        self._start_at = time.monotonic() + min(self._interval * 2**self._failures, LONGEST_WAIT)
        self._failures = min(self._failures + 1, 16)
        if devices is not None and shut_down:
            devices.session.shut_down()

    def _read_devices(self, devices: DeviceSet, before: NvmlState) -> NvmlState:
        driver = Driver(devices.session.version, devices.session.cuda, error=None)
        read: list[Device] = []
        slow, watch = self._schedule.is_slow_due(time.monotonic()), self.watch
        for device in devices.read(time.time(), slow):
            read.append(device)
            # Publish each device at once, because the next one may hang. The others stay as they
            # were, so that the list does not shrink and grow at each reading.
            done = {row.id for row in read}
            rest = tuple(row for row in before.devices if row.id not in done)
            self.newest = replace(before, driver=driver, devices=(*read, *rest))
        traffic, detail = devices.read_watched(watch, slow) if watch.id else (None, None)
        return NvmlState(driver, tuple(read), traffic=traffic, detail=detail)


def _mark_devices_lost(before: NvmlState, error: NoDriverError) -> NvmlState:
    """Return the state after NVML stops: the known devices without figures."""
    now = time.time()
    devices = tuple(
        make_lost_device(
            identify_device(device),
            device.lost or "NVML stopped answering",
            read_at=now,
            lost_at=device.lost_at or now,
        )
        for device in before.devices
    )
    known = before.driver
    return NvmlState(Driver(known.version, known.cuda, str(error), error.missing), devices)
