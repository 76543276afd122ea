"""The statistics of a fleet: what is found among simulated devices, and the laws that hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.fleet.comparison import (
    PeerRatio,
    choose_suspects,
    compare_with_peers,
    is_outlier,
)
from tui.results.store.statistics import two_sided_quantile

SPREAD, NOISE, SEEDS = 0.003, 0.005, 200


def simulate(seed: int, rounds: int, slow_by: float, devices: int = 8) -> list[dict[str, float]]:
    """Return rounds of devices whose speeds spread a little; the first is slower by a share."""
    draw = random.Random(seed)
    own = [1 + draw.gauss(0, SPREAD) for _ in range(devices)]
    if slow_by:
        own[0] = 1 / (1 - slow_by)
    found = []
    for number in range(rounds):
        drift = 1 + 0.03 * number / rounds
        found.append(
            {f"gpu{i}": own[i] * drift * (1 + draw.gauss(0, NOISE)) for i in range(devices)}
        )
    return found


def _odd(seed: int, rounds: int, slow_by: float) -> list[str]:
    return [each.device for each in compare_with_peers(simulate(seed, rounds, slow_by)) if each.odd]


def share(slow_by: float, rounds: int) -> float:
    return sum("gpu0" in _odd(seed, rounds, slow_by) for seed in range(SEEDS)) / SEEDS


def test_a_gpu_that_is_5_percent_slow_is_found_in_12_rounds() -> None:
    assert all(_odd(seed, 12, 0.05) == ["gpu0"] for seed in range(SEEDS))


def test_healthy_fleets_have_no_odd_gpu() -> None:
    assert sum(bool(_odd(seed, 12, 0.0)) for seed in range(SEEDS)) <= 0.02 * SEEDS


def test_a_gpu_that_is_3_percent_slow_is_found_in_95_of_100_fleets() -> None:
    assert share(0.03, 12) >= 0.95


times = st.floats(0.5, 2.0)
fleets = st.lists(st.fixed_dictionaries(dict.fromkeys("abcde", times)), min_size=2, max_size=8)


@given(fleets, st.floats(0.01, 100.0))
def test_drift_that_all_share_changes_nothing(rounds: list[dict[str, float]], drift: float) -> None:
    drifting = [
        {name: seconds * drift ** (number + 1) for name, seconds in each.items()}
        for number, each in enumerate(rounds)
    ]
    for plain, drifted in zip(
        compare_with_peers(rounds), compare_with_peers(drifting), strict=True
    ):
        assert drifted.mean == pytest.approx(plain.mean, rel=1e-6)
        assert drifted.high == pytest.approx(plain.high, rel=1e-6)


@given(fleets)
def test_what_is_odd_is_slower_and_what_is_slower_may_be(rounds: list[dict[str, float]]) -> None:
    for each in compare_with_peers(rounds):
        assert each.low <= each.mean <= each.high
        assert not each.odd or each.slower
        assert not each.slower or each.may_be_slower


@pytest.mark.parametrize(
    ("degrees", "error", "expected"), [(1, 0.05, 12.706), (11, 0.05, 2.201), (11, 0.01, 3.106)]
)
def test_quantiles_are_those_of_the_tables(degrees: int, error: float, expected: float) -> None:
    assert two_sided_quantile(degrees, error) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(
    ("slow", "odd"),
    [(1, ["gpu0"]), (3, ["gpu0", "gpu1", "gpu2"]), (4, []), (5, []), (7, [])],
)
@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_devices_are_odd_only_as_a_minority(slow: int, odd: list[str], noise: float) -> None:
    draw = random.Random(1)
    rounds = [
        {f"gpu{i}": (1.05 if i < slow else 1.0) + draw.gauss(0, noise) for i in range(8)}
        for _ in range(12)
    ]
    found = compare_with_peers(rounds)
    assert [each.device for each in found if each.odd] == odd
    # That a device is slower than the median of its peers is a fact all the same.
    assert [each.device for each in found if each.slower] == (
        [f"gpu{i}" for i in range(slow)] if slow <= 4 else []
    )


def test_two_peers_name_no_outlier() -> None:
    assert not is_outlier(2.0, [1.0, 1.0])
    assert is_outlier(2.0, [1.0, 1.0, 1.01])


def test_further_rounds_are_for_suspects_and_the_most_usual_peers() -> None:
    def ratio(device: str, mean: float, high: float) -> PeerRatio:
        return PeerRatio(device, mean, mean, high, 6, 3, slower=False, odd=False)

    healthy = [ratio("a", 1.0, 1.01), ratio("b", 1.009, 1.01), ratio("c", 0.999, 1.01)]
    assert choose_suspects(healthy, 2) == ()
    assert choose_suspects([*healthy, ratio("d", 1.02, 1.05)], 2) == ("a", "c", "d")
