"""Rehearsals on the tab of watched runs: their dialog, their start and their page."""

from __future__ import annotations

import pytest

from tests.screens.helpers import GIB
from tests.screens.watch_tab import on_runs
from tests.screens.watched import asked_for, device, kept_run, watched
from tests.tiers import VARIANT, with_variants
from tui.watch.runs.rehearsals import RehearsalNote
from tui.watch.screens.forms import RehearseScreen
from tui.watch.session.rehearsal_start import RehearsalRequest


async def test_a_rehearsal_is_started_from_the_list_and_shown() -> None:
    async with on_runs(runs=(kept_run(command=("python", "my train.py")),)) as at:
        await at.press("V")
        await at.until(lambda: at.front is RehearseScreen)
        await at.until(lambda: "The program as you start it" in at.said)
        assert "python 'my train.py'" in at.text
        await at.press("tab")
        await at.until(lambda: "or the memory of one, such as 24G" in at.said)
        await at.press(*"24G", "tab", "2", "tab", "9", "enter")
        await at.until(lambda: at.front is not RehearseScreen)
        await at.until(lambda: bool(asked_for(at.runs, "open")))
        (asked,) = asked_for(at.runs, "rehearse")
        assert asked[1] == RehearsalRequest("python 'my train.py'", "24G", "2", "9")


@VARIANT
async def test_a_rehearsal_shows_its_card_as_full_as_the_process_makes_it() -> None:
    note = RehearsalNote("L4", 1, 1, None, total=22 * GIB)
    async with on_runs(watched(device(), rehearsal=note)) as at:
        await at.press("enter")
        await at.until(lambda: "rehearsed on a simulated L4" in at.said)
        assert "no bar" not in at.text
        assert "use unknown 18.5 GiB" in at.text
        await at.press("i")
        assert "the card is simulated" in at.said
        await at.press("escape", "V")
        await at.until(lambda: at.front is RehearseScreen)


async def test_a_rehearsal_that_cannot_start_says_why_in_one_line() -> None:
    masked = kept_run(command=("python", "train.py", "--token", "***"))
    async with on_runs(runs=(masked,)) as at:
        await at.press("V")
        await at.until(lambda: at.front is RehearseScreen)
        await at.press("enter")
        await at.until(lambda: "give a command, such as python train.py" in at.said)
        await at.press(*"no-such", "enter")
        await at.until(lambda: "no-such: no such program; give its path" in at.said)
        await at.press("V")
        await at.until(lambda: at.front is RehearseScreen)
        assert "no-such" in at.text
        await at.press("escape")
        await at.until(lambda: at.front is not RehearseScreen)
        assert len(asked_for(at.runs, "rehearse")) == 1


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24)]))
async def test_the_rehearsal_dialog_fits(size: tuple[int, int]) -> None:
    async with on_runs(size=size) as at:
        await at.press("V")
        await at.until(lambda: at.front is RehearseScreen)
        for name in ("Command", "Card", "GPUs", "Steps", "enter start"):
            assert name in at.text
