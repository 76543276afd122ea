"""How the flame view is drawn, and where its cursor goes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.kit.lines import ON_LAYERS, SLATES, Span, TextStyle, line, plain, width
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.pictures import AllocationSize, Flame, FlameFrame
from tui.snapshots.model.results import FrameKind
from tui.snapshots.views.flame import (
    TWO_COLUMNS,
    arrange_levels,
    chain_lines,
    choose_slates,
    depth_of,
    detail_lines,
    edges,
    find_fork,
    find_frame,
    flame_lines,
    frame_at,
    frame_lines,
    level_at,
    narrow_lines,
    next_frame,
    own_memory,
    scroll_levels,
    site_lines,
    size_lines,
)

GIB = 2**30


def frame(
    *path: str,
    start: int,
    size: int,
    kind: FrameKind | None = "user",
    own: int = 0,
    rank: int | None = None,
) -> FlameFrame:
    label = path[-1] if path else "live memory"
    return FlameFrame(path, label, kind, start, size, size, 3, 1, own=own, rank=rank)


FLAME = Flame(
    (),
    (
        frame(start=0, size=8 * GIB, kind=None),
        frame("train.py:9 main", start=0, size=6 * GIB, own=GIB // 2, rank=0),
        frame("data.py:2 load", start=6 * GIB, size=GIB, own=GIB, rank=2),
        frame("train.py:9 main", "model.py:40 forward", start=0, size=4 * GIB, own=4 * GIB, rank=1),
        frame(
            *("train.py:9 main", "adam.py:7 step"),
            start=4 * GIB,
            size=GIB,
            own=GIB,
            kind="framework",
        ),
    ),
    8 * GIB,
    8 * GIB,
)


def test_a_frame_is_as_wide_as_what_it_holds_and_a_gap_is_its_callers_own() -> None:
    rows = [plain(row) for row in flame_lines(FLAME, 80, 4, ("data.py:2 load",), (1, 1, 1))]
    assert rows[0].startswith(" live memory  8.0 GiB ")
    assert rows[1].startswith(" A train.py:9 main  6.0 GiB")
    assert rows[1][60:] == " C data.… "
    assert rows[2].index("▏") == 40
    assert len(rows[2]) == 50
    assert rows[3] == ""


def test_few_levels_have_the_figures_on_their_second_row() -> None:
    rows = [plain(row) for row in flame_lines(FLAME, 80, 9, ("data.py:2 load",), (3, 3, 3))]
    assert rows[0].rstrip() == " live memory"
    assert rows[1].rstrip() == " 8.0 GiB  100%  3 allocations"
    assert set(rows[2]) == {"▁"}
    assert rows[3][60:] == " C data.… "
    assert rows[4][60:] == " 1.0 GiB  "
    assert rows[5][60:] == " " * 10
    assert [row[40] for row in rows[6:]] == ["▏", "▏", "▁"], "a foot would be left beside a gap"
    low = flame_lines(FLAME, 80, 6, ("data.py:2 load",), (2, 2, 2))
    assert "▁" not in plain(low[1]), "words would stand on a foot"
    assert plain(flame_lines(FLAME, 80, 3, (), (3, 3, 3), 2)[0]) == rows[6]


def test_levels_that_pass_on_nearly_all_memory_leave_the_rows_to_the_others() -> None:
    assert arrange_levels(FLAME, 0, 3) == (1, 1, 1)
    assert arrange_levels(FLAME, 0, 5) == (1, 2, 2)
    assert arrange_levels(FLAME, 0, 8) == (2, 3, 3)
    assert arrange_levels(FLAME, 0, 40) == (3, 3, 3), "a frame has no more words"
    assert arrange_levels(FLAME, 1, 6) == (3, 3, 3), "the outermost is out of view"
    whole = 8 * GIB
    chain = [frame(*"abcdefg"[:depth], start=0, size=whole) for depth in range(8)]
    assert arrange_levels(Flame((), tuple(chain), whole, whole), 0, 16) == (2,) * 8


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(6, 40), st.data())
def test_the_level_of_the_cursor_is_scrolled_into_view(
    heights: list[int], rows: int, data: st.DataObject
) -> None:
    last = len(heights) - 1
    level, top = (data.draw(st.integers(0, last)) for _ in range(2))
    top = scroll_levels(heights, top, level, rows)
    assert level_at(heights, top, sum(heights[top:level])) == (level, 0)
    end = sum(heights[top : level + 1])
    assert end <= rows
    assert level_at(heights, top, end - 1) == (level, heights[level] - 1)
    assert level_at(heights, top, sum(heights[top:]))[0] == len(heights)


@given(st.integers(1, 300))
def test_the_cells_of_frames_are_those_that_a_click_finds(cells: int) -> None:
    for depth, row in enumerate(flame_lines(FLAME, cells, 3, (), (1, 1, 1))):
        assert width(row) <= cells
        at = 0
        for span in row:
            found = {frame_at(FLAME, cells, x, depth) for x in range(at, at + span.width)}
            assert len(found) == (span.width > 0)
            assert (found == {None}) == (type(span) is Span and span.style is TextStyle.PLAIN)
            at += span.width


def test_a_frame_has_the_color_and_the_letter_of_its_layer_in_the_timeline() -> None:
    rows = flame_lines(FLAME, 80, 3, ("nowhere",), (1, 1, 1))
    assert {span.style for span in rows[1][:3]} == {ON_LAYERS[0]}
    assert {span.style for span in rows[1][3:]} == {ON_LAYERS[2]}
    assert "▏C data.… " in plain(rows[1])
    step = rows[2][-3:]
    assert {span.style for span in step} == set(SLATES[0])
    assert plain(step).startswith("▏adam.py")


@given(st.integers(1, 300), st.integers(1, 6))
def test_the_frame_under_the_cursor_has_a_color_of_its_own(cells: int, height: int) -> None:
    for chosen in (frame.path for frame in FLAME.frames):
        first, end = edges(FLAME, find_frame(FLAME, chosen), cells)  # type: ignore[arg-type]
        heights = (height,) * 3
        drawn = flame_lines(FLAME, cells, 3 * height, chosen, heights)
        for row, spans in enumerate(drawn):
            at = 0
            for span in spans:
                under = row // height == len(chosen) and first <= at < end
                if span.text and (under or span.style is not TextStyle.PLAIN):
                    letter = at == first and span.style in ON_LAYERS
                    assert (span.style is TextStyle.CHOSEN) == under or letter
                at += span.width


def test_frames_without_a_letter_differ_from_their_caller_and_their_neighbor() -> None:
    paths = [("a",), ("b",), ("c",), ("a", "d"), ("a", "e"), ("b", "f")]
    frames = [frame(start=0, size=3 * GIB)]
    frames += [frame(*path, start=at, size=GIB) for at, path in enumerate(paths)]
    slates = choose_slates(Flame((), tuple(frames), 3 * GIB, 3 * GIB))
    assert len(slates) == 7
    for path in paths:
        assert slates[path] != slates[path[:-1]]
    for one, other in pairwise(paths):
        assert len(one) != len(other) or slates[one] != slates[other]


def test_in_ascii_each_frame_has_edges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    rows = [plain(row) for row in flame_lines(FLAME, 80, 6, ("data.py:2 load",), (2, 2, 2))]
    assert rows[2].startswith("|A train.py:9 main")
    assert rows[2][59:] == "| C dat... ", "the frame beside it has a right edge"
    assert all(row[39:41] == "||" and row[49] == "|" for row in rows[4:])


@pytest.mark.parametrize("ascii_only", [False, True])
def test_without_colors_each_frame_has_edges_and_the_cursor_is_reversed(
    monkeypatch: pytest.MonkeyPatch, ascii_only: bool
) -> None:
    if ascii_only:
        monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    drawn = flame_lines(FLAME, 80, 9, ("data.py:2 load",), (3, 3, 3), outlined=True)
    rows = [plain(row) for row in drawn]
    before, after, under = ("|", "|", "_") if ascii_only else ("▏", "▕", "▁")
    for row in rows[6:]:
        assert (row[0], row[40], row[49]) == (before, before, after)
        assert len(row) == 50, "the gap after it is its caller's own"
    assert rows[8] == before + under * 39 + before + under * 8 + after
    assert rows[5].startswith(f"{before}512 MiB itself {under}")
    styles = {span.style for row in drawn for span in row}
    assert styles == {TextStyle.PLAIN, TextStyle.CURSOR}
    assert [row[1].style for row in drawn[3:6]] == [TextStyle.CURSOR] * 3


def test_the_cursor_walks_in_out_and_along() -> None:
    main = ("train.py:9 main",)
    assert next_frame(FLAME, (), "in") == main
    assert next_frame(FLAME, main, "in") == (*main, "model.py:40 forward")
    assert next_frame(FLAME, (*main, "model.py:40 forward"), "in")[-1] == "model.py:40 forward"
    assert next_frame(FLAME, (*main, "model.py:40 forward"), "right")[-1] == "adam.py:7 step"
    assert next_frame(FLAME, main, "left") == main
    assert next_frame(FLAME, main, "out") == ()
    assert next_frame(FLAME, (), "out") == ()
    assert depth_of(FLAME) == 3


def test_the_first_fork_lies_inside_the_frames_that_hold_everything() -> None:
    assert find_fork(FLAME) == ()
    whole = 8 * GIB
    chain = [("torchrun",), ("torchrun", "main"), ("torchrun", "main", "fit")]
    frames = [frame(*path, start=0, size=whole) for path in ((), *chain)]
    frames += [frame(*chain[-1], name, start=0, size=whole // 2) for name in ("a", "b")]
    flame = Flame((), tuple(frames), whole, whole)
    assert find_fork(flame) == chain[-1]
    assert next_frame(flame, chain[-1], "left") == chain[-2], "it is alone on its level"


def test_a_frame_that_another_moment_lacks_is_its_caller() -> None:
    found = find_frame(FLAME, ("train.py:9 main", "gone.py:1 f", "deeper.py:2 g"))
    assert found is not None
    assert found.path == ("train.py:9 main",)


def test_the_frame_under_the_cursor_says_what_it_holds_itself() -> None:
    words = [plain(row) for row in frame_lines(FLAME, FLAME.frames[1], 100)]
    assert words[0] == "train.py:9 main  6.0 GiB  75% of what is live  3 allocations"
    assert words[1] == "allocates 512 MiB itself; 512 MiB in calls too small to draw"
    words = [plain(row) for row in frame_lines(FLAME, FLAME.frames[0], 100)]
    assert words[1] == "1.5 GiB in calls too small to draw", "as in the list of lines"
    words = [plain(row) for row in frame_lines(FLAME, FLAME.frames[2], 100)]
    assert words[1] == "allocates all of it itself"
    heading, _ = frame_lines(FLAME, FLAME.frames[1], 50)
    assert plain(heading) == "train.py:9 main  6.0 GiB  75%  3 allocations"
    heading, _ = frame_lines(FLAME, FLAME.frames[1], 40)
    assert plain(heading) == "train.py:9 main  6.0 GiB  75%"


def test_a_tall_frame_says_what_it_holds_itself() -> None:
    rows = [plain(row) for row in flame_lines(FLAME, 80, 9, (), (3, 3, 3))]
    assert rows[5].startswith(" 512 MiB itself ")
    assert rows[2].strip() == ""


def test_lines_of_code_are_listed_by_what_they_allocated_themselves() -> None:
    main = ("train.py:9 main",)
    assert [(site.label, site.bytes / GIB) for site in own_memory(FLAME)] == [
        ("model.py:40 forward", 4),
        ("adam.py:7 step", 1),
        ("data.py:2 load", 1),
        ("train.py:9 main", 0.5),
    ]
    heading, *rows = site_lines(FLAME, main, 60, 4)
    assert plain(heading) == "by the innermost line"
    assert plain(rows[0]).split() == [
        "B",
        "█" * 20,
        "4.0",
        "GiB",
        "50%",
        *["model.py:40", "forward"],
    ]
    assert plain(rows[1]).split()[:2] == ["·", "█" * 5]
    assert plain(rows[2]).strip() == "3 more: 3.0 GiB"
    styles = {plain(row).split()[-1]: row[-2].style for row in site_lines(FLAME, main, 60, 9)[1:]}
    assert styles["load"] is TextStyle.QUIET, "it was not called by the frame under the cursor"
    assert styles["forward"] is TextStyle.PLAIN
    last = plain(site_lines(FLAME, main, 70, 9)[-1])
    assert last.endswith(" 1.5 GiB  19%  in calls too small to draw")
    assert all(width(row) <= 30 for row in site_lines(FLAME, main, 30, 9))


def test_letters_without_room_for_a_name_are_named_below() -> None:
    assert [plain(row) for row in narrow_lines(FLAME, 77, 80)] == [" C  data.py:2 load 1.0 GiB 12%"]
    assert narrow_lines(FLAME, 200, 200) == []


def test_the_stack_below_has_the_share_of_each_frame() -> None:
    stack = [Frame("/lib/site-packages/torch/nn.py", 3, "nn"), Frame("/me/model.py", 40, "forward")]
    stack.append(Frame("/me/train.py", 9, "main"))
    rows = [plain(row) for row in chain_lines(FLAME, FLAME.frames[1], stack, 80)]
    assert [row.split()[0] for row in rows[1:]] == ["50%", "75%"]
    assert "forward" in rows[1]


SIZES = (AllocationSize(GIB // 2, 10), AllocationSize(GIB, 1))


def test_the_sizes_below_a_frame_are_counted_with_their_share() -> None:
    rows = [plain(row) for row in size_lines(SIZES, FLAME, FLAME.frames[1], 55, 9)]
    assert rows[0].split() == ["size", "x", "count"]
    assert rows[1].split() == ["512", "MiB", "x", "10", "█" * 20, "5.0", "GiB", "62%"]
    assert rows[2].split() == ["1.0", "GiB", "x", "1", "█" * 4, "1.0", "GiB", "12%"]
    assert len(size_lines(SIZES * 9, FLAME, FLAME.frames[1], 55, 5)) == 5
    assert size_lines(SIZES, FLAME, FLAME.frames[1], 55, 2) == []
    assert size_lines((), FLAME, FLAME.frames[1], 55, 9) == []


@given(st.integers(40, 240), st.integers(1, 30))
def test_what_is_below_the_picture_fits_its_width(cells: int, rows: int) -> None:
    stack = [line("a stack")]
    chosen = FLAME.frames[1]
    drawn = detail_lines(FLAME, chosen, stack, SIZES, cells, picture=cells, rows=rows)
    assert all(width(row) <= cells for row in drawn)
    assert len(drawn) <= max(rows, 7)
    assert any("512 MiB" in plain(row) for row in drawn) or rows < 9
    assert all(width(row) > cells // 2 for row in drawn[:4]) or cells < TWO_COLUMNS
