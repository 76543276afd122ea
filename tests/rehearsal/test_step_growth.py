"""Memory that grows with each rehearsed step: what a few steps tell of the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.rehearsal.outcomes import EVENT, GIB, LOG, rehearsed
from tui.rehearsal.step_growth import describe_growth, describe_rising_peak, find_step_growth
from tui.rehearsal.verdict import judge
from tui.watch.runs.agent_events import RehearsedEvent, StepReading

MIB = 1 << 20


def event(
    held: Sequence[int], peaks: Sequence[int] = (), *, stopped: bool = True
) -> RehearsedEvent:
    """Return the measurement of a process by its MiB after each step."""
    highest = peaks or [max(held)] * len(held)
    readings = [
        StepReading(step, 0, allocated * MIB, peak * MIB)
        for step, (allocated, peak) in enumerate(zip(held, highest, strict=True), 1)
    ]
    return replace(EVENT, steps=len(held), stopped=stopped, step_memory=tuple(readings))


def test_steps_that_each_leave_more_say_when_the_card_is_full() -> None:
    growth = find_step_growth([event([196, 292, 388])], 0, 6500 * MIB)
    assert growth is not None
    assert (growth.per_step, growth.steps, growth.full_at) == (96 * MIB, 2, 3 + 67 + 1)


@pytest.mark.parametrize(
    ("held", "stopped"),
    [
        ([100, 100, 100], True),
        ([100, 200, 200], True),
        # The state of an optimizer, then a little more.
        ([100, 900, 910], True),
        ([300, 200, 100], True),
        ([100, 200], True),
        # It has come to its own end.
        ([100, 200, 300], False),
        # It leaves less than a mebibyte.
        ([100, 100, 101], True),
        ([100], True),
    ],
)
def test_other_steps_are_no_growth(held: list[int], stopped: bool) -> None:
    assert find_step_growth([event(held, stopped=stopped)], 0, 6500 * MIB) is None


def test_a_slow_growth_is_mentioned_up_to_the_steps_of_a_long_training() -> None:
    slow = event([140, 172, 204])
    growth = find_step_growth([slow], 0, 77 * GIB)
    assert growth is not None
    assert growth.full_at == 3 + 77 * 32 + 1
    assert describe_growth(growth) == (
        "each of the last 2 steps left 32 MiB more allocated; at this rate the card is full at"
        " about step 2 468; --steps 50 shows whether it goes on"
    )
    assert find_step_growth([event([140, 141, 142])], 0, 120 * GIB) is None
    verdict = judge(rehearsed(GIB, logs=(replace(LOG, rehearsed=slow),)))
    assert (verdict.answer, verdict.exit_code) == ("unknown", 4)


def test_a_few_bytes_are_no_growth_even_on_a_full_card() -> None:
    readings = tuple(StepReading(step, 0, 100 * MIB + 512 * step, GIB) for step in (1, 2, 3))
    assert find_step_growth([replace(EVENT, step_memory=readings)], 0, 0) is None
    verdict = judge(rehearsed(79 * GIB, logs=(replace(LOG, rehearsed=event([1, 2, 3])),)))
    assert verdict.answer == "close"


def test_processes_on_one_device_fill_it_together() -> None:
    grows = event([100, 200, 300])
    alone = find_step_growth([grows], 0, 10_000 * MIB)
    together = find_step_growth([grows, grows], 0, 10_000 * MIB)
    assert alone is not None
    assert together is not None
    assert (alone.full_at, together.full_at) == (104, 54)
    assert find_step_growth([grows], 1, 10_000 * MIB) is None


def test_a_peak_that_rises_is_mentioned_unless_it_is_that_of_the_state() -> None:
    assert describe_rising_peak([event([1, 1, 1], [100, 200, 240])], 0) == (
        "step 3 still raised the peak by 40 MiB: try more --steps"
    )
    assert describe_rising_peak([event([1, 1, 1], [100, 200, 200])], 0) == ""
    assert describe_rising_peak([event([1, 1], [100, 200])], 0) == ""
    rises = event([1, 1, 1, 1], [100, 200, 200, 240])
    thinned = replace(rises, step_memory=rises.step_memory[:2] + rises.step_memory[3:])
    assert describe_rising_peak([rises], 0)
    assert describe_rising_peak([thinned], 0) == ""


def test_it_is_unknown_whether_a_program_fits_that_grows() -> None:
    grows = event([1000, 2000, 3000])
    verdict = judge(rehearsed(12 * GIB, logs=(replace(LOG, rehearsed=grows),)))
    assert verdict.answer == "unknown"
    assert verdict.reason.startswith("each of the last 2 steps left 1 GiB more allocated; at this")
    assert verdict.exit_code == 4
