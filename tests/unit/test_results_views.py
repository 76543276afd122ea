"""Kept results as lines: columns that fit, intervals on one scale, changes over time."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.results.samples import BEGAN, HOUR, kept
from tui.kit.lines import TextStyle, cell_len, plain, width
from tui.kit.plot import mark_of
from tui.kit.scale import ends_of, interval_line, reach_of
from tui.kit.table import Layout, heading_line, row_line
from tui.results.store.compare import compare
from tui.results.store.queries import EnvironmentComparison, Listing, WorkloadHistory
from tui.results.store.records import StoredResult, StoredRow, build_row
from tui.results.views import comparison as result_comparison
from tui.results.views import result_list
from tui.results.views.row_texts import format_outcome
from workloads.protocol.wire import field_values

DRIVERS = {"driver": "580.1"}, {"driver": "590.2"}


def _listed(*ones: StoredResult) -> Listing:
    rows = tuple(build_row(one, number=place) for place, one in enumerate(ones))
    facts = {one.facts.hash: one.facts for one in ones}
    tags = {place: one.tags for place, one in enumerate(ones) if one.tags}
    return Listing(rows, facts, tags, len(rows), len(rows))


def _names(layout: Layout[result_list.ListedRow]) -> set[str]:
    return {placed.column.name for placed in layout}


def _sides(a: list[StoredResult], b: list[StoredResult]) -> EnvironmentComparison:
    facts = {one.facts.hash: one.facts for one in (*a, *b)}
    found = compare([build_row(one) for one in a], [build_row(one) for one in b], facts)
    return EnvironmentComparison(("a box", "another"), found, facts)


@given(st.integers(min_value=20, max_value=220))
def test_no_line_of_a_list_is_wider_than_the_screen(cells: int) -> None:
    ones = [
        kept(1, workload="a_workload_with_a_long_name", tags=("one", "two")),
        kept(2, facts={"box": "beta", "gpu": "NVIDIA A100-SXM4-80GB", "torch": "2.12.1+cu130"}),
        kept(3, warnings=("throttled",), facts=DRIVERS[1]),
    ]
    found = _listed(*ones)
    rows = result_list.sort_rows(found.rows, "newest")
    chosen = result_list.fit_list_columns(found, rows, cells, 2000.0)
    if cells >= 30:
        assert {"when", "workload", "result"} <= _names(chosen)
    for at, row in enumerate(rows):
        assert width(row_line(chosen, result_list.ListedRow(at, row, "A"))) <= cells
    for row in rows:
        for line in result_list.render_selected(row, found, cells):
            assert width(line) <= cells


def test_what_all_share_has_no_column_and_what_differs_has() -> None:
    found = _listed(kept(1, facts=DRIVERS[0]), kept(2, facts=DRIVERS[1]))
    chosen = result_list.fit_list_columns(found, list(found.rows), 120, 2000.0)
    assert "driver" in _names(chosen)
    assert "torch" not in _names(chosen)
    assert "tags" not in _names(chosen)


def test_a_failed_run_says_why_and_comes_last_by_time() -> None:
    failed = kept(5).record
    record = type(failed)(
        **{**field_values(failed), "status": "failed", "reason": "no memory", "run": None}
    )
    rows = [
        build_row(StoredResult(record, kept(5).facts), "no memory"),
        build_row(kept(1)),
        build_row(kept(2, median=1)),
    ]
    found = result_list.sort_rows(rows, "time")
    assert [row.median_s for row in found] == [1, 1e-3, None]
    facts = {row.environment: kept(1).facts for row in rows}
    listed = Listing(tuple(rows), facts, {}, 3, 3)
    chosen = result_list.fit_list_columns(listed, rows, 100, 2000.0)
    assert "failed no memory" in plain(row_line(chosen, result_list.ListedRow(0, rows[0], "")))


def test_a_failed_run_with_a_time_comes_last_by_time() -> None:
    rows = [build_row(kept(1, median=5.0, status="failed")), build_row(kept(2, median=1e-3))]
    found = result_list.sort_rows(rows, "time")
    assert [row.status for row in found] == ["ok", "failed"]


def _draw_list(found: Listing, cells: int = 120) -> list[str]:
    chosen = result_list.fit_list_columns(found, found.rows, cells, BEGAN)
    return [
        plain(row_line(chosen, result_list.ListedRow(at, row, "")))
        for at, row in enumerate(found.rows)
    ]


def test_states_stand_in_one_place_and_only_their_word_is_red() -> None:
    found = _listed(
        kept(1, median=9.0, status="failed"), kept(2, warnings=("noisy",)), kept(3, median=123e-6)
    )
    failed, noisy, _ = _draw_list(found, 60)
    assert "failed" in failed
    assert "! 1.00 ms" in noisy
    at = noisy.index("!")
    assert failed.index("failed") < at < failed.index("9.00 s")
    chosen = result_list.fit_list_columns(found, found.rows, 60, BEGAN)
    drawn = row_line(chosen, result_list.ListedRow(0, found.rows[0], ""))
    assert [s.text.strip() for s in drawn if s.style is TextStyle.BAD] == ["failed"]


def test_a_gpu_and_driver_that_all_gpu_results_share_stand_in_the_title() -> None:
    on_cpu = kept(1, device="cpu")
    facts = {name: value for name, value in on_cpu.facts.values.items() if name != "driver"}
    found = _listed(replace(on_cpu, facts=replace(on_cpu.facts, values=facts)), kept(2), kept(3))
    chosen = result_list.fit_list_columns(found, found.rows, 160, BEGAN)
    assert not {"GPU", "driver"} & _names(chosen)
    title = result_list.format_list_title(found, "newest", "", (), stores=True)
    assert "driver 580.65.06" in title
    two = _listed(kept(1, facts=DRIVERS[0]), kept(2, facts=DRIVERS[1]))
    assert "driver" in _names(result_list.fit_list_columns(two, two.rows, 160, BEGAN))
    assert "driver" not in result_list.format_list_title(two, "newest", "", (), stores=True)


@pytest.mark.parametrize(("cells", "many"), [(76, 2), (118, 2), (190, 3)])
def test_facts_stand_in_columns(cells: int, many: int) -> None:
    facts = {f"fact {n}": f"value-{n}" for n in range(6)}
    found = _listed(kept(1, facts=facts))
    rows = list(map(plain, result_list.render_selected(found.rows[0], found, cells)))
    own = [row for row in rows if "value-" in row]
    assert all(row.count("  ") for row in own)
    assert max(row.count("value-") for row in own) == many
    places = {row.index("value-") for row in own if row.startswith("fact")}
    assert len(places) == 1


def test_two_runs_are_listed_and_not_plotted() -> None:
    text = _history(_past(kept(1), kept(2, median=2e-3, warnings=("noisy",))))
    assert "median of a run" not in text
    assert "2.00 ms ±1.0%  ! noisy" in text


def test_a_range_of_equal_times_is_one_time() -> None:
    assert "1.00 ms, 2 runs" in _history(_past(kept(1), kept(2)))


# ---- two sets ----------------------------------------------------------------------------------


def _pair(
    factor: float, workload: str, first: int = 0
) -> tuple[list[StoredResult], list[StoredResult]]:
    a = [
        kept(
            (first + number) * HOUR,
            workload=workload,
            median=1e-3 + number * 2e-6,
            facts=DRIVERS[0],
        )
        for number in range(4)
    ]
    b = [
        kept(
            (first + 50 + number) * HOUR,
            workload=workload,
            median=(1e-3 + number * 2e-6) * factor,
            facts=DRIVERS[1],
        )
        for number in range(4)
    ]
    return a, b


@pytest.mark.parametrize("cells", [66, 95, 119, 199])
def test_all_intervals_stand_on_one_scale_whose_ends_are_told(cells: int) -> None:
    (a, b), (c, d) = _pair(1.3, "matmul"), _pair(0.99, "conv2d", 200)
    found = _sides(a + c, b + d)
    chosen = result_comparison.fit_comparison_columns(found, cells)
    lines = [plain(row_line(chosen, one)) for one in found.compared.questions]
    assert {one.workload: one.answer.verdict for one in found.compared.questions} == {
        "conv2d": "same",
        "matmul": "slower",
    }
    low, high = ends_of(1.5) if cells > 66 else ("slower", "faster")
    head = plain(heading_line(chosen))
    assert low in head
    assert high in head
    assert cell_len(head) <= cells
    assert all(cell_len(line) <= cells for line in lines)
    # They begin and end in the same columns, so that 1 is below 1.
    assert len({line.index("╌") for line in lines}) == 1
    assert len({len(line) for line in lines}) == 1
    assert head.index(low) == lines[0].index("╌")
    assert head[head.index(low) + (len(lines[0]) - head.index(low)) // 2] == "1"


@pytest.mark.parametrize("rows", [0, 5, 8, 9, 20, 40])
@pytest.mark.parametrize("cells", [20, 79, 119])
def test_the_runs_of_the_workload_under_the_cursor_are_plotted_where_rows_are_left(
    cells: int, rows: int
) -> None:
    a, b = _pair(1.0, "conv2d")
    found = _sides(a, b)
    question = found.compared.questions[0]
    lines = list(map(plain, result_comparison.render_pictures(found, question, cells, rows)))
    assert len(lines) <= rows
    assert all(cell_len(line) <= cells for line in lines)
    assert bool(lines) == (cells > 24 and rows >= 9)
    if lines:
        title, *plotted = lines
        marks = "".join(plotted)
        assert "median of a run" in title
        assert 0 < marks.count(mark_of(0)) <= len(question.a.rows)
        assert 0 < marks.count(mark_of(1)) <= len(question.b.rows)


@given(st.floats(0.2, 5), st.floats(0, 0.5), st.integers(9, 80), st.sampled_from([5.0, 10.0, 50.0]))
def test_an_interval_is_drawn_within_its_cells(
    ratio: float, spread: float, cells: int, reach: float
) -> None:
    interval = (ratio * (1 - spread), ratio * (1 + spread))
    drawn = interval_line(ratio, interval, cells, reach, named=False)
    assert width(drawn) == cells - (1 - cells % 2)
    assert reach_of([(ratio, interval)]) >= max(interval[1], 1 / interval[0])


@pytest.mark.parametrize("rows", [0, 1, 2, 4, 5, 6, 30])
@pytest.mark.parametrize("cells", [30, 79, 119, 199])
def test_times_that_differ_are_bars_on_one_scale_as_far_as_there_is_room(
    cells: int, rows: int
) -> None:
    (a, b), (c, d), (e, f) = (
        _pair(1.5, "matmul"),
        _pair(0.99, "conv2d", 200),
        _pair(0.5, "tf32", 400),
    )
    found = _sides(a + c + e, b + d + f)
    drawn = [plain(row) for row in result_comparison.render_bars(found, cells, rows)]
    assert len(drawn) <= rows
    assert all(cell_len(row) <= cells for row in drawn)
    bars = [row for row in drawn if "■" in row]
    assert len(bars) == (0 if cells < 79 else min(4, rows // 2 * 2))
    if bars:
        assert "matmul " in bars[0]
        assert bars[0].count("■") / bars[1].count("■") == pytest.approx(1 / 1.5, abs=0.05)
        assert bars[0].rstrip().endswith(" 1.00 ms")
        assert bars[1].endswith(" 1.50 ms  1.50x slower")
    assert not any("conv2d" in row for row in drawn)


def test_a_comparison_begins_with_its_counts() -> None:
    (a, b), (c, d) = _pair(1.5, "matmul"), _pair(0.99, "conv2d", 200)
    first = result_comparison.render_sides(_sides(a + c, b + d), 100)[0]
    assert plain(first) == "B is slower in 1, the same in 1"
    assert [span.text for span in first if span.style is TextStyle.NOTE] == ["slower in 1"]


def test_sessions_of_one_day_have_one_date() -> None:
    noon = datetime.datetime(2001, 9, 10, 12, 0).timestamp()
    starts = [noon + 7200, noon + 3600, noon, noon - 86_400]
    names = ("a-1", "b-1", "c-1", "d-1")
    found = _listed(
        *(kept(int(at - BEGAN), process=name) for at, name in zip(starts, names, strict=True))
    )
    chosen = result_list.fit_list_columns(found, found.rows, 120, noon + 9000, by_session=True)
    drawn = [
        plain(row_line(chosen, result_list.ListedRow(at, row, "")))
        for at, row in enumerate(found.rows)
    ]
    assert [row[2:13].strip() for row in drawn] == [
        "09-10 14:00",
        "13:00",
        "12:00",
        "09-09 12:00",
    ]


def test_a_session_begins_with_its_date_and_repeats_nothing_aloud() -> None:
    sessions = [(1, "one-1"), (61, "one-1"), (90_001, "two-1")]
    found = _listed(*(kept(at, process=name) for at, name in sessions))
    rows = list(found.rows)
    for by_session in (False, True):
        chosen = result_list.fit_list_columns(found, rows, 120, BEGAN, by_session=by_session)
        drawn = [
            row_line(chosen, result_list.ListedRow(at, row, "")) for at, row in enumerate(rows)
        ]
        dated = [plain(row)[2:7] != "     " for row in drawn]
        assert sorted(dated) == ([False, True, True] if by_session else [True] * 3)
        quiet = [
            any("cuda:0" in s.text and s.style is TextStyle.QUIET for s in row) for row in drawn
        ]
        assert quiet == [not whole for whole in dated]


def test_too_few_runs_say_so_and_no_interval_is_drawn() -> None:
    a, b = _pair(1.3, "matmul")
    found = _sides(a[:1], b[:1])
    (one,) = found.compared.questions
    chosen = result_comparison.fit_comparison_columns(found, 119)
    assert "├" not in plain(row_line(chosen, one))
    words = " ".join(plain(row).strip() for row in result_comparison.render_foot(found, one, 119))
    assert "unclear: one session per side (1 and 1 runs); a verdict needs 3" in words
    assert "driver 580.1 → 590.2" in words


# ---- over time ---------------------------------------------------------------------------------


def _past(*ones: StoredResult, elsewhere: int = 0) -> WorkloadHistory:
    rows: tuple[StoredRow, ...] = tuple(build_row(one) for one in ones)
    return WorkloadHistory(rows[-1], rows, {one.facts.hash: one.facts for one in ones}, elsewhere)


def _history(found: WorkloadHistory, cells: int = 100) -> str:
    return "\n".join(plain(row) for row in result_comparison.render_history(found, cells, 30))


def test_a_change_of_driver_or_torch_is_named_once_where_it_was() -> None:
    newer = {**DRIVERS[1], "torch": "2.14.0"}
    found = _past(*(kept(n, facts=DRIVERS[0]) for n in (1, 2, 3)), kept(9, facts=newer))
    assert [name for _, name in result_comparison.find_changes(found)] == [
        "driver 590.2, torch 2.14.0"
    ]
    text = _history(found)
    assert text.count("▾") == 1
    assert "driver 580.1, torch 2.13.0+cu130: 1.00 ms, 3 runs ±0.0% from run to run" in text
    assert "driver 590.2, torch 2.14.0: 1.00 ms ±1.0%, 1 run," in text


def test_the_times_of_a_few_or_of_very_different_runs_are_their_range() -> None:
    text = _history(_past(kept(1, median=1e-3), kept(2, median=1.2e-3)))
    assert "1.00 ms to 1.20 ms, 2 runs, 2001" in text
    scattered = _history(_past(*(kept(n, median=s) for n, s in enumerate((126e-6, 2.23e-3, 1e-4)))))
    assert "100 µs to 2.23 ms, 3 runs, 2001" in scattered
    assert "from run to run" not in scattered
    halved = _history(_past(*(kept(n, median=s) for n, s in enumerate((40e-3, 74e-3, 60e-3)))))
    assert "40.0 ms to 74.0 ms, 3 runs, 2001" in halved


def test_a_single_run_has_the_digits_of_its_own_interval() -> None:
    run = build_row(kept(1, median=37.1e-3))
    row = replace(run, ci95_s=(33e-3, 42e-3))
    found = WorkloadHistory(row, (row,), {row.environment: kept(1).facts}, 0)
    assert f"{format_outcome(row)}, 1 run, 2001" in _history(found)
    assert format_outcome(row) == "37 ms ±12%"


def test_without_a_successful_run_a_history_says_only_that() -> None:
    subject = build_row(kept(1, status="failed"))
    found = WorkloadHistory(subject, (), {}, 5)
    text = _history(found)
    assert "No run of it has succeeded here." in text
    assert "measured once" not in text
    assert "5 more runs not shown" in text
    title = result_comparison.format_history_title(found)
    assert title.startswith("No successful run   matmul")


@pytest.mark.parametrize(
    ("factor", "sessions", "first"),
    [
        (1.3, 4, r"1\.3\dx slower \(1\.\d+–1\.\d+\) under driver 590\.2 than driver 580\.1"),
        (1 / 1.3, 4, r"1\.\d+x faster \(1\.\d+–1\.\d+\) under driver 590\.2 than driver 580\.1"),
        (1.0, 4, r"same \(\d\.\d+–\d\.\d+\) under driver 590\.2 and driver 580\.1"),
        (1.3, 2, "too few sessions under driver 590.2 or driver 580.1 for a verdict"),
    ],
)
def test_the_first_line_says_what_the_newest_driver_changed(
    factor: float, sessions: int, first: str
) -> None:
    a, b = _pair(factor, "matmul")
    text = _history(_past(*a[:sessions], *b[:sessions]))
    assert re.match(rf"\s*{first}", text), text.partition("\n")[0]


@pytest.mark.parametrize("cells", [40, 77, 117, 197])
@pytest.mark.parametrize("height", [20, 22, 37, 52])
def test_a_history_fits_its_height_and_names_what_differs(cells: int, height: int) -> None:
    found = _past(*(kept(number, facts=DRIVERS[number > 4]) for number in range(9)))
    rows = [plain(row) for row in result_comparison.render_history(found, cells, height)]
    assert len(rows) == height
    assert "torch" not in " ".join(rows), "all runs have the same"
    assert (sum("■" in row for row in rows) == 2) == (cells > 100)


def test_two_that_take_turns_have_marks_of_their_own_and_very_many_changes_no_names() -> None:
    found = _past(*(kept(number, facts=DRIVERS[number % 2]) for number in range(20)))
    text = _history(found)
    assert "● driver 580.1" in text
    assert "○ driver 590.2" in text
    assert text.count("driver 580.1") == 3
    assert text.count("▾") == 19


def test_runs_with_warnings_are_marked_and_what_is_elsewhere_is_counted() -> None:
    found = _past(kept(1), kept(2, warnings=("hot",)), kept(3), elsewhere=4)
    text = _history(found)
    assert "! with warnings" in text
    assert "3 runs ±0.0% from run to run, 1 with warnings" in text
    assert "4 more runs not shown (other machine, device or flags)" in text


def test_the_axis_holds_the_runs_and_not_zero() -> None:
    text = _history(_past(*(kept(n, median=1e-3 * (1 + n / 100)) for n in range(5))))
    assert "1.04" in text
    assert "\n   0┤" not in text
    flat = _history(_past(kept(1), kept(2), kept(3)))
    assert "median of a run in" in flat
