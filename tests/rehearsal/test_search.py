"""The search finds the largest value that fits, and in few rehearsals if memory is predictable."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.rehearsal.search import BadRangeError, Search, SearchRange, parse_range

AVAILABLE = 80_000


def find(peak_of: Callable[[int], int], low: int = 1, high: int = 1024) -> tuple[int | None, int]:
    """Return the value found, and the number of rehearsals."""
    search, count = finish(Search(SearchRange("batch", low, high)), peak_of)
    return search.fits, count


def finish(search: Search, peak_of: Callable[[int], int]) -> tuple[Search, int]:
    """Return a search after its last rehearsal, and the number of rehearsals."""
    low, high, count = search.range.low, search.range.high, 0
    while not search.is_over:
        value = search.next_value(AVAILABLE)
        assert low <= value <= high
        peak = peak_of(value)
        search = search.apply(value, peak if peak <= AVAILABLE else None)
        count += 1
        assert count <= 2 * (high - low).bit_length() + 6
    return search, count


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
    found, _ = find(peak_of, low, low + length)
    assert found == (max(fitting) if fitting else None)


@given(start=st.integers(0, 79_000), each=st.integers(10, 3000))
def test_a_straight_line_takes_at_most_ten_rehearsals(start: int, each: int) -> None:
    assert find(lambda value: start + each * value)[1] <= 10


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

    first, _ = finish(Search(SearchRange("batch", 1, 1024)), peak_of)
    second, count = finish(first.near(), lambda value: peak_of(value, share))
    fitting = [value for value in range(1, 1025) if peak_of(value, share) <= AVAILABLE]
    assert second.fits == (max(fitting) if fitting else None)
    assert count <= 16


def test_a_search_next_to_an_equal_one_takes_two_rehearsals() -> None:
    first, _ = finish(Search(SearchRange("batch", 1, 1024)), lambda value: 500 + 870 * value)
    assert finish(first.near(), lambda value: 500 + 870 * value)[1] == 2
