"""All memory accounts that a screen would have shown during an operation."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.children.sessions import ready, until
from tui.core.events import Topics
from tui.devices.memory import Gauge, account
from tui.devices.memory.model import Absent, Stale, get_value
from tui.devices.state.devices import DeviceView
from tui.monitor.messages import Device, Sample
from tui.runs.session.session import Session
from workloads.protocol.messages import Budget
from workloads.protocol.results import RunResult

ALLOCATING = Path(__file__).with_name("allocating.py")
GPU = "cuda:0"
INTERVAL_S = 0.1
"""Interval of samples: an account is recorded after each, and after each worker message."""


@dataclass
class Seen:
    """One account, with NVML's newest reading at that time."""

    gauge: Gauge
    device: Device | None

    def size(self, key: str) -> int | None:
        """Return a term's bytes; ``None`` where they are unknown."""
        return get_value(self.gauge.term(key).bytes)

    def slice(self, key: str) -> int | None:
        """Return a slice's bytes; ``None`` where the slice is missing or unknown."""
        found = next((part for part in self.gauge.slices if part.key == key), None)
        return None if found is None else get_value(found.bytes)

    @property
    def words(self) -> str:
        """Return every sentence and reason in it."""
        parts = (*self.gauge.terms, *self.gauge.peaks)
        reasons = (part.bytes.reason for part in parts if isinstance(part.bytes, (Absent, Stale)))
        return " ".join((*self.gauge.explanation, *self.gauge.warnings, *reasons))


class Accounts:
    """The accounts of one device of a session, after each change of the store."""

    def __init__(self, session: Session, name: str = GPU) -> None:
        self.seen: list[Seen] = []
        self.session = session
        self._name = name
        session.state.bus.on_change(self._look)

    @property
    def view(self) -> DeviceView:
        """Return the device as it is now."""
        found = self.session.state.machine.find_device(self._name)
        assert found is not None
        return found

    def now(self) -> Seen:
        """Return the account as it would be drawn at this moment."""
        return Seen(account(self.session.state.machine, self.view, time.time()), self.view.nvml)

    def _look(self, _parts: Topics) -> None:
        if self.session.state.machine.find_device(self._name) is not None:
            self.seen.append(self.now())

    async def settled(self) -> Seen:
        """Return the account once the worker is idle and NVML has been read since."""
        began = time.time()

        def fresh() -> bool:
            moment = self.session.state.machine.moments.find(
                self.view, self.session.state.machine.worker_pid, began
            )
            read = moment.device.memory_read if moment.device else None
            return moment.basis == "one moment" and read is not None and read[0] > began

        await until(self.session, fresh)
        return self.now()

    def start(self, workload: str, device: str = GPU, budget: Budget = "quick") -> str:
        """Request a run, and return the request's id."""
        self.session.run([workload], [device], budget)
        return list(self.session.state.runs.book)[-1]

    async def run(self, workload: str, device: str = GPU, budget: Budget = "quick") -> RunResult:
        """Run a workload to its end."""
        name = self.start(workload, device, budget)
        await until(self.session, lambda: self.session.state.runs.book[name].ended)
        result = self.session.state.runs.book[name].result
        assert result is not None
        assert result.status == "ok", result.reason
        return result


@asynccontextmanager
async def watched(
    interval: float = INTERVAL_S, name: str = GPU, *, listed: bool = True
) -> AsyncIterator[Accounts]:
    """Yield a session over real children, with the workloads of :mod:`allocating`.

    Args:
        interval: seconds between two samples.
        name: torch's name of the device to record.
        listed: wait until NVML lists the devices.
    """
    session = Session(sys.executable, interval, (str(ALLOCATING),))
    await session.start()
    try:
        await ready(session)
        if listed:
            await until(
                session,
                lambda: bool(session.state.machine.sample and session.state.machine.sample.devices),
            )
        yield Accounts(session, name)
    finally:
        await session.stop()


def strangers(sample: Sample | None) -> set[int]:
    """Return the pids of foreign processes on all devices."""
    devices = sample.devices if sample is not None else ()
    return {row.pid for each in devices for row in each.processes or () if not row.ours}
