"""How fast memory grows: over optimizer steps, as measured from outside, or for one container."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from tui.allocators import findings
from tui.snapshots.explain.evidence import Evidence, Rate
from tui.snapshots.explain.inventory import Container, Inventory, StepMemory

FEW = 8
"""Minimum number of tensors in a leaking container."""
LARGE = 0.3
"""Share of the allocated bytes from which growth is reported although none was measured."""
FEWEST_STEPS = 4
"""Minimum number of steps for a growth rate, if each step adds about the same."""


def find_growth_rate(evidence: Evidence) -> Rate | None:
    """Return the allocated bytes' growth per step; ``None`` if unmeasured or possibly zero."""
    for rate in (_by_steps(evidence.steps), evidence.rate):
        if rate is not None and rate.low > 0:
            return rate
    return None


def is_steady(evidence: Evidence) -> bool:
    """Return whether memory did not grow over a sufficient number of optimizer steps."""
    return len(evidence.steps) >= FEW and find_growth_rate(evidence) is None


def _by_steps(steps: Sequence[StepMemory]) -> Rate | None:
    """Return the growth of the bytes allocated after each optimizer step."""
    points = [(float(step.step), float(step.allocated)) for step in steps]
    source = "allocated after each optimizer step"
    grows = findings.growth(points)
    if grows is not None:
        return Rate.of_growth(grows, "step", source) if grows.steady else None
    added = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in pairwise(points)
        if after[0] > before[0]
    ]
    if len(added) < 2 or points[-1][0] - points[0][0] < FEWEST_STEPS:
        return None
    middle = median(added)
    if middle <= 0 or min(added) < middle / 2 or max(added) > 2 * middle:
        return None
    return Rate(middle, min(added), max(added), "step", source, points[-1][0] - points[0][0])


def estimate_rate(container: Container, evidence: Evidence, inventory: Inventory) -> Rate | None:
    """Estimate the growth of a container larger than all memory allocated after the first step.

    The lower bound attributes all of that memory to the container, the upper bound none.
    """
    first = next(iter(inventory.steps), None)
    steps = 0 if first is None else inventory.step - first.step
    if first is None or steps < FEW or container.length < FEW:
        return None
    if not findings.still_grows([(step.step, step.allocated) for step in inventory.steps]):
        return None  # it has been filled, as a cache is
    last = inventory.steps[-1]
    if 2 * (last.step - first.step) >= steps // 2 and last.allocated <= first.allocated:
        return None  # it had not grown by then
    least = container.bytes - first.allocated
    if least < LARGE * evidence.allocated:
        return None
    most = container.bytes / steps
    per_step = (
        container.bytes / container.length if abs(container.length - inventory.step) <= 2 else most
    )
    source = "its bytes, and the bytes allocated after the first step"
    return Rate(per_step, least / steps, most, "step", source, steps)
