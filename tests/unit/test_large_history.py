"""One large history: solid up to the mean, shaded up to the highest, blank where nothing is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.style import Style

from tests.screens.app_helpers import running
from tests.screens.helpers import GIB, NOW, gpu, make_store, sample, uuid
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.history import Point
from tui.devices.views.history import PlottedFigure, RecentReadings, explain_gap
from tui.devices.views.large_history import (
    CRAMPED_ROWS,
    LEAST_ROWS,
    LOW_ROWS,
    MOST_ROWS,
    MOST_STACKED_ROWS,
    Readings,
    choose_figure,
    collect_readings,
    count_pictures,
    draw_area,
    grid_rows,
    large_lines,
    large_rows,
    list_figures,
    next_figure,
    plan_pictures,
    stacked_lines,
    summarize,
)
from tui.kit import styles
from tui.kit.lines import SHADES, Shaded, Span, TextStyle, plain, width
from tui.monitor.messages import Pcie, PcieTraffic, Utilization

LOAD = PlottedFigure("utilization", "util", 100.0, "100%", TextStyle.GOOD)
EVEN = 1_750_000_000.0
SHARES = st.floats(0, 1)


def test_a_cell_has_the_mean_and_the_highest_of_its_seconds() -> None:
    values = (0.0, 100.0, 50.0, None, None, None, 10.0)
    points = [Point(EVEN + at, utilization=value) for at, value in enumerate(values)]
    actual = collect_readings(points, LOAD, 5, 2.0, EVEN + 7)
    assert actual == [None, Readings(0.5, 1.0), Readings(0.5, 0.5), None, Readings(0.1, 0.1)]


def test_a_gap_says_why() -> None:
    def gap(*points: Point) -> str:
        actual = collect_readings(points, LOAD, 5, 2.0, EVEN + 9)
        return explain_gap(points, actual, 2.0, EVEN + 9)

    both = Point(EVEN, utilization=1.0), Point(EVEN + 8, utilization=1.0)
    assert gap(*both) == "gap: no samples"
    silent = [Point(EVEN + at) for at in (2, 4, 6)]
    assert gap(both[0], *silent, both[1]) == "gap: no reading"
    busy = [Point(EVEN + at, utilization=1.0) for at in (2, 4, 6)]
    assert gap(both[0], *busy, both[1]) == ""
    # Before the first reading there was no program.
    assert gap(both[1]) == ""


def test_a_figure_that_the_driver_does_not_give_takes_no_room() -> None:
    state = make_store("one gpu")
    view, seen = state.machine.selected_device, state.machine.sample
    points = [Point(NOW - at, used=GIB, utilization=50.0, power=300.0) for at in (3, 2, 1)]
    text = "\n".join(
        plain(row) for row in stacked_lines(view, RecentReadings(points, seen, NOW), "", 70, 60)
    )
    assert all(name in text for name in ("util", "memory", "power"))
    assert "temp" not in text
    assert "PCIe" not in text
    # The one that was chosen says why nothing is drawn.
    lines = stacked_lines(view, RecentReadings(points, seen, NOW), "temperature", 70, 60)
    assert plain(lines[1]).strip() == "temp n/a: no reading"
    # Before the first samples nothing is known of any.
    assert count_pictures(view, RecentReadings((), seen, NOW), 60) == len(list_figures(view, seen))


def test_bursts_look_different_from_a_steady_load() -> None:
    burst, steady, idle = Readings(0.25, 1.0), Readings(0.25, 0.25), Readings(0.0, 0.0)
    drawn = [plain(row) for row in draw_area([burst, steady, idle, None], 4)]
    before = [plain(row) for row in draw_area([None, None, idle, None], 2)]
    # Before the first reading, the picture has its ground.
    assert before == ["    ", "\u00b7\u00b7\u2581 "]
    # Dots mark the top of the scale where the area leaves it free.
    assert drawn == ["\u2591\u00b7\u00b7\u00b7", "\u2591   ", "\u2591   ", "\u2588\u2588\u2581 "]


def test_a_cell_between_the_mean_and_the_highest_has_two_colors() -> None:
    half, reach = Readings(0.5, 1.0), TextStyle.GOOD_REACH
    assert draw_area([half], 1) == [(Shaded("\u2584", reach),)]
    assert draw_area([Readings(0.5, 0.5)], 1) == [(Shaded("\u2584", TextStyle.GOOD),)]
    assert draw_area([half], 2) == [
        (Span("\u2591", TextStyle.FULL_GOOD_REACH),),
        (Shaded("\u2588", TextStyle.GOOD, SHADES - 1),),
    ]


def test_an_area_is_darker_towards_the_bottom_in_exact_colors_only() -> None:
    rows = [Shaded("\u2588", TextStyle.GOOD, shade) for shade in range(SHADES)]

    def colors() -> list[Color | None]:
        drawn = [segment for row in rows for segment in styles.strip_of((row,), 1, Style())]
        return [segment.style.color if segment.style else None for segment in drawn]

    try:
        styles.use(native=False, dark=True, ground=styles.OWN_GROUND)
        greens = [color.get_truecolor().green if color else 0 for color in colors()]
        assert greens == sorted(greens, reverse=True)
        assert len(set(greens)) == SHADES
        for few in (
            {"native": True, "dark": True},
            {"native": False, "dark": True, "shades": False},
        ):
            styles.use(**few, ground=None if few["native"] else styles.OWN_GROUND)
            assert len(set(colors())) == 1
    finally:
        styles.use(native=True, dark=True)


@pytest.mark.parametrize(("mean", "begins"), [(0.2, "░ highest 98%"), (0.97, "highest 98%")])
def test_the_shade_of_a_picture_is_explained_where_it_has_one(mean: float, begins: str) -> None:
    state = make_store("one gpu")
    points = [Point(NOW - 1, utilization=98.0), Point(NOW, utilization=10.0)]
    recent = RecentReadings(points, state.machine.sample, NOW)
    figure = choose_figure(state.machine.selected_device, state.machine.sample, "utilization")
    drawn = [Readings(mean, 0.98)]
    assert summarize(recent, figure, drawn, 60.0, text.size_short) == ("10%", begins)


def test_the_heading_of_a_history_says_the_present_value_and_the_next_figure() -> None:
    state = make_store("one gpu")
    view, seen = state.machine.selected_device, state.machine.sample
    points = [Point(NOW - 1, utilization=98.0), Point(NOW, utilization=61.0)]
    recent = RecentReadings(points, seen, NOW)

    def heading(cells: int, following: str | None = "used") -> str:
        return plain(large_lines(view, recent, "", cells, 7, following=following)[0]).strip(
            " \u2500"
        )

    assert heading(70) == "cuda:0 util 61%  highest 98%  last 1 s  h memory"
    assert heading(70, "") == "cuda:0 util 61%  highest 98%  last 1 s  h all"
    assert heading(70, None) == "cuda:0 util 61%  highest 98%  last 1 s"
    assert heading(30) == "cuda:0 util 61%  last 1 s"
    assert heading(20) == "cuda:0 util 61%"


@given(st.lists(st.none() | st.tuples(SHARES, SHARES), max_size=20), st.integers(1, 12))
def test_the_area_grows_with_the_mean_and_gaps_stay_blank(
    pairs: list[tuple[float, float] | None], rows: int
) -> None:
    readings = [None if pair is None else Readings(min(pair), max(pair)) for pair in pairs]
    drawn = [plain(row) for row in draw_area(readings, rows)]
    assert len(drawn) == rows
    for column, actual in enumerate(readings):
        cells = "".join(row[column] for row in drawn)
        ground = all(reading is None for reading in readings[: column + 1])
        marks = [cells[row] for row in grid_rows(rows)]
        assert all(mark != " " for mark in marks)
        assert (not cells.strip(" \u00b7")) == (actual is None)
        assert (cells[-1] == "\u00b7") == ground
        if actual is not None:
            steps = glyphs.GLYPHS.vertical
            solid = sum(steps.index(c) + 1 for c in cells if c not in " \u2591\u00b7")
            assert solid == max(1, round(actual.mean * rows * 8))


def test_h_goes_through_the_figures_and_with_many_gpus_back_to_all() -> None:
    state = make_store("one gpu")
    view, seen = state.machine.selected_device, state.machine.sample
    names = [figure.name for figure in list_figures(view, seen)]
    assert names == ["utilization", "used", "power", "temperature", "traffic"]
    actual = [name := ""] + [
        name := next_figure(view, seen, name, few=False) for _ in range(len(names) + 1)
    ]
    assert actual == ["", *names, ""]
    assert next_figure(view, seen, "traffic", few=True) == "utilization"
    assert next_figure(view, seen, "utilization", few=True, drawn="used") == "power"
    assert next_figure(view, seen, "traffic", few=False, drawn="utilization") == ""
    assert choose_figure(state.machine.devices[-1], seen, "power").name == "utilization"


def test_the_scale_of_the_temperature_ends_at_its_threshold() -> None:
    state = make_store("one gpu", sample(gpu(slowdown_c=93.0)))
    view, seen = state.machine.selected_device, state.machine.sample
    assert choose_figure(view, seen, "temperature").full == 93.0
    unknown = make_store("one gpu", sample(gpu(slowdown_c=None, power_limit_w=None)))
    view, seen = unknown.machine.selected_device, unknown.machine.sample
    assert choose_figure(view, seen, "temperature").full == 100.0
    lines = large_lines(view, RecentReadings((), seen, NOW), "power", 60, 7)
    assert plain(lines[1]).strip() == "power n/a: its maximum is unknown"


@given(st.integers(20, 220), st.integers(2, 12))
def test_every_line_fits(cells: int, height: int) -> None:
    state = make_store("one gpu")
    view, points = state.machine.selected_device, state.machine.history.points(uuid(0))
    lines = large_lines(view, RecentReadings(points, state.machine.sample, NOW), "", cells, height)
    assert len(lines) == height
    assert all(width(line) <= cells for line in lines)


def test_the_scale_of_the_traffic_is_what_the_link_can_carry() -> None:
    state = make_store("one gpu", sample(gpu(pcie=Pcie(1, 16, 5, 16))))
    figure = choose_figure(state.machine.selected_device, state.machine.sample, "traffic")
    assert (figure.full, figure.full_text) == (16 * 3.938e9, "63 GB/s")
    state = make_store("one gpu", sample(gpu(pcie=Pcie(None, None))))
    figure = choose_figure(state.machine.selected_device, state.machine.sample, "traffic")
    assert figure.full is None


def test_the_traffic_of_the_selected_device_has_a_history() -> None:
    traffic = PcieTraffic(uuid(0), 5, 7)
    state = make_store("two gpus", sample(gpu(0), gpu(1), traffic=traffic))
    assert state.machine.history.points(uuid(0))[-1].traffic == 7
    assert state.machine.history.points(uuid(1))[-1].traffic is None


@given(st.integers(0, 60))
def test_stacked_pictures_fill_their_rows(rows: int) -> None:
    state = make_store("one gpu")
    view, seen = state.machine.selected_device, state.machine.sample
    count = count_pictures(view, RecentReadings((), seen, NOW), rows)
    assert count * (LEAST_ROWS + 1) <= rows or count == 0
    if count:
        assert len(stacked_lines(view, RecentReadings((), seen, NOW), "power", 70, rows)) <= rows


def test_pictures_that_would_be_almost_empty_are_low() -> None:
    state = make_store("one gpu")
    view, seen = state.machine.selected_device, state.machine.sample
    points = [
        Point(NOW - at, used=GIB, utilization=0.0, power=650.0, temperature=60.0)
        for at in range(60)
    ]
    recent = RecentReadings(points, seen, NOW)
    planned = dict(plan_pictures(view, recent, "power", 70, 40))
    assert planned["utilization"] == planned["used"] == LOW_ROWS + 1
    assert planned["power"] > LEAST_ROWS + 1
    assert sum(planned.values()) == 40


def test_low_pictures_get_the_rows_that_the_others_cannot_use() -> None:
    state = make_store("no gpu")
    view, seen = state.machine.selected_device, state.machine.sample
    points = [Point(NOW - at, used=GIB, utilization=60.0 + at % 30) for at in range(60)]
    planned = dict(plan_pictures(view, RecentReadings(points, seen, NOW), "utilization", 70, 40))
    assert planned == {"utilization": MOST_STACKED_ROWS + 1, "used": 40 - MOST_STACKED_ROWS - 1}


@pytest.mark.parametrize("seconds", [2, 60], ids=["first seconds", "idle"])
def test_of_an_idle_device_all_pictures_are_as_high(seconds: int) -> None:
    state = make_store("one gpu")
    view, seen = state.machine.selected_device, state.machine.sample
    points = [
        Point(NOW - at, used=GIB, utilization=0.0, power=75.0, temperature=31.0)
        for at in range(seconds)
    ]
    planned = plan_pictures(view, RecentReadings(points, seen, NOW), "utilization", 70, 40)
    rows = [rows for _, rows in planned]
    assert sum(rows) == 40
    assert max(rows) - min(rows) <= 1


def test_a_pane_without_room_has_no_history() -> None:
    assert [large_rows(rows) for rows in (0, 1, 2, 7, 99)] == [0, 0, 2, 7, MOST_ROWS + 1]


@pytest.mark.parametrize("size", [(120, 40), (200, 60)])
async def test_with_few_gpus_one_history_is_large_and_h_draws_the_next(
    size: tuple[int, int],
) -> None:
    async with running(size, "two gpus") as on:
        assert on.workbench.devices.history.size.height > LEAST_ROWS
        assert "cuda:0 util 61%" in on.text
        # Where the memory pane has rows for its history, the devices skip it.
        beside = on.workbench.memory.drawn_figure == "used"
        for label in (*([] if beside else ["memory"]), "power", "temp", "PCIe", "util"):
            assert f"h {label} " in on.text
            await on.press("h")
            assert f"\u2500 cuda:0 {label} " in on.text


async def test_with_more_gpus_each_figure_has_a_row_and_h_draws_one_large() -> None:
    busy = Utilization(50.0, 0.0)  # idle ones would share a row
    seen = sample(*(gpu(at, utilization=busy) for at in range(8)))
    async with running((120, 45), "one gpu", seen) as on:
        assert on.row("  memory      20.7G  ")
        beside = on.workbench.memory.drawn_figure
        assert beside == "used"  # the memory pane has rows for it
        assert on.text.count("\u2500 cuda:0 memory ") == 1
        for label in ("util", "power", "temp", "PCIe"):
            await on.press("h")
            assert f"\u2500 cuda:0 {label} " in on.text
            assert on.text.count("\u2500 cuda:0 memory ") == 1
        await on.press("h")
        assert on.row("  memory      20.7G  ")


async def test_a_large_history_shrinks_where_the_table_leaves_it_few_rows() -> None:
    busy = Utilization(50.0, 0.0)
    seen = sample(*(gpu(at, utilization=busy) for at in range(8)))
    async with running((120, 40), "one gpu", seen) as on:
        for keys in (("h",), ("m",), ("w",), ("h", "m")):
            await on.press(*keys)
            assert on.workbench.devices.history.size.height > CRAMPED_ROWS
            assert on.row(" last ") or on.row("no value")
