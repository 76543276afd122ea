"""Laws of the numbers of an allocator, on what a model of it counts."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tui.allocators.layouts import (
    ARRAYS,
    LAYOUTS,
    NOTHING,
    Numbers,
    counts_before,
    is_of_an_allocator,
    is_sound,
    may_have_been_reset,
    was_used,
)

SEGMENT = 2**21


class Model:
    """Counts as torch's allocator does: blocks out of segments, in two pools."""

    def __init__(self) -> None:
        self.stats = {(name, pool): [0, 0, 0, 0] for name in ARRAYS for pool in range(3)}
        self.blocks: list[tuple[int, int]] = []
        self.free = [0, 0, 0]

    def _add(self, name: str, pool: int, amount: int) -> None:
        for which in (0, pool):
            stat = self.stats[name, which]
            stat[0] += amount
            stat[1] = max(stat[:2])
            stat[2 if amount > 0 else 3] += abs(amount)

    def _hold(self, pool: int, asked: int, sign: int) -> None:
        size = -(-asked // 512) * 512
        for name in ("allocation", "active"):
            self._add(name, pool, sign)
        for name in ("allocated_bytes", "active_bytes"):
            self._add(name, pool, sign * size)
        self._add("requested_bytes", pool, sign * asked)
        self.free[pool] -= sign * size
        self._add("inactive_split_bytes", pool, -sign * size)

    def take(self, pool: int, asked: int) -> None:
        size = -(-asked // 512) * 512
        if self.free[pool] < size:
            segment = max(SEGMENT, size)
            self._add("segment", pool, 1)
            self._add("reserved_bytes", pool, segment)
            self._add("inactive_split_bytes", pool, segment)
            self.free[pool] += segment
        self._hold(pool, asked, 1)
        self.blocks.append((pool, asked))

    def give(self) -> None:
        if self.blocks:
            self._hold(*self.blocks.pop(0), -1)

    def begin_anew(self) -> None:
        for stat in self.stats.values():
            stat[2:] = [0, 0]

    def reset_peaks(self) -> None:
        for stat in self.stats.values():
            stat[1] = stat[0]

    def numbers(self) -> Numbers:
        flat = [self.stats[name, pool] for name in ARRAYS for pool in range(3)]
        return (*(number for stat in flat for number in stat), 3, 1)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just(Model.take), st.integers(1, 2), st.integers(1, 3 * SEGMENT)),
        st.tuples(st.just(Model.give)),
        st.tuples(st.just(Model.reset_peaks)),
    ),
    min_size=1,
    max_size=30,
)
Steps = list[tuple[Callable[..., None], object]]


def after(steps: Steps, model: Model | None = None) -> Model:
    model = model or Model()
    for step, *arguments in steps:
        step(model, *arguments)
    return model


@settings(max_examples=40)
@given(STEPS)
def test_what_an_allocator_counts_is_sound(steps: Steps) -> None:
    numbers = after(steps).numbers()
    assert is_sound(numbers)
    assert counts_before(numbers) == NOTHING
    assert is_of_an_allocator(numbers) == was_used(numbers)


@settings(max_examples=40)
@given(STEPS, st.integers(0, 26), st.sampled_from([0, 2, 3]), st.integers(-(2**40), 2**40))
def test_one_number_that_is_of_another_moment_is_seen(
    steps: Steps, stat: int, which: int, change: int
) -> None:
    assume(change)
    numbers = list(after(steps).numbers())
    numbers[4 * stat + which] += change
    assert not is_sound(tuple(numbers))


@settings(max_examples=40)
@given(STEPS, st.integers(0, 26))
def test_a_peak_below_what_is_held_is_seen(steps: Steps, stat: int) -> None:
    numbers = list(after(steps).numbers())
    numbers[4 * stat + 1] = numbers[4 * stat] - 1
    assert not is_sound(tuple(numbers))


@settings(max_examples=40)
@given(STEPS, STEPS)
def test_counts_that_were_begun_anew_are_sound_with_what_was_held_then(
    steps: Steps, more: Steps
) -> None:
    model = after(steps)
    held = tuple(stat[0] for stat in model.stats.values())
    model.begin_anew()
    numbers = after(more, model).numbers()
    assert counts_before(numbers) == held
    assert is_sound(numbers, held)
    assert is_sound(numbers) == (held == NOTHING)
    assert may_have_been_reset(held) == (held != NOTHING)


@settings(max_examples=40)
@given(STEPS, st.integers(0, 8), st.sampled_from([-1, 1]))
def test_a_half_made_change_is_not_taken_for_a_reset(steps: Steps, array: int, by: int) -> None:
    numbers = list(after(steps).numbers())
    for pool in (0, 1):
        numbers[12 * array + 4 * pool] += by
    assert not may_have_been_reset(counts_before(tuple(numbers)))


@settings(max_examples=40)
@given(STEPS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.versions)
def test_a_layout_fits_its_own_memory_alone(layout: object, steps: Steps) -> None:
    numbers = after(steps).numbers()
    assume(was_used(numbers))
    (own,) = [each for each in LAYOUTS if each is layout]
    # An empty map points to a table of its own; behind the statistics lie more counts.
    empty_map = struct.pack("<QQbb2xfQ", 0x7F00_0000_1000, 0, 63, 4, 0.5, 0)
    memory = bytearray(own.form.pack(*numbers)) + bytes(128)
    if own.versions.startswith("2.13"):
        memory[576:608] = empty_map
    fitting = [each for each in LAYOUTS if is_of_an_allocator(each.form.unpack_from(memory))]
    assert fitting == [own]
    assert own.form.unpack_from(memory) == numbers
