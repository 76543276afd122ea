"""What may be drawn when."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tui.session.coalesce import PERIOD_S, TICK_S, Coalescer
from tui.store.store import Part

WORKLOADS = frozenset({Part.WORKLOADS})


def test_a_first_change_is_drawn_at_the_next_tick_and_only_once() -> None:
    coalescer = Coalescer()
    coalescer.add(WORKLOADS)
    assert coalescer.due(0.0) == WORKLOADS
    assert coalescer.due(10.0) == frozenset()


def test_a_table_that_changes_all_the_time_is_drawn_twice_a_second() -> None:
    coalescer, drawn = Coalescer(), 0
    for tick in range(40):
        coalescer.add(WORKLOADS)
        drawn += bool(coalescer.due(tick * TICK_S))
    assert drawn == 20


def test_what_a_key_asked_for_is_drawn_at_once() -> None:
    coalescer = Coalescer()
    coalescer.add(WORKLOADS)
    coalescer.due(0.0)
    coalescer.add(WORKLOADS | {Part.BACKEND})
    assert coalescer.all(0.01) == WORKLOADS | {Part.BACKEND}


@given(st.lists(st.tuples(st.sampled_from(list(Part)), st.floats(0, 0.4)), max_size=60))
def test_nothing_is_lost_and_nothing_is_drawn_too_often(changes: list[tuple[Part, float]]) -> None:
    coalescer, now = Coalescer(), 0.0
    drawn: dict[Part, list[float]] = {part: [] for part in Part}
    for part, wait in changes:
        now += wait
        coalescer.add(frozenset({part}))
        for found in coalescer.due(now):
            drawn[found].append(now)
    for found in coalescer.due(now + 1.0):
        drawn[found].append(now + 1.0)
    assert {part for part, times in drawn.items() if times} == {part for part, _ in changes}
    for part, times in drawn.items():
        least = PERIOD_S.get(part, 0.0) - TICK_S / 5
        assert all(later - earlier >= least - 1e-9 for earlier, later in pairwise(times))
