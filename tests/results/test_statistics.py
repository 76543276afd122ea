"""Verdicts between sessions: laws and reference values; see test_calibration.py for errors."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.results.store.statistics import (
    FEWEST_SESSIONS,
    RunRatio,
    apply_holm,
    compare_sessions,
    compute_spread,
    compute_typical_s,
    two_sided,
)
from workloads.measure.estimates import MEDIAN_FROM, t_quantile

SECONDS = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8)
ANY_SECONDS = st.floats(5e-324, 1.7e308)
SESSIONS = st.lists(st.lists(ANY_SECONDS, min_size=1, max_size=3), min_size=1, max_size=16)


def ratio_of_runs(a: Sequence[float], b: Sequence[float]) -> RunRatio:
    """Each run is a session of its own."""
    return compare_sessions([[one] for one in a], [[one] for one in b])


# ---- laws --------------------------------------------------------------------------------------


@given(SECONDS, SECONDS)
def test_the_other_way_round_it_says_the_opposite(a: list[float], b: list[float]) -> None:
    one, other = ratio_of_runs(a, b), ratio_of_runs(b, a)
    assert one.value == pytest.approx(1 / other.value)
    if one.p_value is not None:
        assert one.p_value == pytest.approx(other.p_value, rel=0.2, abs=0.01)
    assert (one.ci95 is None) is (other.ci95 is None) is (min(len(a), len(b)) < FEWEST_SESSIONS)


@settings(max_examples=40)
@given(SECONDS, SECONDS, st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(a: list[float], b: list[float], factor: float) -> None:
    one = ratio_of_runs(a, b)
    other = ratio_of_runs([factor * x for x in a], [factor * x for x in b])
    assert one.value == pytest.approx(other.value)
    assert one.ci95 == pytest.approx(other.ci95)


@given(SECONDS, SECONDS)
def test_the_interval_holds_the_ratio(a: list[float], b: list[float]) -> None:
    found = ratio_of_runs(a, b)
    if found.ci95 is not None:
        assert found.ci95[0] <= found.value * (1 + 1e-9)
        assert found.ci95[1] >= found.value * (1 - 1e-9)


@given(SESSIONS, SESSIONS)
def test_no_times_that_a_store_may_hold_are_too_far_apart(
    a: list[list[float]], b: list[list[float]]
) -> None:
    found = compare_sessions(a, b)
    assert all(map(math.isfinite, (found.value, *(found.ci95 or ()))))
    # ... and from run to run.
    varied = compute_spread([[one for session in a for one in session]])
    assert varied is None or math.isfinite(varied.share)


@given(
    st.lists(SECONDS, min_size=1, max_size=16),
    st.lists(SECONDS, min_size=1, max_size=16),
)
def test_the_ratio_is_that_of_the_times_that_are_shown(
    a: list[list[float]], b: list[list[float]]
) -> None:
    assert compare_sessions(a, b).value == pytest.approx(
        compute_typical_s(a) / compute_typical_s(b)
    )


def test_more_runs_of_one_session_are_no_more_sessions() -> None:
    found = compare_sessions([[1.0] * 50], [[1.3] * 50])
    assert (found.sessions, found.runs, found.alone) == ((1, 1), (50, 50), "unclear")


@pytest.mark.parametrize("runs", [1, 2])
def test_below_three_sessions_a_side_it_is_unclear_however_far_apart(runs: int) -> None:
    found = ratio_of_runs([1.0] * runs, [100.0] * 20)
    assert (found.alone, found.ci95, found.p_value) == ("unclear", None, None)
    assert found.value == pytest.approx(0.01)


def test_the_four_words() -> None:
    steady, fast = [1.0, 1.001, 0.999, 1.0], [0.8, 0.801, 0.799, 0.8]
    assert ratio_of_runs(steady, fast).alone == "faster"
    assert ratio_of_runs(fast, steady).alone == "slower"
    assert ratio_of_runs(steady, steady).alone == "same"
    assert ratio_of_runs(steady, [0.8, 1.0, 1.2]).alone == "unclear"


def test_of_three_runs_of_a_session_a_disturbed_one_leaves_the_ratio_where_it_is() -> None:
    a = [[1.0, 1.001, 0.999], [1.002, 1.0, 0.998], [1.0, 1.001, 1.001]]
    b = [[1.1, 1.101, 30.0], [1.099, 1.1, 1.1], [1.1, 1.102, 1.1]]
    found = compare_sessions(a, b)
    assert found.value == pytest.approx(1 / 1.1, rel=2e-3)
    assert found.alone == "slower"


def test_of_few_sessions_a_disturbed_one_makes_it_unclear() -> None:
    assert ratio_of_runs([1.0, 1.001, 0.999], [1.1, 1.101, 30.0]).alone == "unclear"


def test_of_many_sessions_a_few_disturbed_ones_do_not_matter() -> None:
    rng = random.Random(6)
    a = [rng.lognormvariate(0, 0.003) for _ in range(MEDIAN_FROM)]
    b = [rng.lognormvariate(0, 0.003) for _ in range(MEDIAN_FROM)]
    assert ratio_of_runs(a, [*b, 5.0]).alone == "same"


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 8, 29, 30, 60])
def test_students_t_is_that_of_the_tables(degrees: int) -> None:
    assert two_sided(t_quantile(degrees), degrees) == pytest.approx(0.95, abs=2e-4)
    assert two_sided(0.0, degrees) == 0.0


# ---- many questions ----------------------------------------------------------------------------


def _asked(p_value: float, *, faster: bool = True) -> RunRatio:
    return RunRatio(1.2, (1.1, 1.3) if faster else (0.9, 1.4), (5, 5), (5, 5), p_value)


def test_among_many_questions_a_difference_must_be_clearer() -> None:
    assert [answer.verdict for answer in apply_holm([_asked(0.04)])] == ["faster"]
    # Holm: 0.05/4, 0.05/3, 0.05/2 — the third does not hold, nor does what follows it.
    many = [_asked(0.049), _asked(0.03), _asked(0.001), _asked(0.016)]
    found = apply_holm(many)
    assert [answer.verdict for answer in found] == ["unclear", "unclear", "faster", "faster"]
    assert [answer.corrected for answer in found] == [True, True, False, False]


def test_a_question_that_cannot_be_asked_costs_the_others_nothing() -> None:
    one = RunRatio(1.2, None, (1, 1), (1, 1), None)
    assert [answer.verdict for answer in apply_holm([one, _asked(0.04), one])] == [
        "unclear",
        "faster",
        "unclear",
    ]


def test_same_and_unclear_are_left_as_they_are() -> None:
    same = RunRatio(1.0, (0.995, 1.005), (5, 5), (5, 5), 1.0)
    found = apply_holm([same, _asked(0.9, faster=False), _asked(0.5)])
    assert [answer.verdict for answer in found] == ["same", "unclear", "unclear"]
    assert [answer.corrected for answer in found] == [False, False, True]


def test_from_run_to_run_is_told_within_groups_alone() -> None:
    rng = random.Random(7)
    groups = [
        [level * math.exp(rng.gauss(0, 0.0135)) for _ in range(200)] for level in (1.0, 5.0, 9.0)
    ]
    found = compute_spread([*groups, [1.0, 2.0]])
    assert found is not None
    assert found.runs == 600
    assert found.share == pytest.approx(0.027, rel=0.1)
    assert compute_spread([[1.0, 2.0], [3.0]]) is None
