"""The tab of runs under the watch, over a scripted run: its keys, what they ask for, its sizes."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.screens.app_helpers import PromptApp, Running, running
from tests.screens.every_screen import SNAPSHOT
from tests.screens.fakes import FakeSession
from tests.screens.helpers import GIB, NOW, STRANGER, clock, gpu, gpu_process, make_store, sample
from tests.screens.results import queued
from tests.screens.watch_tab import TWO, on_runs
from tests.screens.watched import (
    NO_AGENT,
    ScriptedRuns,
    agent,
    an_oom,
    asked_for,
    device,
    kept_run,
    process_log,
    ran_out,
    unread,
    watched,
)
from tests.screens.watching import figures
from tests.tiers import VARIANT, with_variants
from tui.kit.dialogs import EndScreen, HelpScreen
from tui.monitor.messages import DeviceMemory
from tui.snapshots.commands import VIEWS
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import ThreadStack
from tui.watch.runs.agents import ProcessStacks, RankStacks
from tui.watch.screens import tab as watch
from tui.watch.screens.dialogs import LeaveOrEndScreen, StacksScreen, TwoSnapshotsScreen
from tui.watch.screens.panes import RunPane, WatchedMemoryPane
from tui.watch.state.run import Mark


async def test_enter_opens_a_run_of_the_list_after_a_run_that_was_open_from_the_start() -> None:
    scripted = ScriptedRuns(kept_run(), opens=TWO)
    scripted.state = TWO
    async with running((80, 24), "one gpu", runs=scripted) as on:
        await on.press("5")
        await on.until(lambda: "Memory of" in on.text)
        await on.press("escape")
        await on.until(lambda: "Watched runs   1 stored" in on.text)
        await on.press("enter")
        assert scripted.asked[-1] == ("open", kept_run().folder.name)


@VARIANT
async def test_the_plot_of_an_oom_is_over_the_steps_that_its_conclusion_counts() -> None:
    async with on_runs(watched(ran_out(), unread())) as at:
        await at.press("enter")
        assert "GiB over steps" in at.text
        await at.press("A")
        assert "GiB over time in s" in at.text
    few = replace(ran_out(), points=ran_out().points[-3:])
    async with on_runs(watched(few)) as at:
        await at.press("enter")
        assert "GiB over time in s" in at.text


async def test_the_plot_keeps_its_lower_edge_when_the_lines_above_it_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = device()
    oom = an_oom(handled=None, snapshot=None, why_no_snapshot="the disk is full")
    failed = watched(replace(row, log=process_log(ooms=(oom,), oom_count=1)))
    async with on_runs(watched(row), size=(120, 40)) as at:
        await at.press("enter")
        monkeypatch.setattr(WatchedMemoryPane, "on_resize", lambda *_: None)
        before = at.app.screen.query_one(WatchedMemoryPane).size.height
        at.runs.state = failed
        at.app.screen.query_one(RunPane).state_changed()
        await at.on.settle()
        assert at.app.screen.query_one(WatchedMemoryPane).size.height < before
        assert "0\u2514" in at.text


async def test_from_the_list_to_a_run_to_its_output_and_back() -> None:
    async with on_runs() as at:
        assert "Watched runs   2 stored" in at.rows[1]
        assert "exit code 1" in at.on.row("python old.py")
        for key in ("snapshot", "history", "freeze"):
            assert key not in at.rows[-1]
        await at.press("enter")
        assert at.was_asked("open", kept_run().folder.name)
        assert "train.py" in at.rows[1]
        assert "running" in at.rows[1]
        assert "2.0 GiB" in at.on.row("    777 ")
        assert f"Memory of {STRANGER}" in at.text
        assert "cached 1.5" in at.on.row("allocated 2.0")
        assert "allocated grows 6.1 MiB/step, 5.9 to 6.3 (95%)" in at.text
        assert "GiB over time in s" in at.text
        await at.press("A")
        assert "GiB over steps" in at.text
        # The next row says why it has no figures.
        await at.press("down")
        assert "Memory of 5001" in at.text
        assert "allocated, reserved n/a: Yama's ptrace_scope is 2; sudo it" in at.text
        await at.press("l")
        assert at.app.front is not None
        assert at.app.front.focused_pane == "watched-output"
        await at.until(lambda: "step 240 loss" in at.text)
        assert "Memory of" not in at.text
        at.runs.tell(replace(TWO, output=(*TWO.output, "and one more")))
        await at.until(at.on_page("and one more"))
        # Who has scrolled up is left there; the end follows again.
        await at.press("k", "k")
        assert "and one more" not in at.text
        at.runs.tell(replace(TWO, output=(*TWO.output, "and one more", "that is below")))
        await at.press("tab", "shift+tab")
        assert "that is below" not in at.text
        await at.press("G")
        await at.until(at.on_page("that is below"))
        await at.press("escape")
        assert "Memory of 5001" in at.text
        await at.press("escape")
        assert at.was_asked("close")
        await at.until(at.on_page("python old.py"))
        await at.press("question_mark")
        assert at.front is HelpScreen
        assert "Keys of Watch" in at.text


async def test_it_is_sampled_fast_until_another_tab_is_open_and_around_a_dialog_too() -> None:
    async with on_runs() as at:
        await at.press("question_mark")
        assert at.front is HelpScreen
        assert [told[1] for told in at.runs.asked if told[0] == "looked at"][-1] is True
        await at.press("escape", "1")
        assert [told[1] for told in at.runs.asked if told[0] == "looked at"][-1] is False


@VARIANT
async def test_its_agent_is_asked_where_there_is_one_and_else_it_is_said_why() -> None:
    async with on_runs() as at:
        await at.press("enter", "M")
        assert at.was_asked("snapshot", STRANGER)
        assert "was asked for a snapshot" in at.text
        await at.press("H")
        assert at.was_asked("record", STRANGER, True)
        at.runs.tell(watched(device(agent=agent(recording=True)), unread()))
        await at.until(at.on_page("records"))
        await at.press("H")
        assert at.was_asked("record", STRANGER, False)
        asked = len(at.runs.asked)
        await at.press("down", "M")
        assert f"a snapshot needs the agent in 5001: {NO_AGENT.split(';')[0]}" in at.said
        await at.press("H")
        at.runs.tell(watched(ran_out()))
        await at.until(at.on_page("ran out"))
        await at.press("M")
        assert f"needs a running process: {STRANGER}" in at.said
        assert len(at.runs.asked) == asked
        await at.press("z")
        assert at.was_asked("freeze", True)
        assert "z follows it again" in at.text
        await at.press("z")
        assert at.was_asked("freeze", False)


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("i", signal.SIGINT),
        pytest.param("t", signal.SIGTERM, marks=VARIANT),
        pytest.param("k", signal.SIGKILL, marks=VARIANT),
        ("enter", None),
    ],
)
async def test_a_run_is_ended_by_the_signal_that_was_chosen(
    key: str, sent: signal.Signals | None
) -> None:
    async with on_runs() as at:
        await at.press("enter", "x")
        assert at.front is EndScreen
        for words in ("SIGINT", "SIGTERM", "SIGKILL", "process group"):
            assert words in at.text
        await at.press(key, "escape")
        assert asked_for(at.runs, "end") == ([("end", sent)] if sent else [])
        if sent:
            assert f"{sent.name} sent to process group 4700" in at.text
        at.runs.tell(replace(TWO, replayed=True))
        await at.until(at.on_page("end unknown"))
        await at.press("enter", "x")
        assert at.front is not EndScreen
        assert "x end: needs an open run that is running on this machine" in at.said


@pytest.mark.parametrize(
    ("key", "sent", "code"),
    [("l", False, 130), ("e", True, None), ("escape", False, None), ("ctrl+c", False, 130)],
)
async def test_ctrl_c_on_a_run_that_goes_on_asks(key: str, sent: bool, code: int | None) -> None:
    async with on_runs() as at:
        await at.press("enter", "ctrl+c")
        assert at.front is LeaveOrEndScreen
        said = " ".join(at.said.replace("│", " ").split())
        assert "torchrun --nproc-per-node 2 train.py --lr 1e-3 is still running" in said
        assert "gpu-workbench watch 20260101-120000-77 shows it again" in said
        await at.press(key)
        assert asked_for(at.runs, "end") == ([("end", signal.SIGINT)] if sent else [])
        assert at.app.return_code == code
        assert at.app.is_running == (code is None)


async def test_ctrl_c_does_not_ask_about_a_run_that_has_ended_or_may_not_be_ended() -> None:
    async with on_runs(replace(TWO, replayed=True)) as at:
        await at.press("enter", "ctrl+c")
        assert at.app.return_code == 130
    async with on_runs(readonly=True) as at:
        await at.press("enter", "ctrl+c")
        assert at.app.return_code == 130


@VARIANT
async def test_the_footer_has_no_key_that_would_only_say_why_it_does_nothing() -> None:
    async with on_runs(watched(unread()), size=(200, 55)) as at:
        await at.press("enter")
        for label in ("M snapshot", "H history", "K where", "A time/steps", "c compare", "o open"):
            assert label not in at.rows[-1]
        assert "x end" in at.rows[-1]
        await at.press("M")
        assert "a snapshot needs the agent in 5001" in at.said
    async with on_runs(watched(device()), size=(200, 55)) as at:
        await at.press("enter")
        for label in ("M snapshot", "H history", "K where", "A time/steps", "c compare", "o open"):
            assert label in at.rows[-1]


async def test_readonly_offers_nothing_that_acts_on_the_run() -> None:
    async with on_runs(readonly=True) as at:
        await at.press("enter")
        asked = len(at.runs.asked)
        await at.press("M", "H", "x")
        assert len(at.runs.asked) == asked
        assert at.front is not EndScreen
        for label in (" snapshot ", " history ", " end "):
            assert label not in at.rows[-1]
        assert " output " in at.rows[-1]


async def test_an_ended_run_offers_only_what_can_work() -> None:
    ended = replace(kept_run(), ended=NOW - 1, code=0)
    async with on_runs(watched(device(), run=ended, over=True)) as at:
        await at.press("enter")
        asked = len(at.runs.asked)
        for key, label in (("M", "snapshot"), ("H", "history"), ("K", "where"), ("x", "end")):
            assert f" {key} {label} " not in at.rows[-1]
            await at.press(key)
            assert f"{key} {label}: needs an open run that is running on this machine" in at.said
        assert len(at.runs.asked) == asked
        for key in ("l output", "i explain"):
            assert key in at.rows[-1]
        await at.press("c")
        assert "the process has left one" in at.said
        assert "M takes one" not in at.said


async def test_escape_returns_from_a_snapshot_to_its_run() -> None:
    oom = an_oom(snapshot=SNAPSHOT)
    row = replace(ran_out(), marks=(), log=process_log(ooms=(oom,), oom_count=1))
    async with on_runs(watched(row)) as at:
        await at.press("enter", "o")
        await at.until(lambda: at.app.current_mode == "snapshot")
        assert "esc" in at.rows[-1]
        await at.press("escape")
        await at.until(lambda: at.app.current_mode == "watch")
        assert f"Memory of {STRANGER}" in at.text
        # From the tab's own key, Escape has nowhere to return to.
        await at.press("3", "escape")
        assert at.app.current_mode == "snapshot"


@pytest.mark.parametrize("view", with_variants(["timeline"], ["verdict", "sites", "flame", "map"]))
async def test_the_key_of_a_view_opens_the_run_s_snapshot_there(view: str) -> None:
    key = next(each.key for each in VIEWS if each.id == view)
    oom = an_oom(snapshot=SNAPSHOT)
    row = replace(ran_out(), marks=(), log=process_log(ooms=(oom,), oom_count=1))
    async with on_runs(watched(row)) as at:
        await at.press("enter", key)
        assert at.app.snapshot is not None
        session = at.app.snapshot.session
        await at.until(lambda: session.ready)
        assert session.view == view
        await at.press("escape")
        await at.until(lambda: at.app.current_mode == "watch")


async def test_an_oom_opens_with_its_verdict_and_the_exception_s_text() -> None:
    oom = an_oom(snapshot=SNAPSHOT, text="CUDA out of memory. Tried to allocate 2.00 GiB.")
    row = replace(ran_out(), marks=(), log=process_log(ooms=(oom,), oom_count=1))
    async with on_runs(watched(unread(), row), size=(120, 40)) as at:
        await at.press("enter")
        # The cursor is on the process that ran out, though it is not the first.
        assert f"Memory of {STRANGER}" in at.text
        banner = at.said
        assert f"{STRANGER}, rank 0: 2.0 GiB requested on cuda:0" in banner
        assert "o opens the verdict" in banner
        await at.press("o")
        assert at.app.snapshot is not None
        session = at.app.snapshot.session
        await at.until(lambda: session.ready)
        await at.until(at.on_page("from: the exception that ended the process"))
        assert "exception's text: the exception that ended the process" in at.rows[2]
        assert session.main.store.paths == (str(SNAPSHOT),)
        assert session.main.store.oom_text == oom.text
        assert "Tried to allocate 2.00 GiB." in at.text


async def test_two_of_a_process_s_snapshots_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    two: list[tuple[str, str]] = []
    paths = [Path(f"/runs/{number}.pickle") for number in range(3)]
    marks = tuple(
        Mark(NOW - 30 + number, 100 + number, "snapshot", "", path)
        for number, path in enumerate(paths)
    )
    async with on_runs(watched(device(marks=marks[:1]))) as at:
        monkeypatch.setattr(at.app, "compare_snapshots", lambda *each: two.append(each))
        await at.press("enter", "c")
        assert "has left one: M takes one" in at.said
        at.runs.tell(watched(device(marks=marks[:2])))
        await at.press("c")
        assert two.pop() == (str(paths[0]), str(paths[1]))
        at.runs.tell(watched(device(marks=marks)))
        await at.press("c")
        assert at.front is TwoSnapshotsScreen
        assert "step 101" in at.text
        await at.press("enter")
        assert two.pop() == (str(paths[0]), str(paths[2]))
        await at.press("c", "down", "space", "enter")
        assert two.pop() == (str(paths[1]), str(paths[2]))
        await at.press("c", "escape")
        assert not two
    assert at.was_asked("stop")


@VARIANT
async def test_the_difference_of_two_snapshots_is_shown_as_what_has_grown() -> None:
    async with on_runs(size=(120, 40)) as at:
        at.app.compare_snapshots(str(SNAPSHOT), str(SNAPSHOT))
        assert at.app.snapshot is not None
        session = at.app.snapshot.session
        await at.until(lambda: session.ready and session.both.store.loaded is not None)
        assert session.view == "difference"
        assert session.both.store.paths == (str(SNAPSHOT), str(SNAPSHOT))


async def test_q_leaves_the_run_and_says_where_it_is_kept() -> None:
    async with on_runs() as at:
        await at.press("enter", "q")
        assert not at.app.is_running
    # Whoever has started the app says where it is.
    assert at.app.run_left is not None
    assert at.app.run_left.folder.name == kept_run().folder.name
    async with on_runs(TWO, queued()) as at:
        await at.press("enter", "q")
        assert "Quit and cancel the runs?" in at.text
        assert "is still running; it is stored in" in at.said


async def test_a_run_is_opened_at_the_start_and_only_then_is_there_a_session() -> None:
    session = FakeSession(make_store("one gpu"))
    app = PromptApp(session, clock=clock)
    runs = app.scripted_runs = ScriptedRuns(kept_run(), opens=TWO)
    app.open_run_at_start(kept_run())
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        at = Running(app, session, pilot)
        await at.until(lambda: f"Memory of {STRANGER}" in at.text)
        assert "Run   torchrun" in at.rows[1]
        assert "train.py" in at.rows[1]
        assert "2.0 GiB" in at.row("    777 ")
        await at.press("down")
        await at.until(lambda: "Memory of 5001" in at.text)
        assert runs.asked[0][0] == "devices"
        assert ("looked at", True) in runs.asked
        await at.press("1")
        assert runs.asked[-1] == ("looked at", False)


@pytest.mark.parametrize(
    ("cells", "beside"), [(60, set()), (80, {"peak"}), (130, {"peak", "process", "retries"})]
)
async def test_the_account_has_the_figures_that_the_row_has_no_column_for(
    cells: int, beside: set[str]
) -> None:
    flushed = device(figures=figures(STRANGER, alloc_retries=3))
    async with on_runs(watched(flushed), size=(cells, 60)) as at:
        await at.press("enter")
        words = [row.strip(" │").split() for row in at.rows]
        head = next(row for row in words if row[:1] == ["rank"])
        assert beside == {"peak", "process", "retries"} & {*head}
        text = at.app.screen.query_one(WatchedMemoryPane).clipboard_text()
        account = text[text.index("account ") :]
        assert ("alloc retries" in account) == ("retries" not in beside)
        assert "this process" in account
        peaks = account[account.index("peaks ") :]
        assert bool(re.search(r"allocated +3.0 GiB", peaks)) == ("peak" not in beside)
        assert re.search(r"device used +20.7 GiB sampled", peaks)


async def test_the_list_of_runs_says_once_how_many_there_are_and_what_opens_one() -> None:
    async with on_runs(runs=()) as at:
        assert "stored" not in at.rows[1]
        assert "o open" not in at.rows[-1]
    async with on_runs() as at:
        assert "2 stored" in at.rows[1]
        assert "enter open" in at.rows[-1]
        assert "o open" not in at.rows[-1].replace("enter open", "")
        await at.press("o")
        assert asked_for(at.runs, "open")
        assert "o open" in at.rows[-1]


async def test_a_run_that_cannot_be_opened_says_why_and_none_says_how_to_have_one() -> None:
    async with on_runs(None) as at:
        await at.press("enter")
        assert "is gone: choose" in at.text
        assert "2 stored" in at.rows[1]
    async with on_runs(runs=()) as at:
        assert "gpu-workbench watch -- python train.py" in at.text
        assert "No watched run is stored" in at.text


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24), (200, 55)]))
async def test_at_each_size_nothing_is_wider_than_the_screen(size: tuple[int, int]) -> None:
    async with on_runs(watched(device(), unread()), size=size) as at:
        await at.press("enter")
        assert all(len(row) <= size[0] for row in at.rows)
        assert len(at.rows) == size[1]
        assert "? help" in at.rows[-1]
        assert f"Memory of {STRANGER}" in at.text
        beside = next((row for row in at.rows if "GiB over time" in row), "")
        assert (len(beside) > 90) == (size[0] >= 110), "the plot stands beside the account"
        assert ("Output  " in at.text) == (size[1] >= 45)
        await at.on.resize(80, 24)
        assert "GiB over time" in at.text
        await at.on.resize(40, 12)
        assert "? help" in at.rows[-1]


@pytest.mark.parametrize(
    "size", with_variants([(60, 16), (120, 40)], [(60, 20), (80, 24), (200, 55)])
)
@VARIANT
async def test_where_there_is_room_an_ended_process_has_its_plot_alone(
    size: tuple[int, int],
) -> None:
    used, free = int(138.8 * GIB), int(0.4 * GIB)
    memory = DeviceMemory(used + free + int(0.6 * GIB), used, free, int(0.6 * GIB))
    rows = (gpu_process(STRANGER, int(138.6 * GIB)),)
    then = sample(gpu(memory=memory, processes=rows))
    async with on_runs(watched(ran_out(), unread()), then, size=size) as at:
        await at.press("enter")
        assert all(len(row) <= size[0] for row in at.rows)
        has_plot = "GiB over steps" in at.text
        assert has_plot == (size[1] > 20)
        assert not (has_plot and "account ─" in at.text)
        await at.press("i")
        assert "torch's allocator ─" in at.text


async def test_the_list_follows_runs_that_others_start_and_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "STORED_RUNS_S", 0.05)
    async with on_runs(None) as at:
        assert "2 stored" in at.rows[1]
        at.runs.runs[:] = [kept_run(ended=NOW - 1, code=3)]
        await at.until(at.on_page("ended with exit code 3"))
        assert "1 stored" in at.rows[1]


async def test_k_shows_where_each_rank_is_and_asks_again() -> None:
    frames = (
        Frame("/x/site-packages/torch/distributed/c10d.py", 9, "all_reduce"),
        Frame("/home/ada/train.py", 41, "train"),
    )
    stuck = (ThreadStack("MainThread", False, True, frames),)
    async with on_runs() as at:
        await at.press("enter")
        await at.press("K")
        await at.until(lambda: "no process is running" in at.said)
        assert at.front is StacksScreen
        at.runs.ranks = (
            RankStacks(11, "0", ProcessStacks("box-11-3", 11, 7, stuck)),
            RankStacks(12, "1", None, "its agent does not answer"),
        )
        await at.press("K")
        await at.until(lambda: "rank 1 (12): its agent does not answer" in at.said)
        assert "rank 0 (11), 7 optimizer steps: at train.py:41 in train, in c10d.py:9" in at.said
        assert "train.py:41 train" in at.text
        assert len(asked_for(at.runs, "stacks")) == 2
        deep = tuple(Frame("/home/ada/train.py", 100 + row, f"call{row}") for row in range(60))
        at.runs.ranks = (
            RankStacks(
                11,
                "0",
                ProcessStacks("box-11-3", 11, 7, (ThreadStack("MainThread", False, True, deep),)),
            ),
        )
        await at.press("r")
        await at.until(lambda: "call1" in at.text)
        assert "call59" not in at.text
        await at.press("end")
        await at.until(lambda: "call59" in at.text)
        await at.press("escape")
        assert at.front is not StacksScreen
