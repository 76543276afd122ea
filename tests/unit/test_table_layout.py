"""Columns at every width: nothing too wide, dropped in the stated order, cuts marked."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import make_store
from tests.screens.results import busy, progress, queued, ran, timing
from tui.kit.lines import Span, plain, width
from tui.kit.table import Layout, heading_line
from tui.runs.state.events import ComparedWithEarlier
from tui.runs.state.runs import Against
from tui.runs.state.state import WorkbenchState
from tui.runs.views.search import build_entries
from tui.runs.views.workload_columns import (
    DROPPED_FIRST,
    LEAD,
    WIDEST,
    choose_columns,
    cut_parameters,
    draw_entry,
    fit_workload_columns,
    list_hidden_columns,
)
from tui.runs.views.workload_table import Group, WorkloadRow, build_row
from workloads.protocol.results import Check, Verdict

GPU = {"cpu": "cpu", "cuda:0": "cuda:0"}


def widths(layout: Layout[Any]) -> dict[str, int]:
    return {placed.column.name: placed.width for placed in layout}


def hidden(layout: Layout[Any]) -> tuple[str, ...]:
    return list_hidden_columns(make_store("one gpu", *ran()).runs, layout)


def table(state: WorkbenchState, cells: int) -> list[str]:
    actual = build_entries(state.runs)
    chosen = fit_workload_columns(state.runs, actual, cells)
    lines = [heading_line(chosen)]
    lines += [draw_entry(entry, chosen, under_cursor=False) for entry in actual]
    return [plain(line).rstrip() for line in lines]


def the_row(state: WorkbenchState) -> WorkloadRow:
    info = next(info for info in state.runs.catalogue if info.name == "matmul")
    return build_row(state.runs, info)


@pytest.fixture
def state() -> WorkbenchState:
    made = make_store()
    busy(made)
    return made


def test_at_118_cells_every_column_is_there(state: WorkbenchState) -> None:
    assert table(state, 118) == [
        "  name                           cpu    cuda:0  speed-up          rate      of limit"
        "  peak memory  state",
        "▾ health: Is this machine healthy?",
        "  matmul                      412 ms   2.71 ms      152x  50.7 TFLOP/s   76% float32"
        "      201 MiB  ok ±0.4%",
        "▾ training: Where do time and memory go in my training?",
        "  mlp                        19.1 ms    213 µs            "
        "cuda:0 ■■╸······· block 7 ±1.1%, ≤4 s left",
        "▾ flags: What does this flag or option do?",
        "  conv2d                     1.90 ms         –            "
        "cuda:0 failed: CUDA out of memory: asked for 2.1 GiB, 0.4…",
    ]


def test_at_79_cells_rate_and_peak_are_left_out(state: WorkbenchState) -> None:
    assert table(state, 79)[:3] == [
        "  name                        cpu    cuda:0  speed-up      of limit  state",
        "▾ health: Is this machine healthy?",
        "  matmul                   412 ms   2.71 ms      152x   76% float32  ok ±0.4%",
    ]


@given(st.integers(min_value=40, max_value=220), st.integers(min_value=0, max_value=80))
def test_columns_are_dropped_in_the_stated_order(room: int, longest: int) -> None:
    chosen = choose_columns(GPU, longest, room)
    assert hidden(chosen) == DROPPED_FIRST[: len(hidden(chosen))]
    assert {*widths(chosen)} | {*hidden(chosen)} == {*("", "name", "state"), *GPU, *DROPPED_FIRST}


@pytest.mark.parametrize(
    ("room", "heading"),
    [
        (30, "▸ first_steps (13 workloads)"),
        (54, "▸ first_steps (13 workloads)"),
        (55, "▸ first_steps: What should I know first? (13 workloads)"),
        (76, "▸ first_steps: What should I know first? (13 workloads), gpu-workbench learn"),
    ],
)
def test_a_heading_has_its_question_where_there_is_room(room: int, heading: str) -> None:
    state = make_store()
    layout = fit_workload_columns(state.runs, build_entries(state.runs), room)
    group = Group("first_steps", folded=True, size=13)
    assert plain(draw_entry(group, layout, under_cursor=False)) == heading


@given(st.integers(min_value=15, max_value=220))
def test_no_line_is_wider_than_the_table(room: int) -> None:
    made = make_store()
    busy(made)
    actual = build_entries(made.runs)
    chosen = fit_workload_columns(made.runs, actual, room)
    for entry in actual:
        assert width(draw_entry(entry, chosen, under_cursor=True)) <= room


def test_a_title_takes_the_place_of_figures_only_where_nothing_has_run() -> None:
    state = make_store("one gpu", *ran("matmul"), queued("conv2d"))
    entries = build_entries(state.runs)
    chosen = fit_workload_columns(state.runs, entries, 110)
    rows = {
        entry.workload: plain(draw_entry(entry, chosen, under_cursor=False))
        for entry in entries
        if isinstance(entry, WorkloadRow)
    }
    titles = {info.name: info.title for info in state.runs.catalogue}
    named = {name for name, row in rows.items() if titles[name] in row}
    assert named == set(titles) - {"matmul", "conv2d"}


@given(st.integers(min_value=50, max_value=200))
def test_more_room_never_hides_a_column(room: int) -> None:
    now, wider = (choose_columns(GPU, 30, cells) for cells in (room, room + 1))
    assert set(hidden(wider)) <= set(hidden(now))


@given(st.integers(min_value=0, max_value=40))
def test_figures_make_room_for_what_says_whose_they_are(shortest: int) -> None:
    chosen = choose_columns(GPU, 40, 79, shortest)
    assert widths(chosen)["name"] >= shortest
    assert hidden(chosen) == DROPPED_FIRST[: len(hidden(chosen))]


def test_without_a_gpu_there_is_no_column_for_one() -> None:
    assert table(make_store("no gpu"), 79)[0].split() == ["name", "cpu", "state"]
    assert table(make_store("no gpu", *ran("matmul", "cpu")), 79)[0].split() == [
        "name", "cpu", "rate", "of", "limit", "state",
    ]  # fmt: skip


def test_no_name_is_cut_beside_an_empty_state() -> None:
    name = 58
    for cells in range(80, 260, 5):
        actual = widths(choose_columns(GPU, name, cells))
        assert actual["name"] == name or actual["state"] <= 28, cells
    assert widths(choose_columns(GPU, name, 198))["name"] == name


def test_a_column_of_figures_is_as_wide_as_what_stands_in_it() -> None:
    wide = {"rate": len("780 k samples/s"), "of limit": len("!124% memory bandwidth")}
    for cells in (118, 198):
        narrow, actual = (choose_columns(GPU, 58, cells, 0, item) for item in ({}, wide))
        assert widths(actual)["of limit"] == WIDEST
        assert ("rate" in hidden(actual)) or widths(actual)["rate"] == wide["rate"]
        assert widths(narrow)["rate"] == 12
        assert widths(narrow)["state"] >= 14  # "sweep 20/20 ok"


def test_figures_stand_near_the_names_where_one_name_is_very_long() -> None:
    actual = widths(choose_columns(GPU, 95, 198))
    assert 60 <= actual["name"] < 70 <= actual["name"] + actual["state"]


VERDICTS = {
    "ok": ran(),
    "ok with warnings": ran(warnings=("noisy", "hot"), time=timing(2.71e-3, spread=0.032)),
    "wrong": ran(check=Check(False, 0.5, 1e-4, "float64"), warnings=("noisy",)),
    "failed": ran(status="failed", time=None, reason="CUDA out of memory: asked for 2.1 GiB"),
    "cancelled": ran(status="cancelled", time=None, reason="by the user, after 3 blocks"),
    "≤4 s left": (queued(), progress()),
}


@pytest.mark.parametrize("room", [60, 79, 100, 118, 160, 199])
@pytest.mark.parametrize("verdict", VERDICTS)
def test_no_verdict_is_cut(room: int, verdict: str) -> None:
    made = make_store("one gpu", *ran("matmul", "cpu"), *VERDICTS[verdict])
    line = next(row for row in table(made, room) if "matmul" in row)
    word = verdict.partition(" with")[0]
    assert re.search(rf"{word}(…| ±\d\.\d%|$|[:, ])", line), line
    # What is left out ends at a word.
    row = the_row(made)
    assert any(line.endswith(plain(form)) for form in (row.state, *row.shorter)), line


@pytest.mark.parametrize("verdict", ["faster", "slower", "same", "unclear"])
@given(cells=st.integers(min_value=10, max_value=80))
def test_a_comparison_with_earlier_fits_any_state_column(verdict: Verdict, cells: int) -> None:
    made = make_store("one gpu", *ran(warnings=("noisy",), time=timing(2.71e-3, spread=0.032)))
    run = made.runs.latest_run("matmul", "cuda:0")
    assert run is not None
    against = Against(1.0, verdict, 1.1, None, (3, 1), None, ())
    made.publish(ComparedWithEarlier(run.request.id, against))
    row = the_row(made)
    words = next(words for words in map(plain, (row.state, *row.shorter)) if len(words) <= cells)
    assert words.startswith("! ")
    assert (verdict if verdict in ("faster", "slower") else "ok") in words


def test_a_name_has_the_blank_cells_before_its_first_figure() -> None:
    state = make_store("one gpu", *ran("matmul", "cpu"))
    row = replace(the_row(state), name=Span("matmul size=4096 float32 warm more=12"))
    for cells in range(60, 130):
        layout = fit_workload_columns(state.runs, [row], cells)
        drawn = plain(draw_entry(row, layout, under_cursor=True))
        assert width(draw_entry(row, layout, under_cursor=True)) <= cells
        time = next(placed for placed in layout if placed.column.name == "cpu")
        start = drawn.index(row.cells["cpu"].text)
        assert start + row.cells["cpu"].width == time.end
        room = start - time.column.gap - LEAD
        assert drawn[LEAD:start].rstrip() == cut_parameters(row.name, room).text
