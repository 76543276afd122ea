"""The host memory of a process over time, and what is said of its growth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.devices.state.resident_memory import MOST_POINTS, ResidentMemory

MIB = 1 << 20
AT = 1e9


def read(sizes: list[int], every: float = 0.25) -> ResidentMemory:
    memory = ResidentMemory()
    for number, resident in enumerate(sizes):
        memory.apply(AT + every * number, resident)
    return memory


def test_before_a_reading_nothing_is_known() -> None:
    memory = ResidentMemory()
    assert (memory.resident, memory.peak, memory.points) == (None, None, [])
    trend = memory.trend(ended=True)
    assert (trend.growth, trend.finding) == (None, None)


@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=3 * MOST_POINTS))
def test_the_peak_is_never_merged_away(sizes: list[int]) -> None:
    memory = read(sizes)
    assert len(memory.points) <= MOST_POINTS
    assert (memory.peak, memory.resident) == (max(sizes), sizes[-1])


def test_a_leak_is_a_finding_with_its_rate() -> None:
    memory = read([(300 + 2 * number) * MIB for number in range(200)])
    trend = memory.trend(ended=False)
    assert trend.growth is not None
    assert trend.growth.rate == pytest.approx(8 * MIB)
    assert trend.finding is not None
    assert trend.finding.text.startswith("host memory grows 480 MiB/min")
    assert trend.finding.text.endswith("over 49 s")


@pytest.mark.parametrize(
    "sizes",
    [
        [300 * MIB] * 200,
        [(300 + 100 * (number % 7)) * MIB for number in range(200)],
        [min(300 + 20 * number, 900) * MIB for number in range(200)],
    ],
    ids=["constant", "up and down", "a start and then a plateau"],
)
def test_what_does_not_grow_is_no_finding(sizes: list[int]) -> None:
    trend = read(sizes).trend(ended=False)
    assert trend.growth is not None
    assert trend.finding is None


def test_too_short_a_time_says_nothing() -> None:
    trend = read([(300 + number) * MIB for number in range(100)]).trend(ended=False)
    assert (trend.growth, trend.finding) == (None, None)


def test_the_trend_is_computed_once_a_second_and_after_the_end() -> None:
    memory = read([(300 + number) * MIB for number in range(200)])
    first = memory.trend(ended=False)
    memory.apply(AT + 50.2, 501 * MIB)
    assert memory.trend(ended=False) is first
    assert memory.trend(ended=True) is not first
    memory.apply(AT + 60.0, 600 * MIB)
    assert memory.trend(ended=False).at == AT + 60.0
