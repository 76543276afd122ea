"""The results tab: list, filter, marks, comparison, history, changes; and what it must not do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.message import Message
from textual.widgets import Input

from tests.results.samples import BEGAN, HOUR, kept
from tests.screens.app_helpers import Running, running
from tests.screens.helpers import HOSTILE
from tests.tiers import VARIANT, with_variants
from tui.kit.lists import KeyedList
from tui.results.screens.panes import ComparisonPane, HistoryPane
from tui.results.screens.tab import ResultsTab
from tui.results.store import database, queries, store_path
from tui.results.store.database import Database
from tui.results.store.records import StoredResult
from tui.results.views.row_texts import format_date

SIZES = with_variants([(60, 20), (120, 40)], [(80, 24), (200, 55)])
OLD, NEW = {"driver": "570.1"}, {"driver": "590.2"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's results are; nothing is there yet."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    return store_path()


def _two_environments() -> Iterator[StoredResult]:
    """``matmul`` is 10% slower with the newer driver, ``conv2d`` is as it was."""
    for number in range(4):
        wobble, ago = 1 + number / 300, (3 - number) * HOUR
        yield kept(number - ago, median=1e-3 * wobble, facts=OLD)
        yield kept(100 + number - ago, median=1.1e-3 * wobble, facts=NEW)
        yield kept(200 + number - ago, workload="conv2d", median=5e-3 * wobble, facts=OLD)
        yield kept(300 + number - ago, workload="conv2d", median=5e-3 * wobble, facts=NEW)


def fill(place: Path, *ones: StoredResult) -> None:
    with Database(place, writing=True) as state:
        state.add(ones or list(_two_environments()))


def tab(at: Running) -> ResultsTab:
    assert isinstance(at.app.front, ResultsTab)
    return at.app.front


async def opened(at: Running) -> None:
    """Open the tab and wait until its list is read."""
    await at.press("6")
    await read(at)


async def read(at: Running) -> None:
    """Whatever is read or written is done and drawn."""
    await at.until(
        lambda: (
            not any(worker.is_running for worker in at.app.workers if worker.node is at.app.front)
        )
    )
    await at.settle()


def said(at: Running) -> str:
    """Return the text on the screen as one line."""
    return " ".join(at.text.replace("▌", " ").replace("│", " ").split())


@pytest.mark.parametrize("size", SIZES)
async def test_the_list_has_the_newest_first_and_the_whole_of_one_below(
    size: tuple[int, int], place: Path
) -> None:
    fill(place)
    async with running(size) as at:
        await opened(at)
        assert "Results   16" in at.rows[1]
        rows = [row for row in at.rows if "conv2d" in row or "matmul" in row]
        assert "conv2d" in rows[0]
        assert "590.2" in said(at)
        assert at.row("run of 2001-09-09")
        assert all(len(row) <= size[0] for row in at.rows)


async def test_a_wide_screen_has_the_times_of_the_chosen_workload_beside_the_list(
    place: Path,
) -> None:
    fill(place)
    async with running((200, 55)) as at:
        await opened(at)
        assert "8 runs over time" in at.row("when")
        assert "conv2d n=4096" in at.row("when")
        await at.press("end")
        await read(at)
        assert "matmul n=4096" in at.row("when")
        await at.resize(120, 40)
        assert "runs over time" not in at.text


async def test_the_date_is_written_once_for_each_session(place: Path) -> None:
    fill(place, *(kept(60 * number, process="one-1") for number in range(3)), kept(9000))
    async with running((120, 40)) as at:
        await opened(at)
        dates = [row for row in at.rows if "matmul" in row and "2001-09-09" in row]
        assert len(dates) == 2, "one for each session"


async def test_an_empty_store_says_how_results_come(place: Path) -> None:
    async with running() as at:
        await opened(at)
        assert "No results are stored yet" in said(at)
        assert "gpu-workbench run" in said(at)
        assert not place.exists()


@VARIANT
async def test_without_a_store_or_with_readonly_it_says_why_nothing_is_kept(place: Path) -> None:
    async with running() as at:
        at.app.stores_results = False
        await opened(at)
        assert "--no-store" in said(at)
    async with running(readonly=True) as at:
        await opened(at)
        assert "--readonly" in said(at)
    assert not place.exists()


async def test_a_recording_looks_at_no_results(place: Path) -> None:
    fill(place)
    async with running() as at:
        at.app.replay = True
        await opened(at)
        assert "A recording stores no results" in said(at)
        assert "matmul" not in said(at)


@VARIANT
async def test_a_filter_takes_the_words_of_the_command_and_any_others(place: Path) -> None:
    fill(place, *_two_environments(), kept(400, workload="attention", tags=("nightly",)))
    async with running((120, 40)) as at:
        await opened(at)
        for words, many in (
            ("driver=570", 8),
            ("matmul", 8),
            ("mat driver=590", 4),
            ("nightly", 1),
            ("cuda", 17),
            ("cpu", 0),
        ):
            await at.press("slash")
            field = tab(at).pane.query_one("#result-filter", Input)
            field.value = words
            await at.settle()
            await read(at)
            await at.press("enter")
            assert f"   {many} of 17" in at.rows[1] or many == 17, words
            assert ("None of 17 results matches cpu" in said(at)) is (many == 0)
            await at.press("escape")
            await read(at)
        assert "Results   17" in at.rows[1]


async def test_a_filter_that_is_not_finished_leaves_the_list(place: Path) -> None:
    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        await at.press("slash")
        field = tab(at).pane.query_one("#result-filter", Input)
        field.value = "driver="
        await at.settle()
        await read(at)
        assert "driver=: give an id" in said(at)
        assert at.row("590.2")
        field.value = "driver=570"
        await at.settle()
        await read(at)
        assert "give an id" not in said(at)
        assert "8 of 16" in at.rows[1]


async def test_two_are_marked_and_their_environments_compared_over_what_both_have(
    place: Path,
) -> None:
    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        await at.press("c")
        assert "mark two results with space" in said(at)
        await at.press("end", "space", "home", "space", "c")
        await read(at)
        assert "2 common workloads" in at.rows[1]
        assert "B is slower in 1, the same in 1" in at.rows[2]
        assert at.row("matmul   median of a run")
        await at.press("down")
        assert at.row("conv2d   median of a run")
        await at.press("up")
        assert at.row("A: alpha, cuda:0, driver 570.1, torch 2.13.0+cu130")
        assert at.row("B: alpha, cuda:0, driver 590.2")
        assert "1.10x slower" in at.row("matmul")
        assert "├" in at.row("matmul n=4096")
        assert "  same  " in at.row("conv2d n=4096")
        assert "changed from A to B (not necessarily causes): driver 570.1 → 590.2" in said(at)
        assert "are expected by chance" in said(at)
        axis = at.row("B is  ")
        assert axis.index("x slower") < axis.index("x faster")
        assert "matmul on cuda:0 1.10x slower than A, 95% interval 1." in said(at)
        await at.press("enter")
        await read(at)
        assert "8 runs over time" in at.rows[1]
        await at.press("escape")
        assert "B vs A" in at.rows[1]
        await at.press("escape")
        assert "2 results marked" in at.rows[1]


async def test_results_of_different_workloads_have_one_sentence_and_no_table(place: Path) -> None:
    fill(place, kept(0, facts=OLD), kept(1, workload="conv2d", facts=NEW))
    async with running((120, 40)) as at:
        await opened(at)
        await at.press("end", "space", "home", "space", "c")
        await read(at)
        assert "A and B have no workload in common" in said(at)
        assert "B is" not in at.text
        assert "differences" not in at.text


async def test_a_comparison_of_a_flag_cannot_be_marked(place: Path) -> None:
    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        pane = tab(at).pane
        pane.rows = [replace(pane.rows[0], kind="comparison"), *pane.rows[1:]]
        await at.press("space")
        assert "this row compares a flag on and off" in said(at)
        assert not pane.marked


async def test_a_key_that_comes_late_puts_nothing_over_what_has_the_place(place: Path) -> None:
    async def comes(at: Running, message: Message) -> None:
        at.app.screen.post_message(message)
        await at.settle()
        await read(at)

    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        await at.press("end", "space", "home", "space", "c")
        await read(at)
        results, questions = tab(at).pane.table, tab(at).query_one(ComparisonPane).table
        for _ in range(2):
            await comes(at, KeyedList.Chosen(questions))
        await comes(at, KeyedList.Chosen(results))
        assert len(tab(at).query(HistoryPane)) == 1
        await at.press("escape", "escape")
        assert tab(at).pane.display
        assert not tab(at).query(HistoryPane)


async def test_what_another_program_has_deleted_is_said_and_not_shown(place: Path) -> None:
    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        await at.press("end", "space", "home", "space")
        with Database(place, writing=True) as state:
            state.delete([row.number for row in state.read_rows()])
        await at.press("c")
        await read(at)
        assert "has been deleted" in said(at)
        assert tab(at).pane.display
        await at.press("enter")
        await read(at)
        assert not tab(at).query(HistoryPane)


async def test_a_third_mark_takes_the_place_of_the_second_and_space_takes_one_back(
    place: Path,
) -> None:
    fill(place)
    async with running((80, 24)) as at:
        await opened(at)
        await at.press("space", "space", "space")
        rows = tab(at).pane
        assert [rows.letter(row) for row in rows.rows[:3]] == ["A", "", "B"]
        await at.press("home", "space")
        assert [rows.letter(row) for row in rows.rows[:3]] == ["", "", "A"]


async def test_results_of_one_environment_stand_for_their_sessions(place: Path) -> None:
    fill(
        place,
        *(kept(number, process=f"one-{number}") for number in range(3)),
        *(kept(10 + number, median=1.2e-3, process=f"other-{number}") for number in range(3)),
    )
    async with running((120, 40)) as at:
        await opened(at)
        await at.press("end", "space", "home", "space", "c")
        await read(at)
        assert "the session of 2001" in at.row("A: alpha")
        # Where the minutes are the same, the seconds tell them apart.
        assert at.row("A: alpha").partition("A:")[2] != at.row("B: alpha").partition("B:")[2]
        # A session each is no evidence, however many runs it has.
        assert "  unclear  " in at.row("matmul n=4096")
        assert "unclear: one session per side (3 and 3 runs)" in said(at)
        assert "none that is known" in said(at)
        await at.press("escape", "space", "down", "space", "space")
        rows = tab(at).pane
        rows.marked = rows.rows[:2]
        await at.press("c")
        await read(at)
        assert "both are of one session" in said(at)


async def test_throttled_runs_are_marked_in_the_list_and_in_the_comparison(place: Path) -> None:
    hot = "held back by heat (sw_thermal_slowdown)"
    fill(place, *_two_environments(), kept(500, facts=NEW, warnings=(hot,)))
    async with running((120, 40)) as at:
        await opened(at)
        assert "! 1.00 ms" in at.row("  matmul  ")
        assert at.row(f"! {hot}")
        await at.press("space", "end", "space", "c")
        await read(at)
        assert "A: 1 of 5 runs with warnings, such as held back by heat" in said(at)


@pytest.mark.parametrize("size", SIZES)
@VARIANT
async def test_a_history_has_a_tick_where_the_driver_changed(
    size: tuple[int, int], place: Path
) -> None:
    fill(place, *_two_environments(), kept(900, median=1e-3, facts={"gpu uuid": "GPU-2"}))
    async with running(size) as at:
        await opened(at)
        pane = tab(at).pane
        pane.table.go_to(next(i for i, row in enumerate(pane.rows) if row.at == BEGAN + 103))
        await at.press("enter")
        await read(at)
        text = said(at)
        assert "8 runs over time matmul" in text
        assert "in ms over time" in text
        assert "▾" in text
        assert "driver 590.2" in text
        await at.press("G")
        assert "1 more run not shown (other machine, device or flags)" in said(at)
        await at.press("escape")
        assert "Results   17" in at.rows[1]


async def test_one_run_alone_has_no_history(place: Path) -> None:
    fill(place, kept(1))
    async with running() as at:
        await opened(at)
        await at.press("enter")
        await read(at)
        assert "there is nothing to plot yet" in said(at)


async def test_what_came_from_a_stranger_is_text_everywhere(place: Path) -> None:
    name = f"evil\x1b[31m{HOSTILE}"
    fill(
        place,
        kept(1, workload=name, facts={**OLD, "box": name}, tags=(name,)),
        kept(2, workload=name, facts={**NEW, "box": name}, warnings=(name,)),
    )
    async with running((200, 55)) as at:
        await opened(at)
        assert "[cuda:0] aten::conv[NHWC]" in said(at)
        for keys in (("x",), ("escape", "space", "space", "c"), ("enter",)):
            await at.press(*keys)
            await read(at)
            assert "[cuda:0] aten::conv[NHWC]" in said(at)
            assert "\x1b" not in at.text


async def test_a_tag_is_given_and_a_wrong_name_is_told(place: Path) -> None:
    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        await at.press("space", "space", "number_sign", *"night", "enter")
        await read(at)
        with Database(place) as state:
            assert state.count_tags() == {"night": 2}
        assert "2 results tagged night" in said(at)
        assert at.row("night")
        await at.press("number_sign", *"a=b", "enter")
        await read(at)
        assert "a tag cannot contain a comma, colon or equals sign" in said(at)
        await at.press("number_sign", "escape")
        with Database(place) as state:
            assert state.count_tags() == {"night": 2}


async def test_results_are_deleted_only_after_a_yes(place: Path) -> None:
    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        newest = tab(at).pane.rows[0]
        await at.press("delete")
        assert "Delete 1 result?" in said(at)
        assert f"{format_date(newest.at)} {newest.workload} on {newest.device}" in said(at)
        await at.press("escape")
        await read(at)
        assert "Results   16" in at.rows[1]
        await at.press("delete", "y")
        await read(at)
        assert "Results   15" in at.rows[1]
        with Database(place) as state:
            assert newest.id not in {row.id for row in state.read_rows()}


async def test_the_order_goes_through_newest_workload_and_time(place: Path) -> None:
    fill(place)
    async with running((120, 40)) as at:
        await opened(at)
        for order, first in (("workload", "conv2d"), ("time", "conv2d"), ("", "conv2d")):
            await at.press("s")
            assert (f"by {order}" in at.rows[1]) is bool(order)
            assert first in at.rows[3]


# ---- a store that is not well, or not to be touched --------------------------------------------


def _rubbish(place: Path) -> None:
    place.parent.mkdir(parents=True)
    place.write_bytes(b"rubbish" * 1000)


def _newer(place: Path) -> None:
    fill(place)
    with sqlite3.connect(place) as raw:
        raw.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("spoil", "words"), [(_rubbish, "it is damaged"), (_newer, "it is of version 99")]
)
@VARIANT
async def test_a_store_that_cannot_be_read_is_a_line_and_the_tab_lives(
    spoil: Callable[[Path], None], words: str, place: Path
) -> None:
    spoil(place)
    async with running((120, 40)) as at:
        await opened(at)
        assert words in said(at)
        await at.press("c", "space", "number_sign", "x", "enter", "s")
        place.unlink()
        await at.press("1")
        await opened(at)
        assert "No results are stored yet" in said(at)


async def test_a_store_that_another_program_holds_is_told_and_nothing_is_lost(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(place)
    monkeypatch.setattr(database.Database.__init__, "__kwdefaults__", _impatient())
    async with running((120, 40)) as at:
        await opened(at)
        with sqlite3.connect(place, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            await at.press("delete", "y")
            await read(at)
            assert "another program has locked it" in said(at)
            other.execute("ROLLBACK")
        assert "Results   16" in at.rows[1]
        await at.press("delete", "y")
        await read(at)
        assert "Results   15" in at.rows[1]


def _impatient() -> dict[str, object]:
    return {**(database.Database.__init__.__kwdefaults__ or {}), "busy_s": 0.01}


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    found = {each.name: each.stat() for each in (folder, *folder.iterdir())}
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in found.items()}


async def test_with_readonly_it_is_looked_at_and_nothing_is_written(place: Path) -> None:
    fill(place)
    before = _state(place.parent)
    async with running((120, 40), readonly=True) as at:
        await opened(at)
        assert "Results   16" in at.rows[1]
        assert "tag" not in at.rows[-1]
        assert "delete" not in at.rows[-1]
        await at.press("number_sign", "x", "end", "space", "home", "space", "c")
        await read(at)
        assert "slower in 1" in at.rows[2]
        await at.press("enter")
        await read(at)
        assert "8 runs over time" in at.rows[1]
    assert _state(place.parent) == before


async def test_the_screen_goes_on_while_the_store_is_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(place)
    go_on, listed = threading.Event(), queries.read_listing

    def slow(*arguments: object, **more: object) -> queries.Listing:
        assert go_on.wait(60)
        return listed(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(queries, "read_listing", slow)
    async with running((120, 40)) as at:
        try:
            await at.press("6")
            assert "reading the stored results" in said(at)
            await at.press("1")
            assert at.workbench
            await at.press("6")
        finally:
            go_on.set()
        await at.until(lambda: "Results   16" in at.rows[1])
