"""The statistics: laws by hypothesis, coverage and error rates by seeded simulation."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.measure import comparison
from workloads.measure import estimates as s
from workloads.runner import bench

positive = st.floats(min_value=1e-9, max_value=1e6, allow_nan=False)
samples = st.lists(positive, min_size=1, max_size=60)


@given(samples, st.floats(min_value=0, max_value=1))
def test_a_quantile_lies_within_the_sample(values: list[float], share: float) -> None:
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    assert low * (1 - 1e-12) <= s.quantile(ordered, share) <= high * (1 + 1e-12)


@given(samples)
def test_the_middle_quantile_is_the_median(values: list[float]) -> None:
    assert s.quantile(sorted(values), 0.5) == pytest.approx(median(values))


@given(samples)
def test_the_interval_of_the_median_holds_the_median(values: list[float]) -> None:
    ordered = sorted(values)
    interval = s.median_interval(ordered)
    if interval is not None:
        assert interval[0] <= s.quantile(ordered, 0.5) <= interval[1]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_below_six_values_there_is_no_interval(count: int) -> None:
    assert s.median_interval([1.0] * count) is None


def test_the_interval_of_six_values_is_their_range() -> None:
    assert s.median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)


@pytest.mark.parametrize("count", [6, 10, 25, 70, 71, 200])
def test_the_interval_covers_the_true_median_in_95_of_100(count: int) -> None:
    rng = random.Random(count)
    trials, covered = 2000, 0
    for _ in range(trials):
        ordered = sorted(rng.expovariate(1.0) for _ in range(count))
        interval = s.median_interval(ordered)
        assert interval is not None
        covered += interval[0] <= math.log(2) <= interval[1]
    assert covered / trials >= 0.94


def test_blocks_without_a_pattern_are_worth_as_many_independent_ones() -> None:
    rng = random.Random(3)
    fewer = sum(s.independent_blocks([rng.random() for _ in range(30)]) < 30 for _ in range(200))
    assert fewer <= 70


@pytest.mark.parametrize("correlation", [0.5, 0.8, 0.9])
def test_blocks_that_resemble_their_neighbours_are_worth_fewer(correlation: float) -> None:
    rng = random.Random(4)
    value, series = 0.0, []
    for _ in range(2000):
        value = correlation * value + rng.gauss(0, 1)
        series.append(math.exp(value))
    worth = s.independent_blocks(series)
    assert worth == pytest.approx(2000 * (1 - correlation) / (1 + correlation), rel=0.25)


def test_equal_blocks_and_single_outliers_show_no_correlation() -> None:
    assert s.independent_blocks([0.03] * 40) == 40
    rng = random.Random(5)
    series = [rng.random() for _ in range(40)]
    series[7], series[8] = 1e6, 2e6
    assert s.independent_blocks(series) == 40


@given(samples)
def test_the_interval_of_blocks_is_never_narrower_than_that_of_independent_ones(
    values: list[float],
) -> None:
    ordered = sorted(values)
    plain, wide = s.median_interval(ordered), s.block_interval(values, ordered)
    if plain is not None and wide is not None:
        slack = 1e-9 * ordered[-1]
        assert wide[0] <= plain[0] + slack or wide[1] >= plain[1] - slack


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.706), (10, 2.228), (30, 2.042), (60, 2.0003), (1000, 1.9623)]
)
def test_t_quantiles_agree_with_the_tables(degrees: int, expected: float) -> None:
    assert s.t_quantile(degrees) == pytest.approx(expected, rel=2e-4)


def test_t_quantiles_fall_with_the_degrees_of_freedom() -> None:
    values = [s.t_quantile(degrees) for degrees in range(1, 200)]
    assert values == sorted(values, reverse=True)


@given(st.lists(st.floats(min_value=0.1, max_value=10), min_size=2, max_size=40))
def test_swapping_the_arms_inverts_the_ratio(ratios: list[float]) -> None:
    forth, back = s.paired_ratio(ratios), s.paired_ratio([1 / ratio for ratio in ratios])
    assert forth.value == pytest.approx(1 / back.value)
    assert forth.ci95 is not None
    assert back.ci95 is not None
    assert forth.ci95[0] == pytest.approx(1 / back.ci95[1])


@given(st.lists(st.floats(min_value=0.1, max_value=10), min_size=1, max_size=40))
def test_swapping_the_arms_swaps_faster_and_slower(ratios: list[float]) -> None:
    opposite = {"faster": "slower", "slower": "faster", "same": "same", "unclear": "unclear"}
    forth = s.verdict(s.paired_ratio(ratios))
    assert s.verdict(s.paired_ratio([1 / ratio for ratio in ratios])) == opposite[forth]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((1.02, 1.10), "faster"),
        ((1.005, 1.10), "unclear"),
        ((0.90, 0.98), "slower"),
        ((0.99, 1.01), "same"),
        ((0.95, 1.05), "unclear"),
        ((1.0, 1.0), "same"),
    ],
)
def test_the_verdict_needs_the_whole_interval(interval: tuple[float, float], expected: str) -> None:
    assert s.verdict(s.Ratio(sum(interval) / 2, interval, 5)) == expected


def test_two_pairs_decide_nothing() -> None:
    assert s.verdict(s.Ratio(2.0, (1.9, 2.1), 2)) == "unclear"


def test_the_search_is_paid_back_by_what_each_call_gains() -> None:
    calls = s.break_even_calls(0.1, 2e-3, 0.5, 1e-3)
    assert calls == pytest.approx(401)
    assert isinstance(calls, float)
    # After so many calls, the first included, both have taken the same time.
    assert 0.1 + (calls - 1) * 2e-3 == pytest.approx(0.5 + (calls - 1) * 1e-3)


def test_a_setting_that_is_not_faster_never_pays() -> None:
    assert "medians" in str(s.break_even_calls(0.1, 1e-3, 0.5, 1e-3))


def test_a_first_call_that_takes_no_longer_has_nothing_to_pay() -> None:
    assert "takes no longer" in str(s.break_even_calls(0.5, 2e-3, 0.1, 1e-3))


def _drifting_pairs(rng: random.Random, effect: float, pairs: int) -> list[float]:
    """Ratios A/B of blocks in the order A B, B A, with clock wander, warm-up drift and outliers."""
    wander, clock, ratios = 0.0, 0.0, []
    for pair in range(pairs):
        times: dict[int, float] = {}
        for arm in (0, 1) if pair % 2 == 0 else (1, 0):
            clock += 0.2
            wander = 0.95 * wander + 0.006 * math.sqrt(1 - 0.95**2) * rng.gauss(0, 1)
            noise = 1 + wander + 0.004 * rng.gauss(0, 1) - 0.015 * math.exp(-clock / 15)
            noise *= 1.05 if rng.random() < 0.01 else 1.0
            times[arm] = noise / (effect if arm == 1 else 1.0)
        ratios.append(times[0] / times[1])
    return ratios


PAIRS = sorted({bench.FEWEST, 8, bench.ROUNDS, *comparison.BLOCK_PAIRS.values()})
"""What is decided by: the rounds of a study, the fewest of them, and the pairs of a comparison."""


@pytest.mark.parametrize("pairs", PAIRS)
def test_no_difference_is_found_where_there_is_none_in_94_of_100(pairs: int) -> None:
    rng = random.Random(pairs)
    verdicts = [s.verdict(s.paired_ratio(_drifting_pairs(rng, 1.0, pairs))) for _ in range(500)]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= 30


@pytest.mark.parametrize("pairs", PAIRS)
def test_a_true_5_percent_is_found_in_95_of_100(pairs: int) -> None:
    rng = random.Random(pairs)
    verdicts = [s.verdict(s.paired_ratio(_drifting_pairs(rng, 1.05, pairs))) for _ in range(500)]
    assert verdicts.count("faster") >= 475


@pytest.mark.parametrize("pairs", [3, 5, 10])
def test_fresh_processes_that_differ_by_chance_are_not_called_different(pairs: int) -> None:
    rng = random.Random(pairs)
    found = 0
    for _ in range(500):
        ratios = [math.exp(rng.gauss(0, 0.01 * math.sqrt(2))) for _ in range(pairs)]
        found += s.verdict(s.paired_ratio(ratios)) in ("faster", "slower")
    assert found <= 30


def test_a_few_disturbed_pairs_do_not_move_the_ratio_of_many() -> None:
    rng = random.Random(5)
    calm = [0.87 * math.exp(rng.gauss(0, 0.01)) for _ in range(24)]
    disturbed = [*calm[:20], 0.05, 0.1, 0.2, 9.0]
    ratio = s.paired_ratio(disturbed)
    assert ratio.value == pytest.approx(0.87, rel=0.01)
    assert s.verdict(ratio) == "slower"
