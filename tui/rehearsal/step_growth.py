"""Memory that grows with each rehearsed step: a rehearsal ends before it fills the card. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tui.core.text import numbers as fmt
from tui.watch.runs.agent_events import RehearsedEvent, StepReading

LEAST_READINGS = 3
"""Fewest steps whose memory shows a growth: two increments."""
STEADY = 2.0
"""Most that the largest growth of a step is of the smallest; a step that creates state once is no
steady growth."""
LONGEST_STEPS = 100_000
"""Steps beyond which a growth that would fill the card is not mentioned: few trainings go on."""
MOST_REHEARSED = 1000
"""Most steps that a rehearsal can be asked for to see the card full; more take too long."""
SOME_MORE = 50
"""Steps that show whether a slow growth goes on."""
LEAST_GROWTH = 1 << 20
"""Bytes that the steps must have left together; less may be a list of scalar losses."""
NOTICEABLE = 0.01
"""Share of the peak by which a last step must have raised it to be mentioned."""


@dataclass(frozen=True, slots=True)
class StepGrowth:
    """Memory of one device that each step leaves more of."""

    per_step: int
    """Bytes."""
    steps: int
    """Number of steps that each left more."""
    full_at: int
    """The step at which the device would be full at that rate."""


def find_step_growth(
    reports: Sequence[RehearsedEvent], device: int, headroom: int
) -> StepGrowth | None:
    """Return the growth that would fill a device within :data:`LONGEST_STEPS`, or ``None``.

    Only programs that were ended after their steps would go on.

    Args:
        reports: the measurements of all processes.
        device: its index.
        headroom: bytes of it that were free at the peak.
    """
    rate, last, steps = 0.0, 0, 0
    for report in reports:
        readings = _of_device(report, device) if report.stopped else []
        rates = _rates([(reading.step, reading.allocated) for reading in readings])
        if len(rates) + 1 < LEAST_READINGS or not 0 < max(rates) <= STEADY * min(rates):
            continue
        if readings[-1].allocated - readings[0].allocated >= LEAST_GROWTH:
            rate += median(rates)
            last = max(last, readings[-1].step)
            steps = max(steps, readings[-1].step - readings[0].step)
    if not rate:
        return None
    full_at = last + int(headroom / rate) + 1
    return StepGrowth(round(rate), steps, full_at) if full_at <= LONGEST_STEPS else None


def describe_rising_peak(reports: Sequence[RehearsedEvent], device: int) -> str:
    """Return by how much the last step raised the peak of a device; empty if it did not."""
    for report in reports:
        readings = _of_device(report, device) if report.stopped else []
        # The first step creates the optimizer's state, so the second one raises the peak.
        if len(readings) < LEAST_READINGS:
            continue
        before, last = readings[-2:]
        if last.step == before.step + 1 and last.peak - before.peak >= NOTICEABLE * last.peak:
            rose = fmt.round_size(last.peak - before.peak)
            return f"step {last.step} still raised the peak by {rose}: try more --steps"
    return ""


def describe_growth(growth: StepGrowth) -> str:
    """Return the growth in words, with the option that rehearses more of it."""
    if growth.full_at <= MOST_REHEARSED:
        more = f", which --steps {growth.full_at} rehearses"
    else:
        more = f"; --steps {max(SOME_MORE, 2 * growth.steps)} shows whether it goes on"
    return (
        f"each of the last {fmt.count(growth.steps, 'step')} left"
        f" {fmt.round_size(growth.per_step)} more allocated; at this rate the card is full at about"
        f" step {fmt.grouped(growth.full_at)}{more}"
    )


def _of_device(report: RehearsedEvent, device: int) -> list[StepReading]:
    by_step = {reading.step: reading for reading in report.step_memory if reading.device == device}
    return [by_step[step] for step in sorted(by_step)]


def _rates(points: Sequence[tuple[int, int]]) -> list[float]:
    return [
        (after - before) / (later - earlier)
        for (earlier, before), (later, after) in pairwise(points)
    ]
