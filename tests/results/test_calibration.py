"""How often a verdict is wrong, and how often it finds a difference, in simulated sessions.

A session has an effect of its own that all of its runs share, as a run has one that all of its
blocks share. The large simulations are slow; a small one of each is in the default tests.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from tui.results.store.statistics import RunRatio, apply_holm, compare_sessions

EFFECTS = (0.0, 0.005, 0.01, 0.02, 0.03)
"""Standard deviation from session to session, relative."""
SIDES = ((3, 3), (4, 4), (3, 9), (8, 8), (14, 14))
"""Sessions of A and of B."""
RUN_EFFECT = 0.005
BLOCKS = 20


def run_median(level: float, rng: random.Random) -> float:
    """Return the median of the blocks of one simulated run, in seconds.

    A run has an effect of its own (its process, its memory), its blocks drift while it warms up,
    wander (AR(1)), and have lognormal noise with now and then a disturbed one.
    """
    level *= math.exp(rng.gauss(0, RUN_EFFECT))
    drift = rng.gauss(0, 0.01)
    wander, blocks = rng.gauss(0, 0.006), []
    for block in range(BLOCKS):
        wander = 0.9 * wander + rng.gauss(0, 0.006 * math.sqrt(1 - 0.81))
        noise = rng.lognormvariate(0, 0.004) * (1.1 if rng.random() < 0.02 else 1.0)
        blocks.append(level * (1 + drift * math.exp(-block / 5) + wander) * noise)
    return statistics.median(blocks)


def simulated(
    trials: int, sessions: tuple[int, int], truth: float, effect: float, seed: int, runs: int = 3
) -> list[RunRatio]:
    """Compare so many pairs of sides in which B takes ``truth`` times what A takes."""
    rng = random.Random(seed)

    def side(many: int, level: float) -> list[list[float]]:
        levels = [level * math.exp(rng.gauss(0, effect)) for _ in range(many)]
        return [[run_median(one, rng) for _ in range(runs)] for one in levels]

    return [
        compare_sessions(side(sessions[0], 1e-3), side(sessions[1], truth * 1e-3))
        for _ in range(trials)
    ]


def false(found: Sequence[RunRatio]) -> float:
    """Return the share of results that claim a difference."""
    return sum(one.alone in ("faster", "slower") for one in found) / len(found)


def covered(found: Sequence[RunRatio], truth: float) -> float:
    """Return the share of intervals that contain the true ratio of A over B."""
    held = 0
    for one in found:
        assert one.ci95 is not None
        held += one.ci95[0] <= 1 / truth <= one.ci95[1]
    return held / len(found)


@pytest.mark.parametrize("effect", [0.0, 0.01, 0.02, 0.03])
def test_where_nothing_differs_few_comparisons_say_that_something_does(effect: float) -> None:
    found = simulated(100, (3, 3), 1.0, effect, seed=1)
    assert false(found) <= 0.05
    assert covered(found, 1.0) >= 0.9


def test_five_runs_of_one_session_a_side_are_no_evidence() -> None:
    found = simulated(100, (1, 1), 1.0, 0.02, seed=2, runs=5)
    assert {one.alone for one in found} == {"unclear"}
    assert all(one.ci95 is None for one in found)
    # Were each run its own session, many of these pairs would be called different.
    rng = random.Random(2)
    as_runs = []
    for _ in range(100):
        a, b = (1e-3 * math.exp(rng.gauss(0, 0.02)) for _ in range(2))
        as_runs.append(
            compare_sessions(*([[run_median(one, rng)] for _ in range(5)] for one in (a, b)))
        )
    assert false(as_runs) > 0.2


def test_five_percent_are_found_with_four_sessions_a_side() -> None:
    found = [one.alone for one in simulated(100, (4, 4), 1.05, 0.01, seed=3)]
    assert found.count("slower") >= 80
    assert "faster" not in found


@pytest.mark.slow
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("sessions", SIDES)
def test_of_two_thousand_comparisons_without_a_difference_one_in_twenty_is_wrong_at_most(
    sessions: tuple[int, int], effect: float
) -> None:
    found = simulated(2000, sessions, 1.0, effect, seed=4)
    share, held = false(found), covered(found, 1.0)
    print(f"\n{sessions}, {100 * effect:.1f}%: {100 * share:.2f}% false, {100 * held:.1f}% held")
    assert share <= 0.05
    assert held >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.005, 0.01, 0.015, 0.02, 0.03])
def test_five_percent_are_found_in_four_of_five_cases_up_to_an_effect_of_one_percent(
    effect: float,
) -> None:
    found = [one.alone for one in simulated(2000, (4, 4), 1.05, effect, seed=5)]
    print(f"\n{100 * effect:.1f}%: {found.count('slower') / 20:.1f}% found")
    assert effect > 0.01 or found.count("slower") >= 1600
    assert found.count("faster") <= 2


@pytest.mark.slow
def test_of_a_hundred_tables_of_thirty_workloads_without_a_difference_few_show_any() -> None:
    rng = random.Random(6)
    tables, single = 0, 0
    for _ in range(100):
        ratios = []
        for _ in range(30):
            sides = [[[math.exp(rng.gauss(0, 0.027))] for _ in range(5)] for _ in range(2)]
            ratios.append(compare_sessions(*sides))
        found = apply_holm(ratios)
        tables += any(answer.verdict in ("faster", "slower") for answer in found)
        single += sum(answer.ratio.alone in ("faster", "slower") for answer in found)
    print(f"\n{tables} tables, {single} of 3000 questions")
    assert tables <= 10
    assert single > tables
