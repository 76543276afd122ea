"""Two sets of results side by side: which runs belong together, what differs, what is said."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.results.samples import HOUR, conditions, kept
from tui.kit.lines import plain
from tui.kit.tables import table_lines
from tui.results.store.compare import StoreComparison, compare
from tui.results.store.database import Database
from tui.results.store.records import StoredResult, StoredRow
from tui.results.store.selection import (
    EVERYTHING,
    Selection,
    SelectionError,
    intersect,
    parse_selection,
    parse_time,
)
from tui.results.views.results import (
    build_comparison_table,
    build_list_table,
    encode_rows,
    format_comparison_notes,
    format_markdown,
    format_result,
)
from tui.results.views.row_texts import format_short_time
from workloads.protocol.results import Setting, Status

NEW = {"driver": "590.10.01"}


def _runs(
    median: float,
    first: int = 0,
    runs: int = 5,
    spread: float = 0.004,
    facts: dict[str, str] | None = None,
    apart: int = HOUR,
    **more: object,
) -> list[StoredResult]:
    """Return runs that end some seconds apart; an hour makes each a session."""
    rng = random.Random(first)
    return [
        kept(
            (first + number) * apart,
            median=median * rng.lognormvariate(0, spread),
            facts=facts,
            **more,  # type: ignore[arg-type]
        )
        for number in range(runs)
    ]


class WorkbenchState:
    """A store with two sides in it."""

    def __init__(self, place: Path, a: list[StoredResult], b: list[StoredResult]) -> None:
        with Database(place, writing=True) as database:
            database.add([*a, *b])
            rows = {row.id: row for row in database.read_rows()}
            self.facts = database.read_facts()
        self.a = [rows[one.record.id] for one in a]
        self.b = [rows[one.record.id] for one in b]

    def compared(self, history: tuple[StoredRow, ...] = ()) -> StoreComparison:
        return compare(self.a, self.b, self.facts, lambda: history)


def _text(found: StoreComparison, cells: int = 100) -> str:
    table = [plain(line).rstrip() for line in table_lines(build_comparison_table(found), {}, cells)]
    return "\n".join([*table, *format_comparison_notes(found)])


def test_another_driver_is_named_beside_what_has_become_slower(tmp_path: Path) -> None:
    a = _runs(1e-3) + _runs(2e-3, 100, workload="softmax")
    b = _runs(1.1e-3, 200, facts=NEW) + _runs(2e-3, 300, facts=NEW, workload="softmax")
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    assert [one.answer.verdict for one in found.questions] == ["slower", "same"]
    assert [one.workload for one in found.slower] == ["matmul"]
    text = _text(found)
    assert re.search(r"slower +0\.9\d+x +0\.91", text)
    assert "changed from A to B (not necessarily causes): driver 580.65.06 → 590.10.01" in text
    # Told once, and not again for each workload.
    assert text.count("590.10.01") == 1
    assert "corrected for 2 comparisons" in text
    assert "without it, 0.1 are expected by chance" in text


def test_what_differs_comes_first_and_most_of_all_what_has_become_slower(tmp_path: Path) -> None:
    factors = {"conv2d": 1.0, "linalg": 1.1, "matmul": 1.5, "softmax": 0.5, "tf32": 0.8}
    a, b = [], []
    for number, (workload, factor) in enumerate(factors.items()):
        a += _runs(1e-3, 1000 * number, workload=workload)
        b += _runs(factor * 1e-3, 1000 * number + 500, facts=NEW, workload=workload)
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    order = [question.workload for question in found.questions]
    assert order == ["matmul", "linalg", "softmax", "tf32", "conv2d"]


def test_sides_without_a_common_workload_are_not_said_to_differ_in_nothing(tmp_path: Path) -> None:
    b = _runs(1e-3, 100, facts=NEW, workload="softmax")
    text = _text(WorkbenchState(tmp_path / "r", _runs(1e-3), b).compared())
    assert "differences" not in text
    assert "on one side only" in text
    assert text.startswith("no workload on both sides\n")
    assert "no rows yet" not in text
    assert "runs/sessions" not in text
    assert "are not compared" not in text


def test_results_without_a_time_are_counted(tmp_path: Path) -> None:
    state = WorkbenchState(tmp_path / "r", _runs(1e-3), _runs(1e-3, 100, facts=NEW))
    state.a[0] = replace(state.a[0], status="failed")
    text = _text(state.compared())
    assert "failed runs are not compared: 1 of A, 0 of B" in text


@pytest.mark.parametrize(
    ("of_a", "of_b", "title"),
    [
        ("failed", "failed", "neither A nor B has a successful run"),
        ("failed", "ok", "A has no successful run"),
        ("ok", "cancelled", "B has no successful run"),
    ],
)
def test_failed_results_are_said_to_have_failed(
    tmp_path: Path, of_a: Status, of_b: Status, title: str
) -> None:
    state = WorkbenchState(tmp_path / "r", _runs(1e-3), _runs(1e-3, 100, facts=NEW))
    state.a[:] = [replace(row, status=of_a) for row in state.a[:1]]
    state.b[:] = [replace(row, status=of_b) for row in state.b[:1]]
    text = _text(state.compared())
    assert text.startswith(f"{title}\n")
    assert ("failed runs are not compared: 1 of A, " in text) == (of_a == "failed")
    assert ("cancelled runs are not compared: 0 of A, 1 of B" in text) == (of_b == "cancelled")


def test_a_comparison_of_a_flag_is_counted_by_itself(tmp_path: Path) -> None:
    state = WorkbenchState(tmp_path / "r", _runs(1e-3), _runs(1e-3, 100, facts=NEW))
    state.a[0] = replace(state.a[0], kind="comparison", median_s=None)
    assert "comparisons of a flag are not compared: 1 of A, 0 of B" in _text(state.compared())


def test_one_workload_with_other_parameters_on_each_side_names_what_differs(tmp_path: Path) -> None:
    a = _runs(1e-3, parameters={"n": 2048, "dtype": "float32"})
    b = _runs(1e-3, 100, parameters={"n": 128, "dtype": "float32"})
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    text = _text(found)
    assert text.startswith("no workload with the same settings on both sides\n")
    assert "matmul is not compared: n is 2048 in A and 128 in B\n" in text
    assert found.only == (1, 1)


def test_the_columns_say_of_what_they_are_and_fit_80_columns(tmp_path: Path) -> None:
    a, b = _runs(1e-3), _runs(1.1e-3, 200, facts=NEW) + _runs(1.1e-3, 1000, 4, facts=NEW)
    text = _text(WorkbenchState(tmp_path / "r", a, b).compared(), 80)
    assert "each with (runs/sessions)" in text
    assert re.search(r"A +B +B is +ratio A/B +95% interval", text)


def test_of_one_run_each_it_says_how_much_the_box_varies(tmp_path: Path) -> None:
    state = WorkbenchState(tmp_path / "r", _runs(1e-3, 0, 1), _runs(1.02e-3, 10, 1, facts=NEW))
    text = _text(state.compared())
    assert "unclear: one session per side (1 and 1 runs); a verdict needs 3; its" in text
    with Database(tmp_path / "r", writing=True) as database:
        database.add(_runs(1e-3, 100, 9, spread=0.0135))
        history = tuple(database.read_rows())
    text = _text(state.compared(history))
    assert "(1 and 1 runs); a verdict needs 3; it varies by ±" in text
    assert "from run to run (10 runs)" in text


def test_runs_of_one_hour_are_one_session_and_unclear_with_the_command_that_adds_one(
    tmp_path: Path,
) -> None:
    a, b = _runs(1e-3, apart=60), _runs(1.3e-3, 500, apart=60, facts=NEW)
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    (one,) = found.questions
    assert (one.answer.ratio.sessions, one.answer.ratio.runs) == ((1, 1), (5, 5))
    assert (one.answer.verdict, one.answer.ratio.ci95) == ("unclear", None)
    text = _text(found)
    assert "unclear: one session per side (5 and 5 runs); a verdict needs 3" in text
    # A driver is nothing that two processes have otherwise at the same time.
    assert (
        "to add a session to a side, run there: gpu-workbench run matmul --set n=4096 --device"
        " cuda:0, 30 minutes after the last run or later" in text
    )
    assert "--interleave" not in text


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"torch": "2.14.0", "python": "3.12"}, "python=PATH_OF_A python=PATH_OF_B"),
        ({"flag cudnn.benchmark": "on"}, ""),
        ({"variable OMP_NUM_THREADS": "4", "driver": "590"}, ""),
    ],
)
def test_what_two_processes_can_have_otherwise_is_alternated(
    facts: dict[str, str], words: str, tmp_path: Path
) -> None:
    text = _text(
        WorkbenchState(tmp_path / "r", _runs(1e-3, 0, 1), _runs(1e-3, 9, 1, facts=facts)).compared()
    )
    assert (f"--interleave {words}" in text) is bool(words)
    flag = "flag cudnn.benchmark"
    a, b = _runs(1e-3, 0, 1, facts={flag: "off"}), _runs(1e-3, 9, 1, facts={flag: "on"})
    text = _text(WorkbenchState(tmp_path / "s", a, b).compared())
    assert "--interleave cudnn.benchmark=off cudnn.benchmark=on" in text


def test_sides_that_alternate_have_a_session_for_each_turn(tmp_path: Path) -> None:
    a = [kept(number * 60, median=1e-3) for number in range(0, 8, 2)]
    b = [kept(number * 60, median=1.1e-3, facts=NEW) for number in range(1, 9, 2)]
    (one,) = WorkbenchState(tmp_path / "r", a, b).compared().questions
    assert (one.answer.ratio.sessions, one.answer.verdict) == ((4, 4), "slower")
    # Not where they are on another device, which nothing alternates with ...
    b = [kept(number * 60, facts=NEW, device="cuda:1") for number in range(1, 9, 2)]
    (one,) = WorkbenchState(tmp_path / "s", a, b).compared().questions
    assert one.answer.ratio.sessions == (1, 1)
    # ... nor where all turns are of one process ...
    a, b = (
        [kept(number * 60, process="one", facts=facts) for number in range(first, 9, 2)]
        for first, facts in ((0, {}), (1, NEW))
    )
    (one,) = WorkbenchState(tmp_path / "t", a, b).compared().questions
    assert one.answer.ratio.sessions == (1, 1)
    # ... nor on another box.
    a = [kept(number * 60) for number in range(0, 8, 2)]
    b = [kept(number * 60, facts={"box": "beta"}) for number in range(1, 9, 2)]
    (one,) = WorkbenchState(tmp_path / "u", a, b).compared().questions
    assert one.answer.ratio.sessions == (1, 1)


def test_the_columns_the_ratio_and_the_interval_agree_in_every_row(tmp_path: Path) -> None:
    a, b = [], []
    for place, factor in enumerate((0.7, 0.96, 1.0, 1.04, 1.3)):
        name = f"w{place}"
        a += _runs(1e-3, 100 * place, workload=name, spread=0.01)
        b += _runs(factor * 1e-3, 100 * place + 50, workload=name, spread=0.01, facts=NEW)
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    assert {one.answer.verdict for one in found.questions} >= {"faster", "slower"}
    for one, cells in zip(found.questions, build_comparison_table(found).rows, strict=True):
        word, speed, interval = map(str, cells[-3:])
        low, high = map(float, interval.split("–"))
        ratio = float(speed.rstrip("x"))
        assert ratio == pytest.approx(one.a.typical_s / one.b.typical_s, rel=0.006)
        assert low - 0.006 <= ratio <= high + 0.006
        if word in ("faster", "slower"):
            assert (low > 1) is (word == "faster") is (high > 1)


def test_holms_correction_is_told_where_it_changes_a_verdict(tmp_path: Path) -> None:
    a, b = _runs(1.041e-3, 0, 4, spread=0.012), _runs(1.0e-3, 50, 4, spread=0.012, facts=NEW)
    (alone,) = WorkbenchState(tmp_path / "r", a, b).compared().questions
    assert alone.answer.verdict in ("faster", "slower")
    assert alone.answer.ratio.p_value is not None
    for place in range(60):
        a += _runs(1e-3, 1000 + 100 * place, 4, workload=f"w{place}", spread=0.012)
        b += _runs(1e-3, 1050 + 100 * place, 4, workload=f"w{place}", spread=0.012, facts=NEW)
    found = WorkbenchState(tmp_path / "s", a, b).compared()
    one = next(each for each in found.questions if each.workload == "matmul")
    assert (one.answer.verdict, one.answer.ratio) == ("unclear", alone.answer.ratio)
    text = " ".join(_text(found, 140).split())
    assert f"unclear ({alone.answer.verdict} alone)" in text
    assert "its interval alone says" in text
    assert "corrected for 61 comparisons (Holm)" in text


def test_marked_runs_stay_and_are_told(tmp_path: Path) -> None:
    hot = _runs(1e-3, 10, 2, warnings=("throttled: heat",))
    found = WorkbenchState(
        tmp_path / "r", [*_runs(1e-3, 0, 3), *hot], _runs(1e-3, 20, facts=NEW)
    ).compared()
    assert found.questions[0].answer.ratio.runs == (5, 5)
    assert "A: 2 of 5 runs with warnings, such as throttled: heat" in _text(found)


def test_clocks_that_a_lower_power_limit_holds_down_are_named(tmp_path: Path) -> None:
    capped = conditions(clock=1410.0, throttle=("idle", "sw_power_cap"))
    a = _runs(1e-3, 0, facts={"power limit": "700 W"})
    b = _runs(1.3e-3, 10, facts={"power limit": "350 W"}, seen=capped)
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    assert found.questions[0].answer.verdict == "slower"
    text = _text(found)
    assert "power limit 700 W → 350 W" in text
    assert "SM clock 1950 MHz → 1410 MHz" in text or "SM clock 1 950 MHz → 1 410 MHz" in text
    assert "clocks limited by nothing → sw_power_cap" in text
    # What was not sampled is not told apart.
    unseen = _runs(1e-3, 20, seen=conditions(clock=None))
    assert "SM clock" not in _text(WorkbenchState(tmp_path / "s", a, unseen).compared())


def test_runs_of_one_process_are_told_to_be(tmp_path: Path) -> None:
    one = _runs(1e-3, process="the same")
    text = _text(WorkbenchState(tmp_path / "r", one, _runs(1e-3, 20)).compared())
    assert "A: all runs are of one process" in text
    assert "B: all runs" not in text


def test_what_answers_the_same_question_is_laid_side_by_side(tmp_path: Path) -> None:
    small: dict[str, Setting] = {"n": 64}
    a = _runs(1e-3) + _runs(1e-4, 100, parameters=small) + _runs(5e-3, 200, device="cpu")
    b = _runs(1e-3, 300, facts=NEW) + _runs(1e-4, 400, parameters=small, device="cuda:1")
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    assert [(one.devices, one.parameters) for one in found.questions] == [
        # Of the other size each side has one GPU alone: that is the one that is meant.
        (("cuda:0", "cuda:0"), '{"n":4096}'),
        (("cuda:0", "cuda:1"), '{"n":64}'),
    ]
    assert found.only == (1, 0)
    assert "on one side only: 1 of A, 0 of B" in _text(found)


def test_a_flag_that_both_sides_have_in_both_settings_is_compared_with_itself(
    tmp_path: Path,
) -> None:
    on, off = {"flag cudnn.benchmark": "on"}, {"flag cudnn.benchmark": "off"}
    a = _runs(1e-3, facts=on) + _runs(2e-3, 100, facts=off)
    b = _runs(2e-3, 200, facts={**off, **NEW}) + _runs(1e-3, 300, facts={**on, **NEW})
    found = WorkbenchState(tmp_path / "r", a, b).compared()
    assert [one.answer.verdict for one in found.questions] == ["same", "same"]
    # Where each side has one setting alone, they are compared and the difference is named.
    text = _text(WorkbenchState(tmp_path / "s", a[:5], b[:5]).compared())
    assert "driver 580.65.06 → 590.10.01, flag cudnn.benchmark on → off" in text


def test_what_is_not_known_of_one_side_is_a_difference(tmp_path: Path) -> None:
    other = [kept(number, facts={"vbios": "96.00"}) for number in range(10, 13)]
    found = WorkbenchState(tmp_path / "r", _runs(1e-3, 0, 3), other).compared()
    assert "VBIOS not known → 96.00" in _text(found)


def test_a_result_is_not_held_against_itself(tmp_path: Path) -> None:
    runs = _runs(1e-3)
    state = WorkbenchState(tmp_path / "r", runs, runs[:2])
    with pytest.raises(SelectionError, match="2 results are in both A and B"):
        state.compared()
    state = WorkbenchState(tmp_path / "one", runs, runs[:1])
    with pytest.raises(SelectionError, match=r"^[0-9a-f]+ is in both A and B: a result cannot"):
        state.compared()


def test_lists_say_once_what_all_share_and_markdown_cannot_be_broken(tmp_path: Path) -> None:
    odd = _runs(1e-3, 50, 1, workload="a|b_c", facts=NEW, warnings=("x", "y"))
    with Database(tmp_path / "r", writing=True) as database:
        database.add([*_runs(1e-3, 0, 3, tags=("night",)), *odd])
        rows, facts = database.read_rows(), database.read_facts()
        table = build_list_table(rows, facts, database.read_tags(rows), total=9)
        shown = format_result(database.read_result(rows[0]), "fine")
    text = "\n".join(plain(line) for line in table_lines(table, {}, 120))
    shared = "1 with warnings (!), machine alpha, GPU NVIDIA H200, torch 2.13.0+cu130"
    assert f"the newest 4 of 9 results, {shared}" in text
    assert text.count("580.65.06") == 3
    assert "590.10.01" in text
    assert "night" in text
    assert "! 1.00 ms" in text
    assert {"warning: x", "driver: 590.10.01"} <= {*shown}
    markdown = format_markdown(rows, facts)
    assert any(line.startswith("| a\\|b\\_c n=4096 | cuda:0 |") for line in markdown)
    assert any("| 3 | ±" in line for line in markdown)
    assert any("| 1 | fewer than 3 runs | x; y |" in line for line in markdown)
    # Each line of the table has as many cells as its head.
    cells = {line.replace("\\|", "").count("|") for line in markdown if line.startswith("|")}
    assert cells == {8}
    assert "left out" not in "".join(markdown)


def test_a_list_is_short_where_results_of_the_cpu_have_no_gpu(tmp_path: Path) -> None:
    with Database(tmp_path / "r", writing=True) as database:
        cpu = kept(60, device="cpu", facts={"gpu": "", "driver": ""})
        database.add([*_runs(1e-3, 0, 1), cpu])
        rows, facts = database.read_rows(), database.read_facts()
    outcome = "2.30x faster with cudnn.benchmark, 151 µs instead of 301 µs"
    rows = [replace(rows[0], kind="comparison", median_s=None, outcome=outcome), *rows[1:]]
    table = build_list_table(rows, facts, {})
    assert "GPU NVIDIA H200, driver 580.65.06, torch 2.13.0+cu130" in table.title
    assert [column.name for column in table.columns] == [
        "id", "when", "workload", "device", "result",
    ]  # fmt: skip
    assert table.rows[0][-1] == "2.30x faster with cudnn.benchmark"


def test_markdown_gives_two_runs_as_their_range_with_their_warnings(tmp_path: Path) -> None:
    with Database(tmp_path / "r", writing=True) as database:
        database.add([*_runs(1e-3, 0, 1, 0.0, warnings=("noisy",)), *_runs(3e-3, 1, 1, 0.0)])
        rows, facts = database.read_rows(), database.read_facts()
    (row,) = [line for line in format_markdown(rows, facts) if line.startswith("| matmul")]
    assert "| 1.00 ms to 3.00 ms | 2 | fewer than 3 runs | 1 of 2 runs, such as: noisy |" in row


def test_markdown_gives_the_median_and_the_range_of_three_runs(tmp_path: Path) -> None:
    with Database(tmp_path / "r", writing=True) as database:
        database.add(_runs(1e-3, 0, 1, 0.0))
        database.add([*_runs(2e-3, 1, 1, 0.0), *_runs(9e-3, 2, 1, 0.0)])
        rows, facts = database.read_rows(), database.read_facts()
    (row,) = [line for line in format_markdown(rows, facts) if line.startswith("| matmul")]
    assert "| 2.00 ms (1.00 ms to 9.00 ms) | 3 |" in row


def test_markdown_counts_the_results_without_a_line(tmp_path: Path) -> None:
    with Database(tmp_path / "r", writing=True) as database:
        database.add(_runs(1e-3, 0, 1))
        (row,), facts = database.read_rows(), database.read_facts()
    compared = replace(row, kind="comparison", median_s=None)
    stopped = replace(row, status="cancelled")
    assert encode_rows([compared])[0]["unavailable"]["median_s"].startswith("a comparison has")
    assert format_markdown([row, compared], facts)[-1] == "1 comparison is left out."
    assert format_markdown([row, stopped, compared], facts)[-1] == (
        "1 comparison and 1 run without a complete time are left out."
    )


def test_a_time_of_another_year_is_its_date() -> None:
    at = parse_time("2026-03-04T05:06")
    assert format_short_time(at, at + DAY) == "03-04 05:06"
    assert format_short_time(at, at + 400 * DAY) == "2026-03-04"


# ---- what is typed -----------------------------------------------------------------------------

DAY = 86400.0


def test_what_is_typed_selects() -> None:
    assert parse_selection("box=a,torch=2.13") == (
        Selection(facts=(("box", "a"), ("torch", "2.13"))),
        (),
    )
    assert parse_selection("nightly, workload=matmul") == (
        Selection(workload="matmul"),
        ("nightly",),
    )
    assert parse_selection("before:7d", now=8 * DAY) == (Selection(before=DAY), ())
    assert parse_selection("since:2026-01-31T10:00")[0].since == parse_time("2026-01-31T10:00")
    assert intersect(Selection(before=2.0, since=1.0), Selection(before=1.5)) == Selection(
        before=1.5, since=1.0
    )
    assert intersect(EVERYTHING, EVERYTHING) == EVERYTHING


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing is named"),
        (" , ", "nothing is named"),
        ("drivr=5", "drivr=5: give an id, a tag, box="),
        ("box=", "box=: give"),
        ("after:7d", "after:7d: give"),
        ("before:soon", "soon: give a date such as"),
        ("workload=a,workload=b", "workload a and workload b: give one of them"),
    ],
)
def test_what_cannot_be_meant_is_one_line(text: str, said: str) -> None:
    with pytest.raises(SelectionError) as found:
        parse_selection(text)
    assert said in str(found.value)
    assert "\n" not in str(found.value)
