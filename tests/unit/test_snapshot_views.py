"""The snapshot's views as lines, and its words on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from tests.in_process import run_here
from tests.tiers import VARIANT
from tui.core.text import glyphs
from tui.core.text.commands import EXAMPLE
from tui.kit.command_line.output import UsageError
from tui.kit.command_line.values import size_of
from tui.kit.lines import (
    FULL_LAYERS,
    LAYERS,
    ON_LAYERS,
    Line,
    TextStyle,
    TwoColored,
    cell_len,
    plain,
    width,
)
from tui.kit.styles import strip_of
from tui.snapshots.cli.snapshot import event_range
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.pictures import REST, Band, Bucket, EventTick, Layer, LayerSize, Timeline
from tui.snapshots.model.results import SiteListing, SiteRow
from tui.snapshots.session.snapshot_reader import SnapshotStore, describe_death
from tui.snapshots.views.layers import (
    Moment,
    chart_lines,
    layer_at,
    legend_lines,
    next_layer,
)
from tui.snapshots.views.opening import (
    complete_path,
    file_line,
    find_files,
    first_file,
    start_lines,
)
from tui.snapshots.views.overview import (
    fit_title,
)
from tui.snapshots.views.shared_lines import clamp_range, find_column, fit_place, stack_lines
from tui.snapshots.views.sites import (
    SiteLine,
    bar_cells,
    node_line,
    nodes,
    parse_search,
    tree_heading,
)
from tui.snapshots.views.timeline_edges import GUTTER

TRAINING = Path(__file__).parents[1] / "snapshots" / "files" / "training.pickle"
GIB = 1 << 30
LINE = "─│-|"
"""Glyphs of the line of reserved memory."""


def timeline(levels: list[tuple[int, int]], scale: int) -> Timeline:
    """Return a timeline with the live and the reserved bytes of each column."""
    buckets = tuple(
        Bucket(at, at, at * 1000, live, at, reserved, 0)
        for at, (live, reserved) in enumerate(levels)
    )
    halves = tuple(live // 2 for live, _ in levels)
    rest = tuple(live - live // 2 for live, _ in levels)
    return Timeline(
        device=0,
        first=0,
        last=len(levels) - 1,
        scale=scale,
        buckets=buckets,
        begin_us=0,
        ticks=tuple(EventTick(event, event * 1000) for event in range(0, len(levels), 50)),
        peak_event=0,
        peak=scale,
        ooms=(),
        bands=(),
        stacking="site",
        layers=(
            Layer("a.py:1 f", "a.py:1 f", halves, ("parameters",)),
            Layer(REST, "other sites", rest, ()),
        ),
    )


level = st.tuples(*[st.integers(0, GIB)] * 2).map(lambda sizes: tuple(sorted(sizes)))


@given(st.lists(level, min_size=1, max_size=60), st.integers(1, 20), st.booleans())
def test_a_chart_is_as_wide_as_its_columns_and_never_falls_upwards(
    levels: list[tuple[int, int]], rows: int, ascii_only: bool
) -> None:
    saved = glyphs.GLYPHS
    glyphs.GLYPHS = glyphs.ASCII if ascii_only else glyphs.UNICODE
    try:
        shown = timeline(levels, GIB)
        lines = chart_lines(shown, rows + 3, None, letters=True)
        assert len(lines) == rows + 3
        assert all(width(line) <= GUTTER + len(levels) for line in lines)
        chart = [plain(line)[GUTTER:] for line in lines[1 : rows + 1]]
        assert all(len(row) == len(levels) for row in chart)
        for column in range(1, len(levels) - 1):
            drawn = "".join(row[column] for row in chart)
            bare = drawn.translate(dict.fromkeys(map(ord, LINE + glyphs.GLYPHS.steps), " "))
            # Where a cell is filled, so are all below it, and the layers keep their order.
            filled = bare.strip()
            assert bare == filled.rjust(rows)
            assert filled == "".join(sorted(filled, key="·oA".index))
            assert bool(filled) == (levels[column][0] > 0)
        assert not ascii_only or all(plain(line).isascii() for line in lines)
    finally:
        glyphs.GLYPHS = saved


def test_memory_that_is_there_is_never_drawn_as_nothing() -> None:
    lines = chart_lines(timeline([(0, 0), (1, 1), (0, 0)], GIB), 7, None)
    assert plain(lines[4])[GUTTER + 1] == "▁"


def _eighths(spans: Line, column: int) -> list[TextStyle]:
    """Return the styles of the eighths of a full cell, from below."""
    for span in spans:
        if column < len(span.text):
            behind = span.behind if isinstance(span, TwoColored) else span.style
            lower = 1 + glyphs.GLYPHS.vertical.index(span.text[column])
            return [span.style] * lower + [behind] * (8 - lower)
        column -= len(span.text)
    raise IndexError


@given(st.integers(0, 64))
def test_a_boundary_between_layers_is_drawn_to_an_eighth_of_a_cell(parts: int) -> None:
    rows, bottom = 8, GIB * parts // 64
    layers = (
        Layer("a.py:1 f", "a.py:1 f", (bottom,) * 3, ()),
        Layer("b.py:2 g", "b.py:2 g", (GIB - bottom,) * 3, (), rank=1),
    )
    shown = replace(timeline([(GIB, GIB)] * 3, GIB), layers=layers)
    lines = chart_lines(shown, rows + 3, None)[1 : rows + 1]
    eighths = [part for line in reversed(lines) for part in _eighths(line, GUTTER + 1)]
    lower = {LAYERS[0], FULL_LAYERS[0]}
    assert [part in lower for part in eighths] == [at < parts for at in range(8 * rows)]


def test_of_several_layers_in_a_cell_the_two_largest_are_drawn() -> None:
    layers = tuple(
        Layer(f"{size}.py:1 f", "f", (GIB * size // 64,) * 3, (), rank=rank)
        for rank, size in enumerate((3, 1, 4, 56))
    )
    shown = replace(timeline([(GIB, GIB)] * 3, GIB), layers=layers)
    lowest = chart_lines(shown, 11, None)[8]
    cell = next(span for span in lowest if isinstance(span, TwoColored))
    assert (cell.text[0], cell.style, cell.behind) == ("▄", LAYERS[0], LAYERS[2])


def test_two_layers_in_a_cell_have_two_colors() -> None:
    cell = TwoColored("\N{LOWER HALF BLOCK}", LAYERS[0], LAYERS[1])
    (segment,) = strip_of((cell,), 1, Style())
    assert segment.style is not None
    assert segment.style.color is not None
    assert segment.style.bgcolor is not None
    assert segment.style.color != segment.style.bgcolor


def test_round_sizes_and_times_stand_on_the_axes() -> None:
    shown = timeline([(GIB * at // 100, GIB) for at in range(100)], GIB)
    rows = [plain(row) for row in chart_lines(shown, 20, 50)]
    sizes = [row[: GUTTER - 1].strip() for row in rows[1:19] if row[: GUTTER - 1].strip()]
    assert sizes == ["1 GiB", "0.5 GiB", "0"]
    assert rows[-2].startswith("       0└")
    ticks = [*["0", "at", "0", "s"], "50", "at", "50.0", "ms"]
    assert rows[-1].split() == ["event", *ticks]
    assert rows[-2][GUTTER + 50] == "^"
    untimed = replace(shown, begin_us=None)
    assert plain(chart_lines(untimed, 20, 50)[-1]).split() == ["event", "0", "50"]


@pytest.mark.parametrize("eighths", [4, 6, 8])
def test_the_row_of_a_tick_is_the_one_that_its_size_fills(eighths: int) -> None:
    shown = timeline([(GIB * eighths // 8, GIB)] * 9, GIB)
    rows = [plain(row) for row in chart_lines(shown, 19, None, letters=True)][1:17]
    highest = next(number for number, row in enumerate(rows) if row[GUTTER + 4] == "·")
    names = {row[: GUTTER - 1].strip(): number for number, row in enumerate(rows)}
    assert highest == 16 - 2 * eighths
    assert names["1 GiB"] == 0
    assert names["0.5 GiB"] == 8


def test_annotations_without_room_for_a_name_are_named_in_the_legend() -> None:
    bands = (
        Band("Optimizer.step#SGD.step", 3, 3, 0),
        Band("Optimizer.step#SGD.step", 9, 9, 0),
        Band("evaluation", 20, 39, 0),
        Band("inner", 21, 21, 1),
    )
    shown = replace(timeline([(GIB, GIB)] * 40, GIB), bands=bands)
    row = plain(chart_lines(shown, 12, None)[-1])
    assert row[GUTTER:] == "   |     |          |evaluation"
    legend = "\n".join(plain(row) for row in legend_lines(shown, 80, None, letters=False))
    assert legend.endswith(" |  Optimizer.step")
    assert "|" not in plain(legend_lines(replace(shown, bands=()), 80, None, letters=False)[-1])


def test_what_is_clicked_is_the_layer_that_is_drawn_there() -> None:
    shown = timeline([(GIB, GIB)] * 9, GIB)
    keys = [layer_at(shown, 11, GUTTER + 4, row) for row in range(1, 9)]
    assert keys == [REST] * 4 + ["a.py:1 f"] * 4
    assert layer_at(shown, 11, GUTTER - 1, 5) is None
    assert layer_at(shown, 11, GUTTER + 4, 9) is None


def test_up_and_down_go_through_the_layers_and_through_none() -> None:
    shown = timeline([(GIB, GIB)] * 9, GIB)
    chosen: list[str | None] = [None]
    for by in (1, 1, 1, -1, -1):
        chosen.append(next_layer(shown, 4, chosen[-1], by))
    assert chosen == [None, "a.py:1 f", REST, None, REST, "a.py:1 f"]


def test_an_oom_is_named_above_its_column() -> None:
    shown = timeline([(GIB, GIB)] * 40, GIB)
    buckets = (*shown.buckets[:30], replace(shown.buckets[30], ooms=1), *shown.buckets[31:])
    row = plain(chart_lines(replace(shown, buckets=buckets), 12, None)[0])
    assert row[GUTTER:].startswith("P peak 1.0 GiB")
    assert row[GUTTER + 30 :].startswith("X OOM")


@pytest.mark.parametrize(
    ("peak", "oom", "ends"),
    [
        (38, 39, "OOM, peak 1.0 GiB PX"),
        (39, 39, "OOM, peak 1.0 GiB X"),
        (39, 38, "OOM, peak 1.0 GiB XP"),
    ],
)
def test_an_oom_and_the_peak_side_by_side_share_their_words(peak: int, oom: int, ends: str) -> None:
    shown = timeline([(GIB, GIB)] * 40, GIB)
    buckets = tuple(
        replace(bucket, ooms=1) if at == oom else bucket for at, bucket in enumerate(shown.buckets)
    )
    row = plain(chart_lines(replace(shown, buckets=buckets, peak_event=peak), 12, None)[0])
    assert row.rstrip().endswith(ends)


@given(level, st.integers(40, 200))
def test_the_legend_names_each_layer_with_its_letter(sizes: tuple[int, int], cells: int) -> None:
    rows = [plain(row) for row in legend_lines(timeline([sizes], GIB), cells, None, letters=False)]
    assert all(len(row) <= cells for row in rows)
    words = " ".join(rows)
    assert ("A  a.py:1 f" in words) == (sizes[0] > 1)
    assert ("other sites" in words) == (sizes[0] > 0)


def test_the_largest_layer_has_the_first_letter_and_color_wherever_it_is_stacked() -> None:
    layers = (
        Layer("a.py:1 f", "a.py:1 f", (4,) * 9, (), rank=1),
        Layer("b.py:2 g", "b.py:2 g", (GIB - 4,) * 9, (), rank=0),
    )
    shown = replace(timeline([(GIB, GIB)] * 9, GIB), layers=layers)
    lines = chart_lines(shown, 12, None)
    spans = [span for line in lines for span in line]
    assert any("A" in span.text and span.style is ON_LAYERS[0] for span in spans)
    assert any(span.style is FULL_LAYERS[0] for span in spans)
    assert not any(span.style is FULL_LAYERS[1] for span in spans)
    moment = Moment("at event 5 of 9", (LayerSize("a.py:1 f", 3), LayerSize("b.py:2 g", 2048)))
    legend = plain(legend_lines(shown, 120, moment, letters=False)[0])
    assert legend == " at event 5 of 9:   A  b.py:2 g 2.0 KiB   B  a.py:1 f 3 B"
    before = plain(legend_lines(shown, 120, None, letters=False)[0])
    assert before == " A  b.py:2 g …   B  a.py:1 f …", "figures of another moment would mislead"


def test_reserved_memory_is_a_line_with_steps_or_nothing() -> None:
    part = GIB // 8
    levels = [(part, 6 * part)] * 4 + [(part, 7 * part)] * 4 + [(part, 4 * part)] * 4
    shown = timeline(levels, GIB)
    rows = [plain(row)[GUTTER:] for row in chart_lines(shown, 11, None)[1:9]]
    assert [row[1:-1] for row in rows[1:5]] == [
        "   ┌───┐  ",
        "───┘   │  ",
        "       │  ",
        "       └──",
    ], "between the lines of the peak and the cursor"
    assert "─  reserved" in plain(legend_lines(shown, 120, None, letters=False)[-1])
    close = timeline([(GIB - at % 2 * GIB // 99, GIB) for at in range(12)], GIB)
    rows = [plain(row)[GUTTER:] for row in chart_lines(close, 40, None)[1:-2]]
    assert not any("─" in row for row in rows), "pieces of a line would look like dirt"
    assert "reserved" not in plain(legend_lines(close, 120, None, letters=False)[-1])


def test_strokes_without_room_are_thinned_out_and_the_legend_says_so() -> None:
    bands = tuple(
        Band(f"{name}#{at}", at, at, 0) for at in range(40) for name in ("Step", "Step", "zero")
    )
    shown = replace(timeline([(GIB, GIB)] * 40, GIB), bands=bands)
    row = plain(chart_lines(shown, 12, None)[-1])[GUTTER:]
    strokes = [at for at, glyph in enumerate(row) if glyph == "|"]
    assert strokes == list(range(0, 40, 5))
    assert plain(legend_lines(shown, 120, None, letters=False)[-1]).endswith("|  every 10th Step")
    few = replace(shown, bands=(Band("a", 3, 3, 0), Band("b", 4, 4, 0), Band("a", 9, 9, 0)))
    assert plain(legend_lines(few, 120, None, letters=False)[-1]).endswith("|  a")


@given(st.lists(level, min_size=3, max_size=40), st.integers(2, 20), st.booleans(), st.data())
def test_the_line_of_the_cursor_has_no_gap(
    levels: list[tuple[int, int]], rows: int, ascii_only: bool, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(levels) - 1))
    chosen = data.draw(st.sampled_from([None, "a.py:1 f", REST]))
    saved = glyphs.GLYPHS
    glyphs.GLYPHS = glyphs.ASCII if ascii_only else glyphs.UNICODE
    try:
        shown = replace(timeline(levels, GIB), peak_event=None)
        chart = chart_lines(shown, rows + 3, at, chosen)[1 : rows + 1]
        line = "".join(plain(row)[GUTTER + at] for row in chart)
        letters = line.replace(glyphs.GLYPHS.wall, "")
        assert len(letters) <= 1, "the letter of the chosen layer"
        assert letters in ("", "A", "·", "o")
    finally:
        glyphs.GLYPHS = saved


@given(st.integers(-50, 200), st.integers(1, 120), st.integers(1, 150))
def test_a_stretch_is_moved_into_the_trace(first: int, length: int, events: int) -> None:
    low, high = clamp_range(first, first + length - 1, events)
    assert 0 <= low <= high < events
    assert high - low + 1 == min(length, events)


def test_the_end_is_in_the_last_column() -> None:
    assert find_column(timeline([(0, 0)] * 7, 1), None) == 6


def test_sites_have_bars_of_their_shares_on_a_wide_screen() -> None:
    row = SiteRow("a.py:1 f", "a.py:1 f", "user", GIB, 2, 0.5, 0, 1)
    wide, narrow = (
        plain(node_line(SiteLine(("a.py:1 f",), row), unfolded=False, cells=cells))
        for cells in (120, 80)
    )
    assert wide.count("█") == 10
    assert "█" not in narrow
    heading = plain(tree_heading("file", "bytes", 120))
    assert heading.index("by file") == wide.index("a.py")


@pytest.mark.parametrize(("cells", "bar"), [(99, 0), (100, 18), (120, 22), (200, 42), (300, 42)])
def test_bars_of_sites_take_what_their_labels_leave(cells: int, bar: int) -> None:
    assert bar_cells(cells) == bar


def test_sites_have_the_letter_of_their_layer_and_so_do_their_callers_bars() -> None:
    row = SiteRow("a", "a.py:1 f", "user", GIB, 2, 0.5, 1, 1, rank=1)
    caller = SiteRow("b", "b.py:2 g", "user", GIB, 2, 0.5, 0, 1)
    listings = {
        (): SiteListing((), (row,), 0, 0, 2 * GIB),
        ("a",): SiteListing(("a",), (caller,), 0, 0, GIB),
    }
    drawn = [
        node_line(node, unfolded=False, cells=120, most=0.5, lettered=True)
        for node in nodes(listings.get, {("a",): True})
    ]
    first, second = map(plain, drawn)
    assert " B  " + "█" * 20 in first, "the largest fills its bar"
    assert " B " not in second
    styles = [next(span.style for span in each if "█" in span.text) for each in drawn]
    assert styles == [LAYERS[1]] * 2
    heading = plain(tree_heading("site", "bytes", 120))
    assert heading.index("by site") == first.index("a.py")


def test_equal_frames_are_counted_and_the_user_s_are_marked() -> None:
    native = Frame("??", 0, "at::empty")
    torch = Frame("/x/site-packages/torch/nn/modules/module.py", 930, "_apply")
    own = Frame("/home/ann/train.py", 5, "step")
    rows = [plain(row).rstrip() for row in stack_lines([native, torch, torch, own], 50)]
    assert rows[0] == "   module.py:930 _apply  (2 times)"
    assert rows[1].startswith(" ▸ train.py:5 step")
    assert rows[2] == "   and 1 C++ frame"


@pytest.mark.parametrize(
    ("cells", "fitted"),
    [
        (40, "2.9 GiB at demo_workloads.py:66 forward"),
        (35, "2.9 GiB at demo_workloads.py:66 fo…"),
        (31, "2.9 GiB at demo_workloads.py:66"),
        (30, "demo_workloads.py:66"),
        (20, "demo_workloads.py:66"),
        (19, "demo_wor…oads.py:66"),
        (8, "2.9 GiB…"),
    ],
)
def test_a_place_that_is_cut_keeps_its_line(cells: int, fitted: str) -> None:
    assert fit_place("2.9 GiB at demo_workloads.py:66 forward", cells) == fitted


@given(st.text(max_size=60), st.integers(1, 60))
def test_cut_places_fit(words: str, cells: int) -> None:
    assert cell_len(fit_place(f"{words}.py:12 f", cells)) <= cells


def test_a_title_leaves_out_the_seconds_of_its_time_before_the_time() -> None:
    facts = ("OOM on device 0", "event 3 of 9", "2026-11-28 15:02:31 UTC")
    assert fit_title(facts, 56) == facts
    assert fit_title(facts, 55) == (*facts[:2], "2026-11-28 15:02")
    assert fit_title(facts, 48) == facts[:2]
    assert fit_title((*facts[:2], "time not recorded"), 90)[2] == "time not recorded"


def test_frames_of_libraries_are_counted_behind_the_frame_that_they_called() -> None:
    def torch(line: int) -> Frame:
        return Frame("/x/site-packages/torch/nn/modules/module.py", line, "_call_impl")

    own = [Frame("/home/ann/train.py", line, "step") for line in (5, 7)]
    stack = [torch(1), torch(2), own[0], torch(2), torch(3), torch(3), own[1], torch(4)]
    rows = [plain(row).strip() for row in stack_lines(stack, 70)]
    assert rows == [
        "module.py:1 _call_impl  +1 library frame",
        "▸ train.py:5 step  /home/ann/  +3 library frames",
        "▸ train.py:7 step  /home/ann/  +1 library frame",
    ]
    assert [plain(row) for row in stack_lines(stack, 70, 2)][1] == "   and 6 more frames"
    whole = [plain(row).strip() for row in stack_lines(stack, 70, whole=True)]
    assert [row.split()[0] for row in whole].count("module.py:2") == 2
    assert len(whole) == len(stack) - 1
    assert "train.py:5 step" in plain(stack_lines(stack, 44)[1])
    assert "+3 library frames" in plain(stack_lines(stack, 44)[1])
    assert len(stack_lines([torch(1), torch(2)], 70)) == 2, "nothing else would be left"


def test_the_tree_tells_what_is_missing() -> None:
    row = SiteRow("a", "a.py:1 f", "user", 10, 1, 0.5, 1, 0)
    root = SiteListing((), (row,), 3, 10, 20)
    listings: dict[tuple[str, ...], SiteListing] = {(): root}
    found = nodes(lambda path: listings.get(path), {("a",): True})
    assert found == [
        SiteLine(("a",), row),
        SiteLine(("a", "…"), None, "…"),
        SiteLine(("…",), None, "3 more with 10 B"),
    ]


def test_a_pattern_is_between_slashes() -> None:
    assert parse_search(" /a.*b/ ") == ("a.*b", True)
    assert parse_search("/home") == ("/home", False)
    assert parse_search("0x7f") == ("0x7f", False)


def test_files_are_completed(tmp_path: Path) -> None:
    for name in ("run-1.pickle", "run-2.pickle", ".hidden"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "ranks").mkdir()
    found, why = find_files(f"{tmp_path}/")
    assert {item.name for item in found} == {"run-1.pickle", "run-2.pickle", "ranks"}
    assert why == ""
    typed = f"{tmp_path}/ru"
    assert complete_path(typed, find_files(typed)[0]) == f"{tmp_path}/run-"
    assert complete_path(f"{tmp_path}/ra", find_files(f"{tmp_path}/ra")[0]) == f"{tmp_path}/ranks/"
    assert "No such file" in find_files("/nowhere/at/all/")[1]


def test_folders_come_before_the_files_and_the_newest_file_before_the_others(
    tmp_path: Path,
) -> None:
    for name, at in (("a.pickle", 3e8), ("b.pickle", 5e8), ("c.pickle", 4e8)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (at, at))
    assert first_file(find_files(f"{tmp_path}/")[0]) == 0
    for name in ("runs", "data"):
        (tmp_path / name).mkdir()
    found, _ = find_files(f"{tmp_path}/")
    assert [item.name for item in found] == ["data", "runs", "b.pickle", "c.pickle", "a.pickle"]
    assert first_file(found) == 2, "enter opens the newest file"
    assert first_file(found[:2]) == 0
    dated = plain(file_line(found[2], 80))
    assert dated.strip().startswith("1 B  1985-11-0")
    assert dated.index("b.pickle") == plain(file_line(found[0], 80)).index("data/")
    assert plain(file_line(found[2], 60)).strip() == "1 B  b.pickle"


def test_only_files_that_may_be_snapshots_are_listed(tmp_path: Path) -> None:
    for name in ("train.py", "notes.md"):
        (tmp_path / name).write_bytes(b"x")
    assert find_files(f"{tmp_path}/")[1].startswith("no snapshot here: .pickle, ")
    for name in ("a.pickle.gz", "b.PKL", "c.json", "d.snapshot", "rank0"):
        (tmp_path / name).write_bytes(b"x")
    listed = {item.name for item in find_files(f"{tmp_path}/")[0]}
    assert listed == {"a.pickle.gz", "b.PKL", "c.json", "d.snapshot", "rank0"}
    assert [item.name for item in find_files(f"{tmp_path}/tr")[0]] == ["train.py"]


@pytest.mark.parametrize(("typed", "size"), [("4096", 4096), ("1MiB", 1 << 20), ("1.5 k", 1536)])
def test_sizes(typed: str, size: int) -> None:
    assert size_of(typed, "--min-size") == size


@pytest.mark.parametrize("typed", ["", "5", "5..3", "a..b", "-1..2"])
def test_no_range(typed: str) -> None:
    with pytest.raises(UsageError):
        event_range(typed)


def test_a_range_may_be_open() -> None:
    assert (event_range("5.."), event_range("..7")) == ((5, None), (0, 7))


@pytest.mark.parametrize("how", ["SIGSEGV: crashed", "SIGKILL: killed", "exit status 1"])
def test_a_death_is_one_line_that_names_the_file(how: str) -> None:
    words = describe_death(["/a/b.pickle"], how, "KeyError: 3\x1b[0m", loaded=False)
    assert "/a/b.pickle" in words
    assert words.isprintable()


# ---- the command -------------------------------------------------------------------------------


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tui", "snapshot", *arguments]
    return subprocess.run(command, capture_output=True, input=given, timeout=100)


@VARIANT
def test_json_is_one_object_and_stdin_gives_the_same() -> None:
    named, piped = run(str(TRAINING), "--json"), run("-", "--json", given=TRAINING.read_bytes())
    assert (named.returncode, named.stderr) == (0, b"")
    found, other = json.loads(named.stdout), json.loads(piped.stdout)
    assert found["schema"] == 1
    assert found["devices"][0]["reserved"] == 1_897_922_560
    assert found["devices"] == other["devices"]
    assert other["file"] == "-"


def test_the_text_fits_80_cells_and_begins_with_what_matters() -> None:
    done = run(str(TRAINING))
    rows = done.stdout.decode().splitlines()
    assert rows[0].startswith("device 0: ")
    assert max(map(len, rows)) <= 80
    assert b"client.py:176 reset_model" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((str(TRAINING), "--at", "99999999"), 1, "0 to 23104"),
        ((str(TRAINING), "--device", "5"), 1, "device 5"),
        ((__file__,), 1, "neither a pickle nor JSON"),
        (("/nowhere.pickle",), 1, "does not exist"),
        (("one", "two"), 2, "diff A B"),
        ((str(TRAINING), "--range", "7"), 2, "--range 7"),
        ((str(TRAINING), "--json", "--markdown"), 2, "one of them"),
        (("diff", "-", str(TRAINING)), 2, "both files must be named"),
    ],
)
def test_what_goes_wrong_is_one_line(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = run_here("snapshot", *arguments)
    assert done.code == code
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert words in line


def test_a_difference_of_a_file_with_itself_is_empty() -> None:
    done = run("diff", str(TRAINING), str(TRAINING))
    assert done.returncode == 0
    assert b"no site changed" in done.stdout


@pytest.mark.parametrize("cells", [64, 78, 118])
def test_the_empty_page_names_the_watch_before_lines_in_the_program(cells: int) -> None:
    rows = [plain(row) for row in start_lines(SnapshotStore(), cells)]
    assert all(width(row) <= cells for row in start_lines(SnapshotStore(), cells))
    # On a line of its own, to be copied.
    watch = rows.index(f" {EXAMPLE}")
    assert "with the program unchanged" in " ".join(rows[:watch]).replace("  ", " ")
    assert any("_record_memory_history" in row for row in rows[watch:])


def test_a_long_call_of_the_empty_page_is_broken_behind_its_bracket() -> None:
    rows = [plain(row).rstrip() for row in start_lines(SnapshotStore(), 58)]
    call = rows.index(" torch.cuda.memory._record_memory_history(")
    assert rows[call + 1] == "     max_entries=100000, stacks='python')"
