"""Points in bounded memory: neighbors merge, and nothing that was read is lost."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tui.core.merged_points import MergedPoints

Interval = tuple[int, int, int]
"""First reading, last reading, and how many there are."""


def merge(first: Interval, other: Interval) -> Interval:
    assert first[1] + 1 == other[0], "only neighbors merge"
    return first[0], other[1], first[2] + other[2]


def merged(readings: int, most: int) -> MergedPoints[Interval]:
    points: MergedPoints[Interval] = MergedPoints(most, merge)
    for number in range(readings):
        points.add((number, number, 1))
    return points


@given(st.integers(0, 500), st.integers(1, 40))
def test_they_are_few_and_comprise_each_reading_once(readings: int, most: int) -> None:
    points = merged(readings, most).points
    assert len(points) <= most
    assert sum(count for _, _, count in points) == readings
    assert all(first[1] + 1 == after[0] for first, after in itertools.pairwise(points))


@given(st.integers(1, 500), st.integers(1, 40))
def test_all_but_the_last_comprise_equally_many_readings(readings: int, most: int) -> None:
    counts = [count for _, _, count in merged(readings, most).points]
    assert len({*counts[:-1]}) <= 1
    assert counts[-1] <= counts[0]


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 50))
def test_later_readings_do_not_change_a_copy(readings: int, most: int, later: int) -> None:
    points = merged(readings, most)
    copied, before = points.copy(), list(points.points)
    for number in range(readings, readings + later):
        points.add((number, number, 1))
    assert copied.points == before
