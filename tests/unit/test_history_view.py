"""Histories: fixed scales, gaps where nothing was sampled, and a picture that stands still."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, NOW, gpu, make_store, sample
from tui.core.text import glyphs
from tui.devices.state.history import MOST_POINTS, Point
from tui.devices.state.watched_processes import StepPoint
from tui.devices.views.device_columns import columns, heading
from tui.devices.views.history import (
    LABEL,
    PlottedFigure,
    RecentReadings,
    block_lines,
    block_rows,
    compute_shares,
    draw_history,
    format_points,
    plotted_figures,
    span_rule,
    whole_lines,
    whole_rows,
)
from tui.kit.lines import TextStyle, plain, width
from tui.monitor.messages import DeviceMemory, Sample, Utilization
from tui.runs.state.state import WorkbenchState

LOAD = PlottedFigure("utilization", "util", 100.0, "100%", TextStyle.GOOD)
EVEN = 1_750_000_000.0
"""A multiple of every column."""


def loads(*values: float | None, start: float = EVEN, every: float = 1.0) -> list[Point]:
    return [Point(start + at * every, utilization=value) for at, value in enumerate(values)]


def test_a_column_shows_the_highest_reading_of_its_seconds() -> None:
    points = loads(10, 40, 30, 20, 90, 80)
    assert compute_shares(points, LOAD, 6, 2.0, EVEN + 5) == [None, None, 0.4, 0.3, 0.9, None]


def test_a_gap_is_where_nothing_was_sampled_and_a_zero_is_not() -> None:
    points = loads(50, 50) + loads(0, 0, start=EVEN + 12)
    actual = compute_shares(points, LOAD, 4, 4.0, EVEN + 13)
    assert actual == [0.5, None, None, 0.0]
    seen = sample(gpu(), at=EVEN + 13)
    (row,) = draw_history(RecentReadings(points, seen, EVEN + 13), LOAD, 2, 1).rows
    # Half of the height, nothing, nothing, the lowest dot.
    assert row == "\u2844\u2880"


def test_a_blank_cell_of_a_small_history_says_why() -> None:
    """A cell has eight seconds; half a blank one is no gap that one sees."""
    seen = sample(gpu(), at=EVEN + 39)

    def gap(*points: Point) -> str:
        return draw_history(RecentReadings(points, seen, EVEN + 39), LOAD, 5, 1).gap

    busy = loads(*[10.0] * 8), loads(*[10.0] * 16, start=EVEN + 24)
    silent = [Point(EVEN + at) for at in range(8, 24)]
    assert gap(*busy[0], *busy[1]) == "blank: no samples"
    assert gap(*busy[0], *silent, *busy[1]) == "blank: the driver gave no reading"
    assert gap(*loads(*[10.0] * 40)) == ""
    assert gap(*loads(*[10.0] * 12), *loads(*[10.0] * 24, start=EVEN + 16)) == ""
    # Before the first reading there was no program.
    assert gap(*busy[1]) == ""


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (100, "cuda:0, last 10 min 32 s; blank: nothing was sampled"),
        (48, "cuda:0, blank: nothing was sampled"),
        (30, "blank: nothing was sampled"),
    ],
)
def test_the_line_above_the_histories_says_why_they_have_gaps(cells: int, words: str) -> None:
    rule = span_rule(
        "cuda:0", RecentReadings((), sample(gpu()), NOW), cells, cells, "blank: nothing was sampled"
    )
    assert plain(rule).startswith(f"{glyphs.GLYPHS.rule} {words} ")
    assert width(rule) == cells


def test_the_heading_of_the_rows_histories_says_why_they_have_gaps() -> None:
    views = make_store("two gpus").machine.devices
    for cells, words in ((100, "blank: no"), (150, "blank: no samples")):
        plan = columns(views, cells)
        assert plan.history
        gap = "blank: no samples"
        before = plain(heading(plan, "index"))
        after = plain(heading(plan, "index", gap))
        assert "0\u2013100%" in before
        assert words in after
        assert len(after) <= cells


def test_the_picture_stands_still_until_a_cell_is_full() -> None:
    points = loads(*range(40))
    seen = sample(gpu(), at=EVEN + 40)
    before = draw_history(RecentReadings(points, seen, EVEN + 40), LOAD, 8, 1).rows[0]
    more = [*points, Point(EVEN + 40, utilization=7.0)]
    later = draw_history(RecentReadings(more, seen, EVEN + 40), LOAD, 8, 1).rows[0]
    assert later[:-1] == before[:-1]
    next_cell = sample(gpu(), at=EVEN + 48)
    moved = draw_history(RecentReadings(points, next_cell, EVEN + 48), LOAD, 8, 1).rows[0]
    assert moved[:-2] == before[1:-1]


def test_what_comes_no_more_leaves_a_gap_up_to_the_present() -> None:
    points, seen = loads(*[80] * 20), sample(gpu(), at=EVEN + 19)
    assert draw_history(RecentReadings(points, seen, EVEN + 20), LOAD, 4, 1).rows[0].strip()
    late = draw_history(RecentReadings(points, seen, EVEN + 36), LOAD, 4, 1).rows[0]
    assert late.endswith("  ")
    assert late.strip()


@pytest.mark.parametrize(
    ("interval", "took", "seconds"), [(1, 0, 4), (0.2, 0, 4), (3, 0, 6), (1, 4.5, 10)]
)
def test_a_column_is_as_long_as_two_samples(interval: float, took: float, seconds: float) -> None:
    assert (
        RecentReadings((), sample(gpu(), interval_s=interval, took_s=took), NOW).column_s == seconds
    )


@given(
    st.lists(st.none() | st.floats(0, 1e6), max_size=40),
    st.integers(1, 30),
    st.sampled_from([2.0, 6.0]),
)
def test_no_share_leaves_its_scale_and_the_newest_is_on_the_right(
    values: list[float | None], cells: int, seconds: float
) -> None:
    points = loads(*values)
    until = points[-1].at if points else EVEN
    actual = compute_shares(points, LOAD, 2 * cells, seconds, until)
    assert len(actual) == 2 * cells
    assert all(share is None or 0 <= share <= 1 for share in actual)
    if values and values[-1] is not None:
        assert any(share is not None for share in actual[-2:])


def watched(*samples: Sample) -> WorkbenchState:
    return make_store("one gpu", *samples)


@given(st.integers(30, 220), st.integers(2, 30))
def test_every_line_fits_and_has_its_scale(cells: int, height: int) -> None:
    state = watched()
    view, points = (
        state.machine.selected_device,
        state.machine.history.points(state.machine.selected),
    )
    lines = block_lines(view, RecentReadings(points, state.machine.sample, NOW), cells, height)
    assert all(width(line) <= cells for line in lines)
    text = "\n".join(map(plain, lines))
    for words in ("util", "100%", "memory", "139.8G", "power", "700 W"):
        assert words in text
    rows = whole_rows(view, state.machine.sample, cells, height)
    assert rows <= height
    if rows:
        whole = whole_lines(view, RecentReadings(points, state.machine.sample, NOW), cells, rows)
        assert len(whole) <= rows
        assert all(width(line) <= cells for line in whole)
        assert "reserved" in "\n".join(map(plain, whole))


def test_a_scale_whose_end_is_not_known_is_told_and_not_drawn() -> None:
    state = watched(sample(gpu(power_limit_w=None)))
    view = state.machine.selected_device
    lines = block_lines(
        view,
        RecentReadings(state.machine.history.points(view.key), state.machine.sample, NOW),
        60,
        4,
    )
    assert plain(lines[3]).strip() == "power n/a: its maximum is unknown"


def test_the_cpu_has_load_and_memory_of_the_host_and_no_power() -> None:
    state = watched()
    cpu = state.machine.devices[-1]
    assert [item.name for item in plotted_figures(cpu, state.machine.sample)] == [
        "utilization",
        "used",
    ]
    assert block_rows(cpu, 2) == 5
    assert state.machine.history.points(cpu.key)[-1].utilization == 23.0


def test_the_store_keeps_load_power_and_heat_of_each_sample_and_no_more_than_it_may() -> None:
    state = WorkbenchState()
    for at in range(MOST_POINTS + 50):
        state.publish(sample(gpu(utilization=Utilization(float(at % 100), 1.0)), at=NOW + at))
    points = state.machine.history.points(state.machine.devices[0].key)
    assert len(points) == MOST_POINTS
    assert (points[-1].utilization, points[-1].power, points[-1].temperature) == (49.0, 310.0, 45.0)
    assert [
        point.at
        for point in state.machine.history.points_since(state.machine.devices[0].key, NOW + 947)
    ] == [
        NOW + 947,
        NOW + 948,
        NOW + 949,
    ]


def test_while_the_driver_is_silent_old_figures_are_no_new_points() -> None:
    state = WorkbenchState()
    state.publish(sample(gpu(read_at=NOW), at=NOW))
    state.publish(sample(gpu(read_at=NOW), at=NOW + 5, nvml_silent_s=5.0))
    points = state.machine.history.points(state.machine.devices[0].key)
    assert [point.utilization for point in points] == [61.0, None]


def test_ascii_draws_the_same_without_braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    device = gpu(memory=DeviceMemory(100 * GIB, 90 * GIB, 10 * GIB, 0))
    state = watched(*(sample(device, at=NOW + at) for at in range(20)))
    view = replace(state.machine.selected_device)
    lines = block_lines(
        view,
        RecentReadings(state.machine.history.points(view.key), state.machine.sample, NOW + 19),
        60,
        4,
    )
    assert all(plain(line).isascii() for line in lines)
    assert plain(lines[2])[LABEL:].strip()


def test_copied_points_are_a_table_with_tabs_without_figures_that_were_never_read() -> None:
    points = [Point(EVEN, used=7, utilization=40.0), Point(EVEN + 1, used=8)]
    assert format_points(points) == [
        "time, Unix s\tused, bytes\tutil, %",
        "1750000000.0\t7\t40",
        "1750000001.0\t8\t",
    ]
    assert format_points([StepPoint(EVEN, 3, 5, 9)])[1] == "1750000000.0\t3\t5\t9"
    assert format_points([]) == ["time, Unix s"]
