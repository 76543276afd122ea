"""What may be drawn when."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from tui.app import drawing
from tui.app.drawing import (
    GATHER_S,
    GATHER_SAMPLES_S,
    PAUSE_S,
    PERIOD_S,
    SAMPLED,
    Coalescer,
    Drawing,
)
from tui.core.events import Topic, Topics

WORKLOADS = frozenset({Topic.WORKLOADS})


def test_a_first_change_is_drawn_in_a_moment_and_only_once() -> None:
    coalescer = Coalescer()
    assert coalescer.due_in(0.0) is None
    coalescer.add(WORKLOADS, 0.0)
    assert coalescer.due_in(0.0) == GATHER_S
    assert coalescer.due(GATHER_S) == WORKLOADS
    assert coalescer.due(10.0) == frozenset()
    assert coalescer.due_in(10.0) is None


def test_samples_that_arrive_one_after_the_other_are_drawn_together() -> None:
    coalescer = Coalescer()
    coalescer.add(frozenset({Topic.DEVICES}), 0.0)
    assert coalescer.due_in(0.0) == GATHER_SAMPLES_S
    coalescer.add(frozenset({Topic.ALLOCATORS}), 0.0)
    assert coalescer.due_in(0.0) == GATHER_SAMPLES_S
    coalescer.add(WORKLOADS, 0.0)
    assert coalescer.due_in(0.0) == GATHER_S
    assert coalescer.due(GATHER_S) == WORKLOADS | {Topic.DEVICES, Topic.ALLOCATORS}


def test_a_sample_that_was_drawn_late_does_not_delay_the_next_ones() -> None:
    coalescer, waits = Coalescer(), []
    for arrived in (0.3, 1.0, 2.0, 3.0, 4.0):
        coalescer.add(frozenset({Topic.DEVICES}), arrived)
        now = arrived + (coalescer.due_in(arrived) or 0.0)
        while not coalescer.due(now):
            now += coalescer.due_in(now) or 0.0
        waits.append(now - arrived)
    assert waits[1] > waits[-1] == pytest.approx(GATHER_SAMPLES_S)


def test_what_one_sample_changed_is_drawn_at_once() -> None:
    coalescer = Coalescer()
    coalescer.add(frozenset({Topic.DEVICES}), 0.0)
    assert coalescer.due(0.5) == {Topic.DEVICES}
    sample = frozenset({Topic.DEVICES, Topic.MEMORY})
    coalescer.add(sample, 1.0)
    assert coalescer.due(1.0 + GATHER_SAMPLES_S) == sample


def test_the_selected_host_is_drawn_with_others_whose_samples_came_before_its_own() -> None:
    coalescer = Coalescer()
    coalescer.add(frozenset({Topic.HOSTS}), 0.0)
    coalescer.due(0.0)
    coalescer.add(frozenset({Topic.HOSTS}), 1.0)
    coalescer.add(frozenset({Topic.DEVICES}), 1.1)
    assert coalescer.due_in(1.1) == pytest.approx(GATHER_SAMPLES_S - 0.1)
    # Those that wait for longer do not count among them.
    coalescer.add(frozenset({Topic.HOSTS}), 1.3)
    assert coalescer.due_in(1.3) == pytest.approx(GATHER_SAMPLES_S)


class _Screen(App[None]):
    """An app that draws nothing."""


async def test_a_change_that_is_due_does_not_wait_for_one_that_is_due_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(drawing.PERIOD_S, Topic.WORKLOADS, 3600.0)
    drawn: asyncio.Queue[Topics] = asyncio.Queue()
    async with _Screen().run_test() as pilot:
        frames = Drawing(pilot.app, lambda parts: drawn.put_nowait(parts) if parts else None)
        frames.changed(frozenset({Topic.WORKLOADS}))
        assert await asyncio.wait_for(drawn.get(), 60.0) == {Topic.WORKLOADS}
        frames.changed(frozenset({Topic.WORKLOADS}))
        frames.changed(frozenset({Topic.RUNNER}))
        assert await asyncio.wait_for(drawn.get(), 60.0) == {Topic.RUNNER}
        frames.end()


def test_a_table_that_changes_all_the_time_is_drawn_twice_a_second() -> None:
    coalescer, now, drawn = Coalescer(), 0.0, 0
    while now < 10.0:
        coalescer.add(WORKLOADS, now)
        now += coalescer.due_in(now) or 0.0
        drawn += bool(coalescer.due(now))
    assert drawn == 21


def test_what_comes_soon_after_a_drawing_waits_for_the_next() -> None:
    coalescer = Coalescer()
    coalescer.add(WORKLOADS, 0.0)
    coalescer.due(0.0)
    coalescer.add(frozenset({Topic.RUNNER}), 0.05)
    assert coalescer.due_in(0.05) == pytest.approx(PAUSE_S - 0.05)
    assert coalescer.due(0.05) == frozenset()
    assert coalescer.due(PAUSE_S) == {Topic.RUNNER}


def test_what_a_key_asked_for_is_drawn_at_once_and_delays_nothing_else() -> None:
    coalescer = Coalescer()
    coalescer.add(WORKLOADS, 0.0)
    coalescer.due(0.0)
    coalescer.add(WORKLOADS | {Topic.BACKEND}, 0.9)
    assert coalescer.all(1.0) == WORKLOADS | {Topic.BACKEND}
    coalescer.add(frozenset({Topic.RUNNER}), 1.0)
    assert coalescer.due_in(1.0) == GATHER_S


def test_hosts_that_are_not_selected_are_drawn_with_the_selected_one() -> None:
    coalescer, drawings = Coalescer(), 0
    for number in range(100):
        # Ten hosts, each once a second; the first of them is selected.
        coalescer.add(frozenset({Topic.HOSTS if number % 10 else Topic.DEVICES}), number / 10)
        drawings += bool(coalescer.due(number / 10))
    assert drawings == 11  # once a second, and the other hosts' first samples at once
    coalescer.add(frozenset({Topic.HOSTS}), 10.0)
    # Without the selected host they are drawn by themselves.
    assert coalescer.due(10 + PERIOD_S[Topic.HOSTS]) == {Topic.HOSTS}


@given(st.lists(st.tuples(st.sampled_from(list(Topic)), st.floats(0, 0.4)), max_size=60))
def test_nothing_is_lost_and_nothing_is_drawn_too_often(changes: list[tuple[Topic, float]]) -> None:
    coalescer, now = Coalescer(), 0.0
    drawn: dict[Topic, list[float]] = {part: [] for part in Topic}
    frames: list[float] = []
    for part, wait in changes:
        now += wait
        coalescer.add(frozenset({part}), now)
        parts = coalescer.due(now)
        frames += [now] if parts else []
        for actual in parts:
            drawn[actual].append(now)
    while (wait_for := coalescer.due_in(now)) is not None:
        now += wait_for
        parts = coalescer.due(now)
        assert parts, "it was said to be due now"
        frames.append(now)
        for actual in parts:
            drawn[actual].append(now)
    assert {part for part, times in drawn.items() if times} == {part for part, _ in changes}
    close = GATHER_S + 1e-9
    assert all(later - earlier >= PAUSE_S - close for earlier, later in pairwise(frames))
    for part, times in drawn.items():
        least = (0.0 if part in SAMPLED else PERIOD_S.get(part, 0.0)) - close
        assert all(later - earlier >= least for earlier, later in pairwise(times))
