"""Findings over a process's figures: sentences with their sources. Pure.

A sentence appears only if the figures prove it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN
from typing import Literal, NamedTuple

from tui.allocators.growth import (
    BLOCKS,
    FEWEST_BLOCKS,
    GrowthRate,
    block_floors,
    estimate_growth,
    grows_steadily,
    still_grows,
)
from tui.allocators.plateau import Plateau, find_plateau
from tui.core.merged_points import MergedPoints
from tui.core.text import numbers as fmt
from tui.core.text.numbers import plain, significant
from workloads.protocol.messages import TorchMemory


def at_step(step: int) -> str:
    """Describe a moment by the steps of all optimizers until then.

    A program without an optimizer never makes a step, so the text announces no first step.
    """
    return f"at step {step}" if step else "before any optimizer step"


MOST_POINTS = 960
"""The most stored points; beyond, neighbors merge into their minimum."""
WINDOW_S = 60.0
SHORTEST_S = 10.0
"""The shortest duration in seconds of a state before it becomes a finding."""
SHORTEST_GROWTH_S = 30.0
TOO_SHORT = f"not known yet (needs {SHORTEST_GROWTH_S:g} s)"
"""Why a growth per second is not known."""
LEAST_GROWTH_STEPS = 2 * BLOCKS
"""The fewest steps, and readings, from which a growth per step is known before that time."""
_NEEDS = f"(needs {SHORTEST_GROWTH_S:g} s or {LEAST_GROWTH_STEPS} readings)"
NO_GROWTH, NEVER_KNOWN = f"not known yet {_NEEDS}", f"not known {_NEEDS}"
"""Why the growth of a process that runs, or of one that has ended, is not known."""
LEAST_GROWTH = 1 << 20
"""The least growth in bytes over the watched time; less may be the rounding of a few blocks."""
LEAST_IDLE = 1 << 30
"""The least bytes of cache for a finding, which must also be a tenth of the reserved memory."""
LEAST_SHARE = 0.1

GrowthPer = Literal["step", "s"]
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

LEAST_RISE_STEPS = 12
"""The fewest steps from which a rise is reported before a growth is known."""
LEAST_RISE_READINGS = 2 * LEAST_RISE_STEPS
ENDING_S = 3.0
"""Seconds at the end of a process in which Python may free what the program has allocated."""
RECENT = 0.75
"""Share of the readings before the most recent ones."""

FROM_OUTSIDE = "torch's DeviceStats, read from outside"
ALL_ALLOCATED = f"all of the process's tensors: {FROM_OUTSIDE}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence and its source."""

    key: str
    text: str
    source: str
    growth: GrowthRate | None = None
    """The rate in the sentence, if it is about a growth."""
    per: GrowthPer = "s"
    """Unit of the former."""
    needs: int | None = None
    """Bytes by which the peak of the newest steps exceeds the reserved memory, usually below 0;
    ``None`` if that peak is unknown."""
    is_warning: bool = True
    """False if it needs no attention."""


class _Point(NamedTuple):
    """An allocator's figures at one time, in bytes."""

    at: float
    step: int | None
    allocated: int
    idle: int
    """Reserved memory in unused segments, which ``empty_cache`` returns."""
    split: int
    """Free parts of partly used segments."""
    reserved: int
    peak: int
    """The most allocated until then."""


class Track:
    """One device of one process over time, in bounded memory."""

    def __init__(self) -> None:
        self._merged = MergedPoints(MOST_POINTS, _compute_minima)
        self._retries: deque[tuple[float, int, int]] = deque()
        """Unix times with the counts of cache flushes and OOMs until then."""
        self._growth_per: GrowthPer | None = None
        """The unit of growth since the last reading; ``None`` before it is needed."""

    @property
    def _points(self) -> Sequence[_Point]:
        return self._merged.points

    def add(self, figures: TorchMemory, step: int | None = None) -> None:
        """Add the next reading.

        Args:
            figures: the reading.
            step: the process's reported steps until then; ``None`` without reports.
        """
        point = _Point(
            figures.at,
            step,
            figures.allocated,
            max(0, figures.reserved - figures.active - figures.inactive_split),
            figures.inactive_split,
            figures.reserved,
            figures.allocated_peak,
        )
        self._merged.add(point)
        self._growth_per = None
        self._retries.append((figures.at, figures.alloc_retries, figures.ooms))
        while self._retries[0][0] < figures.at - WINDOW_S:
            self._retries.popleft()

    def before_end(self) -> Track:
        """Return the track of an ended process without what Python freed at its end.

        That is what follows the most memory of its last seconds. A point of several readings has
        the least of them, so all points of these seconds are left out.
        """
        kept = Track()
        kept._merged, kept._retries = self._merged.copy(), self._retries.copy()
        points = kept._merged.points
        if points:
            last = next(i for i, p in enumerate(points) if p.at >= points[-1].at - ENDING_S)
            if not kept._merged.has_merged:
                later = range(last, len(points))
                last = max(later, key=lambda i: (points[i].allocated, i)) + 1
            del points[last:]
        return kept

    def findings(self, *, ended: bool = False) -> tuple[Finding, ...]:
        """Return the present findings.

        Args:
            ended: the process has ended, so the findings give no advice for it.
        """
        idle = None if ended else self._find_idle()
        known = self._is_long_enough()
        risen = self.growth_finding(ended=ended) if known else self._find_rise(ended=ended)
        risen = risen or find_stopped_growth(
            self._grows_over(), self.growth_per, "plateau", "allocated", ALL_ALLOCATED
        )
        edge = self._find_edge(ended=ended)
        findings = (risen, edge, idle, self._find_split())
        return tuple(finding for finding in findings if finding is not None)

    @property
    def _duration(self) -> float:
        return self._points[-1].at - self._points[0].at if self._points else 0.0

    @property
    def growth_per(self) -> GrowthPer:
        """The unit of growth: steps if enough were reported, else seconds."""
        if self._growth_per is None:
            has_steps = len(block_floors(self._by_step())) >= FEWEST_BLOCKS
            self._growth_per = "step" if has_steps else "s"
        return self._growth_per

    def growth(self) -> GrowthRate | None:
        """Return the growth of allocated memory in bytes per step, or per second without steps.

        Return ``None`` after too short a time. After a growth has stopped it is that since then.
        """
        if not self._is_long_enough():
            return None
        points = self._grows_over()
        plateau = _find_proven_plateau(points, self.growth_per)
        return estimate_growth(points[plateau.first :] if plateau else points)

    def _is_long_enough(self) -> bool:
        """Return whether a growth can be known: after a time, or after enough steps."""
        if self._duration >= SHORTEST_GROWTH_S:
            return True
        steps = self._by_step() if self.growth_per == "step" else []
        # Fewer readings would not have the least of each part of the steps.
        return len(steps) >= LEAST_GROWTH_STEPS and steps[-1][0] - steps[0][0] >= LEAST_GROWTH_STEPS

    def _by_step(self) -> list[tuple[float, float]]:
        return [(p.step, p.allocated) for p in self._points if p.step is not None]

    def _grows_over(self) -> list[tuple[float, float]]:
        if self.growth_per == "step":
            return self._by_step()
        return [(point.at, point.allocated) for point in self._points]

    def growth_finding(self, *, ended: bool = False) -> Finding | None:
        """Return that the allocated memory grows; ``None`` if it does not, or not for certain.

        Args:
            ended: the process has ended.
        """
        if not self._is_long_enough():
            return None
        found = find_growth(
            self._grows_over(), self.growth_per, "growth", "allocated", ALL_ALLOCATED, ended=ended
        )
        return None if found is None else replace(found, needs=self._find_need())

    def _find_rise(self, *, ended: bool) -> Finding | None:
        """Return that the allocated memory has risen in a few steps, before a growth is known.

        Without a growth, all minima of the second half of twelve steps exceed those of the first
        once in 924 times, the number of ways to choose 6 out of 12.
        """
        points = self._by_step()
        if len(points) < LEAST_RISE_READINGS:
            return None
        floors, lasted = block_floors(points), points[-1][0] - points[0][0]
        if len(floors) < LEAST_RISE_STEPS or lasted < LEAST_RISE_STEPS:
            return None
        values = [value for _, value in floors]
        half = len(values) // 2
        if min(values[half:]) <= max(values[:half]) or not still_grows(points):
            return None
        rate = estimate_growth(points)
        if rate is None or rate.low * lasted < LEAST_GROWTH:
            return None
        steps, verb = fmt.count(round(lasted), "step"), "rose" if ended else "has risen"
        return Finding(
            "rise",
            f"allocated {verb} {format_rate(rate, 'step')}, in {steps}"
            + ("" if ended else " so far"),
            f"{ALL_ALLOCATED}; {_describe_slope('steps')}",
            rate,
            "step",
            self._find_need(),
        )

    def _find_need(self) -> int | None:
        """Return by how much the newest steps' peak exceeds the reserved memory.

        An old peak, such as that of the first step, would be no peak of the newest steps.
        """
        newest, earlier = self._points[-1], self._points[int(RECENT * len(self._points))]
        return newest.peak - newest.reserved if newest.peak > earlier.peak else None

    def _find_edge(self, *, ended: bool) -> Finding | None:
        if not self._retries:
            return None
        (_, before, ooms_before), (last, now, ooms) = self._retries[0], self._retries[-1]
        if now <= before:
            return None
        # Each OOM flushes the cache too: a request for more than the device has does not show
        # how full the device was before.
        at_edge = now - before > ooms - ooms_before
        means = "at the edge of the GPU's memory" if at_edge else "each time at an OOM"
        often = fmt.count(now - before, "time")
        if now - before == 1:
            often, means = "once", means if at_edge else "at an OOM"
        seconds = last - next(at for at, count, _ in self._retries if count > before)
        whose = "its" if ended else "the"
        lately = f" in {whose} last {fmt.duration(seconds)}" if seconds >= 1 else ""
        return Finding(
            "retries",
            f"the allocator flushed its cache {often}{lately}: {means}",
            f"{FROM_OUTSIDE}: num_alloc_retries, num_ooms",
        )

    def _select_recent(self) -> list[_Point]:
        newest = self._points[-1].at if self._points else 0.0
        recent = [point for point in self._points if point.at >= newest - WINDOW_S]
        return recent if recent and newest - recent[0].at >= SHORTEST_S else []

    def _find_idle(self) -> Finding | None:
        points = self._select_recent()
        if not points:
            return None
        idle = min(point.idle for point in points)
        if idle < max(LEAST_IDLE, LEAST_SHARE * max(point.reserved for point in points)):
            return None
        return Finding(
            "idle cache",
            f"{fmt.size(idle)} cached but unused in the last "
            f"{fmt.duration(points[-1].at - points[0].at)}: `torch.cuda.empty_cache()` would "
            "release it to other processes",
            f"{FROM_OUTSIDE}: reserved_bytes - active_bytes - inactive_split_bytes",
        )

    def _find_split(self) -> Finding | None:
        points = self._select_recent()
        if not points:
            return None
        split = min(point.split for point in points)
        if split < max(LEAST_IDLE, LEAST_SHARE * max(point.reserved for point in points)):
            return None
        return Finding(
            "fragmentation",
            f"{fmt.size(split)} cached lies in partly used segments, which `empty_cache` cannot "
            "return; `expandable_segments:True` in PYTORCH_CUDA_ALLOC_CONF reduces it",
            f"{FROM_OUTSIDE}: inactive_split_bytes; PyTorch's notes on CUDA, memory management",
        )


FURTHEST = 20.0
"""How many times the observed steps or time a growth is projected at most."""


def project_full(finding: Finding, free: int) -> float | None:
    """Return after how many steps or seconds a growth needs all memory of a GPU or of the host.

    The peak of the newest steps grows with what they leave allocated; it may fill the reserved
    memory and the free memory of the GPU.

    Args:
        finding: a growth.
        free: free bytes of the GPU, or available bytes of the host.

    Returns:
        The steps or seconds; ``None`` if they are not known, or too many to be projected.
    """
    rate, needs = finding.growth, finding.needs
    if rate is None or needs is None or rate.low <= 0:
        return None
    left = max(0, free - needs) / rate.rate
    return left if left <= FURTHEST * rate.span else None


def describe_full(
    finding: Finding, free: int | None, steps_per_s: float | None = None, what: str = "the GPU"
) -> str:
    """Describe when a growth fills a GPU: ``at this rate, the GPU is full in about 5 steps``.

    Args:
        finding: a growth.
        free: free bytes of the GPU, or available bytes of the host; ``None`` if unknown.
        steps_per_s: the present rate of steps, if known.
        what: what is full then.

    Returns:
        The words; empty if it cannot be foreseen.
    """
    left = None if free is None else project_full(finding, free)
    if left is None:
        return ""
    full = f"at this rate, {what} is full in"
    if finding.per == "s":
        return f"{full} about {fmt.duration(left)}"
    if left < 1:
        return f"{full} the next step"
    seconds = f", {fmt.duration(left / steps_per_s)}" if steps_per_s else ""
    return f"{full} about {fmt.count(math.floor(left), 'step')}{seconds}"


def find_growth(
    points: Sequence[tuple[float, float]],
    per: GrowthPer,
    key: str,
    subject: str,
    source: str,
    *,
    ended: bool = False,
) -> Finding | None:
    """Return that a quantity grows; ``None`` if it does not, or not for certain.

    Args:
        points: steps or Unix times, ascending, and bytes.
        per: unit of the former.
        key: key of the finding.
        subject: name of the quantity.
        source: source of the bytes.
        ended: the process has ended.
    """
    # The cheapest test first: most quantities do not grow.
    if not grows_steadily(points):
        return None
    growth_rate, lasted = estimate_growth(points), points[-1][0] - points[0][0]
    if growth_rate is None or growth_rate.low * lasted < LEAST_GROWTH:
        return None
    if per == "step":
        rate, over = format_rate(growth_rate, "step"), f"in {fmt.count(round(lasted), 'step')}"
    else:
        rate, over = format_rate(growth_rate, "min", 60), f"over {fmt.duration(lasted)}"
    part = "steps" if per == "step" else "time"
    return Finding(
        key,
        f"{subject} {'grew' if ended else 'grows'} {rate}, {over}",
        f"{source}; {_describe_slope(part)}",
        growth_rate,
        per,
    )


def find_stopped_growth(
    points: Sequence[tuple[float, float]], per: GrowthPer, key: str, subject: str, source: str
) -> Finding | None:
    """Return that a quantity grew and has stayed level since; ``None`` if it did not.

    Args:
        points: steps or Unix times, ascending, and bytes.
        per: unit of the former.
        key: key of the finding.
        subject: name of the quantity.
        source: source of the bytes.
    """
    plateau = _find_proven_plateau(points, per)
    if plateau is None:
        return None
    since, lasted = points[plateau.first][0], points[-1][0] - points[plateau.first][0]
    if per == "step":
        until, level = f"until about step {round(since)}", fmt.count(round(lasted), "step")
    else:
        until, level = f"for {fmt.duration(since - points[0][0])}", fmt.duration(lasted)
    return Finding(
        key,
        f"{subject} rose {fmt.size(round(plateau.rise))} {until}, then stayed level for {level}",
        f"{source}; the lowest readings since then rose by less than 2% of that",
        is_warning=False,
    )


def _find_proven_plateau(points: Sequence[tuple[float, float]], per: GrowthPer) -> Plateau | None:
    """Return the plateau after a growth that was proven before it, and was not just a warm-up."""
    plateau = find_plateau(points)
    if plateau is None or plateau.rise < LEAST_GROWTH:
        return None
    before = points[: plateau.first]
    least = LEAST_RISE_STEPS if per == "step" else SHORTEST_GROWTH_S
    is_long = len(before) >= LEAST_RISE_READINGS and before[-1][0] - before[0][0] >= least
    return plateau if is_long and grows_steadily(before) else None


def _describe_slope(part: str) -> str:
    return f"Theil-Sen slope through the lowest reading of each block of {part}"


def format_rate(growth_rate: GrowthRate, per: str, times: float = 1.0) -> str:
    """Return the rate and its bounds in one unit: ``3.1 MiB/min, 2.8 to 3.4 (95%)``.

    The bounds are rounded outwards: the interval includes what it included before.

    Args:
        growth_rate: the rate in bytes.
        per: unit of the time or the steps.
        times: number of the rate's units in one of that unit.
    """
    rates = [times * value for value in (growth_rate.rate, growth_rate.low, growth_rate.high)]
    most, power = max(map(abs, rates)), 0
    while most >= 1000 and power < len(_UNITS) - 1:
        most, power = most / 1024, power + 1
    half_width = times * (growth_rate.high - growth_rate.low) / 2

    def rounded(value: float, mode: str = ROUND_HALF_EVEN) -> str:
        return _format_rounded(value / 1024**power, half_width / 1024**power, mode)

    rate, low, high = rates
    interval = ""
    if rounded(low) != rounded(high):
        interval = f", {rounded(low, ROUND_FLOOR)} to {rounded(high, ROUND_CEILING)} (95%)"
    return f"{rounded(rate)} {_UNITS[power]}/{per}{interval}"


def _format_rounded(value: float, half_width: float, mode: str) -> str:
    """Return the digits that the interval supports."""
    if not value:
        return "0"
    return plain(significant(value, half_width / abs(value) or None, rounding=mode))


def _compute_minima(first: _Point, other: _Point) -> _Point:
    least = min(first, other, key=lambda point: point.allocated)
    return _Point(
        least.at,
        least.step,
        min(first.allocated, other.allocated),
        min(first.idle, other.idle),
        min(first.split, other.split),
        max(first.reserved, other.reserved),
        max(first.peak, other.peak),
    )
