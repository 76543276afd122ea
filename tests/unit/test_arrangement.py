"""Where panes are: every pane can be had in full at every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.ui.views.screen_frame import LOWER, PANES, arrange, pane_order, rows_for_devices

SIZES = st.tuples(st.integers(20, 250), st.integers(8, 100))


@pytest.mark.parametrize(
    ("size", "mode", "away"),
    [
        ((80, 24), "stack", {"detail", "log"}),
        ((80, 50), "stack", {"log"}),
        ((120, 40), "grid", {"log"}),
        ((200, 50), "grid", {"log"}),
        ((60, 20), "fold", {"log"}),
        ((120, 24), "stack", {"detail", "log"}),
    ],
)
def test_mode_by_size(size: tuple[int, int], mode: str, away: set[str]) -> None:
    placed = arrange(*size, "workloads", "detail", zoomed=False)
    assert placed.mode == mode
    assert {name for name, place in placed.places.items() if place == "away"} == away


@given(SIZES, st.sampled_from(LOWER), st.booleans())
def test_a_focused_pane_is_never_folded_or_away(
    size: tuple[int, int], lower: str, zoomed: bool
) -> None:
    for pane in pane_order(lower):
        placed = arrange(*size, pane, lower, zoomed=zoomed)
        assert placed.places[pane] in ("open", "natural")
        assert set(placed.places) == {*PANES, *LOWER}


@given(SIZES, st.sampled_from(LOWER), st.sampled_from(PANES))
def test_a_zoomed_pane_is_the_only_one_open(
    size: tuple[int, int], lower: str, focused: str
) -> None:
    placed = arrange(*size, focused, lower, zoomed=True)
    assert [name for name, place in placed.places.items() if place == "open"] == [focused]


@given(SIZES)
def test_without_a_focus_the_table_counts(size: tuple[int, int]) -> None:
    assert arrange(*size, None, "detail", zoomed=False) == arrange(
        *size, "workloads", "detail", zoomed=False
    )


@pytest.mark.parametrize("pane", ["backend", "detail"])
def test_where_rows_are_few_what_has_much_to_say_gets_them_all(pane: str) -> None:
    placed = arrange(80, 24, pane, "detail", zoomed=False)
    assert [name for name, place in placed.places.items() if place == "open"] == [pane]
    assert arrange(80, 40, pane, "detail", zoomed=False).mode == "stack"


@given(SIZES, st.sampled_from(LOWER), st.integers(2, 20))
def test_the_memory_pane_makes_room_for_devices_that_would_not_fit(
    size: tuple[int, int], lower: str, devices: int
) -> None:
    cells, rows = size
    placed = arrange(cells, rows, "workloads", lower, zoomed=False, devices=devices)
    if placed.mode == "stack":
        room = rows_for_devices(rows, memory=True, lower=placed.places[lower] != "away")
        assert (placed.places["memory"] == "folded") == (devices > room)
    asked = arrange(cells, rows, "memory", lower, zoomed=False, devices=devices)
    assert asked.places["memory"] != "folded"


def test_eight_gpus_and_their_headings_fit_on_the_smallest_usual_screen() -> None:
    title, heading, gpus, cpu = 1, 1, 8, 1
    placed = arrange(80, 24, "workloads", "detail", zoomed=False, devices=11)
    assert placed.places["memory"] == "folded"
    assert rows_for_devices(24, memory=False, lower=False) >= title + heading + gpus + cpu
