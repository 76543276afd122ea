"""When a measurement stops and what it reports, with a clock that is made up."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator

import pytest

from tests.tiers import VARIANT
from workloads.measure import timing
from workloads.measure.clocks import TimedBlock
from workloads.measure.timing import Blocks, Cancelled, Control, Plan
from workloads.protocol.messages import Phase

PLAN = Plan(0.01, 0.1, 3, 6, 0.2, 3.0, 20)


class MadeUpClock:
    """Each call takes the next of the given seconds; the device takes half of that."""

    def __init__(self, seconds: Iterator[float], device: bool = False) -> None:
        self._seconds = seconds
        self._device = device
        self.calls = 0

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def block(self, call: Callable[[], object], calls: int) -> TimedBlock:
        call()
        self.calls += calls
        wall = sum(next(self._seconds) for _ in range(calls))
        return TimedBlock(wall, wall / 2 if self._device else None, wall / 4)


def _constant(seconds: float) -> Iterator[float]:
    return itertools.repeat(seconds)


def _noisy(seed: int, spread: float) -> Iterator[float]:
    rng = random.Random(seed)
    return (0.03 * (1 + spread * rng.random()) for _ in itertools.count())


def test_a_steady_call_stops_at_the_target() -> None:
    measured, cancelled = timing.measure(
        lambda: None, MadeUpClock(_constant(1e-3)), "wall", PLAN, Control()
    )
    assert measured.stopped_by == "median known to ±1.00%"
    assert measured.median_s == pytest.approx(1e-3)
    assert not cancelled


def test_the_first_call_is_kept_apart() -> None:
    clock = MadeUpClock(itertools.chain([5.0], _constant(1e-3)))
    measured, _ = timing.measure(lambda: None, clock, "wall", PLAN, Control())
    assert measured.first_call_s == 5.0
    assert measured.median_s == pytest.approx(1e-3)


def test_a_block_lasts_about_30_ms() -> None:
    measured, _ = timing.measure(
        lambda: None, MadeUpClock(_constant(1e-3)), "wall", PLAN, Control()
    )
    assert measured.calls == 30 * measured.blocks


def test_a_slow_call_is_a_block_of_its_own_and_meets_the_time_limit() -> None:
    measured, _ = timing.measure(lambda: None, MadeUpClock(_constant(2.0)), "wall", PLAN, Control())
    assert measured.calls == measured.blocks == 3
    assert measured.stopped_by == "time limit of 3 s"
    assert measured.ci95_s is None


def test_noise_that_does_not_settle_at_the_target_ends_it_and_says_so() -> None:
    plan = Plan(0.0001, 0.1, 3, 6, 0.2, 1000.0, 0)
    measured, _ = timing.measure(lambda: None, MadeUpClock(_noisy(3, 0.3)), "wall", plan, Control())
    assert measured.stopped_by == "noise stable above the target"


def test_the_devices_own_time_is_the_headline_where_the_workload_asks_for_it() -> None:
    clock = MadeUpClock(_constant(1e-3), device=True)
    measured, _ = timing.measure(lambda: None, clock, "device", PLAN, Control())
    assert measured.clock == "device"
    assert measured.median_s == pytest.approx(0.5e-3)
    assert measured.wall_median_s == pytest.approx(1e-3)
    assert measured.enqueue_s == pytest.approx(0.25e-3)


def test_a_device_without_events_falls_back_to_the_wall_clock_and_says_so() -> None:
    measured, _ = timing.measure(
        lambda: None, MadeUpClock(_constant(1e-3)), "device", PLAN, Control()
    )
    assert measured.clock == "wall"
    assert measured.device_median_s is None


class CancelAt(Control):
    """Cancels when a phase has reported so often."""

    def __init__(self, phase: Phase, blocks: int) -> None:
        self._phase, self._blocks = phase, blocks

    def report(self, phase: Phase, blocks: int = 0, *_: object, **_so_far: object) -> None:
        if phase == self._phase and blocks >= self._blocks:
            raise Cancelled


def test_a_cancel_keeps_the_blocks_so_far() -> None:
    measured, cancelled = timing.measure(
        lambda: None, MadeUpClock(_constant(1e-3)), "wall", PLAN, CancelAt("measuring", 3)
    )
    assert cancelled
    assert measured.blocks == 3
    assert measured.stopped_by == "cancelled"


def test_a_cancel_before_the_first_block_leaves_nothing_to_keep() -> None:
    with pytest.raises(Cancelled):
        timing.measure(
            lambda: None, MadeUpClock(_constant(1e-3)), "wall", PLAN, CancelAt("warm-up", 0)
        )


def test_too_few_single_calls_give_no_95th_percentile() -> None:
    plan = Plan(0.01, 0.1, 3, 6, 0.2, 3.0, 5)
    measured, _ = timing.measure(
        lambda: None, MadeUpClock(_constant(1e-3)), "wall", plan, Control()
    )
    assert measured.p95_s is None


def test_more_time_gives_a_narrower_target() -> None:
    plans = [timing.PLANS[name] for name in timing.PLANS]
    assert [plan.target for plan in plans] == sorted((p.target for p in plans), reverse=True)
    assert [plan.max_s for plan in plans] == sorted(plan.max_s for plan in plans)


def test_stability_of_noise_needs_a_full_window() -> None:
    blocks = Blocks(1)
    for _ in range(timing.NOISE_WINDOW - 1):
        blocks.add(TimedBlock(1.0, None, 1.0), "wall")
    assert not blocks.noise_is_stable()


def _correlated(seed: int, spread: float, correlation: float) -> Iterator[float]:
    """Block times of 30 ms at the median, whose logarithms are an AR(1) process."""
    rng = random.Random(seed)
    deviation = rng.gauss(0, 1)
    while True:
        yield 0.03 * math.exp(spread * deviation)
        fresh = rng.gauss(0, 1) * math.sqrt(1 - correlation**2)
        deviation = correlation * deviation + fresh


@pytest.mark.parametrize(
    "correlation",
    [
        pytest.param(0.0, marks=VARIANT),
        *(pytest.param(each, marks=pytest.mark.slow) for each in (0.3, 0.5)),
        0.8,
    ],
)
@pytest.mark.parametrize("spread", [0.003, pytest.param(0.01, marks=pytest.mark.slow)])
def test_the_interval_covers_the_median_of_blocks_that_follow_one_another(
    spread: float, correlation: float
) -> None:
    known, covered, blocks = 0, 0, 0
    for seed in range(150):
        seconds = _correlated(seed, spread, correlation)
        plan = timing.PLANS["normal"]
        found = Blocks(1)
        stopped_by = None
        while stopped_by is None:
            wall = next(seconds)
            found.add(TimedBlock(wall, None, wall), "wall")
            stopped_by = timing.find_stop_reason(found, sum(found.wall), plan)
        blocks += len(found.ordered)
        interval = found.interval()
        if interval is not None:
            known += 1
            covered += interval[0] <= 0.03 <= interval[1]
    assert known >= 145
    assert covered / known >= 0.9
    if correlation == 0:
        # Without a look at the correlation the rule stops after 17 and 28 blocks.
        assert blocks / 150 <= 1.2 * (17 if spread == 0.003 else 28)
