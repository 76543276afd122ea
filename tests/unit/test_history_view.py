"""Histories: they fill their width soon, have fixed scales, and say where they have gaps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, NOW, gpu, make_store, sample, uuid
from tui.core.text import glyphs
from tui.devices.state.history import MOST_POINTS, Point, stale_after
from tui.devices.state.watched_processes import StepPoint
from tui.devices.views.device_columns import columns, heading
from tui.devices.views.history import (
    LABEL,
    SAMPLES_PER_COLUMN,
    DrawnLoads,
    PlottedFigure,
    RecentReadings,
    block_lines,
    block_rows,
    compute_shares,
    draw_history,
    draw_loads,
    format_points,
    format_span,
    history_lines,
    plotted_figures,
    span_rule,
    split_into_columns,
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
    covers_s = every + 2.0
    return [
        Point(start + at * every, utilization=value, covers_s=covers_s)
        for at, value in enumerate(values)
    ]


def test_a_column_shows_the_highest_reading_of_its_seconds() -> None:
    points = loads(10, 40, 30, 20, 90, 80)
    assert compute_shares(points, LOAD, 6, 2.0, EVEN + 5) == [None, None, 0.4, 0.3, 0.9, None]


def test_a_gap_is_where_nothing_was_sampled_and_a_zero_is_not() -> None:
    points = loads(50, 50) + loads(0, 0, start=EVEN + 12)
    actual = compute_shares(points, LOAD, 4, 4.0, EVEN + 13)
    assert actual == [0.5, None, None, 0.0]
    seen = sample(gpu(), at=EVEN + 13)
    (row,) = draw_history(RecentReadings(points, seen, EVEN + 13), LOAD, 2, 1, 4.0).rows
    # Half of the height and nothing, nothing and the lowest step.
    assert row == "\u2584\u2581"


def test_a_blank_cell_of_a_small_history_says_why() -> None:
    """A cell has eight seconds; half a blank one is no gap that one sees."""
    seen = sample(gpu(), at=EVEN + 39)

    def gap(*points: Point) -> str:
        return draw_history(RecentReadings(points, seen, EVEN + 39), LOAD, 5, 1, 4.0).gap

    busy = loads(*[10.0] * 8), loads(*[10.0] * 16, start=EVEN + 24)
    silent = [Point(EVEN + at) for at in range(8, 24)]
    assert gap(*busy[0], *busy[1]) == "gap: no samples"
    assert gap(*busy[0], *silent, *busy[1]) == "gap: no reading"
    assert gap(*loads(*[10.0] * 40)) == ""
    assert gap(*loads(*[10.0] * 12), *loads(*[10.0] * 24, start=EVEN + 16)) == ""
    # Before the first reading there was no program.
    assert gap(*busy[1]) == ""


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (100, "cuda:0, last 40 s  gap: nothing was sampled"),
        (45, "cuda:0, 12 s  gap: nothing was sampled"),
        (30, "gap: nothing was sampled"),
    ],
)
def test_the_line_above_the_histories_says_why_they_have_gaps(cells: int, words: str) -> None:
    rule = span_rule(
        "cuda:0", RecentReadings((), sample(gpu()), NOW), cells, cells, "gap: nothing was sampled"
    )
    assert plain(rule).startswith(f"{glyphs.GLYPHS.rule} {words} ")
    assert width(rule) == cells


@pytest.mark.parametrize(
    ("cells", "gap", "words"),
    [
        (150, "", "util 0\u2013100%, last 60 s"),
        (100, "", "util 0\u2013100%, last 60 s"),
        (96, "", "util 0\u2013100%, last 60 s"),
        (100, "gap: no samples", "60 s; gap: no samples"),
        (200, "gap: no samples", "util 0\u2013100%, last 60 s; gap: no samples"),
    ],
)
def test_the_heading_of_the_rows_histories_says_how_long_they_are_and_why_they_have_gaps(
    cells: int, gap: str, words: str
) -> None:
    plan = columns(make_store("two gpus").machine.devices, cells)
    assert plan.history
    drawn = plain(heading(plan, "index", DrawnLoads({}, 60.0, gap)))
    assert f" {words}" in drawn
    assert len(drawn) <= cells


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0.4 s"), (60, "60 s"), (111, "111 s"), (120, "2 min"), (222, "3.7 min")],
)
def test_a_span_is_written_briefly(seconds: float, words: str) -> None:
    assert format_span(seconds) == words


def test_the_picture_stands_still_until_a_cell_is_full() -> None:
    points = loads(*range(40))
    seen = sample(gpu(), at=EVEN + 40)
    before = draw_history(RecentReadings(points, seen, EVEN + 40), LOAD, 8, 1, 4.0).rows[0]
    more = [*points, Point(EVEN + 40, utilization=7.0)]
    later = draw_history(RecentReadings(more, seen, EVEN + 40), LOAD, 8, 1, 4.0).rows[0]
    assert later[:-1] == before[:-1]
    next_cell = sample(gpu(), at=EVEN + 48)
    moved = draw_history(RecentReadings(points, next_cell, EVEN + 48), LOAD, 8, 1, 4.0).rows[0]
    assert moved[:-2] == before[1:-1]


def recent_of(points: list[Point], interval: float = 1.0) -> RecentReadings:
    at = points[-1].at
    return RecentReadings(points, sample(gpu(), at=at, interval_s=interval), at)


def test_a_history_has_several_columns_for_each_sample_until_its_width_is_full() -> None:
    points = loads(*[100.0] * 30)
    recent = recent_of(points)
    assert recent.column_s(60) == 0.5
    (row,) = draw_history(recent, LOAD, 30, 1, 0.5).rows
    assert row == "\u2587" * 30
    (row,) = draw_history(recent, LOAD, 30, 1, 1.0).rows
    # The highest step leaves a gap to the row above.
    assert row == " " * 15 + "\u2587" * 15


@pytest.mark.parametrize(
    ("samples", "interval", "seconds"),
    [
        (15, 1, 0.25), (16, 1, 0.5), (31, 1, 1), (58, 1, 1), (61, 1, 2), (121, 1, 3),
        (301, 1, 6), (900, 1, 15),
        (30, 0.2, 0.1), (61, 0.2, 0.4), (30, 3, 1.5), (61, 3, 6), (900, 60, 900),
    ],
)  # fmt: skip
def test_columns_become_longer_once_the_width_is_full(
    samples: int, interval: float, seconds: float
) -> None:
    assert recent_of(loads(*[1.0] * samples, every=interval), interval).column_s(60) == seconds


@given(
    st.integers(1, MOST_POINTS),
    st.integers(3, 400),
    st.sampled_from([0.2, 1.0, 3.0, 60.0]),
    st.floats(0, 1000),
)
def test_columns_become_longer_only_when_readings_would_leave_the_picture(
    samples: int, columns: int, interval: float, start: float
) -> None:
    points = loads(*[1.0] * samples, start=EVEN + start, every=interval)
    recent = recent_of(points, interval)
    seconds = recent.column_s(columns)
    options = [n * interval for n in SAMPLES_PER_COLUMN if n <= 1 or n * columns <= MOST_POINTS]
    assert seconds in options
    # With two columns to a cell, the last one may lie in the future.
    first = math.floor(recent.end / seconds) + 2 - columns
    split = split_into_columns(points, seconds, first, columns)
    if seconds < options[-1]:
        assert {id(point) for column in split for point in column} == set(map(id, points))
    if seconds > options[0]:
        shorter = options[options.index(seconds) - 1]
        assert (samples - 1) * interval > shorter * (columns - 3)
    assert "10" not in "".join("1" if column else "0" for column in split).rstrip("0")
    assert recent_of(points[: samples // 2 + 1], interval).column_s(columns) <= seconds


@given(st.sampled_from(SAMPLES_PER_COLUMN), st.integers(0, 1000), st.sampled_from([0.5, 1.0, 3.0]))
def test_each_whole_column_has_the_same_number_of_readings(
    samples: int, start: int, interval: float
) -> None:
    points = loads(*[1.0] * 900, start=EVEN + start * interval, every=interval)
    seconds = samples * interval
    first = math.ceil(points[0].at / seconds)
    split = split_into_columns(points, seconds, first, int(points[-1].at // seconds) - first)
    assert {len(column) for column in split} <= {max(1, samples)}


def test_before_the_first_reading_a_history_has_its_ground() -> None:
    recent = recent_of(loads(*[50.0] * 8))
    (line,) = history_lines(recent, [LOAD], LABEL + 10, 1)[0]
    assert [span.style for span in line[-2:]] == [TextStyle.REST, LOAD.style]
    assert set(plain(line[-2:-1])) == {"\u00b7"}
    assert plain(line[-1:]).strip()


def test_after_a_long_gap_the_columns_are_short_again() -> None:
    """As after a suspended machine wakes up."""
    points = [*loads(*[1.0] * 900), *loads(*[1.0] * 20, start=EVEN + 7200)]
    assert recent_of(points).column_s(60) == 0.5


def test_a_clock_that_was_set_back_hides_no_reading_since_then() -> None:
    points = [*loads(*[100.0] * 600, start=EVEN + 3600), *loads(*[50.0] * 20)]
    recent = recent_of(points)
    assert compute_shares(points, LOAD, 20, 1.0, recent.end) == [0.5] * 20
    assert recent.column_s(60) <= 1.0


def test_a_sample_that_comes_late_leaves_no_gap() -> None:
    seen = sample(gpu())
    late, lost = stale_after(seen), stale_after(seen) + 1
    for distance, gap in ((late, ""), (lost, "gap: no samples")):
        points = [
            Point(EVEN, utilization=50.0),
            Point(EVEN + distance, utilization=100.0, covers_s=late),
        ]
        drawn = draw_history(recent_of(points), LOAD, 4, 1, 1.0)
        assert drawn.gap == gap
    # The interval was five seconds, and is one.
    points = [Point(EVEN, utilization=50.0, covers_s=9.5), Point(EVEN + 7, utilization=50.0)]
    assert draw_history(recent_of(points), LOAD, 8, 1, 1.0).gap == ""
    # A reading that the driver did not give is a gap at any distance.
    points = loads(50.0, *[None] * 3, 50.0)
    assert draw_history(recent_of(points), LOAD, 4, 1, 1.0).gap == "gap: no reading"


def test_all_rows_have_the_columns_of_the_longest_history() -> None:
    alone = [sample(gpu(0), at=NOW + at) for at in range(1, 90)]
    machine = make_store("one gpu", *alone, sample(gpu(0), gpu(1), at=NOW + 90)).machine
    drawn = draw_loads(machine, NOW + 90, 30)
    # The picture is two minutes wide, of which 90 s have readings.
    assert (drawn.span_s, drawn.gap) == (90.0, "")
    cells = {key: len(plain(row[-1:])) for key, row in drawn.rows.items()}
    assert set(cells) == {view.key for view in machine.devices}
    assert [cells[uuid(0)], cells[uuid(1)]] == [23, 1]


@given(st.integers(1, 400), st.floats(1, 300))
def test_a_heading_claims_no_more_time_than_was_sampled(count: int, window_s: float) -> None:
    points, seen = loads(*[50] * count), sample(gpu(), at=EVEN + count - 1)
    known_s = RecentReadings(points, seen, EVEN + count - 1).known_s(window_s)
    assert 0 < known_s <= window_s
    assert known_s <= max(1, count - 1)
    # It is not much less.
    assert known_s >= min(window_s, (count - 1) / 2)


def test_what_comes_no_more_leaves_a_gap_up_to_the_present() -> None:
    points, seen = loads(*[80] * 20), sample(gpu(), at=EVEN + 19)
    assert draw_history(RecentReadings(points, seen, EVEN + 20), LOAD, 4, 1, 4.0).rows[0].strip()
    late = draw_history(RecentReadings(points, seen, EVEN + 36), LOAD, 4, 1, 4.0).rows[0]
    assert late.endswith("  ")
    assert late.strip()


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
def test_every_line_fits_and_has_its_scale_or_in_one_row_its_newest_reading(
    cells: int, height: int
) -> None:
    state = watched()
    view, points = (
        state.machine.selected_device,
        state.machine.history.points(state.machine.selected),
    )
    recent = RecentReadings(points, state.machine.sample, NOW)
    lines = block_lines(view, recent, cells, height)
    assert all(width(line) <= cells for line in lines)
    text = "\n".join(map(plain, lines))
    scales, readings = ("100%", "139.8G", "700 W"), ("61%", "20.7G", "310/700 W")
    for words in ("util", "memory", "power", *(scales if height > 6 else readings)):
        assert words in text
    rows = whole_rows(view, recent, cells, height)
    assert rows <= height
    if rows:
        whole = whole_lines(view, recent, cells, rows)
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


def test_the_first_two_samples_are_up_to_one_and_a_half_intervals_apart() -> None:
    slow = [sample(gpu(), at=EVEN + at, interval_s=60.0) for at in (0, 90, 150)]
    state = watched(*slow)
    points = [*state.machine.history.points(uuid(0))][-3:]
    assert draw_history(recent_of(points, 60.0), LOAD, 4, 1, 60.0).gap == ""


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
