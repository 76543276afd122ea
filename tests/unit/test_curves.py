"""What is said of a curve: its sizes, its knee, and where one overtakes the other."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from workloads.measure.estimates import Crossing, crossing, describe_crossing, doublings, knee

TIMES = st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3)), min_size=1, max_size=12)


@given(st.integers(1, 1000), st.integers(1, 10**6), st.integers(2, 8))
def test_sizes_ascend_and_end_with_the_largest(smallest: int, largest: int, factor: int) -> None:
    sizes = doublings(smallest, largest, factor)
    assert sizes[-1] == largest
    assert sizes == sorted(set(sizes))
    assert sizes[0] == min(smallest, largest)
    assert all(after == factor * before for before, after in itertools.pairwise(sizes[:-1]))


@given(TIMES)
def test_after_the_crossing_ours_is_ahead_and_just_before_it_is_not(
    times: list[tuple[float, float]],
) -> None:
    sizes = doublings(1, 2 ** (len(times) - 1))
    ours, theirs = [a for a, _ in times], [b for _, b in times]
    found = crossing(sizes, ours, theirs)
    assert found is not None
    for size, mine, other in zip(sizes, ours, theirs, strict=True):
        if found.before is not None and size >= found.before:
            assert mine < other
        if size == found.after:
            assert mine >= other


def test_a_size_that_only_one_was_measured_at_is_not_compared() -> None:
    assert crossing([1, 2, 4], [1.0, 1.0, 1.0], [2.0, 0.5]) == Crossing(2, None, 1)
    assert crossing([1], [1.0], []) is None


def test_the_words_name_the_sizes_on_both_sides() -> None:
    assert describe_crossing("the GPU", "the CPU", Crossing(128, 256)) == (
        "the GPU overtakes the CPU between n=128 and n=256"
    )
    noisy = crossing([32, 64, 128, 256], [3.0, 3.0, 3.0, 3.0], [1.0, 9.0, 1.0, 9.0])
    assert noisy == Crossing(128, 256, 3)
    assert describe_crossing("the GPU", "the CPU", noisy) == (
        "the GPU and the CPU overtake each other 3 times, last between n=128 and n=256"
    )
    assert "does not overtake" in describe_crossing("the GPU", "the CPU", Crossing(128, None))
    assert "smallest" in describe_crossing("the GPU", "the CPU", Crossing(None, 32))


@given(st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=12))
def test_the_knee_is_the_first_size_near_the_top(rates: list[float]) -> None:
    sizes = list(range(1, len(rates) + 1))
    place = knee(sizes, rates)
    assert rates[place - 1] >= 0.8 * max(rates)
    assert all(rate < 0.8 * max(rates) for rate in rates[: place - 1])
