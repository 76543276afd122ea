"""Plots as lines of text: the dots, the axes with round values, curves, limits and events."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.kit import braille
from tui.kit.braille import DOWN
from tui.kit.lines import FULL_FAINT_AREAS, TextStyle, TwoColored, plain, width
from tui.kit.plot import Axis, Curve, Event, Level, Plot, mark_of, plot_lines, style_of
from tui.kit.scale import Scale, labels, places_scale, scale_for
from tui.kit.ticks import dot_row, place_ticks

SIZES = tuple(2.0**power for power in range(8, 14))


def curve(number: int, values: tuple[float | None, ...], name: str = "") -> Curve:
    points = tuple(zip(SIZES, values, strict=True))
    return Curve(name or f"curve {number}", points, mark_of(number), style_of(number))


def rates() -> Plot:
    cpu = curve(0, (2e9, 2e10, 1e11, 3e11, 4e11, 4e11), "cpu")
    gpu = curve(1, (1e9, 1e10, 2e11, 2e12, 2e13, 6e13), "cuda:0")
    scale = scale_for([1e9, 6.7e13])
    level = Level("float32 peak", 6.7e13)
    return Plot(Axis("n", "", places_scale(SIZES)), Axis("", "FLOP/s", scale), (cpu, gpu), (level,))


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    st.sampled_from(["", "s", "byte", "FLOP/s", "x"]),
)
@example([5e-324], "")
@example([1.7e308, 5e-324], "FLOP/s")
def test_an_axis_is_made_of_any_numbers(values: list[float], unit: str) -> None:
    scale = scale_for(values, unit)
    ticks = scale.ticks(5)
    assert ticks
    assert all(map(math.isfinite, ticks))
    assert all(0.0 <= scale.share(value) <= 1.0 for value in values)
    assert all(map(math.isfinite, places_scale(sorted(values)).ticks(5)))


def memory() -> Plot:
    points = tuple((float(s), 2.0**30 * s if s < 40 or s > 60 else None) for s in range(101))
    return Plot(
        Axis("time", "s", Scale(0, 100)),
        Axis("memory", "byte", scale_for([100 * 2.0**30], "byte")),
        (Curve("allocated", points),),
        (Level("limit", 80 * 2.0**30),),
        (Event("peak", 70.0), Event("OOM", 90.0)),
    )


def texts(plot: Plot, cells: int, height: int = 9) -> list[str]:
    return [plain(row).rstrip() for row in plot_lines(plot, cells, height)]


RATES_40 = [
    "  FLOP/s over n (log)   ● cpu   ○ cuda:0",
    "    ◉ overlap",
    "    │⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀○",
    " 10T┤ float32 peak          ⢀⣀⠤⠤○⠒⠊⠉⠉⠉",
    "    │                ⢀⣀⡠⠤○⠊⠉⠁",
    "100G┤          ⢀⣀⣤⠴◉⠭⠓⠒⠒⠉●⠉⠉⠉⠉⠉⠉●⠉⠉⠉⠉⠉⠉●",
    "    │◉⣀⣤⣤⠤⠴⠶◉⠚⠋⠉",
    "  1G└┬─────────────┬────────────┬───────",
    "     256         1024         4096",
]
MEMORY_60 = [
    "  memory in GiB over time in s   ── allocated",
    "                                           ▾ peak     ▾ OOM",
    "100┤ limit 80.0 GiB                        │          │ ⣀⣀⡠⠤",
    "   │⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀ ⣀⣀⣀⣠⣤⠔⣒⣒⠉⣉⣀ ⣀⣀",
    "   │                                  ⣀⣀⠤⠤⠔⠒⠊⠉⠉⠁      │",
    " 50┤                                       │          │",
    "   │               ⢀⣀⣀⠤⠤⠒⠒                 │          │",
    "   │⣀⣀⣀⣀⣀⣀⣀⣀⡠⠤⠔⠒⠒⠉⠉⠁                       │          │",
    "  0└┬──────────┬──────────┬──────────┬──────────┬──────────┬",
    "    0         20         40         60         80        100",
]
MEMORY_60_ASCII = [
    "  memory in GiB over time in s   -- allocated",
    "                                           v peak     v OOM",
    "100+ limit 80.0 GiB                        |          | ....",
    "   |.. .. .. .. .. .. .. .. .. .. .. .. .. .. .....-||'|. ..",
    "   |                                  ....-'''''      |",
    " 50+                                       |          |",
    "   |               .....''                 |          |",
    "   |..........-'''''                       |          |",
    "  0++----------+----------+----------+----------+----------+",
    "    0         20         40         60         80        100",
]


@pytest.fixture
def ascii_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)


def test_curves_over_sizes_at_forty_cells() -> None:
    assert texts(rates(), 40, 6) == RATES_40


def test_a_history_with_a_gap_a_limit_and_events_at_sixty_cells() -> None:
    assert texts(memory(), 60, 6) == MEMORY_60


@pytest.mark.usefixtures("ascii_only")
def test_the_same_in_ascii() -> None:
    assert texts(memory(), 60, 6) == MEMORY_60_ASCII
    assert all(row.isascii() for row in texts(rates(), 80))


@pytest.mark.parametrize("cells", [24, 40, 80, 160])
def test_each_width_has_the_unit_once_and_round_numbers_on_both_axes(cells: int) -> None:
    rows = texts(rates(), cells)
    told = " ".join(rows)
    # A narrow plot has no room for the level's name, but in the legend, with its rate.
    assert told.count("FLOP/s") - told.count("67.0 TFLOP/s") == 1
    assert " ".join(told.split()).count("(log)") == 1
    wall = [row.partition("┤")[0].strip() for row in rows if "┤" in row]
    assert 2 <= len(wall) <= 5
    assert all(re.fullmatch("10*[GT]", number) for number in wall)
    floor = [float(number) for number in rows[-1].split()]
    assert len(floor) >= 2
    assert set(floor) <= set(SIZES)
    assert sum(row.count("●") + row.count("◉") for row in rows[:-1]) >= len(SIZES)
    assert "float32 peak" in told


def test_a_gap_is_not_drawn_over() -> None:
    plot = replace(memory(), levels=(), events=())
    rows = texts(plot, 105, 6)
    lead = rows[-2].index("└") + 1
    drawn = {at for row in rows[1:-2] for at, one in enumerate(row[lead:]) if one != " "}
    # A hundred seconds on a hundred columns, without a value from the 40th to the 60th.
    assert not drawn & set(range(42, 59))
    assert {20, 39, 62, 80} <= drawn


def test_a_limit_stands_at_its_value_and_its_name_hides_no_curve() -> None:
    flat = curve(0, (5e9,) * 6)
    plot = Plot(
        Axis("n", "", places_scale(SIZES)),
        Axis("", "FLOP/s", Scale(0.0, 1e10)),
        (flat,),
        (Level("peak", 1e10), Level("half", 5e9)),
    )
    rows = texts(plot, 60)
    assert "⠤" in next(row for row in rows if row.startswith("10┤"))
    middle = next(row for row in rows if row.startswith(" 5┤"))
    assert middle.count("●") == 6
    assert any("peak" in row for row in rows[1:4])
    assert "half" in " ".join(rows)


def test_a_name_that_has_no_room_in_the_frame_is_told_in_the_legend() -> None:
    full = curve(0, (1.0, 0.9, 1.0, 0.9, 1.0, 0.9))
    name = "a name that is as long as the frame is wide, and then some"
    plot = Plot(
        Axis("n", "", places_scale(SIZES)), Axis("", "x", Scale(0, 1)), (full,), (Level(name, 0.5),)
    )
    assert f"╌╌ {name}" in " ".join(" ".join(texts(plot, 50)).split())


def test_events_that_stand_too_close_are_told_with_their_time() -> None:
    crowd = tuple(Event(f"event {number}", 50.0 + number) for number in range(4))
    plot = replace(memory(), levels=(), events=crowd)
    told = " ".join(" ".join(texts(plot, 40)).split())
    assert all(f"event {number}" in told for number in range(4))
    assert "▾ event 2 at 52.0 s" in told


def test_the_sign_and_the_name_of_an_event_have_its_style() -> None:
    events = (Event("OOM", 1024.0, TextStyle.BAD), Event("flush", 256.0))
    row = next(
        row for row in plot_lines(replace(rates(), events=events), 60, 6) if "OOM" in plain(row)
    )
    styled = {span.text.strip(): span.style for span in row if span.text.strip()}
    assert styled == {"▾ flush": TextStyle.NOTE, "▾ OOM": TextStyle.BAD}


@pytest.mark.parametrize(
    ("values", "unit", "most", "expected"),
    [
        ((1e-6, 0.4), "s", 5, ("", "1 µs", "100 µs", "10 ms")),
        ((1e-6, 9e-4), "s", 5, ("µs", "1", "10", "100", "1000")),
        ((2e-4, 9e-4), "s", 5, ("ms", "0", "0.5", "1")),
        ((0.0, 70 * 2.0**30), "byte", 5, ("GiB", "0", "20", "40", "60", "80")),
        ((1e11, 6e11), "FLOP/s", 4, ("GFLOP/s", "0", "200", "400", "600")),
        ((3.0, 3e7), "samples/s", 4, ("samples/s", "10", "1k", "100k", "10M")),
        ((3e3, 9e4), "samples/s", 4, ("k samples/s", "3", "10", "30", "100")),
        ((1e7, 9e13), "FLOP/s", 4, ("FLOP/s", "10M", "1G", "100G", "10T")),
        ((0.0, 0.0), "%", 3, ("%", "0", "0.5", "1")),
        ((-3.0, 4.0), "", 5, ("", "-2", "0", "2", "4")),
    ],
)
def test_the_numbers_of_an_axis_are_short_and_share_a_unit_if_they_can(
    values: tuple[float, ...], unit: str, most: int, expected: tuple[str, ...]
) -> None:
    actual = labels(scale_for(values, unit), unit, most)
    assert (actual.unit, *(text for _, text in actual.ticks)) == expected


@given(st.floats(1e-3, 1e3), st.floats(1.5, 1e9), st.integers(2, 24))
def test_the_ticks_of_the_side_stand_at_nearly_even_steps(
    low: float, ratio: float, height: int
) -> None:
    plot = replace(rates(), upright=Axis("", "", scale_for([low, low * ratio])), levels=())
    rows = [plain(row) for row in plot_lines(plot, 60, height)]
    edge = rows[-2].index(glyphs.GLYPHS.corner)
    frame = glyphs.GLYPHS.wall_tick, glyphs.GLYPHS.corner
    ticks = [at for at, row in enumerate(rows) if row[edge] in frame and row[:edge].strip()]
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    assert not steps or max(steps) <= 1.5 * min(steps)


@pytest.mark.parametrize(
    ("high", "height", "ticks"),
    [
        (4.0, 25, ["4", "3", "2", "1", "0"]),
        (100.0, 13, ["100", "50", "0"]),
        (5.0, 19, ["4", "2", "0"]),
    ],
)
def test_the_side_has_room_at_its_top_for_ticks_at_equal_steps(
    high: float, height: int, ticks: list[str]
) -> None:
    upright = Axis("", "", Scale(0.0, high))
    flat = curve(0, (high,) * 6)
    rows = texts(Plot(rates().across, upright, (flat,)), 60, height)
    lead = rows[-2].index(glyphs.GLYPHS.corner)
    at = [number for number, row in enumerate(rows[1:-1], 1) if row[:lead].strip()]
    assert [rows[number][:lead].strip() for number in at] == ticks
    assert at[-1] == len(rows) - 2
    assert len({after - before for before, after in itertools.pairwise(at)}) == 1
    # The curve stands at its tick.
    assert "●" in rows[at[0]] or ticks[0] != f"{high:.0f}"


@given(st.floats(1e-3, 1e3), st.floats(1.5, 1e9), st.floats(1.0, 1.2), st.floats(0.0, 1.0))
def test_a_stretched_scale_has_smaller_shares(
    low: float, ratio: float, factor: float, part: float
) -> None:
    for scale in (Scale(0.0, low * ratio), Scale(low, low * ratio, logarithmic=True)):
        value = scale.low + part * (scale.high - scale.low)
        share = scale.stretched(factor).share(value)
        assert math.isclose(share * factor, scale.share(value), rel_tol=1e-6, abs_tol=1e-9)
    widest = Scale(1e-140, 1e140, logarithmic=True)
    assert widest.stretched(1.2) == widest


def test_decades_on_five_rows_stand_at_even_steps() -> None:
    plot = replace(rates(), upright=Axis("", "", scale_for([0.6, 60000.0])), levels=())
    rows = [plain(row) for row in plot_lines(plot, 60, 5)]
    words = [row.partition(glyphs.GLYPHS.wall_tick)[0].strip() for row in rows]
    assert [word for word in words if word.isdigit()] == ["10000", "100"]


@pytest.mark.parametrize("height", [4, 5, 6, 9, 14])
def test_a_point_is_level_with_the_nearest_tick(height: int) -> None:
    scale = Scale(1e-6, 1.0, True)
    wall, scale = place_ticks(scale, "s", height, centered=True)
    values = [value for tick, _ in wall.ticks for value in (tick * 0.93, tick * 1.07)]
    decades = math.log10(scale.high / scale.low) / height
    for value in (0.0151, 0.00952, *values):
        row = dot_row(scale, value, height, centered=True) // DOWN
        middle = scale.high / 10 ** (row * decades)
        # Half a row, and half a row of dots.
        assert abs(math.log10(value / middle)) <= (0.5 + 0.5 / DOWN) * decades


def test_a_point_of_15_ms_is_level_with_10_ms() -> None:
    times = curve(0, (1e-6, 1e-5, 1e-4, 1e-3, 0.0151, 0.1))
    plot = Plot(rates().across, Axis("", "s", Scale(1e-6, 1.0, True)), (times,))
    rows = texts(plot, 60, 6)
    assert [row.count("●") for row in rows if "10 ms" in row] == [1]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((9e6, 1e9), ["8", "32", "128", "512"]),
        ((5e5, 3e10), ["256 KiB", "4 MiB", "64 MiB", "1 GiB", "16 GiB"]),
    ],
)
def test_bytes_over_many_sizes_have_binary_ticks(
    values: tuple[float, float], words: list[str]
) -> None:
    scale = scale_for(values, "byte")
    assert scale.contains(values[0])
    assert scale.contains(values[1])
    assert [text for _, text in labels(scale, "byte", 5).ticks] == words


def test_sizes_that_double_are_labelled_by_powers_of_two() -> None:
    assert labels(places_scale(SIZES), "", 6).ticks[1] == (512.0, "512")
    assert [text for _, text in labels(places_scale((32.0, 64.0)), "", 6).ticks] == ["32", "64"]
    assert [text for _, text in labels(places_scale((100.0, 300.0, 1000.0)), "", 6).ticks] == [
        "100",
        "200",
        "500",
        "1000",
    ]


FINITE = st.floats(1e-9, 1e15)


@given(st.lists(FINITE, min_size=1, max_size=9), st.integers(2, 12), st.booleans())
def test_ticks_are_in_the_range_rising_and_not_too_many(
    values: list[float], most: int, chosen: bool
) -> None:
    scale = places_scale(values) if chosen else scale_for(values)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most
    assert all(map(scale.contains, ticks))
    assert all(before < after for before, after in itertools.pairwise(ticks))


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=9))
def test_a_scale_from_zero_holds_its_values_between_round_ends(values: list[float]) -> None:
    scale = scale_for(values)
    room = 1e-6 * max(map(abs, (scale.low, scale.high)))
    assert all(scale.low - room <= value <= scale.high + room for value in values)
    if not scale.logarithmic:
        assert scale.low <= 0 <= scale.high


# ---- dots --------------------------------------------------------------------------------------

DOTS = st.tuples(st.integers(0, 39), st.integers(0, 39))


def test_dots_become_characters() -> None:
    assert braille.braille([(0, 0)], 2, 1) == ["⠁ "]
    assert braille.braille([(3, 7)], 2, 2) == ["  ", " ⢀"]
    assert braille.braille([(x, y) for x in range(2) for y in range(4)], 1, 1) == ["⣿"]
    assert braille.braille([(-1, 0), (0, 99)], 1, 1) == [" "]


@pytest.mark.usefixtures("ascii_only")
def test_dots_in_ascii_keep_their_height() -> None:
    levels = [braille.braille([(0, y), (1, y)], 1, 1)[0] for y in range(4)]
    assert levels == ["'", "'", ".", "."]
    assert braille.braille(braille.segment((0, 3), (1, 0)), 1, 1) == ["/"]
    assert braille.braille(braille.segment((0, 0), (0, 3)), 1, 1) == ["|"]
    assert braille.braille([(x, y) for x in range(2) for y in range(4)], 1, 1) == ["#"]


@given(st.sets(DOTS, max_size=60))
def test_every_dot_is_drawn_once_and_nothing_else(dots: set[tuple[int, int]]) -> None:
    rows = braille.braille(dots, 20, 10)
    lit = sum((ord(one) - 0x2800).bit_count() for row in rows for one in row if one != " ")
    assert lit == len(dots)


@given(DOTS, DOTS)
def test_a_segment_has_no_gap(start: tuple[int, int], end: tuple[int, int]) -> None:
    dots = list(braille.segment(start, end))
    assert (dots[0], dots[-1]) == (start, end)
    assert all(
        max(abs(x1 - x0), abs(y1 - y0)) == 1 for (x0, y0), (x1, y1) in itertools.pairwise(dots)
    )


def test_a_history_shows_little_and_tells_nothing_from_unknown() -> None:
    assert braille.braille(braille.filled([0.001, 1.0, 0.0, None], 1), 2, 1) == ["⣸ "]


@given(st.data(), st.integers(24, 160), st.integers(2, 20))
def test_no_row_is_wider_than_the_pane_and_the_frame_is_whole(
    data: st.DataObject, cells: int, height: int
) -> None:
    value = st.one_of(st.none(), st.just(math.nan), st.floats(1e-9, 1e12))
    values = data.draw(st.lists(value, min_size=6, max_size=6).map(tuple))
    name = data.draw(st.text(max_size=40))
    real = [one for one in values if one is not None and math.isfinite(one)] or [1.0]
    plot = Plot(
        Axis(name, "", places_scale(SIZES)),
        Axis("", data.draw(st.sampled_from(["s", "byte", "FLOP/s", ""])), scale_for(real)),
        (curve(0, values, name), curve(1, values[::-1])),
        (Level(name, data.draw(FINITE)),),
        (Event(name, 300.0), Event("b", 5000.0)),
    )
    rows = plot_lines(plot, cells, height)
    assert all(width(row) <= cells for row in rows)
    frame = [row for row in map(plain, rows) if "│" in row[:20] or "┤" in row[:20]]
    assert len(frame) >= height - 1  # the mark of several points may need a row


def held(*reserved: float) -> Plot:
    """Return an area that rises to three quarters, in front of a faint one."""
    behind = Curve(
        "cached", tuple(enumerate(reserved)), style=TextStyle.CACHED, filled=True, faint=True
    )
    area = Curve("held", ((0, 0.0), (1, 3.0), (2, 1.5)), style=TextStyle.ALLOCATED, filled=True)
    across, upright = Axis("step", "", Scale(0, 2)), Axis("memory", "byte", Scale(0, 4))
    return Plot(across, upright, (behind, area))


TWO_AREAS = [
    "  memory in B over step   ░░ cached   ██ held",
    "     ▾",
    "4┤   │",
    " │▆▆▆│▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▄▅▆▅▅▄▄▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆",
    "2┤░░░│░░░░░░░░░░░░▁▂▃▄▅▆▇███████████████████▇▇▆▆▅▅▄▃▃▂▂▁▁░░░",
    " │░░░│░░░░▁▂▃▄▅▆▇██████████████████████████████████████████▇",
    " │▁▂▃│▅▆▇███████████████████████████████████████████████████",
    "0└┬─────────────┬──────────────┬─────────────┬─────────────┬",
    "  0            0.5             1            1.5            2",
]


def test_areas_are_in_front_of_each_other_and_events_have_whole_lines() -> None:
    plot = replace(held(3.0, 3.0, 3.0), events=(Event("", 0.1),))
    assert texts(plot, 60, 5) == TWO_AREAS


@given(st.lists(st.floats(0, 4), min_size=2, max_size=40), st.integers(3, 20))
def test_each_column_of_an_area_is_whole_up_to_its_edge(values: list[float], height: int) -> None:
    places = Scale(0, len(values) - 1)
    area = Curve("", tuple(enumerate(values)), style=TextStyle.ALLOCATED, filled=True)
    plot = Plot(Axis("", "", places), Axis("", "", Scale(0, 4)), (area,))
    drawn = texts(plot, 60, height)
    wall = drawn[-2].index(glyphs.GLYPHS.corner) + 1
    rows = [row[wall:].ljust(60) for row in drawn[-height - 2 : -2]]
    blocks = glyphs.GLYPHS.vertical
    for column in zip(*rows, strict=True):
        filled = "".join(column).strip()
        assert set(filled[1:]) <= {blocks[-1]}
        assert set(filled[:1]) <= set(blocks)


@pytest.mark.parametrize("height", [4, 6, 9, 13, 24])
def test_an_area_fills_the_row_of_the_tick_that_it_reaches_and_none_above(height: int) -> None:
    across, upright = Axis("", "", Scale(0, 1)), Axis("", "", Scale(0.0, 4.0))
    area = Curve("", ((0, 2.0), (1, 2.0)), style=TextStyle.ALLOCATED, filled=True)
    rows = texts(Plot(across, upright, (area,)), 40, height)
    at = next(number for number, row in enumerate(rows) if row.startswith("2┤"))
    full = glyphs.GLYPHS.vertical[-1]
    drawn = [number for number, row in enumerate(rows) if full in row]
    assert drawn == list(range(at, len(rows) - 2))
    assert rows[-2].startswith("0└")


def test_a_faint_area_fills_the_cells_around_the_edge_of_the_one_in_front() -> None:
    rows = plot_lines(held(4.0, 4.0, 4.0), 60, 8)[-10:-2]
    spans = [span for row in rows for span in row]
    edges = [span.text for span in spans if isinstance(span, TwoColored)]
    assert len(set("".join(edges)) & set(glyphs.GLYPHS.vertical)) > 5
    behind = {span.behind for span in spans if isinstance(span, TwoColored)}
    assert behind == {FULL_FAINT_AREAS[TextStyle.CACHED]}
    textured = {span.style for span in spans if glyphs.GLYPHS.shade in span.text}
    assert textured == behind


@given(st.lists(st.floats(0, 4), min_size=2, max_size=40), st.integers(3, 20))
def test_an_area_that_is_nowhere_higher_stays_behind(values: list[float], height: int) -> None:
    area = Curve("", tuple(enumerate(values)), style=TextStyle.ALLOCATED, filled=True)
    behind = replace(area, style=TextStyle.CACHED, faint=True)
    axes = Axis("", "", Scale(0, len(values) - 1)), Axis("", "", Scale(0, 4))
    alone, both = Plot(*axes, (area,)), Plot(*axes, (behind, area))
    assert plot_lines(both, 60, height) == plot_lines(alone, 60, height)
