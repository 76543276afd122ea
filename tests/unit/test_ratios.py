"""Ratios read the same in all views: the digits that their intervals support."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.screens.results import timing
from tui.core.text.ratios import format_effect
from tui.runs.state.result_format import format_speed_up
from tui.runs.state.runs import Against
from tui.runs.views.workload_state import format_verdict
from workloads.protocol.results import Timing


@pytest.mark.parametrize(
    ("half", "shown"), [(0.001, "43.7x"), (0.03, "44x"), (None, "43.7x")], ids=str
)
def test_a_speed_up_has_the_digits_that_both_times_support(half: float | None, shown: str) -> None:
    def timed(median: float) -> Timing:
        ends = None if half is None else (median * (1 - half), median * (1 + half))
        return replace(timing(median), ci95_s=ends)

    assert format_speed_up(timed(43.71e-3), timed(1e-3)) == shown


@pytest.mark.parametrize(
    ("interval", "shown"), [((1.087, 1.093), "1.09x slower"), ((1.01, 1.4), "1.1x slower")]
)
def test_a_comparison_with_earlier_sessions_has_the_digits_of_its_interval(
    interval: tuple[float, float], shown: str
) -> None:
    low, high = interval
    against = Against(0.0, "slower", 1 / 1.09, (1 / high, 1 / low), (3, 3), None, ())
    assert format_verdict(against) == shown
    assert format_effect("slower", 1 / 1.09, (1 / high, 1 / low))[0] == shown
