"""Time a callable: first call apart, warm-up, then blocks until the median is precise enough.

The method combines nvbench and torch.utils.benchmark: blocks of calls long enough for the clock, a
confidence interval of the median as the goal, and an honest end where noise or time forbids it. The
result names which of them ended the measurement.
"""

from __future__ import annotations

import bisect
import math
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal

from workloads.measure import cpu_share, estimates
from workloads.measure.clocks import Clock, Flushed, TimedBlock
from workloads.protocol.messages import Budget, Phase
from workloads.protocol.results import Timing

BLOCK_S = 0.03
"""Approximate length of a block: the clock's own error is then far below the noise."""
SHORTEST_SINGLE_S = 50e-6
"""For a single shorter call, a pair of events measures the gaps between launches."""
NOISE_WINDOW = 32
NOISE_STABLE = 0.05
NOISE_WORTH = 16
"""Independent blocks needed to estimate the noise."""
P95_CALLS = 20
"""Fewest calls for a 95th percentile: with fewer it is little else than the maximum."""


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop; times in seconds."""

    target: float
    """Half of the 95% interval over the median."""
    warm_up_s: float
    warm_up_calls: int
    min_blocks: int
    min_s: float
    max_s: float
    calls_apart: int
    """Calls timed one by one at the end, for the percentiles."""


PLANS: dict[Budget, Plan] = {
    "quick": Plan(
        target=0.02,
        warm_up_s=0.1,
        warm_up_calls=3,
        min_blocks=6,
        min_s=0.2,
        max_s=3.0,
        calls_apart=20,
    ),
    "normal": Plan(
        target=0.005,
        warm_up_s=0.3,
        warm_up_calls=10,
        min_blocks=10,
        min_s=0.5,
        max_s=10.0,
        calls_apart=50,
    ),
    "careful": Plan(
        target=0.0025,
        warm_up_s=1.0,
        warm_up_calls=10,
        min_blocks=20,
        min_s=2.0,
        max_s=60.0,
        calls_apart=100,
    ),
}
SHORT = Plan(
    target=0.05, warm_up_s=0.02, warm_up_calls=2, min_blocks=6, min_s=0.05, max_s=0.5, calls_apart=0
)
"""Plan for the figures beside the main one."""


class Cancelled(Exception):  # noqa: N818 (it is an outcome, not an error)
    """Raised by the control when the run must end; its measurements are kept."""


class Control:
    """Receives a measurement's progress between blocks; this one ignores it."""

    def report(
        self,
        phase: Phase,
        blocks: int = 0,
        estimate_s: float | None = None,
        half_width: float | None = None,
        remaining_s: float | None = None,
    ) -> None:
        """Report the run's progress.

        Raises:
            Cancelled: the run must end.
        """


@dataclass
class Blocks:
    """The measured blocks."""

    calls_per_block: int
    wall: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)
    enqueue: list[float] = field(default_factory=list)
    ordered: list[float] = field(default_factory=list)
    """Seconds per call by the clock in use, ascending."""
    in_order: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    """The relative distance between the quartiles after each block."""
    half_width: float | None = None
    """Half of the median's interval, over the median."""

    def add(self, block: TimedBlock, clock: Literal["device", "wall"]) -> None:
        """Add one block."""
        n = self.calls_per_block
        self.wall.append(block.wall_s / n)
        self.enqueue.append(block.enqueue_s / n)
        if block.device_s is not None:
            self.device.append(block.device_s / n)
        seconds = block.seconds(clock)
        self.in_order.append(seconds / n)
        bisect.insort(self.ordered, seconds / n)
        self.noise.append(estimates.relative_iqr(self.ordered))
        # After many blocks, one more changes little, and each evaluation takes longer.
        if len(self.ordered) <= 100 or len(self.ordered) % 10 == 0:
            self.half_width = estimates.relative_half_width(
                self.interval(), estimates.quantile(self.ordered, 0.5)
            )

    def interval(self) -> tuple[float, float] | None:
        """Return the 95% interval of the median."""
        return estimates.block_interval(self.in_order, self.ordered)

    def noise_is_stable(self) -> bool:
        """Return whether the noise estimate has stopped changing, so more blocks would add little.

        Blocks that resemble their neighbors seem stable too, until there are many of them.
        """
        window = self.noise[-NOISE_WINDOW:]
        stable = len(window) == NOISE_WINDOW and estimates.relative_spread(window) < NOISE_STABLE
        return stable and estimates.independent_blocks(self.in_order) >= NOISE_WORTH


KNOWN = "median known to"
"""Begins the reason to stop where the interval has become narrow enough."""


def find_stop_reason(blocks: Blocks, measured_s: float, plan: Plan) -> str | None:
    """Return the reason to stop after these blocks, or ``None``."""
    n = len(blocks.ordered)
    if n >= plan.min_blocks and measured_s >= plan.min_s:
        if blocks.half_width is not None and blocks.half_width <= plan.target:
            return f"{KNOWN} ±{plan.target:.2%}"
        if blocks.noise_is_stable():
            return "noise stable above the target"
    # Even a slow call runs often enough for a median, if not for an interval.
    if measured_s >= plan.max_s and n >= 3:
        return f"time limit of {plan.max_s:g} s"
    return None


def warm_up(call: Callable[[], object], clock: Clock, plan: Plan, control: Control) -> float:
    """Call until warm, and return the wall-clock seconds of a warm call, with its flush if any."""
    spent, calls, batch = 0.0, 0, 1
    while True:
        latest = clock.block(call, batch).wall_s / batch
        spent += latest * batch
        calls += batch
        control.report("warm-up", estimate_s=latest)
        is_warm = spent >= plan.warm_up_s and calls >= plan.warm_up_calls
        if is_warm or spent >= plan.max_s / 4:
            return latest
        batch = max(1, min(2 * batch, math.ceil(BLOCK_S / max(latest, 1e-9))))


def first_call(call: Callable[[], object], clock: Clock) -> float:
    """Return the seconds of one synchronized call, which loads, searches and allocates."""
    return clock.block(call.call if isinstance(call, Flushed) else call, 1).wall_s


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def measure(
    call: Callable[[], object],
    clock: Clock,
    counts: Literal["device", "wall"],
    plan: Plan,
    control: Control,
    first: Callable[[Callable[[], object], Clock], float] | None = None,
) -> tuple[Timing, bool]:
    """Time a callable.

    Args:
        call: what to time.
        clock: of the device it runs on.
        counts: the clock whose time is the headline.
        plan: when to stop.
        control: receives the progress; may end the run.
        first: makes the first call and other untimed ones; returns the first call's seconds.

    Returns:
        The timing, and whether a cancel interrupted it.

    Raises:
        Cancelled: the run must end, and no block was measured.
    """
    control.report("first call")
    first_s = (first or first_call)(call, clock)
    call_s = warm_up(call, clock, plan, control)
    blocks = Blocks(max(1, round(BLOCK_S / max(call_s, 1e-9))))
    measured_s, stopped_by, cancelled = 0.0, None, False
    faults, began, measured_from = _faults(), perf_counter(), time.time()
    cpu = cpu_share.now()
    while stopped_by is None:
        block = clock.block(call, blocks.calls_per_block)
        blocks.add(block, counts)
        measured_s += block.wall_s
        stopped_by = find_stop_reason(blocks, measured_s, plan)
        try:
            control.report(
                "measuring",
                len(blocks.ordered),
                estimates.quantile(blocks.ordered, 0.5),
                blocks.half_width,
                max(0.0, plan.max_s - (perf_counter() - began)),
            )
        except Cancelled:
            stopped_by, cancelled = "cancelled", True
    calls = blocks.calls_per_block * len(blocks.ordered)
    faults, measured_to = _faults() - faults, time.time()
    others = cpu_share.other_cores(cpu, cpu_share.now(), perf_counter() - began)
    apart: list[float] = []
    if not cancelled:
        try:
            apart = _one_by_one(call, clock, counts, plan, blocks=blocks, control=control)
        except Cancelled:
            cancelled = True
    span = (measured_from, measured_to)
    timing = _timing(
        blocks,
        first_s,
        faults / calls,
        stopped_by=stopped_by,
        apart=apart,
        counts=counts,
        span=span,
    )
    return replace(timing, other_cpu_cores=others), cancelled


def _one_by_one(
    call: Callable[[], object],
    clock: Clock,
    counts: Literal["device", "wall"],
    plan: Plan,
    blocks: Blocks,
    control: Control,
) -> list[float]:
    """Time single calls for the percentiles, ascending; for at most a tenth of the time limit.

    The list is empty where there would be too few, or where calls on a device are so short that
    their times would be launch times.
    """
    median = estimates.quantile(blocks.ordered, 0.5)
    # With its flush, if any.
    call_s = max(median, statistics.median(blocks.wall))
    calls = min(plan.calls_apart, int(plan.max_s / 10 / max(call_s, 1e-9)))
    singles = Blocks(1)
    if calls < P95_CALLS:
        return []
    for _ in range(calls):
        block = clock.block(call, 1)
        if block.device_s is not None and block.device_s < SHORTEST_SINGLE_S:
            return []
        singles.add(block, counts)
        control.report("measuring", len(blocks.ordered), median)
    return singles.ordered


def _timing(
    blocks: Blocks,
    first_s: float,
    faults_per_call: float,
    stopped_by: str,
    apart: list[float],
    counts: Literal["device", "wall"],
    span: tuple[float, float],
) -> Timing:
    ordered = blocks.ordered
    if blocks.calls_per_block == 1 and len(ordered) >= P95_CALLS:
        apart = ordered
    has_device = bool(blocks.device)
    return Timing(
        median_s=estimates.quantile(ordered, 0.5),
        q1_s=estimates.quantile(ordered, 0.25),
        q3_s=estimates.quantile(ordered, 0.75),
        min_s=ordered[0],
        p95_s=estimates.quantile(apart, 0.95) if len(apart) >= P95_CALLS else None,
        ci95_s=blocks.interval(),
        blocks=len(ordered),
        calls=blocks.calls_per_block * len(ordered),
        first_call_s=first_s,
        first_call_cold=True,
        stopped_by=stopped_by,
        clock="device" if has_device and counts == "device" else "wall",
        wall_median_s=statistics.median(blocks.wall),
        device_median_s=statistics.median(blocks.device) if has_device else None,
        enqueue_s=statistics.median(blocks.enqueue) if has_device else None,
        faults_per_call=faults_per_call,
        other_cpu_cores=None,
        block_times_s=tuple(blocks.in_order),
        measured_from=span[0],
        measured_to=span[1],
    )
