"""How far the clock of another host is ahead, from when its samples arrive."""

from __future__ import annotations

from dataclasses import replace

from tests.screens.helpers import NOW, gpu, sample
from tui.core.events import EventBus
from tui.devices.state.hosts import CLOCK_S
from tui.devices.state.machine import MachineState
from tui.hosts.events import HostSample, HostsNamed


class _Host:
    """A host whose clock is ahead of this machine's, and can be set."""

    def __init__(self) -> None:
        self.bus = EventBus()
        self.machine = MachineState(self.bus)
        self.bus.publish(HostsNamed(("gpu1",), here=False))
        self.ahead_s = 3600.0
        self.now = NOW

    def tick(self, seconds: float, late_s: float = 0.0) -> None:
        """Let a sample arrive, a second after the one before."""
        for _ in range(round(seconds)):
            self.now += 1.0
            taken = replace(sample(gpu(0)), at=self.now + self.ahead_s - late_s)
            self.bus.publish(HostSample("gpu1", taken, 0.01, self.now))

    @property
    def age_s(self) -> float:
        """Return the age of the newest figures, as the screen shows it."""
        its = self.machine.hosts.all[0].machine
        assert its.sample is not None
        return its.now(self.now) - its.sample.at


def test_a_late_sample_is_old() -> None:
    at = _Host()
    at.tick(5)
    assert at.age_s == 0.0
    at.tick(5, late_s=4.0)
    assert at.age_s == 4.0


def test_a_clock_that_was_set_back_is_known_after_a_while() -> None:
    at = _Host()
    at.tick(5)
    at.ahead_s -= 60.0
    at.tick(1)
    assert at.age_s == 60.0
    at.tick(CLOCK_S)
    assert at.age_s == 0.0


def test_a_clock_that_was_set_forward_is_known_at_once() -> None:
    at = _Host()
    at.tick(5)
    at.ahead_s += 60.0
    at.tick(1)
    assert at.age_s == 0.0


def test_this_machine_s_clock_may_be_set() -> None:
    for change in (3600.0, -3600.0):
        at = _Host()
        at.tick(5)
        at.now, at.ahead_s = at.now + change, at.ahead_s - change
        at.tick(1)
        assert at.age_s == 0.0
