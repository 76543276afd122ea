"""The search finds the largest value that fits, and in few rehearsals if memory is predictable."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.rehearsal.search import BadRangeError, Search, SearchRange, parse_range

AVAILABLE = 80_000


def find(
    peak_of: Callable[[int], int], low: int = 1, high: int = 1024, *, gallops: bool = True
) -> tuple[int | None, int]:
    """Return the value found, and the number of rehearsals."""
    begin = Search.galloping if gallops else Search.bisecting
    search, count = finish(begin(SearchRange("batch", low, high)), peak_of)
    return search.fits, count


def finish(search: Search, peak_of: Callable[[int], int]) -> tuple[Search, int]:
    """Return a search after its last rehearsal, and the number of rehearsals."""
    low, high, count = search.range.low, search.range.high, 0
    rehearsed: dict[int, bool] = {}
    while not search.is_over:
        value = search.next_value(AVAILABLE)
        assert low <= value <= high
        assert value not in rehearsed
        peak = peak_of(value)
        rehearsed[value] = peak <= AVAILABLE
        search = search.apply(value, peak if peak <= AVAILABLE else None)
        count += 1
        assert count <= 2 * (high - low).bit_length() + 6
    # Both sides of the limit were rehearsed themselves, none is inferred.
    assert search.fits is None or rehearsed[search.fits]
    assert (
        search.fits == high or rehearsed[low if search.fits is None else search.fits + 1] is False
    )
    return search, count


@st.composite
def steps(draw: st.DrawFn) -> tuple[int, int, Callable[[int], int]]:
    """Draw a range of values, and any memory that grows with them, in steps of any height."""
    low = draw(st.integers(0, 50))
    high = low + draw(st.integers(0, 8191))
    places = sorted(draw(st.lists(st.integers(low, high), max_size=12)))
    heights = [draw(st.integers(0, 90_000)) for _ in places]
    slope, start = draw(st.integers(0, 40)), draw(st.integers(0, 81_000))

    def peak_of(value: int) -> int:
        passed = sum(height for at, height in zip(places, heights, strict=True) if at <= value)
        return start + slope * (value - low) + passed

    return low, high, peak_of


@given(steps())
def test_no_memory_costs_a_search_of_a_range_more_than_halving_it(
    drawn: tuple[int, int, Callable[[int], int]],
) -> None:
    low, high, peak_of = drawn
    fits, count = find(peak_of, low, high, gallops=False)
    # N values have N + 1 outcomes: of two of them, the rarest, one more is needed.
    at_most = math.ceil(math.log2(high - low + 1)) + (fits is None or fits == low)
    assert count <= at_most


@given(steps())
def test_no_memory_costs_a_galloping_search_more_than_four_beyond_that(
    drawn: tuple[int, int, Callable[[int], int]],
) -> None:
    low, high, peak_of = drawn
    values = SearchRange("batch", low, high)
    halving = math.ceil(math.log2(high - low + 1))
    first, count = finish(Search.galloping(values), peak_of)
    assert count <= max(1, halving + 4)
    # The same program with a setting that changes its memory, or does not.
    _, again = finish(first.near(), peak_of)
    assert again <= 2
    _, other = finish(first.near(), lambda value: peak_of(value) * 9 // 10)
    assert other <= max(1, halving + 4)


def test_a_range_of_1024_takes_at_most_ten() -> None:
    def until(limit: int) -> tuple[int | None, int]:
        return find(lambda value: 7 if value <= limit else AVAILABLE + 1, gallops=False)

    assert [until(limit) for limit in range(2, 1025)] == [(each, 10) for each in range(2, 1025)]
    # There are 1025 outcomes, and ten rehearsals tell 1024 apart.
    assert [until(0), until(1)] == [(None, 11), (1, 11)]


@given(
    start=st.integers(0, 90_000),
    each=st.integers(0, 3000),
    square=st.floats(0, 30),
    grain=st.sampled_from((1, 20, 500, 5000)),
    low=st.integers(0, 40),
    length=st.integers(0, 1500),
)
def test_it_finds_the_largest_value_of_any_growing_memory(
    start: int, each: int, square: float, grain: int, low: int, length: int
) -> None:
    def peak_of(value: int) -> int:
        return int(start + each * value + square * value**2) // grain * grain

    fitting = [value for value in range(low, low + length + 1) if peak_of(value) <= AVAILABLE]
    for gallops in (True, False):
        found, _ = find(peak_of, low, low + length, gallops=gallops)
        assert found == (max(fitting) if fitting else None)


@given(start=st.integers(0, 79_000), each=st.integers(10, 3000))
def test_a_straight_line_takes_at_most_ten_rehearsals(start: int, each: int) -> None:
    fits, count = find(lambda value: start + each * value, gallops=False)
    assert count <= (11 if fits in (None, 1) else 10)


def test_a_straight_line_takes_about_five_where_the_search_gallops() -> None:
    def count(each: int) -> int:
        return find(lambda value: 500 + each * value)[1]

    assert mean(count(each) for each in range(80, 4000, 37)) < 5.5


def test_a_parabola_takes_about_six() -> None:
    def count(a: int, b: int) -> int:
        return find(lambda value: 2000 + 10 * a * value + b * value**2)[1]

    assert mean(count(a, b) for a in range(1, 40, 3) for b in range(1, 10)) < 8


@pytest.mark.parametrize("text", ["batch", "batch=1", "batch=3..1", "=1..2", "a b=1..2", "b=-1..3"])
def test_a_range_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(BadRangeError):
        parse_range(text)


def test_a_range_is_parsed() -> None:
    assert parse_range("batch=1..1024") == SearchRange("batch", 1, 1024)


@given(
    start=st.integers(0, 70_000),
    each=st.integers(10, 3000),
    share=st.floats(0.3, 3),
    grain=st.sampled_from((1, 20, 500)),
)
def test_a_search_next_to_another_finds_the_largest_value_too(
    start: int, each: int, share: float, grain: int
) -> None:
    def peak_of(value: int, share: float = 1) -> int:
        return int(start + each * share * value) // grain * grain

    first, _ = finish(Search.galloping(SearchRange("batch", 1, 1024)), peak_of)
    second, count = finish(first.near(), lambda value: peak_of(value, share))
    fitting = [value for value in range(1, 1025) if peak_of(value, share) <= AVAILABLE]
    assert second.fits == (max(fitting) if fitting else None)
    assert count <= 13


def test_a_search_next_to_an_equal_one_takes_two_rehearsals() -> None:
    first, _ = finish(
        Search.bisecting(SearchRange("batch", 1, 1024)), lambda value: 500 + 870 * value
    )
    assert finish(first.near(), lambda value: 500 + 870 * value)[1] == 2
