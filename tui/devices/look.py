"""One look at NVML after another: start it, read all devices, start it anew when it breaks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tui.devices.box import Box
from tui.devices.driver import NoDriverError, Session
from tui.devices.identity import identity_of, lost_device
from tui.devices.messages import Device, Driver
from tui.devices.nvml import Due
from tui.devices.people import People
from workloads.fact import fact

LONGEST_WAIT = 10.0
"""Seconds between two attempts to start NVML, at most: a driver that comes later is seen."""


@fact
class NvmlState:
    """The newest that is known from NVML."""

    driver: Driver
    devices: tuple[Device, ...] = ()
    took_s: float = 0.0
    """Seconds that the last complete look took."""
    looks: int = 0
    """How many looks were completed, those that found no driver included."""
    problem: str | None = None
    """What went wrong in the monitor itself at the last look, in one line."""

    def driver_while_silent(self, silent_s: float | None) -> Driver:
        """The driver, with NVML's silence as its error.

        Args:
            silent_s: Seconds for which NVML has owed an answer; ``None`` while it is prompt.
        """
        if silent_s is None:
            return self.driver
        state = "is still starting: no answer" if self.looks == 0 else "has not answered"
        advice = "wait, or look in `dmesg` for lines with NVRM"
        return replace(self.driver, error=f"NVML {state} for {silent_s:.0f} s; {advice}")


NOT_YET = NvmlState(Driver(version=None, cuda=None, error="NVML is still starting"))


class Cadence:
    """Decides at which look the slow figures are due, on the caller's clock."""

    def __init__(self, interval: float) -> None:
        """Set the pace.

        Args:
            interval: Seconds between looks. Processes are due at every second look and at least
                every 2 s, other slow figures at every fifth and at least every 5 s.
        """
        self._slack = interval / 2
        self._every = {"processes": min(2.0, 2 * interval), "slow": min(5.0, 5 * interval)}
        self._last: dict[str, float] = {}

    def due(self, now: float) -> Due:
        """What is due at a look.

        Args:
            now: Seconds on a clock that never goes back.
        """
        return Due(processes=self._is_due("processes", now), slow=self._is_due("slow", now))

    def start_anew(self) -> None:
        """Everything is due at the next look."""
        self._last.clear()

    def _is_due(self, name: str, now: float) -> bool:
        last = self._last.get(name)
        if last is not None and now < last + self._every[name] - self._slack:
            return False
        self._last[name] = now
        return True


class Looker:
    """Does one look each time it is told to; holds the NVML session between them."""

    def __init__(self, interval: float, host_total: int, beat: Callable[[], None]) -> None:
        """Prepare; NVML is not touched yet.

        Args:
            interval: Seconds between looks.
            host_total: The machine's memory in bytes.
            beat: Called after each call to NVML that came back.
        """
        self._interval = interval
        self._host_total = host_total
        self._beat = beat
        self._people = People()
        self._cadence = Cadence(interval)
        self._session: Session | None = None
        self._box: Box | None = None
        self._ran_before = False
        self._failures = 0
        self._start_at = 0.0

    def look(self, before: NvmlState, publish: Callable[[NvmlState], None]) -> None:
        """Look once.

        Args:
            before: What was known before.
            publish: Called with what is known now, after each device that was read: should the
                next one hang, those before it are not lost.
        """
        began = time.monotonic()
        try:
            if self._box is None or self._session is None:
                if began < self._start_at:
                    publish(replace(before, looks=before.looks + 1))
                    return
                self._start()
            state = self._read_all(before, publish)
        except NoDriverError as error:
            self.drop()
            state = _without_driver(before, str(error))
        else:
            self._failures = 0
        took_s = time.monotonic() - began
        publish(replace(state, took_s=took_s, looks=before.looks + 1, problem=None))

    def drop(self, *, shut_down: bool = True) -> None:
        """End the session; the next one is started after a wait that grows up to 10 s.

        Args:
            shut_down: Tell NVML too; not after an error that nobody foresaw.
        """
        session, self._session, self._box = self._session, None, None
        self._start_at = time.monotonic() + min(self._interval * 2**self._failures, LONGEST_WAIT)
        self._failures = min(self._failures + 1, 16)
        if session is not None and shut_down:
            session.end()

    def _start(self) -> None:
        self._session = Session.start(self._beat, ran_before=self._ran_before)
        self._ran_before = True
        self._box = Box(self._session, self._people, self._host_total, self._beat)
        self._cadence.start_anew()

    def _read_all(self, before: NvmlState, publish: Callable[[NvmlState], None]) -> NvmlState:
        if self._box is None or self._session is None:
            raise RuntimeError("no session")
        driver = Driver(self._session.version, self._session.cuda, error=None)
        read: list[Device] = []
        for device in self._box.look(time.time(), self._cadence.due(time.monotonic())):
            read.append(device)
            # The rest as it was: a list that shrinks and grows at each look helps nobody.
            done = {row.id for row in read}
            rest = tuple(row for row in before.devices if row.id not in done)
            publish(replace(before, driver=driver, devices=(*read, *rest)))
        return NvmlState(driver, tuple(read))


def _without_driver(before: NvmlState, error: str) -> NvmlState:
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
    return NvmlState(Driver(before.driver.version, before.driver.cuda, error), devices)
