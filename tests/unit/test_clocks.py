"""A call that is flushed before is timed alone; the flush counts only in the block's length."""

from __future__ import annotations

import pytest

from workloads.measure import clocks, timing
from workloads.measure.clocks import Flushed, HostClock, MpsClock, TimedBlock
from workloads.measure.timing import Control, Plan

FLUSH_S, CALL_S = 10e-3, 1e-3
PLAN = Plan(
    target=0.01, warm_up_s=0.0, warm_up_calls=1, min_blocks=6, min_s=0.1, max_s=1.0, calls_apart=50
)


class MadeUpTime:
    """A host's clock that moves only when something runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[str] = []

    def __call__(self) -> float:
        return self.now

    def run(self, what: str, seconds: float) -> None:
        self.ran.append(what)
        self.now += seconds

    def flushed(self) -> Flushed:
        return Flushed(lambda: self.run("call", CALL_S), lambda: self.run("flush", FLUSH_S))


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> MadeUpTime:
    made_up = MadeUpTime()
    monkeypatch.setattr(clocks, "perf_counter", made_up)
    monkeypatch.setattr(timing, "perf_counter", made_up)
    return made_up


def test_each_call_is_timed_after_its_flush(time: MadeUpTime) -> None:
    block = HostClock().block(time.flushed(), 3)
    assert time.ran == ["flush", "call"] * 3
    assert block.wall_s == pytest.approx(3 * (FLUSH_S + CALL_S))
    assert block.seconds("device") == pytest.approx(3 * CALL_S)
    assert block.seconds("wall") == pytest.approx(3 * CALL_S)


def test_a_device_without_events_is_waited_for_before_and_after(
    time: MadeUpTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MpsClock, "synchronize", lambda _: time.run("wait", 0.5))
    block = MpsClock().block(time.flushed(), 2)
    assert time.ran == ["flush", "wait", "call", "wait"] * 2
    assert block.seconds("device") == pytest.approx(2 * (CALL_S + 0.5))


def test_a_call_without_a_flush_is_timed_back_to_back(time: MadeUpTime) -> None:
    block = HostClock().block(lambda: time.run("call", CALL_S), 4)
    assert block.seconds("wall") == block.wall_s == pytest.approx(4 * CALL_S)
    assert block.calls_s is None


def test_the_device_s_own_time_comes_first() -> None:
    assert TimedBlock(3.0, 1.0, 0.5).seconds("device") == 1.0
    assert TimedBlock(3.0, 1.0, 0.5).seconds("wall") == 3.0
    assert TimedBlock(3.0, None, 0.5).seconds("device") == 3.0


def test_the_median_is_the_call_s_and_the_time_limit_counts_flushes_too(time: MadeUpTime) -> None:
    measured, cancelled = timing.measure(time.flushed(), HostClock(), "device", PLAN, Control())
    assert not cancelled
    assert measured.median_s == pytest.approx(CALL_S)
    assert measured.wall_median_s == pytest.approx(CALL_S + FLUSH_S)
    # Blocks of 30 ms hold 3 calls with their flushes, not 30.
    assert measured.calls == 3 * measured.blocks
    assert time.now < 1.5 * PLAN.max_s


def test_the_first_call_has_no_flush(time: MadeUpTime) -> None:
    assert timing.first_call(time.flushed(), HostClock()) == pytest.approx(CALL_S)
    assert time.ran == ["call"]
