"""Verdicts between runs: laws, reference values, and how often they are wrong in a simulation."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.results.statistics import (
    FEWEST,
    RunRatio,
    answers,
    ratio_of_runs,
    spread,
    two_sided,
)
from workloads.measure.estimates import MEDIAN_FROM, t_quantile
from workloads.protocol.results import Verdict

SECONDS = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8)


# ---- how often it is wrong ---------------------------------------------------------------------

BLOCKS = 20


def run_median(truth: float, effect: float, rng: random.Random) -> float:
    """The median of the blocks of one simulated run.

    A run has an effect of its own (its process, its clocks), its blocks drift while it warms up,
    wander (AR(1)), and have lognormal noise with now and then a disturbed one.

    Args:
        truth: seconds.
        effect: standard deviation of the runs, relative.
        rng: random numbers.
    """
    level = truth * math.exp(rng.gauss(0, effect))
    drift = rng.gauss(0, 0.01)
    wander, blocks = rng.gauss(0, 0.006), []
    for block in range(BLOCKS):
        wander = 0.9 * wander + rng.gauss(0, 0.006 * math.sqrt(1 - 0.81))
        noise = rng.lognormvariate(0, 0.004) * (1.1 if rng.random() < 0.02 else 1.0)
        blocks.append(level * (1 + drift * math.exp(-block / 5) + wander) * noise)
    return statistics.median(blocks)


def verdicts(
    trials: int, runs: tuple[int, int], truth: float, effect: float, seed: int
) -> list[Verdict]:
    """Of so many comparisons in which B takes ``truth`` times what A takes."""
    rng = random.Random(seed)
    found = []
    for _ in range(trials):
        a = [run_median(1e-3, effect, rng) for _ in range(runs[0])]
        b = [run_median(truth * 1e-3, effect, rng) for _ in range(runs[1])]
        found.append(ratio_of_runs(a, b).alone)
    return found


def wrong(found: list[Verdict]) -> float:
    return sum(word in ("faster", "slower") for word in found) / len(found)


EFFECTS = (0.002, 0.007, 0.027)
SIDES = ((3, 3), (5, 5), (3, 9), (14, 14))


@pytest.mark.parametrize("effect", EFFECTS)
def test_where_nothing_differs_few_comparisons_say_that_something_does(effect: float) -> None:
    assert wrong(verdicts(150, (5, 5), 1.0, effect, seed=1)) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("runs", SIDES)
def test_of_two_thousand_comparisons_without_a_difference_one_in_twenty_is_wrong_at_most(
    runs: tuple[int, int], effect: float
) -> None:
    share = wrong(verdicts(2000, runs, 1.0, effect, seed=2))
    print(f"{runs} runs, ±{200 * effect:.1f} % from run to run: {100 * share:.2f} % false")
    assert share <= 0.05


def test_three_percent_are_found_with_five_runs_a_side() -> None:
    found = verdicts(100, (5, 5), 1.03, 0.005, seed=3)
    assert found.count("slower") >= 80
    assert "faster" not in found


@pytest.mark.slow
def test_three_percent_are_found_with_five_runs_a_side_in_four_of_five_cases() -> None:
    found = verdicts(2000, (5, 5), 1.03, 0.007, seed=4)
    print(f"{found.count('slower') / 20:.1f} % found")
    assert found.count("slower") >= 1600
    assert "faster" not in found


@pytest.mark.slow
def test_of_a_hundred_tables_of_thirty_workloads_without_a_difference_few_show_any() -> None:
    rng = random.Random(5)
    tables, single = 0, 0
    for _ in range(100):
        ratios = []
        for _ in range(30):
            sides = [[math.exp(rng.gauss(0, 0.027)) for _ in range(5)] for _ in range(2)]
            ratios.append(ratio_of_runs(*sides))
        found = answers(ratios)
        tables += any(answer.verdict in ("faster", "slower") for answer in found)
        single += sum(answer.ratio.alone in ("faster", "slower") for answer in found)
    print(f"{tables} tables, {single} of 3000 questions")
    assert tables <= 10
    assert single > tables


# ---- laws --------------------------------------------------------------------------------------


@given(SECONDS, SECONDS)
def test_the_other_way_round_it_says_the_opposite(a: list[float], b: list[float]) -> None:
    one, other = ratio_of_runs(a, b), ratio_of_runs(b, a)
    assert one.value == pytest.approx(1 / other.value)
    if one.p_value is not None:
        assert one.p_value == pytest.approx(other.p_value, rel=0.2, abs=0.01)
    assert (one.ci95 is None) is (other.ci95 is None) is (min(len(a), len(b)) < FEWEST)


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


@pytest.mark.parametrize("runs", [1, 2])
def test_below_three_runs_a_side_it_is_unclear_however_far_apart(runs: int) -> None:
    found = ratio_of_runs([1.0] * runs, [100.0] * 20)
    assert (found.alone, found.ci95, found.p_value) == ("unclear", None, None)
    assert found.value == pytest.approx(0.01)


def test_the_four_words() -> None:
    steady, fast = [1.0, 1.001, 0.999, 1.0], [0.8, 0.801, 0.799, 0.8]
    assert ratio_of_runs(steady, fast).alone == "faster"
    assert ratio_of_runs(fast, steady).alone == "slower"
    assert ratio_of_runs(steady, steady).alone == "same"
    assert ratio_of_runs(steady, [0.8, 1.0, 1.2]).alone == "unclear"


def test_of_five_runs_a_disturbed_one_leaves_the_ratio_where_it_is() -> None:
    found = ratio_of_runs([1.0, 1.001, 0.999, 1.002, 0.998], [1.1, 1.101, 1.099, 1.1, 30.0])
    assert found.value == pytest.approx(1 / 1.1, rel=1e-3)
    assert found.alone == "unclear"


def test_of_many_runs_a_few_disturbed_ones_do_not_matter() -> None:
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
    return RunRatio(1.2, (1.1, 1.3) if faster else (0.9, 1.4), (5, 5), p_value)


def test_among_many_questions_a_difference_must_be_clearer() -> None:
    assert [answer.verdict for answer in answers([_asked(0.04)])] == ["faster"]
    # Holm: 0.05/4, 0.05/3, 0.05/2 — the third does not hold, nor does what follows it.
    many = [_asked(0.049), _asked(0.03), _asked(0.001), _asked(0.016)]
    found = answers(many)
    assert [answer.verdict for answer in found] == ["unclear", "unclear", "faster", "faster"]
    assert [answer.corrected for answer in found] == [True, True, False, False]


def test_a_question_that_cannot_be_asked_costs_the_others_nothing() -> None:
    one = RunRatio(1.2, None, (1, 1), None)
    assert [answer.verdict for answer in answers([one, _asked(0.04), one])] == [
        "unclear",
        "faster",
        "unclear",
    ]


def test_same_and_unclear_are_left_as_they_are() -> None:
    same = RunRatio(1.0, (0.995, 1.005), (5, 5), 1.0)
    found = answers([same, _asked(0.9, faster=False), _asked(0.5)])
    assert [answer.verdict for answer in found] == ["same", "unclear", "unclear"]
    assert [answer.corrected for answer in found] == [False, False, True]


def test_from_run_to_run_is_told_within_groups_alone() -> None:
    rng = random.Random(7)
    groups = [
        [level * math.exp(rng.gauss(0, 0.0135)) for _ in range(200)] for level in (1.0, 5.0, 9.0)
    ]
    found = spread([*groups, [1.0, 2.0]])
    assert found is not None
    assert found.runs == 600
    assert found.share == pytest.approx(0.027, rel=0.1)
    assert spread([[1.0, 2.0], [3.0]]) is None
