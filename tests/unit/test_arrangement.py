"""Where panes are: every pane can be had in full at every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.runs.views.arrangement import (
    LOWER,
    LOWER_ROWS,
    PANES,
    TABLE_ROWS,
    TOP_ROWS,
    arrange,
    devices_height,
    notice_rows,
    pane_order,
    rows_for_devices,
    top_height,
)

SIZES = st.tuples(st.integers(20, 250), st.integers(8, 100))


@pytest.mark.parametrize(
    ("size", "mode", "away"),
    [
        ((80, 24), "stack", {"detail", "log"}),
        ((80, 50), "stack", {"log"}),
        ((120, 40), "grid", {"log"}),
        ((160, 60), "grid", {"log"}),
        ((200, 40), "grid", {"log"}),
        ((200, 60), "columns", set()),
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


@given(SIZES, st.sampled_from(LOWER), st.sampled_from([*PANES, *LOWER]), st.booleans())
def test_in_a_grid_the_backends_without_a_comparison_or_beside_a_read_detail_are_one_line(
    size: tuple[int, int], lower: str, focused: str, compared: bool
) -> None:
    placed = arrange(*size, focused, lower, zoomed=False, compared=compared)
    if placed.mode == "grid":
        reads = focused == lower
        hidden = (reads or not compared) and focused != "backend"
        assert (placed.places["backend"] == "folded") == hidden
    else:
        whole = arrange(*size, focused, lower, zoomed=False)
        low = placed.mode == "stack" and size[1] < LOWER_ROWS
        hidden = low and not compared and focused != "backend"
        expected = whole.places | ({"backend": "folded"} if hidden else {})
        assert placed == whole._replace(places=expected)


def test_eight_gpus_and_their_headings_fit_on_the_smallest_usual_screen() -> None:
    title, heading, gpus, cpu = 1, 1, 8, 1
    placed = arrange(80, 24, "workloads", "detail", zoomed=False, devices=11)
    assert placed.places["memory"] == "folded"
    assert rows_for_devices(24, memory=False, lower=False) >= title + heading + gpus + cpu


@given(st.integers(22, 100), st.integers(3, 20), st.integers(0, 30), st.booleans(), st.booleans())
def test_in_a_stack_the_devices_leave_the_other_panes_what_these_need(
    rows: int, bare: int, history: int, memory: bool, lower: bool
) -> None:
    least, whole = bare + history // 2, bare + history
    height = devices_height(rows, bare, least, whole, memory=memory, lower=lower)
    room = rows_for_devices(rows, memory=memory, lower=lower)
    assert height <= max(2, room)
    # The history has at least its lowest height, or no row.
    assert height in (bare, whole) or height < bare or least <= height == room


@given(st.integers(30, 100), st.integers(3, 40), st.integers(0, 40))
def test_side_by_side_the_devices_leave_the_table_its_rows(
    rows: int, bare: int, history: int
) -> None:
    height = top_height(rows, bare, bare + history // 2, bare + history)
    assert TOP_ROWS <= height <= max(TOP_ROWS, rows * 2 // 5)
    assert rows - height >= TABLE_ROWS
    assert height >= min(bare, rows * 2 // 5)


def test_a_history_shrinks_to_the_rows_that_the_table_leaves() -> None:
    assert top_height(40, 11, least=14, whole=18) == 16
    assert top_height(40, 14, least=17, whole=21) == 15  # the last row is the frame's
    assert devices_height(50, 15, least=18, whole=22, memory=True, lower=True) == 21


def test_what_is_wrong_takes_rows_of_the_table_where_it_can_spare_them() -> None:
    assert [notice_rows(rows) for rows in (20, 24, 30, 40)] == [1, 1, 3, 3]
