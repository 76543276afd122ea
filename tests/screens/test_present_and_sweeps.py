"""The presentation and the sweeps in the app: keys, what is asked for, and what the screen says."""

from __future__ import annotations

import pytest

from tests.screens.app_helpers import Running, running
from tests.screens.every_screen import scenes
from tests.screens.helpers import hello, workload
from tests.screens.results import DEFAULTS, ran, result
from tests.tiers import with_variants
from tui.kit.digits import draw_large
from tui.runs.screens.present import PresentScreen
from tui.runs.state.events import ParametersSet
from tui.runs.state.parameters import Sweep
from workloads.protocol import messages
from workloads.protocol.results import Chart, Series

GROUP = hello(
    workload("first", "group", "the first one"),
    workload("second", "group", "the second one", needs=("2 GPUs",)),
    workload("other", "elsewhere", "another"),
)


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_the_demo_turns_pages_and_runs_each_once(size: tuple[int, int]) -> None:
    async with running(size, "no gpu", GROUP) as app:
        await app.press("D")
        await app.until(lambda: isinstance(app.app.screen, PresentScreen))
        assert "group  1 of 2   the first one" in app.rows[0]
        assert "Look for:" in app.text
        assert "c = a @ b" in app.text
        assert "q end" in app.rows[-1]
        assert app.asked[-1] == ("run_to_present", "first")
        await app.press("n")
        assert "2 of 2   the second one" in app.rows[0]
        assert "Needs: 2 GPUs" in app.text
        assert [item[0] for item in app.asked] == ["run_to_present", "cancel", "run_to_present"]
        await app.press("n")
        assert "2 of 2" in app.rows[0]
        await app.press("q")
        assert not isinstance(app.app.front, PresentScreen)
        assert app.app.screen is app.workbench


ASKED = workload(
    "placement",
    "first_steps",
    "placing tensors",
    question="Does a tensor move in place?",
    choices=("yes", "no"),
    right_choice=2,
    answer="No: its .to returns a copy.",
    script="print(1)\nprint(2)\n",
)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_page_of_the_first_steps_ends_with_its_question_and_enter_answers(
    size: tuple[int, int],
) -> None:
    other = workload("tiny", "first_steps", "a tiny model")
    async with running(size, "no gpu", hello(workload(), ASKED, other)) as app:
        await app.press("end", "D")
        await app.until(lambda: isinstance(app.app.screen, PresentScreen))
        assert "first_steps  1 of 2   placing tensors" in app.rows[0]
        assert "The script  y copies it" in app.text
        assert "print(2)" in app.text
        await app.press("G")
        assert "Question: Does a tensor move in place?" in app.text
        assert "enter shows the answer" in app.text
        assert "enter answer" in app.rows[-1]
        assert "2 no" in app.text
        assert "▸ 2 no" not in app.text
        assert "returns a copy" not in app.text
        await app.press("enter")
        assert "▸ 2 no" in app.text
        assert "Answer: No: its .to returns a copy." in app.text
        assert "enter" not in app.rows[-1]
        await app.press("n")
        assert "Question" not in app.text
        assert "enter" not in app.rows[-1]


async def test_a_page_shows_its_result_and_runs_again() -> None:
    async with running((120, 40), "no gpu", GROUP) as app:
        await app.press("D")
        run_id = next(iter(app.session.state.runs.book))
        chart = Chart("c", "a curve", "n", (1.0, 2.0), (Series("x", "s", (1.0, 2.0)),))
        found = result("first", "cpu", id=run_id, charts=(chart,), limit=None)
        await app.tell(messages.Finished(found))
        assert "2.71 ms" in app.text
        large = draw_large("2.71 ms")
        assert len(large) == 3
        assert all(row.rstrip() in app.text for row in large)
        assert "for a call on cpu" in app.text
        await app.press("G")
        assert "a curve" in app.text
        await app.press("r")
        assert app.asked[-1] == ("run_to_present", "first")
        await app.resize(80, 16)
        assert not any(row.strip() and row in app.text for row in large)


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_a_run_whose_page_is_left_is_cancelled_and_the_next_page_says_so(
    size: tuple[int, int],
) -> None:
    def said(app: Running) -> str:
        return " ".join(app.text.split())

    async with running(size, "no gpu", GROUP) as app:
        await app.press("D", "n")
        first, second = app.session.state.runs.book
        assert ("cancel", first) in app.asked
        words = "first cancelled: you left its page"
        assert f"{words}; left turns back and runs it again" in said(app)
        await app.tell(messages.Rejected(first, "before it began", "cancelled"))
        done = result("second", "cpu", id=second, limit=None)
        await app.tell(messages.Finished(done))
        await app.press("left")
        assert "cancelled" not in app.text
        assert [item for item in app.asked if item[0] == "run_to_present"][-1][1] == "first"
        await app.press("q")
        assert words in said(app)


async def test_a_run_of_the_user_s_is_not_the_demo_s_to_cancel() -> None:
    async with running((80, 24), "no gpu", GROUP) as app:
        await app.press("r", "D")
        mine = next(iter(app.session.state.runs.book))
        await app.press("n", "q")
        cancelled = [item[1] for item in app.asked if item[0] == "cancel"]
        assert mine not in cancelled
        assert len(cancelled) == 2


async def test_a_page_runs_with_the_defaults_and_names_what_the_table_has_instead() -> None:
    edited = ParametersSet("first", {**DEFAULTS, "size": 64})
    async with running((80, 24), "no gpu", GROUP, edited) as app:
        await app.press("D")
        assert "first  size = 4096  dtype = float32  (the defaults, not stored)" in app.text
        assert "your table has size = 64: not used here" in app.text
        (run,) = app.session.state.runs.book.values()
        assert run.request.parameters == DEFAULTS
        await app.press("n")
        assert "your table has" not in app.text


async def test_a_demo_leaves_the_user_s_results_as_they_were() -> None:
    mine = ran("first", "cpu", median=0.5, limit=None)
    async with running((80, 24), "no gpu", GROUP, *mine) as app:
        await app.press("D")
        run_id = list(app.session.state.runs.book)[-1]
        await app.tell(messages.Finished(result("first", "cpu", 0.25, id=run_id, limit=None)))
        assert "250 ms" in app.text
        await app.press("q")
        assert "500 ms" in app.row("first size")


async def test_a_group_that_there_is_not_is_said() -> None:
    async with running((80, 24), "no gpu", GROUP) as app:
        app.app.push_screen(PresentScreen(app.app, "nonesuch"))
        await app.until(lambda: "There is no group nonesuch" in app.text)
        assert "group, elsewhere" in app.text
        await app.press("escape")
        assert app.app.screen is app.workbench


async def test_the_editor_takes_a_sweep_and_runs_it() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("equals_sign")
        await app.until(lambda: "Parameters of matmul" in app.text)
        assert "64..8192x2, 1..9+2 or 256,1024" in app.text
        await app.press("f6")
        assert "64..8192x2" in app.row("│ size")
        await app.press("tab", "f6")
        assert "+bfloat16" in app.text
        await app.press("f5", "shift+tab", *"64..", "enter")
        assert "is no range" in app.text or "is not allowed" in app.text
        await app.press("f5")
        assert "is no range" not in app.text
        await app.press("home", "ctrl+k", *"64,128", "tab", "space", "right", "space")
        assert "enter measures these 4 points now" in app.text
        await app.press("enter")
        (asked,) = [item for item in app.asked if item[0] == "set_sweep"]
        sweep = asked[2]
        assert isinstance(sweep, Sweep)
        assert sweep.texts == {"size": "64,128", "dtype": "float32,bfloat16"}
        assert len(app.session.state.runs.book) == 4
        assert "sweep" in app.row("matmul")
        await app.press("equals_sign")
        await app.until(lambda: "Parameters of matmul" in app.text)
        assert "64,128" in app.text
        assert "+bfloat16" in app.text


@pytest.mark.parametrize("keys", [["r"], ["equals_sign", "enter"]])
async def test_a_sweep_that_has_not_ended_is_not_queued_again(keys: list[str]) -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("equals_sign", "home", "ctrl+k", *"64,128", "enter")
        queued = len(app.session.state.runs.book)
        await app.press(*keys)
        assert len(app.session.state.runs.book) == queued
        await app.until(lambda: "the sweep of matmul has not ended; x cancels it" in app.text)
        for run_id in app.session.state.runs.pending():
            await app.tell(messages.Rejected(run_id, "before it began", "cancelled"))
        await app.press(*keys)
        assert len(app.session.state.runs.book) == 2 * queued


async def test_f6_does_not_replace_what_was_typed() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("equals_sign", "home", "ctrl+k", *"100", "f6")
        assert "100 stays: clear the field, then F6 fills in a sweep" in app.text
        assert "100" in app.row("│ size")
        await app.press("home", "ctrl+k", "f6")
        assert "64..8192x2" in app.row("│ size")


async def test_what_f6_fills_in_is_typed_over_or_cleared() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("equals_sign", "f6", *"64,128")
        assert " 64,128 " in app.row("│ size")
        await app.press("f5", "f6", "ctrl+u")
        assert "64" not in app.row("│ size")


async def test_a_dialog_does_not_move_what_it_lies_over() -> None:
    events = scenes()["swept"].events
    for size in ((80, 24), (120, 40)):
        async with running(size, "empty", *events) as app:
            while app.workbench.workloads.table.workload != "matmul":
                await app.press("down")
            before = app.rows
            # At 120x40 the whole plot stands in the pane, with its axis.
            assert size == (80, 24) or "16        64        256" in before[-3]
            await app.press("equals_sign")
            assert "Parameters of matmul" in app.rows[1]
            cut = next(at for at, row in enumerate(app.rows) if "F6 sweep" in row) + 1
            assert app.rows[0] == before[0]
            assert app.rows[cut:-1] == before[cut:-1]
            # The keys of the workbench wait until the dialog is closed.
            assert not app.rows[-1]


async def test_a_range_of_one_value_is_refused_and_changes_nothing() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("equals_sign", "home", "ctrl+k", *"256..256x2", "enter")
        assert "256..256x2 is one value, 256" in app.text
        assert "64..8192x2, 1..9+2 or 256,1024" in app.text
        await app.press("escape")
        assert not [item for item in app.asked if str(item[0]).startswith("set_")]


async def test_what_is_not_the_default_is_marked_in_the_editor_until_f5() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("equals_sign")
        assert "*" not in app.row("dtype")
        assert "not the default" not in app.text
        await app.press("home", "ctrl+k", *"64", "tab", "right")
        assert "64" in app.row("size *")
        assert "dtype *" in app.row("dtype")
        assert "* not the default" in app.text
        await app.press("enter")
        assert app.row("matmul*")
        await app.press("equals_sign", "f5")
        assert "*" not in app.row("dtype")
        await app.press("enter")
        assert not app.row("matmul*")


async def test_the_log_says_how_to_come_back() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("l")
        assert app.pane == "log"
        assert "escape back" in app.rows[-1]
        await app.press("escape")
        assert app.pane == "workloads"
        assert "escape" not in app.rows[-1]
