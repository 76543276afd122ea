"""What is typed into the workbench: the filter, parameters, the palette, help."""

from __future__ import annotations

import pytest
from textual import events

from tests.screens.app_helpers import running
from tests.screens.helpers import hello, workload
from tests.screens.results import DEFAULTS, compared, ran
from tests.tiers import VARIANT
from tui.kit.dialogs import Palette, TextScreen


async def test_a_dialog_leaves_what_it_is_about_in_sight() -> None:
    async with running((80, 24), "one gpu", hello(*FORTY)) as on:
        await on.press("equals_sign")
        assert on.row("Parameters of many_0")
        assert on.row("▸ many_0")
        await on.press("escape", "G", "equals_sign")
        assert on.row("Parameters of many_39")
        assert on.row("▸ many_39")


async def test_what_is_typed_in_the_same_breath_as_the_slash_goes_into_the_filter() -> None:
    async with running() as on:
        # As one write of a terminal: no key waits for the one before it.
        for key, character in (("slash", "/"), *((letter, letter) for letter in "conv r")):
            on.app.post_message(events.Key("space" if character == " " else key, character))
        await on.until(lambda: "filter: conv r" in on.text)
        assert on.session.asked == []


async def test_the_filter_narrows_while_typing_and_escape_drops_it() -> None:
    async with running() as on:
        await on.press("slash", *"conv")
        assert on.row("filter: conv (1 of 3)")
        assert not on.row("matrix product")
        assert on.row("escape clear it")
        await on.press("escape")
        assert on.row("matmul")
        assert not on.row("filter:")


async def test_the_detail_follows_the_cursor_while_a_filter_is_typed() -> None:
    async with running((120, 40)) as on:
        await on.press("slash", *"conv")
        assert on.workbench.workload == "conv2d"
        assert "Detail   conv2d" in on.row("Detail")
        await on.press("x")
        assert not on.workbench.situation().has_selection
        assert "No workload matches convx" in on.row("Escape clears the filter.")
        assert "Detail   conv2d" not in on.text
        await on.press("escape")
        assert on.workbench.workload == "matmul"
        assert "Detail   matmul" in on.row("Detail")


@pytest.mark.parametrize("leave", ["i", "F", "m"])
@VARIANT
async def test_who_comes_back_to_a_kept_filter_comes_to_the_table(leave: str) -> None:
    async with running((120, 40)) as on:
        await on.press("slash", *"conv", "enter", leave, "escape", "r")
        assert [asked[1] for asked in on.asked] == [("conv2d",)]
        assert "filter: conv" in on.row("Workloads")


FORTY = [workload(f"many_{number}", title="one of many") for number in range(40)]


@VARIANT
async def test_the_cursor_s_row_stays_on_the_screen() -> None:
    async with running((120, 40), "one gpu", hello(*FORTY)) as on:
        await on.press(*["j"] * 12)
        assert on.row("many_12")
        for size in ((80, 24), (120, 40), (60, 18), (200, 55), (80, 24)):
            await on.resize(*size)
            assert on.workbench.workload == "many_12"
            assert on.row("many_12"), f"away at {size}"
        # Dropping a filter brings rows back above it.
        await on.press("slash", *"many_3", "enter", "G", "escape")
        assert on.workbench.workload == "many_39"
        assert on.row("many_39")
        # Who scrolls away from it is left there.
        table = on.workbench.workloads.table
        table.scroll_to(y=0, animate=False)
        await on.settle()
        await on.tell(*ran("many_39"))
        assert table.scroll_offset.y == 0


@pytest.mark.parametrize("keys", [["escape"], ["enter", "escape"], ["enter", "r", "escape"]])
@VARIANT
async def test_the_row_that_a_filter_found_stays_under_the_cursor(keys: list[str]) -> None:
    async with running((120, 40), "one gpu", hello(*FORTY)) as on:
        await on.press("slash", *"many_35", *keys)
        assert "filter:" not in on.text
        assert on.workbench.workload == "many_35"
        assert on.row("▸ many_35")
        assert "Detail   many_35" in on.row("Detail")


async def test_letters_that_are_typed_are_no_commands() -> None:
    async with running() as on:
        await on.press("slash", *"rRxeq:?")
        assert on.asked == []
        assert on.row("filter: rRxeq:?")


async def test_parameters_are_edited_and_applied() -> None:
    async with running() as on:
        await on.press("enter")
        assert on.row("Parameters of matmul")
        await on.press(*"512", "down", "right", "enter")
        assert on.asked == [("set_parameters", "matmul", {"size": 512, "dtype": "bfloat16"})]
        assert on.row("matmul* size=512 bf")


async def test_a_bad_value_gets_one_line_and_stays_in_the_editor() -> None:
    async with running() as on:
        await on.press("equals_sign", *"7", "enter")
        assert on.row("size: 7 is not allowed; whole number, 16 to 65536")
        assert on.asked == []
        await on.press("f5", "enter")
        assert on.asked == [("set_parameters", "matmul", DEFAULTS)]


async def test_escape_leaves_the_parameters_as_they_were() -> None:
    async with running() as on:
        await on.press("equals_sign", *"512", "escape")
        assert on.asked == []
        assert on.row("matmul size=4096")


async def test_help_begins_with_keys_and_explains_the_focused_pane() -> None:
    async with running((120, 100)) as on:
        await on.press("question_mark")
        assert on.rows[1].strip("│ ") == "Keys of Workloads"
        assert on.row("Run all, after a confirmation.")
        assert on.row("What Workloads shows")
        await on.press("question_mark", "F", "question_mark")
        assert on.rows[1].strip("│ ") == "Keys of Backends"
        assert on.row("What Backends shows")
        await on.press("slash", *"reset peaks")
        assert on.row("0 ")
        assert not on.row("Run all workloads")
        await on.press("enter", "escape")
        assert on.row("Workloads")


async def test_i_explains_a_flag_and_lists_its_warnings() -> None:
    async with running((120, 40), "two gpus", *compared()) as on:
        await on.press("F")
        flag = on.workbench.backend.body.flag
        known = {each.name: each for each in on.session.state.runs.known_flags}
        assert flag is not None
        await on.press("i")
        assert isinstance(on.app.screen, TextScreen)
        assert on.row(flag)
        assert on.row(known[flag].about)
        assert "no warning" not in on.text


async def test_enter_explains_the_memory_and_the_palette_opens_by_either_key() -> None:
    async with running((120, 40), "two gpus") as on:
        await on.press("m", "enter")
        assert isinstance(on.app.screen, TextScreen)
        await on.press("escape", "ctrl+p")
        assert isinstance(on.app.screen, Palette)
        await on.press("escape", "colon")
        assert isinstance(on.app.screen, Palette)


async def test_in_a_field_a_colon_is_a_character_and_ctrl_p_opens_the_palette() -> None:
    async with running((120, 40), "two gpus") as on:
        await on.press("slash", "colon")
        assert on.app.screen is on.workbench
        assert on.workbench.workloads.table.pattern == ":"
        await on.press("ctrl+p")
        assert isinstance(on.app.screen, Palette)
        # A second one would lie on top of the first.
        await on.press("ctrl+p", "escape")
        await on.until(lambda: on.app.screen is on.workbench)


async def test_the_palette_lists_what_is_valid_and_runs_it() -> None:
    async with running((80, 24)) as on:
        await on.press("colon")
        await on.until(lambda: bool(on.row("r              Run the workload or group")))
        assert "Cancel the row's runs" not in on.text
        await on.press(*"run all")
        await on.until(lambda: "R              Run all" in on.text and "Filter:" not in on.text)
        await on.press("enter")
        await on.until(lambda: "Run 3 workloads?" in on.text)
        await on.press("y")
        assert on.asked == [("run", ("matmul", "mlp", "conv2d"), None, "normal")]


async def test_the_palette_finds_how_to_open_a_snapshot() -> None:
    async with running((100, 30)) as on:
        await on.press("colon", *"snapshot")
        await on.until(lambda: "Show or open a snap" in on.text and "Run the" not in on.text)
        assert on.row("o              Open a snapshot file")
        await on.press(*" open", "enter")
        await on.until(lambda: "Open a snapshot" in on.text)


@pytest.mark.parametrize(
    ("keys", "name"),
    [((), "Workloads"), (("2",), "Memory"), (("3",), "Snapshot"), (("4",), "Processes")],
)
async def test_help_begins_with_the_screen_it_was_asked_on(
    keys: tuple[str, ...], name: str
) -> None:
    async with running((100, 130)) as on:
        await on.press(*keys, "question_mark")
        rows = [row.strip("│ ") for row in on.rows]
        assert rows[1].startswith(f"Keys of {name}")
        assert "Keys of all screens" in rows
