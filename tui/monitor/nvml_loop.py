"""The loop that reads NVML: starts it, reads all devices, starts it anew when it breaks."""

from __future__ import annotations

import threading
import time
import traceback
from dataclasses import replace

from tui.child.channel import complain
from tui.monitor.device_set import DeviceSet
from tui.monitor.driver import NoDriverError, NvmlSession
from tui.monitor.identity import identity_of, lost_device
from tui.monitor.messages import Device, Driver
from tui.monitor.process_owners import ProcessOwners
from workloads.protocol.frozen import frozen

SILENT_AFTER = 3.0
"""Seconds without an answer from NVML after which its figures are called old."""

LONGEST_WAIT = 10.0
"""Seconds between two attempts to start NVML, at most: a driver that comes later is seen."""


@frozen
class NvmlState:
    """The newest that is known from NVML."""

    driver: Driver
    devices: tuple[Device, ...] = ()
    took_s: float = 0.0
    """Seconds that the last complete reading took."""
    readings: int = 0
    """How many readings were completed, those that found no driver included."""
    problem: str | None = None
    """What went wrong in the monitor itself at the last reading, in one line."""

    def driver_while_silent(self, silent_s: float | None) -> Driver:
        """The driver, with NVML's silence as its error.

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
    """Decides at which reading the figures that change slowly are due, on the caller's clock."""

    def __init__(self, interval: float) -> None:
        """Set the pace.

        Args:
            interval: Seconds between readings. The slow figures are due at every fifth, and at
                least every 5 s.
        """
        self._slack = interval / 2
        self._every = min(5.0, 5 * interval)
        self._last: float | None = None

    def slow_due(self, now: float) -> bool:
        """Whether the slow figures are due at a reading.

        Args:
            now: Seconds on a clock that never goes back.
        """
        if self._last is not None and now < self._last + self._every - self._slack:
            return False
        self._last = now
        return True

    def start_anew(self) -> None:
        """Have them due at the next reading."""
        self._last = None


class NvmlLoop:
    """Reads all devices when told to, in a thread of its own, and holds the newest state.

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
        self._requested = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._answered_at = time.monotonic()
        # What follows is the thread's own.
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
        """Ask for a reading; nothing where one is under way."""
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

    def silent_s(self) -> float | None:
        """For how many seconds NVML has owed an answer; ``None`` where it is prompt enough."""
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
            state = _without_driver(before, error)
        else:
            self._failures = 0
        took_s = time.monotonic() - began
        self.newest = replace(state, took_s=took_s, readings=before.readings + 1, problem=None)

    def _start(self) -> DeviceSet:
        session = NvmlSession.start(self._on_answer, ran_before=self._ran_before)
        self._ran_before = True
        self._schedule.start_anew()
        return DeviceSet(session, self._owners, self._host_total, self._on_answer)

    def _end_session(self, *, shut_down: bool) -> None:
        """End the session; the next one is started after a wait that grows up to 10 s.

        Args:
            shut_down: Tell NVML too; not after an error that nobody foresaw.
        """
        devices, self._devices = self._devices, None
        self._start_at = time.monotonic() + min(self._interval * 2**self._failures, LONGEST_WAIT)
        self._failures = min(self._failures + 1, 16)
        if devices is not None and shut_down:
            devices.session.end()

    def _read_devices(self, devices: DeviceSet, before: NvmlState) -> NvmlState:
        driver = Driver(devices.session.version, devices.session.cuda, error=None)
        read: list[Device] = []
        for device in devices.read(time.time(), self._schedule.slow_due(time.monotonic())):
            read.append(device)
            # Shown at once, in case the next one hangs; the rest as it was, since a list that
            # shrinks and grows at each reading helps nobody.
            done = {row.id for row in read}
            rest = tuple(row for row in before.devices if row.id not in done)
            self.newest = replace(before, driver=driver, devices=(*read, *rest))
        return NvmlState(driver, tuple(read))


def _without_driver(before: NvmlState, error: NoDriverError) -> NvmlState:
    """What is known when NVML as a whole stops: which devices there were, but no figures."""
    now = time.time()
    devices = tuple(
        lost_device(
            identity_of(device),
            device.lost or "NVML stopped answering",
            read_at=now,
            lost_at=device.lost_at or now,
        )
        for device in before.devices
    )
    known = before.driver
    return NvmlState(Driver(known.version, known.cuda, str(error), error.missing), devices)
