"""A command typed on the watch tab: its dialog, its start, and why it cannot start."""

from __future__ import annotations

import pytest

from tests.screens.watch_tab import on_runs
from tests.screens.watched import asked_for, device, kept_run, watched
from tests.tiers import with_variants
from tui.watch.screens.forms import RunCommandScreen


async def test_a_command_is_started_from_the_list_and_its_run_opened() -> None:
    async with on_runs(
        watched(device()), runs=(kept_run(command=("python", "my train.py")),)
    ) as at:
        await at.press("r")
        await at.until(lambda: at.front is RunCommandScreen)
        assert "python 'my train.py'" in at.text
        await at.press(*"python b.py", "enter")
        await at.until(lambda: at.front is not RunCommandScreen)
        await at.until(lambda: bool(asked_for(at.runs, "open")))
        assert asked_for(at.runs, "start") == [("start", "python b.py")]


async def test_a_command_that_cannot_start_is_reported_in_one_line() -> None:
    masked = kept_run(command=("python", "train.py", "--token", "***"))
    async with on_runs(runs=(masked,)) as at:
        await at.press("r")
        await at.until(lambda: at.front is RunCommandScreen)
        await at.press("enter")
        await at.until(lambda: "give a command, such as python train.py" in at.said)
        await at.press(*"a 'b", "enter")
        await at.until(lambda: "No closing quotation" in at.said)
        await at.press(*["backspace"] * 4, *"no-such", "enter")
        await at.until(lambda: "no-such: no such program on PATH" in at.said)
        await at.press("r")
        await at.until(lambda: at.front is RunCommandScreen)
        assert "no-such" in at.text
        await at.press("escape")
        await at.until(lambda: at.front is not RunCommandScreen)
        assert len(asked_for(at.runs, "start")) == 1


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_the_dialog_fits(size: tuple[int, int]) -> None:
    async with on_runs(size=size) as at:
        await at.press("r")
        await at.until(lambda: at.front is RunCommandScreen)
        for words in ("Command", "enter run", "continues when the workbench ends"):
            assert words in at.said
