"""The playhead's laws: it never jumps, never runs back, and stands still when told to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recordings.making import Clock
from tui.recordings.replay import AT_ONCE, FASTEST, SLOWEST, Playhead, format_speed

steps = st.lists(
    st.tuples(st.sampled_from(["faster", "slower", "pause", "go on", "wait"]), st.floats(0, 100)),
    max_size=20,
)


def act(head: Playhead, what: str) -> None:
    if what == "faster":
        head.faster()
    elif what == "slower":
        head.slower()
    elif what != "wait":
        head.pause(what == "pause")


@given(steps, st.floats(1, 1000))
def test_it_moves_by_time_and_speed_alone(moves: list[tuple[str, float]], length: float) -> None:
    clock = Clock()
    head = Playhead(length, now=clock)
    expected = 0.0
    for what, seconds in moves:
        before = head.position
        act(head, what)
        assert head.position == pytest.approx(before)
        clock.wait(seconds)
        expected = min(length, expected + (0 if head.paused else seconds * head.speed))
        assert head.position == pytest.approx(expected)
        assert head.position >= before
        assert SLOWEST <= head.speed <= FASTEST
        assert head.ended is (head.position >= length)


@given(steps, st.floats(0, 100))
def test_after_the_time_until_a_place_it_is_there(
    moves: list[tuple[str, float]], place: float
) -> None:
    clock = Clock()
    head = Playhead(100, now=clock)
    for what, seconds in moves:
        act(head, what)
        clock.wait(seconds / 50)
    wait = head.until(place)
    assert (wait is None) is head.paused
    if wait is not None:
        clock.wait(wait)
        assert head.position >= place - 1e-6
        clock.wait(1)
        assert head.until(place) == 0


def test_at_once_it_is_where_it_has_played_to() -> None:
    head = Playhead(100, AT_ONCE)
    assert head.until(50) == 0
    head.reached(50)
    assert head.position == 50
    head.faster()
    assert head.speed == AT_ONCE
    head.slower()
    assert head.speed == FASTEST
    assert head.position == pytest.approx(50, abs=10)


def test_a_speed_beyond_the_keys_is_kept_until_it_is_made_slower() -> None:
    head = Playhead(100, 1000.0)
    head.faster()
    assert head.speed == 1000
    head.slower()
    assert head.speed == FASTEST


def test_it_can_begin_anew() -> None:
    clock = Clock()
    head = Playhead(100, now=clock)
    clock.wait(30)
    head.rewind()
    assert head.position == 0
    clock.wait(1)
    assert head.position == 1


@pytest.mark.parametrize(
    ("speed", "text"), [(1, "1x"), (2.5, "2.5x"), (0.25, "1/4x"), (0.3, "0.3x"), (AT_ONCE, "max")]
)
def test_a_speed_in_words(speed: float, text: str) -> None:
    assert format_speed(speed) == text
