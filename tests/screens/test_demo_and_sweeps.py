"""The demo and the sweeps in the app: keys, what is asked for, and what the screen says."""

from __future__ import annotations

import pytest

from tests.screens.app_helpers import running
from tests.screens.helpers import hello, workload
from tests.screens.results import result
from tui.screens.demo import DemoScreen
from tui.sweeps.sweep import Sweep
from workloads import protocol
from workloads.results import Chart, Series

GROUP = hello(
    workload("first", "group", "the first one"),
    workload("second", "group", "the second one", needs=("2 GPUs",)),
    workload("other", "elsewhere", "another"),
)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20)])
async def test_the_demo_turns_pages_and_runs_each_once(size: tuple[int, int]) -> None:
    async with running(size, "no gpu", GROUP) as app:
        await app.press("D")
        await app.until(lambda: isinstance(app.app.screen, DemoScreen))
        assert "group  1 of 2   the first one" in app.rows[0]
        assert "Look for:" in app.text
        assert "c = a @ b" in app.text
        assert "q end" in app.rows[-1]
        assert app.asked[-1] == ("run", ("first",), None, "quick")
        await app.press("n")
        assert "2 of 2   the second one" in app.rows[0]
        assert "Needs: 2 GPUs" in app.text
        assert [item[0] for item in app.asked] == ["run", "cancel", "run"]
        await app.press("n")
        assert "2 of 2" in app.rows[0]
        await app.press("q")
        assert not isinstance(app.app.screen, DemoScreen)
        assert app.app.demo is None


async def test_a_page_shows_its_result_and_runs_again() -> None:
    async with running((80, 24), "no gpu", GROUP) as app:
        await app.press("D")
        run_id = next(iter(app.session.store.runs))
        chart = Chart("c", "a curve", "n", (1.0, 2.0), (Series("x", "s", (1.0, 2.0)),))
        found = result("first", "cpu", id=run_id, charts=(chart,), limit=None)
        await app.tell(protocol.Finished(found))
        assert "2.71 ms" in app.text
        await app.press("G")
        assert "a curve" in app.text
        await app.press("r")
        assert app.asked[-1] == ("run", ("first",), None, "quick")


async def test_a_group_that_there_is_not_is_said() -> None:
    async with running((80, 24), "no gpu", GROUP) as app:
        app.app.open_demo("nonesuch")
        await app.until(lambda: "There is no group nonesuch" in app.text)
        assert "group, elsewhere" in app.text
        await app.press("escape")
        assert app.app.demo is None


async def test_the_editor_takes_a_sweep_and_runs_it() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("equals_sign")
        await app.until(lambda: "Parameters of matmul" in app.text)
        assert "256..8192x2 multiplies" in app.text
        await app.press(*"64..", "enter")
        assert "is no range" in app.text or "is not allowed" in app.text
        await app.press("f5")
        assert "is no range" not in app.text
        await app.press("home", "ctrl+k", *"64,128", "tab", "space", "right", "space", "enter")
        (asked,) = [item for item in app.asked if item[0] == "set_sweep"]
        sweep = asked[2]
        assert isinstance(sweep, Sweep)
        assert sweep.texts == {"size": "64,128", "dtype": "float32,bfloat16"}
        assert len(app.session.store.runs) == 4
        assert "sweep" in app.row("matmul")
        await app.press("equals_sign")
        await app.until(lambda: "Parameters of matmul" in app.text)
        assert "64,128" in app.text
        assert "+bfloat16" in app.text


async def test_the_log_says_how_to_come_back() -> None:
    async with running((80, 24), "no gpu") as app:
        await app.press("l")
        assert app.pane == "log"
        assert "escape back" in app.rows[-1]
        await app.press("escape")
        assert app.pane == "workloads"
        assert "escape" not in app.rows[-1]
