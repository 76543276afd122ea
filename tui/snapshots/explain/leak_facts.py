"""What is known of a leak: its holder, its bytes, and how fast memory grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from tui.allocators.growth import estimate_growth, still_grows
from tui.core.text.numbers import round_size
from tui.snapshots.explain.evidence import Evidence, Growth, Rate
from tui.snapshots.explain.frames import Frame, format_line
from tui.snapshots.explain.inventory import Container, Inventory, StepMemory

LeakKind = Literal["graphs", "total", "list", "cat", "traceback", "handled", "unnamed", "lost"]
"""Kind of growth: a container whose tensors carry graphs; one graph that accumulates over steps; a
container of plain tensors; a tensor replaced by a longer one; frames that a stored exception keeps
alive, or one whose except clause is running; an unnamed holder; models without a name."""


@dataclass(frozen=True, slots=True)
class Leak:
    """The holder of growing memory."""

    kind: LeakKind
    subject: str
    """Description of the holder: ``losses (list of 190, oom.py:13)``."""
    name: str
    """Its name, ``losses``; empty if unknown."""
    where: Frame | None
    bytes: int
    reachable: int
    """Bytes that Python can reach under this name; graphs hold the rest."""
    rate: Rate | None
    training: bool
    graphs: int = 0
    """Number of its tensors with a graph."""
    carried: bool = False
    """True for a state carried from one iteration to the next, as opposed to a sum."""
    retains: bool = False
    """True if a backward pass of it keeps its graph for another one (``retain_graph=True``)."""
    viewed: int = 0
    """Bytes of the elements of its tensors, less than :attr:`reachable` for views; 0 if unknown."""
    also: tuple[str, ...] = ()
    """Names of other tensors whose bytes are counted with it."""
    empties: Frame | None = None
    """A line that removes items: the collection may have a limit that it has not reached."""
    is_dict: bool = False
    """True if its items have keys."""
    also_where: tuple[Frame, ...] = ()
    """Other lines that may have added as much as that at :attr:`where`."""


def describe_site(growth: Growth) -> str:
    """Format the line of a growth: ``train (oom.py:15)``."""
    if growth.where is not None and growth.where.name not in ("", "<module>"):
        return f"{growth.where.name} ({format_line(growth.where)})"
    return growth.label


def describe_pace(leak: Leak) -> str:
    """Format the pace, `` grows by 32 MiB per step``, to stand right behind the subject.

    Without a known pace, the bytes held. Of several tensors, the number grows and not each one.
    """
    rate = leak.rate
    several = " of " in leak.name or len(leak.also) > 1
    if rate is None:
        clause = f"{'hold' if several else 'holds'} {round_size(leak.bytes)}"
        return f" {clause}{' and a graph for each' if leak.kind == 'graphs' else ''}"
    pace = format_pace(rate)
    if leak.subject[:1].isdigit():
        return f": {pace.replace(' per', ' more per')}"
    verb = "grow" if leak.kind == "unnamed" or several else "grows"
    return f" {verb} by {pace}"


def format_pace(rate: Rate) -> str:
    """Format a growth: ``32 MiB per step``."""
    return f"{round_size(int(rate.rate))} per {'second' if rate.per == 's' else rate.per}"


# ---- growth ----


FEW = 8
"""Minimum number of tensors in a leaking container."""
SHARE = 0.1
"""Share of the allocated bytes from which growth is reported."""
LARGE = 0.3
"""Share of the allocated bytes from which growth is reported although none was measured."""
FEWEST_STEPS = 4
"""Minimum number of steps for a growth rate, if each step adds about the same."""
EVEN = 1.05
"""Greatest ratio of what one of the first steps adds to the median, if a holder is known."""


def find_growth_rate(evidence: Evidence) -> Rate | None:
    """Return the allocated bytes' growth per step; ``None`` if unmeasured or possibly zero."""
    for rate in (_by_steps(evidence.steps), evidence.rate):
        if rate is not None and rate.low > 0:
            return rate
    return None


def adds_much(rate: Rate, evidence: Evidence) -> bool:
    """Return whether a growth made a large part of the allocated memory."""
    return int(rate.rate * rate.span) >= SHARE * evidence.allocated


def is_steady(evidence: Evidence) -> bool:
    """Return whether memory did not grow over a sufficient number of optimizer steps."""
    return len(evidence.steps) >= FEW and find_growth_rate(evidence) is None


def _by_steps(steps: Sequence[StepMemory]) -> Rate | None:
    """Return the growth of the bytes allocated after each optimizer step."""
    points = [(float(step.step), float(step.allocated)) for step in steps]
    source = "allocated after each optimizer step"
    grows = estimate_growth(points)
    if grows is not None:
        return Rate.of_growth(grows, "step", source) if grows.steady else None
    if len(points) < 3 or points[-1][0] - points[0][0] < FEWEST_STEPS:
        return None
    return _grow_evenly(points, 2.0, source)


def _grow_evenly(points: Sequence[tuple[float, float]], most: float, source: str) -> Rate | None:
    """Return the growth if each step adds as much as the median, within the factor ``most``."""
    added = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in pairwise(points)
        if after[0] > before[0]
    ]
    middle = median(added) if len(added) > 1 else 0.0
    if middle <= 0 or min(added) < middle / most or max(added) > most * middle:
        return None
    return Rate(middle, min(added), max(added), "step", source, points[-1][0] - points[0][0])


def find_first_rate(evidence: Evidence) -> Rate | None:
    """Return the growth over the first few steps, if each added the same and much.

    A step that adds gigabytes leaves no time for a measurement. Two equal growths alone are no
    leak: the caller must know a holder of them.
    """
    points = [(float(step.step), float(step.allocated)) for step in evidence.steps]
    rate = _grow_evenly(points, EVEN, "allocated after each of the first optimizer steps")
    return rate if rate is not None and adds_much(rate, evidence) else None


def estimate_rate(container: Container, evidence: Evidence, inventory: Inventory) -> Rate | None:
    """Estimate the growth of a container larger than all memory allocated after the first step.

    The lower bound attributes all of that memory to the container, the upper bound none.
    """
    first = next(iter(inventory.steps), None)
    steps = 0 if first is None else inventory.step - first.step
    if first is None or steps < FEW or container.length < FEW:
        return None
    if not still_grows([(step.step, step.allocated) for step in inventory.steps]):
        return None  # it has been filled, as a cache is
    last = inventory.steps[-1]
    if 2 * (last.step - first.step) >= steps // 2 and last.allocated <= first.allocated:
        return None  # it had not growth by then
    least = container.bytes - first.allocated
    if least < LARGE * evidence.allocated:
        return None
    most = container.bytes / steps
    per_step = (
        container.bytes / container.length if has_one_per_step(container, inventory) else most
    )
    source = "its bytes, and the bytes allocated after the first step"
    return Rate(per_step, least / steps, most, "step", source, steps)


def has_one_per_step(container: Container, inventory: Inventory) -> bool:
    """Return whether a container got one element in each optimizer step."""
    return abs(container.length - inventory.step) <= 2


def count_grown(container: Container, inventory: Inventory, rate: Rate | None, grew: int) -> int:
    """Return the bytes that have grown: of a container with one element per step, for all of them.

    What was measured begins after the first step.
    """
    if rate is None or rate.per != "step" or not has_one_per_step(container, inventory):
        return grew
    return int(rate.rate * container.length)


def sum_graph_bytes(inventory: Inventory, evidence: Evidence) -> int:
    """Return the bytes that graphs may hold because nothing else accounts for them."""
    return max(0, inventory.remainder + inventory.other_bytes - (evidence.rounding or 0))
