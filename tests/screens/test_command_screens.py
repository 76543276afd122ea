"""A key's command is done by the screen that is looked at, whatever lies over it."""

from __future__ import annotations

from textual.widgets import OptionList

from tests.screens.app_helpers import running
from tui.kit.dialogs import HelpScreen


async def test_a_dialog_without_a_field_keeps_the_key_of_the_filter_from_what_is_below() -> None:
    async with running((80, 24)) as on:
        await on.press("v", "question_mark", "slash")
        assert isinstance(on.app.screen, HelpScreen)
        await on.press("escape")
        assert on.pane == "devices"


async def test_the_palette_s_commands_are_done_by_the_screen_that_it_lay_over() -> None:
    async with running((80, 24)) as on:
        await on.press("colon", *"zoom")
        await on.until(lambda: "Zoom the focused pane" in on.text)
        await on.press("enter")
        await on.until(lambda: on.workbench.zoomed)


async def test_a_command_of_two_screens_is_done_by_the_one_in_front() -> None:
    async with running((80, 24)) as on:
        await on.press("r")
        assert on.asked[-1][0] == "run"
        await on.press("D", "r")
        assert [asked[0] for asked in on.asked[1:]] == ["run_to_present", "run_to_present"]


async def test_the_memory_tab_has_the_keys_of_memory_and_not_those_of_the_table() -> None:
    async with running((80, 24)) as on:
        await on.press("2", "e", "0", "r", "R")
        assert [asked[0] for asked in on.asked] == ["empty_cache", "reset_peaks"]


async def test_no_page_is_turned_in_the_palette_before_its_list_is_laid_out() -> None:
    async with running((80, 24)) as on:
        await on.press("colon", *"zoom")
        await on.until(lambda: "Zoom the focused pane" in on.text)
        palette = on.app.screen
        actual = palette.query_one(OptionList)
        actual.display = False
        await on.settle()
        # The framework looks the highlighted command up in lines that it has not made.
        actual.set_options(["first", "second"])
        actual.highlighted = 0
        for page in ("page_down", "page_up"):
            assert not await on.app.run_action(f"command_list('{page}')", palette)
        assert on.app.screen is palette
