"""The order of the devices: by what is asked for, and still while figures are close."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, NOW, gpu, make_store, sample, uuid
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import (
    MARGINS,
    Order,
    Point,
    compute_sort_value,
    mean_since,
    sort_devices,
    sort_with_hysteresis,
)
from tui.monitor.messages import DeviceMemory, Utilization

FIGURES = st.dictionaries(st.sampled_from("abcdefgh"), st.none() | st.floats(0, 100))


@given(FIGURES, st.permutations("abcdefgh"), st.floats(0, 30))
def test_nobody_is_lost_and_no_row_is_far_behind_the_one_above(
    figures: dict[str, float | None], before: list[str], margin: float
) -> None:
    order = sort_with_hysteresis(before, figures, margin)
    assert sorted(order) == sorted(figures)
    for above, below in itertools.pairwise(order):
        one, other = figures[above], figures[below]
        assert other is None or (one is not None and other <= one + margin)


@given(FIGURES, st.permutations("abcdefgh"), st.floats(0, 30))
def test_what_was_shown_stays_once_it_is_in_order(
    figures: dict[str, float | None], before: list[str], margin: float
) -> None:
    order = sort_with_hysteresis(before, figures, margin)
    assert sort_with_hysteresis(order, figures, margin) == order


@given(FIGURES)
def test_asked_for_anew_it_is_sorted_exactly(figures: dict[str, float | None]) -> None:
    order = sort_with_hysteresis((), figures, 0.0)
    known = [value for key in order if (value := figures[key]) is not None]
    assert known == sorted(known, reverse=True)


def test_a_row_moves_up_only_once_it_is_ahead_by_more_than_the_margin() -> None:
    assert sort_with_hysteresis("ab", {"a": 50.0, "b": 60.0}, MARGINS["load"]) == ("a", "b")
    assert sort_with_hysteresis("ab", {"a": 50.0, "b": 60.1}, MARGINS["load"]) == ("b", "a")


@pytest.mark.parametrize(
    ("order", "expected"),
    [("index", [0, 1, 2]), ("load", [1, 2, 0]), ("memory", [2, 0, 1]), ("heat", [0, 1, 2])],
)
def test_each_order_and_the_cpu_is_last(order: Order, expected: list[int]) -> None:
    def device(at: int, load: float, used: int, celsius: float | None) -> object:
        return gpu(
            at,
            utilization=Utilization(load, 0.0),
            memory=DeviceMemory(80 * GIB, used * GIB, 0, 0),
            temperature_c=celsius,
        )

    seen = sample(device(0, 1, 20, 80.0), device(1, 99, 10, 60.0), device(2, 50, 70, None))  # type: ignore[arg-type]
    state = make_store("empty", seen)
    figures = {
        view.key: compute_sort_value(
            view, state.machine.history.points_since(view.key, NOW - 10), order
        )
        for view in state.machine.devices
    }
    actual = sort_devices(state.machine.devices, figures, (), order)
    assert actual == (*map(uuid, expected), CPU)


def test_a_figure_is_the_mean_and_unknown_readings_are_no_zeros() -> None:
    points = [
        Point(NOW, utilization=20.0),
        Point(NOW, utilization=None),
        Point(NOW, utilization=40.0),
    ]
    view = DeviceView(uuid(0), gpu(0))
    assert compute_sort_value(view, points, "load") == 30.0
    assert compute_sort_value(view, points, "heat") is None
    assert compute_sort_value(DeviceView("cuda:0"), [Point(NOW, used=5)], "memory") is None


def test_readings_from_before_the_request_do_not_count() -> None:
    assert mean_since(NOW, NOW) == NOW
    assert mean_since(NOW + 4, NOW) == NOW
    assert mean_since(NOW + 60, NOW) == NOW + 50
    assert mean_since(NOW - 30, NOW) == NOW - 30, "a replay that started again"
