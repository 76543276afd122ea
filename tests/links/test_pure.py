"""The schedule of pairs and the verdict on links, without any host."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.links.measure import tournament
from tui.links.verdict import LOW_BELOW, MeasuredLink, bus_bandwidth, judge_links


@given(st.integers(0, 40))
def test_each_member_meets_each_other_once_in_disjoint_pairs(count: int) -> None:
    members = [f"gpu{number}" for number in range(count)]
    rounds = tournament(members)
    pairs = [pair for each in rounds for pair in each]
    assert Counter(pairs) == Counter(itertools.combinations(members, 2))
    for each in rounds:
        in_round = [member for pair in each for member in pair]
        assert len(in_round) == len(set(in_round))
    if count >= 2:
        assert len(rounds) == count - 1 + count % 2


def test_four_hosts_meet_in_three_rounds() -> None:
    assert tournament("abcd") == [
        [("a", "d"), ("b", "c")],
        [("a", "c"), ("b", "d")],
        [("a", "b"), ("c", "d")],
    ]


def _links(rates: dict[tuple[str, str], float], kind: str = "") -> list[MeasuredLink]:
    return [MeasuredLink(a, b, rate, rate, kind) for (a, b), rate in rates.items()]


def _fleet(count: int, slow: set[int], factor: float, seed: int) -> list[MeasuredLink]:
    """All pairs of a fleet at 90 GB/s with 2% of noise; those of slow hosts are slower."""
    noise = random.Random(seed)
    return _links(
        {
            (f"n{a}", f"n{b}"): 90e9 * noise.uniform(0.98, 1.02) * (factor if {a, b} & slow else 1)
            for a, b in itertools.combinations(range(count), 2)
        }
    )


@given(st.integers(3, 16), st.floats(0.05, 0.75), st.integers(0, 1000), st.data())
def test_the_slow_minority_is_named_and_nobody_else(
    count: int, factor: float, seed: int, data: st.DataObject
) -> None:
    most = (count - 1) // 2
    slow = data.draw(st.sets(st.integers(0, count - 1), max_size=most))
    verdict = judge_links(_fleet(count, slow, factor, seed))
    assert set(verdict.slow_ends) == {f"n{number}" for number in slow}
    assert verdict.unexplained == ()


@given(st.integers(2, 16), st.integers(0, 1000))
def test_equal_hosts_are_never_named(count: int, seed: int) -> None:
    verdict = judge_links(_fleet(count, set(), 1.0, seed))
    assert verdict.low == ()
    assert verdict.slow_ends == ()


@given(st.integers(3, 12), st.integers(0, 1000), st.floats(1e-6, 1e6), st.randoms())
def test_the_verdict_depends_on_no_unit_and_no_order(
    count: int, seed: int, unit: float, shuffled: random.Random
) -> None:
    links = _fleet(count, {0}, 0.5, seed)
    other = [
        MeasuredLink(each.second, each.first, unit * each.rate, unit * each.high) for each in links
    ]
    shuffled.shuffle(other)
    assert set(judge_links(other).slow_ends) == set(judge_links(links).slow_ends) == {"n0"}


def test_one_low_link_blames_no_end() -> None:
    rates = dict.fromkeys(itertools.combinations("abcd", 2), 90.0)
    rates["a", "b"] = 40.0
    verdict = judge_links(_links(rates))
    assert verdict.slow_ends == ()
    assert [(each.link.first, each.link.second) for each in verdict.unexplained] == [("a", "b")]


def test_a_pair_alone_is_compared_with_nothing() -> None:
    assert judge_links(_links({("a", "b"): 1.0})).low == ()
    assert judge_links([]).slow_ends == ()


def test_the_published_case_is_found() -> None:
    """nccl-tests#106: 49 against 88 GB/s in every pair of one node."""
    rates = {pair: 49.0 if "c" in pair else 88.0 for pair in itertools.combinations("abcdef", 2)}
    assert judge_links(_links(rates)).slow_ends == ("c",)


def test_a_link_is_low_only_with_its_whole_interval() -> None:
    links = _links({("a", "b"): 100.0, ("b", "c"): 100.0})
    unsure = MeasuredLink("a", "c", 70.0, 100 * LOW_BELOW, "")
    assert judge_links([*links, unsure]).low == ()


def test_kinds_of_links_are_compared_among_themselves() -> None:
    fast = _links({("0", "1"): 400.0, ("2", "3"): 400.0}, "NV18")
    slow = _links(dict.fromkeys(itertools.product("01", "23"), 20.0), "SYS")
    verdict = judge_links([*fast, *slow])
    assert verdict.low == ()
    assert verdict.expected == {"NV18": 400.0, "SYS": 20.0}


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_bus_bandwidth_is_that_of_nccl_tests(ranks: int, factor: float) -> None:
    assert bus_bandwidth(1e9, 0.1, ranks) == pytest.approx(1e10 * factor)
