"""Tables and charts of workloads as text: complete, aligned, and never wider than the pane."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import HOSTILE
from tests.screens.results import result
from tui.core.text import glyphs
from tui.core.text.numbers import number, quantity
from tui.kit.lines import plain, verbatim, width
from tui.kit.tables import table_lines
from tui.runs.views.chart import (
    build_point_table,
    chart_lines,
    finding_lines,
    format_absent_path,
    missing_lines,
)
from workloads.protocol.figure_names import name_figure
from workloads.protocol.results import Chart, DataColumn, Figure, Series, Table

MIB = 2.0**20
TABLE = Table(
    "ops",
    "by device time",
    (
        DataColumn("name"),
        DataColumn("calls"),
        DataColumn("CPU time", "s"),
        DataColumn("peak", "byte"),
    ),
    (("aten::mm", 120.0, 0.0123, 200 * MIB), ("aten::add_ of two", 12345.0, 1e-5, None)),
)
CURVES = Chart(
    "t",
    "time over n",
    "n",
    (32.0, 64.0, 128.0, 256.0),
    (
        Series("cpu", "s", (1e-6, 4e-6, 2e-5, 1e-4)),
        Series("cuda:0", "s", (1e-5, 1e-5, None, 1.1e-5)),
    ),
    (),
    ("cuda:0 overtakes cpu between n=64 and n=256",),
)
STEPS = Chart(
    "m",
    "memory step by step",
    "step",
    (1.0, 2.0),
    (Series("allocated", "byte", (0.0, 64 * MIB)), Series("nvml", "byte", (None, None))),
    ("start", "a = randn(16 Mi)"),
)


def texts(rows: list[object]) -> list[str]:
    return [plain(row).rstrip() for row in rows]  # type: ignore[arg-type]


def test_a_table_that_fits_is_aligned_with_units_in_its_cells() -> None:
    why = {"tables.ops.peak": "no allocator"}
    assert texts([*table_lines(TABLE, why, 60)]) == [
        "by device time",
        "  name                calls  CPU time     peak",
        "  aten::mm              120   12.3 ms  200 MiB",
        "  aten::add_ of two  12 345   10.0 µs      n/a",
        "  peak n/a: no allocator",
    ]


def test_a_table_that_does_not_fit_is_told_a_row_at_a_time() -> None:
    assert texts([*table_lines(TABLE, {}, 30)]) == [
        "by device time",
        "  aten::mm",
        "    calls 120",
        "    CPU time 12.3 ms",
        "    peak 200 MiB",
        "  aten::add_ of two",
        "    calls 12 345",
        "    CPU time 10.0 µs",
        "    peak n/a",
    ]


def test_a_table_breaks_a_long_word_at_a_sign() -> None:
    columns = (DataColumn("id"), DataColumn("result"), DataColumn("buffers"))
    cells = ("5f3a", "mkldnn.enabled: unclear", "1.num_batches_tracked")
    table = Table("t", "t", columns, (cells,))
    assert texts([*table_lines(table, {}, 40)]) == [
        "t",
        "  id    result           buffers",
        "  5f3a  mkldnn.enabled:  1.num_batches_",
        "        unclear          tracked",
    ]
    # Only a text of several words is narrower than it could be.
    assert texts([*table_lines(table, {}, 46)])[2:] == [
        "  5f3a  mkldnn.enabled:  1.num_batches_tracked",
        "        unclear",
    ]


def test_a_curve_has_a_mark_of_its_own_in_every_set_of_glyphs() -> None:
    rows = texts([*chart_lines(CURVES, {}, 60)])
    assert rows[0] == "time over n   µs (log)   ● cpu   ○ cuda:0"
    drawn = "".join(row for row in rows[1:] if "│" in row or "┤" in row)
    assert drawn.count("●") + drawn.count("◉") == 4
    assert drawn.count("○") + drawn.count("◉") == 3
    assert "  → cuda:0 overtakes cpu between n=64 and n=256" in rows
    for chosen in (glyphs.UNICODE, glyphs.ASCII):
        assert len(set(chosen.marks)) == len(chosen.marks)
        assert chosen.shared not in chosen.marks


def test_the_places_of_a_curve_stand_by_their_ratios() -> None:
    rows = texts([*chart_lines(CURVES, {}, 60)])
    edge = next(row for row in rows if "└" in row)
    ticks = [place for place, character in enumerate(edge) if character == "┬"]
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    assert len(ticks) == 4
    assert max(steps) - min(steps) <= 1
    assert rows[rows.index(edge) + 1].split() == ["32", "64", "128", "256"]


def test_sizes_along_an_axis_have_units_of_their_own() -> None:
    places = tuple(1024.0 * 4**power for power in range(8))
    series = (Series("pinned", "byte/s", tuple(place * 1e3 for place in places)),)
    rows = texts([*chart_lines(Chart("rates", "rate", "byte", places, series), {}, 110)])
    ticks = "1 KiB, 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB, 4 MiB, 16 MiB"
    assert ", ".join(re.split(" {2,}", rows[-1].strip())) == ticks


def test_steps_are_bars_to_one_scale_and_an_unknown_series_says_so() -> None:
    rows = texts([*chart_lines(STEPS, {"charts.m.nvml": "no driver"}, 60)])
    assert rows[1] == "  allocated   full bar 64.0 MiB"
    assert rows[2].split() == ["start", "·", "0", "B"]
    assert rows[3].endswith("64.0 MiB")
    assert rows[3].count("█") == 60 - 4 - len("a = randn(16 Mi)") - len("64.0 MiB") - 4
    assert rows[4:] == ["  nvml  n/a", "  nvml n/a: no driver"]


def test_points_of_a_chart_are_a_table() -> None:
    table = build_point_table(CURVES)
    assert [column.name for column in table.columns] == ["n", "cpu", "cuda:0"]
    assert table.rows[2] == (128.0, 2e-5, None)
    assert build_point_table(STEPS).rows[1][0] == "a = randn(16 Mi)"


def test_a_staircase_is_told_once_where_charts_are_not_drawn() -> None:
    table = Table(
        "m", "memory", (DataColumn("step"), DataColumn("allocated", "byte"), DataColumn("nvml"))
    )
    chart = Chart("m", "memory", "step", (1.0,), STEPS.series, ("start",), ("watch it",))
    found = result(tables=(table,), charts=(chart,), figures={}, log=("torch said no",))
    rows = texts([*finding_lines(found, 60, drawn=False)])
    assert rows.count("memory") == 1
    assert "  → watch it" in rows
    assert rows[-2:] == ["Log", "  torch said no"]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.0019, "s", "1.90 ms"),
        (MIB, "byte", "1.0 MiB"),
        (26e9, "byte/s", "26.0 GB/s"),
        (1.434, "x", "1.43x"),
        (12.0, "%", "12%"),
        (6.62, "%", "6.6%"),
        (-0.0123, "%", "-0.012%"),
        (2e-7, "%", "2e-07%"),
        (0.0, "%", "0%"),
        (4096.0, "", "4 096"),
        (0.69314, "", "0.6931"),
        (None, "s", "n/a"),
        (math.nan, "s", "n/a"),
        ("NCHW", "", "NCHW"),
    ],
)
def test_a_quantity_is_written_in_its_unit(value: float | None, unit: str, expected: str) -> None:
    assert quantity(value, unit) == expected


def test_an_absent_figure_says_what_it_would_be_and_then_why_it_is_not() -> None:
    figures = {"wait_s": Figure(None, "s", "of a step")}
    found = result(figures=figures, unavailable={"figures.wait_s": "no GPU"})
    assert texts([*finding_lines(found, 60)]) == ["wait (of a step) n/a: no GPU"]


def test_parts_are_a_blank_line_apart_and_no_more() -> None:
    chart = Chart("c", "empty", "n", (), (Series("a", "s", ()),))
    told = Chart("t", "told", "step", (1.0,), (Series("a", "s", (1.0,)),), ("start",))
    tables = (TABLE, Table("t", "t", (DataColumn("step"), DataColumn("a", "s")), (("start", 1.0),)))
    found = result(charts=(chart, told, CURVES), tables=tables, log=("a", "b"))
    for drawn in (True, False):
        rows = texts([*finding_lines(found, 60, drawn=drawn)])
        assert all(one or other for one, other in itertools.pairwise(rows))


def test_names_are_words() -> None:
    assert name_figure("too_fast", "x") == "naive timing too fast by"
    assert name_figure("unseen_benchmark_on", "s") == "unseen sizes, benchmark on"
    assert name_figure("pinned", "byte") != name_figure("pinned", "byte/s")
    # Of a user's own workload.
    assert name_figure("wait_s", "s") == "wait"
    assert name_figure("copy_bytes", "byte") == "copy"
    assert name_figure("copy_byte_per_s", "byte/s") == "copy rate"
    assert format_absent_path("time.p95_s") == "p95"
    assert format_absent_path("rates.flop_per_s") == "FLOP/s"
    assert number(1234567.5) == "1 234 568"


def test_absences_of_one_reason_share_a_line() -> None:
    why = {"rates.flop_per_s": "not counted", "rates.byte_per_s": "not counted", "limit": "x"}
    assert texts([*missing_lines(why, 80)]) == ["FLOP/s, B/s n/a: not counted"]


def test_code_keeps_its_indent_where_it_is_wrapped() -> None:
    assert texts([*verbatim("    loss = function(model(inputs), targets)", 30)]) == [
        "      loss =",
        "        function(model(inputs),",
        "        targets)",
    ] or all(width(row) <= 30 for row in verbatim("    loss = f(model(inputs), t)", 30))


NUMBERS = st.one_of(st.none(), st.just(math.nan), st.just(0.0), st.floats(1e-12, 1e18))
UNITS = st.sampled_from(["s", "byte", "byte/s", "FLOP/s", "x", "%", ""])


@given(st.data(), st.integers(24, 130), st.text(max_size=40))
def test_no_line_is_wider_than_the_pane(data: st.DataObject, cells: int, hostile: str) -> None:
    count = data.draw(st.integers(0, 6))
    steps = data.draw(st.booleans())
    values = st.lists(NUMBERS, min_size=count, max_size=count).map(tuple)
    series = tuple(
        Series(hostile, data.draw(UNITS), data.draw(values))
        for _ in range(data.draw(st.integers(1, 3)))
    )
    places = tuple(float(2**place) for place in range(count))
    names = tuple(f"{hostile}{place}" for place in range(count)) if steps else ()
    chart = Chart("c", hostile, hostile, places, series, names, (hostile,))
    row = (hostile, *(item.values[0] for item in series)) if count else None
    columns = (DataColumn(hostile), *(DataColumn(hostile, item.unit) for item in series))
    table = Table("t", HOSTILE, columns, (row,) if row else ())
    found = result(charts=(chart,), tables=(table,), log=(hostile,), figures={"a": Figure(hostile)})
    for rows in (finding_lines(found, cells), finding_lines(found, cells, drawn=False)):
        assert all(width(line) <= cells for line in rows)


def test_a_curve_without_a_point_is_not_in_the_legend() -> None:
    series = (CURVES.series[0], replace(CURVES.series[1], values=(None,) * 4))
    rows = texts([*chart_lines(replace(CURVES, series=series), {}, 60)])
    assert rows[0].endswith("● cpu")
    assert "○" not in "".join(rows)
