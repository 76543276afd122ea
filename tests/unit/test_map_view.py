"""How the segment map is drawn: blocks in the colors of their sites, and all memory in one bar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.kit.lines import LAYERS, NEXT_LAYERS, ON_LAYERS, TextStyle, plain, width
from tui.snapshots.analysis.moment import group_of, map_lines
from tui.snapshots.model.calls import MapPage, Stretch
from tui.snapshots.model.pictures import MapRow, Piece, RowPicture, SiteInUse
from tui.snapshots.views.map import (
    TWO_COLUMNS,
    MapCell,
    describe_line,
    detail_lines,
    legend,
    map_line,
    overview_lines,
    page_lines,
    parse_cells,
    picture,
    reserved_lines,
    strip_cells,
    strip_count,
    tall_picture,
)

GIB = 2**30


def map_cells(states: str, used: str, begins: str, sites: str = "") -> list[MapCell]:
    return parse_cells(states, used, begins, sites or "0" * len(states))


def test_states_of_the_map_differ_without_colour() -> None:
    assert plain(picture(map_cells("aaaaaipu", "97510000", "00000000"))) == "▆▄▃▁··p "


def test_the_map_draws_the_borders_of_blocks() -> None:
    cells = map_cells("aaaaaa", "999999", "010020")
    drawn = picture(cells)
    assert plain(drawn) == "▆▆▆▆⣶▆"
    assert [span.style for span in drawn] == [LAYERS[0], NEXT_LAYERS[0]]
    assert plain(picture(cells, marks=True)) == "A│AA┆A"


def test_a_block_has_the_color_of_its_site_in_the_timeline() -> None:
    drawn = picture(map_cells("aaaaaai", "9999990", "0010100", "00022--"))
    styles = [LAYERS[0], LAYERS[2], TextStyle.LAYER_REST, TextStyle.QUIET]
    assert [span.style for span in drawn] == styles, "the cell of a border has the color before it"
    assert plain(picture(map_cells("aaaa", "9999", "0000", "22--"), marks=True)) == "CC▆▆"


def test_the_map_in_ascii_tells_parts_and_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    assert plain(picture(map_cells("aaaaaaip", "99978200", "01200000"))) == "A|:%%-.p"
    shown = RowPicture(full_segment(0, 8), "aaaaaaip", "99978200", "01200000")
    words = plain(legend([shown], 120))
    assert words.startswith(
        " A# in use  | block begins  : several blocks  -=% partly in use  . free"
    )
    assert words.isascii()


def test_a_tall_picture_of_a_segment_has_letters_and_fills_from_below() -> None:
    cells = map_cells("aaaaaaaai", "999999930", "000001000", "000001111")
    rows = [plain(row) for row in tall_picture(cells, 3)]
    assert rows[0] == "     ▏   "
    assert rows[1] == "  A  ▏   "
    assert rows[2] == "     ▏  ·"
    assert [plain(row) for row in tall_picture(cells, 1)] == ["  A  ▏ ▃·"]
    styles = [(span.text, span.style) for span in tall_picture(cells, 3)[0]]
    assert [style for _, style in styles] == [ON_LAYERS[0], ON_LAYERS[1], TextStyle.PLAIN]


SITES = (
    SiteInUse("a.py:1 f", 0, 6 * GIB, 3),
    SiteInUse("b.py:2 g", 1, GIB, 2),
    SiteInUse("other sites", None, GIB // 2, 9),
)
PAGE = MapPage((), 0, 0, 8 * GIB, SITES)


def test_all_reserved_memory_is_one_bar_by_site() -> None:
    first, second = map(plain, reserved_lines(PAGE, 101, tall=True))
    assert first.startswith("  8.0 GiB  94% all  ")
    assert second.startswith("  512 MiB free      ")
    assert first[20:].startswith(" A a.py:1 f")
    assert first[80] == "▏"
    assert first[81:90] == "B        "
    assert second[21:34] == "6.0 GiB  75% "
    assert first.endswith("·····")
    assert first.count("·") == 6
    (only,) = map(plain, reserved_lines(PAGE, 101, tall=False))
    assert " A a.py:1 f 6.0 GiB" in only


@given(st.integers(22, 240), st.integers(1, 60), st.booleans())
def test_what_stands_above_the_map_fits_its_width(cells: int, height: int, marks: bool) -> None:
    rows = overview_lines(PAGE, cells, height, marks=marks)
    assert all(width(row) <= cells for row in rows)
    assert 2 <= len(rows) <= 6
    empty = overview_lines(MapPage((), 0, 0, 0, ()), cells, height, marks=marks)
    assert all(width(row) <= cells for row in empty)


@given(st.integers(22, 240), st.integers(1, 60), st.booleans())
def test_the_map_without_a_cursor_fits_its_room(cells: int, height: int, marks: bool) -> None:
    rows = tuple(
        RowPicture(full_segment(at, 8), "aaai", "9940", "0100", sites="001-") for at in range(30)
    )
    page = replace(PAGE, rows=rows, total=35)
    drawn = page_lines(page, cells, height, marks=marks)
    assert all(width(row) <= cells for row in drawn)
    assert len(drawn) == min(height, len(page_lines(page, cells, 60)))
    if height > 10:
        whole = sum("8 B" in plain(row) for row in drawn)
        assert f"and {35 - whole} more" in " ".join(plain(drawn[-1]).split()) or cells < 30


def test_a_segment_is_drawn_in_strips_where_there_are_many_rows() -> None:
    assert [strip_count(rows) for rows in (0, 15, 16, 20, 24, 35, 90)] == [1, 1, 1, 2, 3, 5, 6]
    strips, cells = 2, 60
    count = strip_cells(cells, strips)
    assert count == 100
    piece = Piece(0, 512, None, "inactive", 0, "", None)
    shown = Stretch("a" * count, "9" * count, "0" * count, piece, (), "0" * 50 + "1" * 50, SITES)
    drawn = detail_lines(shown, [], (0, 1 << 30), 70, cells, rows=12, strips=strips)
    rows = [plain(row) for row in drawn]
    assert rows[1].startswith("        0  ")
    assert rows[2].rstrip().endswith(" A")
    assert rows[5].strip() == "", "the cursor is in the second strip"
    assert rows[6].startswith("  512 MiB ")
    assert "B" in rows[7]
    assert rows[10].index("^") == 30


@given(st.integers(40, 240), st.integers(1, 60))
def test_the_picture_of_a_segment_takes_the_rows_that_are_left(cells: int, rows: int) -> None:
    piece = Piece(0, 512, 512, "allocated", 1, "a.py:1 f", None)
    shown = Stretch("a" * cells, "9" * cells, "0" * cells, piece, (), "0" * cells, SITES)
    drawn = detail_lines(shown, [], (0, 512), 0, cells, rows=rows)
    assert all(width(row) <= cells for row in drawn)
    assert len(drawn) <= max(rows, 9)
    assert any(plain(row) == "^" for row in drawn)
    assert ("other sites" in "".join(map(plain, drawn))) == (cells >= TWO_COLUMNS)


@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("cells", [60, 80, 120])
def test_the_legend_of_the_map_is_one_line(cells: int, marks: bool) -> None:
    row = full_segment(0, 8, expandable=True, pool=(1, 2), stream=7)
    every = RowPicture(row, "aaaaaaip", "99978200", "01200000")
    words = plain(legend([every], cells, marks=marks))
    assert len(words) <= cells
    assert "in use" in words
    assert ("block begins" in words) == marks


def test_the_legend_has_the_glyphs_of_the_segments_alone() -> None:
    full = RowPicture(full_segment(0, 8), "aa", "99", "00")
    assert plain(legend([full], 120)) == " ▆▆▆▆ blocks  L large pool"
    mixed = RowPicture(full_segment(1, 8, kind="small", stream=7), "aaip", "9400", "0200")
    words = plain(legend([full, mixed], 200))
    assert words.startswith(" ▆▆▆▆ blocks  ▃ partly in use  · free  p pending  L large pool")
    assert words.endswith("S small pool  s other stream")
    assert legend([], 120) == ()


def full_segment(index: int, size: int, free: int = 0, **changes: Any) -> MapRow:
    used = size - free
    row = MapRow(index, index * 1000, size, 0, None, "large", False, used, 0, free, free, 1)
    return replace(row, **changes)


def test_the_most_fragmented_segments_come_first_and_full_ones_of_a_size_share_a_line() -> None:
    rows = [
        *(full_segment(index, 16) for index in range(4)),
        full_segment(4, 20, 8),
        full_segment(5, 20),
        full_segment(6, 20, 20, blocks=0),
        full_segment(7, 20, 12),
        *(full_segment(index, 32, 32, blocks=0) for index in (9, 10, 11)),
        full_segment(8, 16, stream=7),
    ]
    folded = [(row.index, group) for row, group in map_lines(rows)]
    assert folded == [(7, 0), (4, 0), (9, 3), (6, 0), (5, 0), (0, 4), (8, 0)]
    unfolded = [(row.index, group) for row, group in map_lines(rows, (0,))]
    assert unfolded == [*folded[:6], (0, 0), (1, 0), (2, 0), (3, 0), (8, 0)]
    assert group_of(rows, rows[9]) == [9, 10, 11]


def test_a_group_of_free_segments_is_one_line() -> None:
    group = RowPicture(full_segment(3, 40 << 20, 40 << 20, blocks=0), "", "", "", 3)
    assert plain(map_line(group, 80)).strip() == "40.0 MiB   0% L    ▸ 3 free segments  120 MiB"
    assert describe_line(group, 9) == "3 free segments of 9   40.0 MiB each"


def test_a_strip_of_free_memory_has_one_row() -> None:
    strips, cells = 3, 60
    count = strip_cells(cells, strips)
    piece = Piece(0, 512, None, "inactive", 0, "", None)
    used, sites = "9" * 50 + "0" * 100, "0" * 50 + "-" * 100
    states = "a" * 50 + "i" * 100
    shown = Stretch(states, used, "0" * count, piece, (), sites, SITES)
    drawn = detail_lines(shown, [], (0, 3 << 30), 120, cells, rows=11, strips=strips)
    rows = [plain(row) for row in drawn]
    assert [number for number, row in enumerate(rows) if "···" in row] == [6, 8]
    assert rows[9].index("^") == 30


def test_a_group_of_full_segments_is_one_line() -> None:
    group = RowPicture(full_segment(3, 16 << 20), "", "", "", 214)
    assert plain(map_line(group, 80)).strip() == "16.0 MiB 100% L    ▸ 214 full segments  3.3 GiB"
    held = plain(map_line(replace(group, sites="001"), 80, marks=True))
    assert held.endswith(" AAAAAAAAAAAAAAAAAABBBBBBBBB")
    assert "▾ 214" in plain(map_line(group, 80, unfolded=True))
    assert describe_line(group, 379) == "214 full segments of 379   16.0 MiB each"
    assert describe_line(replace(group, group=0), 379).startswith("1 of 379 segments")
