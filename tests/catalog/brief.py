"""Budgets for very short measurements: tests check findings, not their precision."""

from __future__ import annotations

from dataclasses import replace

from workloads.measure import comparison, timing
from workloads.measure.timing import Plan
from workloads.runner import bench

BRIEF = Plan(
    target=0.5, warm_up_s=0, warm_up_calls=1, min_blocks=3, min_s=0, max_s=0.2, calls_apart=0
)
BLOCK_S = 0.001
ROUNDS = 3


def measure_briefly() -> None:
    """Use these budgets for the rest of this process and its forks.

    ``careful`` takes its usual time, and measures from its first call on.
    """
    endless = replace(timing.PLANS["careful"], warm_up_s=0, warm_up_calls=1)
    timing.PLANS |= {"quick": BRIEF, "normal": BRIEF, "careful": endless}
    timing.SHORT = BRIEF
    comparison.BLOCK_PAIRS |= {"quick": ROUNDS, "normal": ROUNDS}
    timing.BLOCK_S = BLOCK_S
    bench.BLOCK_S = BLOCK_S  # type: ignore[attr-defined] # its own since it was imported
    bench.ROUNDS = ROUNDS
