"""Laws of tables: never too wide, dropped by worth, each cell under its heading."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.kit.lines import Span, TextStyle, line, plain, width
from tui.kit.table import (
    REST,
    Column,
    fit_columns,
    heading_line,
    largest_first,
    order_at,
    row_line,
    widest,
)

Row = dict[str, str]


def column(number: int, **changes: Any) -> Column[Row]:
    name = f"c{number}"
    plain_column: Column[Row] = Column(name, 4, lambda row: row.get(name, ""))
    return replace(plain_column, **changes)


@st.composite
def tables(draw: st.DrawFn) -> list[Column[Row]]:
    """Columns of any widths, of which some grow and others are dropped, in any order."""
    count = draw(st.integers(1, 8))
    worth = draw(st.permutations(range(count)))
    actual = []
    for number in range(count):
        grows = draw(st.lists(st.integers(0, 40), max_size=3))
        droppable = draw(st.booleans()) and not grows
        made = column(
            number,
            width=draw(st.integers(0, 12)),
            gap=draw(st.integers(0, 3)),
            align=draw(st.sampled_from(["left", "right"])),
            drop_order=worth[number] if droppable else None,
            leaves=draw(st.integers(0, 30)) if droppable else 0,
            grows=tuple(grows),
        )
        actual.append(made)
    return actual


ROOMS = st.integers(-3, 120)
ROWS = st.dictionaries(
    st.sampled_from([f"c{number}" for number in range(8)]), st.text("ab 12界", max_size=14)
)


@given(tables(), ROOMS, ROWS)
def test_no_line_is_wider_than_the_room(columns: list[Column[Row]], room: int, row: Row) -> None:
    layout = fit_columns(columns, room)
    assert width(heading_line(layout)) <= max(0, room)
    assert width(row_line(layout, row)) <= max(0, room)


@given(tables(), ROOMS)
def test_columns_stay_in_their_order_and_side_by_side(
    columns: list[Column[Row]], room: int
) -> None:
    layout = fit_columns(columns, room)
    shown = [columns.index(placed.column) for placed in layout]
    assert shown == sorted(shown)
    end = 0
    for placed in layout:
        assert placed.start == end + placed.column.gap
        end = placed.end


@given(tables(), ROOMS)
def test_the_least_important_columns_are_dropped_first(
    columns: list[Column[Row]], room: int
) -> None:
    shown = {placed.column.name for placed in fit_columns(columns, room)}
    droppable = [item for item in columns if item.drop_order is not None]
    by_worth = sorted(droppable, key=lambda item: item.drop_order or 0)
    there = [item.name in shown for item in by_worth]
    assert there == sorted(there)


@given(tables(), ROOMS)
def test_more_room_never_drops_a_column(columns: list[Column[Row]], room: int) -> None:
    now, wider = (
        {placed.column.name for placed in fit_columns(columns, cells)} for cells in (room, room + 1)
    )
    assert now <= wider


@given(tables(), ROOMS)
def test_no_column_is_narrower_than_its_least_while_another_could_be_dropped(
    columns: list[Column[Row]], room: int
) -> None:
    layout = fit_columns(columns, room)
    droppable = [placed for placed in layout if placed.column.drop_order is not None]
    if droppable:
        assert all(placed.width >= placed.column.width for placed in layout)
        flexible = sum(placed.width for placed in layout if placed.column.grows)
        used = max(placed.end for placed in layout)
        last = min(droppable, key=lambda placed: placed.column.drop_order or 0)
        assert last.column.leaves <= flexible + room - used


@given(tables(), st.integers(60, 120), ROWS)
def test_a_cell_stands_under_its_heading(columns: list[Column[Row]], room: int, row: Row) -> None:
    layout = fit_columns(columns, room)
    heading, drawn = (heading_line(layout), row_line(layout, dict.fromkeys(row, "x")))
    for placed in layout:
        for text in (plain(heading), plain(drawn)):
            cell = text[placed.start : placed.end]
            if not cell.strip():
                continue
            # A cell touches the edge of its column that it is aligned to.
            edge = cell[0] if placed.column.align == "left" else cell[-1]
            assert edge != " "
    for before, after in pairwise(layout):
        gap = plain(drawn)[before.end : after.start]
        assert not gap.strip()


def test_growing_columns_take_turns() -> None:
    columns = [column(0, width=2, grows=(6, 20)), column(1, width=2, grows=(5, REST))]
    sizes = {
        room: [placed.width for placed in fit_columns(columns, room)]
        for room in (8, 12, 15, 31, 99)
    }
    # Four cells are the gaps.
    assert sizes == {8: [2, 2], 12: [6, 2], 15: [6, 5], 31: [20, 7], 99: [20, 75]}


def test_a_column_is_dropped_where_it_leaves_too_little_to_the_growing_ones() -> None:
    columns = [column(0, drop_order=0, leaves=10), column(1, width=3, grows=(REST,))]
    names = {
        room: [placed.column.name for placed in fit_columns(columns, room)] for room in (17, 18)
    }
    assert names == {17: ["c1"], 18: ["c0", "c1"]}


def test_the_widest_growing_column_gives_way_where_nothing_can_be_dropped() -> None:
    columns = [column(0, width=9, grows=(20,)), column(1), column(2, width=5, grows=(9,))]
    assert [placed.width for placed in fit_columns(columns, 20)] == [5, 4, 5]


def test_the_sorted_column_is_marked_once_and_a_heading_knows_its_order() -> None:
    columns = [
        column(0, order="size", gap=0), column(1, width=6, order="size"), column(2, width=6),
    ]  # fmt: skip
    layout = fit_columns(columns, 40)
    heading = heading_line(layout, "size")
    mark = glyphs.GLYPHS.unfolded
    assert plain(heading).split() == [f"c0{mark}", "c1", "c2"]
    assert [span.style for span in heading] == [TextStyle.KEY, TextStyle.QUIET]
    assert mark not in plain(heading_line(layout))
    assert [order_at(layout, cell, ["size"]) for cell in (0, 3, 4, 11, 12, 19, 20)] == [
        "size", "size", "size", "size", None, None, None,
    ]  # fmt: skip


def test_a_cell_keeps_its_styles_and_is_cut_with_a_mark() -> None:
    bad = TextStyle.BAD
    made: Column[Row] = Column(
        "name", 6, lambda row: line(Span("a", bad), row["rest"]), "left", gap=1
    )
    layout = fit_columns([made, column(1, gap=1)], 12)
    assert row_line(layout, {"rest": "b", "c1": "x"}) == (
        Span(" a", bad), Span("b        x"),
    )  # fmt: skip
    assert plain(row_line(layout, {"rest": "bcdefgh"})).startswith(" abcde… ")


@given(st.lists(st.none() | st.floats(-9, 9)))
def test_the_largest_comes_first_and_the_unknown_last(values: list[float | None]) -> None:
    actual = largest_first(enumerate(values), lambda row: row[1])
    known = [value for _, value in actual if value is not None]
    assert known == sorted(known, reverse=True)
    assert [value for _, value in actual][len(known) :] == [None] * (len(values) - len(known))
    for (one, first), (other, second) in pairwise(actual):
        assert one < other or first != second


def test_the_widest_text_is_measured_in_cells() -> None:
    assert (widest([]), widest(["a", "界界"]), widest(["abc"], 2)) == (0, 4, 2)
