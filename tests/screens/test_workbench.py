"""The workbench as plain text, and the keys that drive it."""

from __future__ import annotations

import pytest
from textual import events

from tests.screens.app_helpers import running
from tests.screens.every_screen import scenes
from tests.screens.helpers import NO_DRIVER, NOW, count_words, gpu, hello, sample, workload
from tests.screens.results import DEFAULTS, compare_queued, compared, progress, queued, ran
from tui.core.events import RunnerStatus
from tui.kit.dialogs import Palette, TextScreen
from workloads.protocol import messages
from workloads.protocol.results import Rates

# ---- what the panes show -----------------------------------------------------------------------


async def test_the_first_screen_of_eight_idle_gpus_has_few_words() -> None:
    async with running((120, 40), "empty", *scenes()["first"].events) as on:
        assert on.row("cuda:7")
        assert on.row("transfer mib=64 pinned")
        assert count_words(on.rows) <= 115


async def test_a_run_is_seen_from_its_queue_to_its_result() -> None:
    async with running() as on:
        assert "speed-up" not in on.text
        await on.tell(queued())
        assert "queued" in on.row("matmul")
        await on.tell(progress())
        assert "213 µs  block 7" not in on.row("matmul")
        assert "cuda:0 block 7 ±1.1%, ≤4 s left" in on.row("matmul")
        await on.tell(*ran()[1:])
        assert on.row("matmul").split()[-4:] == ["76%", "float32", "ok", "±0.4%"]


async def test_a_comparison_is_seen_from_its_queue_to_its_verdict() -> None:
    async with running() as on:
        await on.tell(compare_queued())
        assert on.row("off→on").endswith("queued")
        await on.tell(*compared()[1:])
        assert "1.44x faster (1.40–1.47, 5 of 5 pairs)" in on.text


async def test_a_runner_that_cannot_be_used_says_so_with_advice() -> None:
    async with running((80, 24), "no gpu") as on:
        await on.tell(messages.Unusable("no module named 'torch'", "give --python a path"))
        assert "nothing can be run" in on.rows[0]
        assert "Nothing can be run: no module named 'torch'" in on.text
        assert "give --python a path" in on.text


async def test_without_torch_the_memory_of_the_first_gpu_is_shown() -> None:
    gone = messages.Unusable("no module named 'torch'", "give --python a path")
    async with running((80, 24), "empty", sample(gpu(), gpu(1)), gone) as on:
        assert on.row("cuda:0").startswith("▸")
        assert "Memory   cuda:0" in on.text
        await on.press("d")
        assert on.row("cuda:1").startswith("▸")


async def test_the_backends_take_no_empty_rows_from_the_table() -> None:
    async with running((80, 44), "one gpu") as on:
        pane = on.workbench.backend
        assert pane.size.height == 2
        await on.press("F")
        assert pane.size.height == 9
        await on.press("escape")
        await on.tell(*compared())
        assert pane.size.height == 3
        assert on.row("1.44x faster")


@pytest.mark.parametrize("size", [(120, 40), (160, 60)])
async def test_backends_without_a_comparison_are_a_title_with_the_switches(
    size: tuple[int, int],
) -> None:
    async with running(size) as on:
        pane, detail = on.workbench.backend, on.workbench.detail
        assert pane.outer_size.height == 1
        assert detail.outer_size.width == size[0]
        assert "Backends   cuDNN [x] enabled  [ ] benchmark" in on.text
        await on.press("F")
        assert pane.outer_size.height > 4
        assert detail.outer_size.width < size[0]
        await on.press("w")
        assert pane.outer_size.height == 1
        await on.tell(*compared())
        assert pane.outer_size.height > 4


async def test_the_whole_reason_of_no_driver_is_there_where_there_is_no_gpu() -> None:
    async with running((80, 24), "no gpu") as on:
        assert " ".join(NO_DRIVER.split()) in " ".join(on.text.split())


async def test_a_runner_that_died_is_a_line_until_the_next_is_ready() -> None:
    async with running() as on:
        await on.tell(
            RunnerStatus(
                "restarting", "the runner ended: signal 9", "it starts anew", "/state/9.txt"
            )
        )
        assert "the runner ended: signal 9" in on.text
        assert "Report: /state/9.txt" in on.text
        await on.tell(RunnerStatus("ready"))
        assert "signal 9" not in on.text


async def test_the_screen_follows_the_session_without_a_key() -> None:
    async with running() as on:
        on.session.tell(queued())
        await on.until(lambda: "queued" in on.row("matmul"))


async def test_figures_are_seen_to_grow_old_where_nothing_new_comes() -> None:
    late = [0.0]
    async with running(now=lambda: NOW + late[0]) as on:
        assert " old" not in on.text
        late[0] = 75.0
        await on.until(lambda: "the monitor has sent nothing for 1 min" in on.text)
        late[0] = 135.0
        await on.until(lambda: "the monitor has sent nothing for 2 min" in on.text)
        await on.press("4")
        late[0] = 195.0
        await on.until(lambda: "old figures, read 3 min ago" in on.text)


# ---- keys --------------------------------------------------------------------------------------


async def test_r_runs_the_selected_workload() -> None:
    async with running() as on:
        await on.press("r", "down", "down", "r")
        assert on.asked == [
            ("run", ("matmul",), None, "normal"),
            ("run", ("mlp",), None, "normal"),
        ]


async def test_r_on_the_heading_of_a_group_runs_the_group() -> None:
    async with running() as on:
        await on.press("up", "r")
        assert on.asked == [("run", ("matmul",), None, "normal")]


async def test_capital_r_runs_what_the_filter_leaves() -> None:
    async with running() as on:
        await on.press("R", "n")
        assert on.asked == []
        await on.press("R")
        assert "3 runs on cpu and cuda:0" not in on.text
        assert "6 runs on cpu and cuda:0, about 50 s." in on.text
        assert "Run 3 workloads?" in on.text
        # One alone is not asked about.
        await on.press("y", "slash", *"conv", "enter", "R")
        assert [asked[1] for asked in on.asked] == [("matmul", "mlp", "conv2d"), ("conv2d",)]


async def test_how_far_many_runs_are_stands_below_the_table() -> None:
    waiting = [queued(name, device) for name in ("matmul", "mlp") for device in ("cpu", "cuda:0")]
    async with running((80, 24), "one gpu", *waiting) as on:
        assert "about 30 s left" in on.row("0 of 4 runs")
        await on.tell(*ran("matmul", "cpu", started_at=0.0, ended_at=2.0)[1:])
        assert "about 20 s left" in on.row("1 of 4 runs")
        await on.tell(
            *(messages.Rejected(i, "stopped", "cancelled") for i in on.app.state.runs.requested)
        )
        assert not on.row("runs")


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
async def test_q_asks_while_something_runs(key: str) -> None:
    async with running((80, 24), "one gpu", *ran("matmul"), queued("mlp")) as on:
        await on.press(key)
        assert "Quit while runs go on?" in on.text
        assert "1 result of this session is lost" in on.text
        await on.press("n")
        assert on.app.return_code is None
        assert "Quit" not in on.text
        await on.press(key, "y")
        assert on.app.return_code == 0


async def test_q_ends_at_once_where_nothing_runs() -> None:
    async with running((80, 24), "one gpu", *ran("matmul")) as on:
        await on.press("q")
        assert on.app.return_code == 0


async def test_a_dialog_leaves_what_it_is_about_in_sight() -> None:
    async with running((80, 24), "one gpu", hello(*FORTY)) as on:
        await on.press("equals_sign")
        assert on.row("Parameters of many_0")
        assert on.row("▸ many_0")
        await on.press("escape", "G", "equals_sign")
        assert on.row("Parameters of many_39")
        assert on.row("▸ many_39")


async def test_x_cancels_the_selected_workload_s_runs_first_and_then_all() -> None:
    async with running((80, 24), "one gpu", queued("mlp"), queued("matmul", "cpu")) as on:
        await on.press("x")
        assert on.asked == [("cancel", "matmul on cpu")]
        await on.tell(*ran("matmul", "cpu")[1:])
        await on.press("x")
        assert on.asked[1:] == [("cancel", "")]


async def test_x_in_the_backend_pane_cancels_comparisons() -> None:
    async with running((80, 24), "one gpu", queued(), compare_queued()) as on:
        await on.press("F", "x")
        assert on.asked == [("cancel", "cudnn.benchmark of conv2d")]


async def test_capital_x_cancels_all() -> None:
    async with running((80, 24), "one gpu", queued(), compare_queued()) as on:
        await on.press("X")
        assert on.asked == [("cancel", "")]


async def test_x_is_not_offered_where_nothing_runs() -> None:
    async with running() as on:
        await on.press("x", "X")
        assert on.asked == []
        assert " x cancel" not in on.rows[-1]


async def test_space_switches_the_flag_under_the_cursor() -> None:
    async with running() as on:
        await on.press("F", "right", "space")
        assert on.asked == [("set_flag", "cudnn.benchmark", True)]
        assert "[x] benchmark" in on.row("cuDNN [x]")
        await on.press("space")
        assert on.asked[1:] == [("set_flag", "cudnn.benchmark", False)]


async def test_c_compares_again_what_was_compared() -> None:
    async with running((80, 24), "one gpu", *compared("cudnn.enabled", "mlp")) as on:
        await on.press("c")
        assert on.asked == [("compare", "mlp", "cudnn.enabled")]


async def test_c_compares_the_convolutions_where_nothing_was_compared() -> None:
    async with running() as on:
        await on.press("c")
        assert on.asked == [("compare", "conv2d", "cudnn.enabled")]


async def test_d_goes_round_the_devices() -> None:
    async with running((80, 24), "two gpus") as on:
        await on.press("d")
        assert "cuda:1" in on.row("name  ")
        await on.press("d", "d")
        keys = [view.key for view in on.session.state.machine.devices]
        assert [asked[1] for asked in on.asked] == [keys[1], keys[2], keys[0]]


async def test_e_and_p_are_about_the_selected_device() -> None:
    async with running() as on:
        key = on.session.state.machine.selected
        await on.press("e", "0")
        assert on.asked == [("empty_cache", key), ("reset_peaks", key)]


async def test_space_folds_a_group_and_enter_unfolds_it() -> None:
    async with running() as on:
        await on.press("up", "space")
        assert "▸ health: Is this machine healthy? (1 workload)" in on.text
        assert not on.row("matmul")
        await on.press("enter")
        assert on.row("matmul")


async def test_first_steps_are_folded_until_they_are_opened_or_found() -> None:
    catalogue = hello(workload(), workload("placement", "first_steps", "placing tensors"))
    async with running((120, 40), "one gpu", catalogue) as on:
        assert "▸ first_steps: What should I know first? (1 workload)" in on.text
        assert not on.row("placement")
        await on.press("slash", *"placing")
        assert on.row("placement")
        await on.press("escape", "end", "space")
        assert on.row("placement")


async def test_the_cursor_stays_on_its_workload_when_the_catalogue_changes() -> None:
    async with running() as on:
        await on.press("down", "down")
        assert on.row("▸ mlp")
        infos = on.session.state.runs.catalogue
        await on.tell(messages.Hello(1, 1, "3.12", "python", infos[1:]))
        assert on.row("▸ mlp")


async def test_y_sends_the_figures_to_the_terminal() -> None:
    async with running((80, 24), "one gpu", *ran()) as on:
        await on.press("y")
        assert "median 2.71 ms" in on.app.clipboard
        await on.until(lambda: "sent to the terminal" in on.text)


# ---- panes -------------------------------------------------------------------------------------

SIZES = [(80, 24), (60, 20), (120, 40), (200, 50), (80, 50), (120, 24)]


@pytest.mark.parametrize("size", SIZES)
async def test_tab_reaches_every_pane_and_shows_it_between_header_and_footer(
    size: tuple[int, int],
) -> None:
    async with running(size, "two gpus", *ran(), *compared()) as on:
        shown = {
            "workloads": "matmul size=4096",
            "backend": "[ ] benchmark",
            "detail": "Look for: How near",
            "devices": "cuda:1",
            "memory": "allocated",
        }
        for name, words in shown.items():
            assert on.pane == name
            assert words in on.text
            assert on.rows[0].startswith(" gpu-workbench")
            assert on.rows[-1].endswith("? help  q quit")
            assert len(on.rows) == size[1]
            await on.press("tab")
            if on.pane == "log":  # three columns have it beside the detail
                await on.press("tab")
        assert on.pane == "workloads"
        await on.press("shift+tab")
        assert on.pane == "memory"


async def test_zoom_folds_the_others_and_escape_unfolds_them() -> None:
    async with running((120, 40)) as on:
        await on.press("Z")
        assert not on.row("driver 614M")
        assert all(on.row(title) for title in ("Memory", "Backends", "Detail"))
        await on.press("escape")
        assert on.row("driver 614M")


async def test_a_workload_without_a_run_is_told_in_brief_until_its_detail_has_the_focus() -> None:
    async with running((120, 40)) as on:
        assert on.row("Two square matrices multiplied.")
        assert not on.row("Look for")
        await on.press("i")
        assert on.row("Look for")
        await on.press("w")
        assert not on.row("Look for")
        await on.tell(*ran())
        assert on.row("Look for")


async def test_l_puts_the_log_where_the_detail_is() -> None:
    async with running((120, 40)) as on:
        await on.tell(messages.Emptied("cuda:0", 3))
        await on.press("l")
        assert on.row("3 B returned")
        assert not on.row("Look for")
        await on.press("l")
        assert on.row("Look for")
        assert not on.row("3 B returned")


async def test_f_turns_the_detail_to_the_roofline_and_back() -> None:
    told = ran(rates=Rates(5e13, 7e10, None))
    async with running((100, 30), "one gpu", *told) as on:
        await on.press("O")
        assert on.pane == "detail"
        assert on.row("Roofline of cuda:0")
        assert on.row("● matmul")
        assert on.row("slope: memory bandwidth peak 4.80 TB/s")
        await on.press("O")
        assert on.row("check passed")
        assert not on.row("Roofline of")
        # From the table it is shown, whichever page was the last.
        await on.press("O", "escape", "O")
        assert on.row("Roofline of cuda:0")
        await on.press("i")
        assert on.row("check passed")


async def test_on_the_heading_of_a_group_the_detail_has_bars_of_its_workloads() -> None:
    async with running((120, 40), "one gpu", *ran("matmul", "cpu", median=0.271), *ran()) as on:
        await on.press("up")
        assert on.row("Detail   health")
        assert on.row("health: time of a call on cpu and cuda:0")
        assert on.row("matmul  100x")
        bars = [row for row in on.rows if "█" in row and (" cpu " in row or "cuda:0 " in row)]
        assert any("271 ms" in row for row in bars)


async def test_escape_leads_from_any_pane_back_to_the_table() -> None:
    async with running() as on:
        await on.press("i")
        assert on.row("What is timed")
        await on.press("escape")
        assert on.pane == "workloads"
        assert not on.row("What is timed")


async def test_the_detail_follows_the_cursor() -> None:
    async with running((120, 40)) as on:
        assert on.row("Detail   matmul")
        await on.press("down", "down")
        assert on.row("Detail   mlp")


async def test_resizing_keeps_the_focus_and_shows_it() -> None:
    async with running((120, 40)) as on:
        await on.press("i")
        for size in ((60, 20), (80, 24), (200, 50), (40, 10)):
            await on.resize(*size)
            assert len(on.rows) == size[1]
            assert "matmul: matrix product" in on.text


async def test_2_shows_the_memory_and_1_the_workbench_as_it_is_now() -> None:
    async with running() as on:
        await on.press("2")
        await on.until(lambda: "requested" in on.text)
        assert not on.row("Workloads")
        on.session.tell(*ran())
        await on.press("1")
        await on.until(lambda: "ok ±0.4%" in on.row("matmul"))


# ---- the filter --------------------------------------------------------------------------------


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
        assert not on.row("matmul")
        assert on.row("escape drops it")
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
        assert "No workload matches convx" in on.row("Escape drops the filter.")
        assert "Detail   conv2d" not in on.text
        await on.press("escape")
        assert on.workbench.workload == "matmul"
        assert "Detail   matmul" in on.row("Detail")


@pytest.mark.parametrize("leave", ["i", "F", "m"])
async def test_who_comes_back_to_a_kept_filter_comes_to_the_table(leave: str) -> None:
    async with running((120, 40)) as on:
        await on.press("slash", *"conv", "enter", leave, "escape", "r")
        assert [asked[1] for asked in on.asked] == [("conv2d",)]
        assert "filter: conv" in on.row("Workloads")


FORTY = [workload(f"many_{number}", title="one of many") for number in range(40)]


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


async def test_letters_that_are_typed_are_no_commands() -> None:
    async with running() as on:
        await on.press("slash", *"rRxeq:?")
        assert on.asked == []
        assert on.row("filter: rRxeq:?")


# ---- the parameter editor ----------------------------------------------------------------------


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


# ---- help and palette --------------------------------------------------------------------------


async def test_help_begins_with_keys_and_explains_the_focused_pane() -> None:
    async with running((120, 100)) as on:
        await on.press("question_mark")
        assert on.rows[1].strip("│ ") == "Keys of Workloads"
        assert on.row("Run every workload in the table")
        assert on.row("What Workloads shows")
        await on.press("question_mark", "F", "question_mark")
        assert on.rows[1].strip("│ ") == "Keys of Backends"
        assert on.row("What Backends shows")
        await on.press("slash", *"reset peaks")
        assert on.row("0 ")
        assert not on.row("Run every workload")
        await on.press("enter", "escape")
        assert on.row("Workloads")


async def test_i_lists_the_warnings_about_a_flag() -> None:
    async with running((120, 40), "two gpus", *compared()) as on:
        await on.press("F", "i")
        assert isinstance(on.app.screen, TextScreen)
        assert "Warnings about cudnn." in on.text


async def test_enter_explains_the_memory_and_the_palette_opens_by_either_key() -> None:
    async with running((120, 40), "two gpus") as on:
        await on.press("m", "enter")
        assert isinstance(on.app.screen, TextScreen)
        await on.press("escape", "ctrl+p")
        assert isinstance(on.app.screen, Palette)
        await on.press("escape", "colon")
        assert isinstance(on.app.screen, Palette)


async def test_the_palette_lists_what_is_valid_and_runs_it() -> None:
    async with running((80, 24)) as on:
        await on.press("colon")
        await on.until(lambda: "run selected (r)" in on.text)
        assert "cancel (x)" not in on.text
        await on.press(*"run all")
        await on.until(lambda: "run all (R)" in on.text and "filter (/)" not in on.text)
        await on.press("enter")
        await on.until(lambda: "Run 3 workloads?" in on.text)
        await on.press("y")
        assert on.asked == [("run", ("matmul", "mlp", "conv2d"), None, "normal")]


async def test_the_palette_finds_how_to_open_a_snapshot() -> None:
    async with running((100, 30)) as on:
        await on.press("colon", *"snapshot")
        await on.until(lambda: "tab snapshot (3)" in on.text and "run selected" not in on.text)
        assert on.row("snapshot open (o)")
        await on.press(*" open", "enter")
        await on.until(lambda: "Open a snapshot" in on.text)


# ---- readonly ----------------------------------------------------------------------------------


async def test_readonly_asks_the_runner_for_nothing() -> None:
    async with running((80, 24), "one gpu", queued(), readonly=True) as on:
        await on.press("r", "R", "x", "X", "e", "0", "c", "enter", "equals_sign", "F", "space")
        assert on.asked == []
        assert " r run" not in on.rows[-1]
        assert on.row("Workloads")


# ---- the mouse ---------------------------------------------------------------------------------


async def test_a_click_selects_a_row_and_a_click_on_a_key_runs_its_command() -> None:
    async with running() as on:
        rows = on.rows
        mlp = next(place for place, row in enumerate(rows) if "mlp" in row)
        await on.pilot.click(offset=(5, mlp))
        await on.settle()
        assert on.row("▸ mlp")
        await on.pilot.click(offset=(on.rows[23].index("r run"), 23))
        await on.settle()
        assert on.asked == [("run", ("mlp",), None, "normal")]


async def test_a_click_on_the_title_of_a_folded_pane_opens_it() -> None:
    async with running((60, 20)) as on:
        title = next(place for place, row in enumerate(on.rows) if "Backends" in row)
        await on.pilot.click(offset=(5, title))
        await on.until(lambda: on.pane == "backend")
        assert on.row("[ ] benchmark")


async def test_a_click_on_a_tab_opens_it() -> None:
    async with running() as on:
        await on.pilot.click(offset=(on.rows[0].index("2 Mem"), 0))
        await on.until(lambda: "requested" in on.text)


MANY = [
    event
    for name in ("conv2d", "conv1d", "conv3d", "depthwise", "resnet", "unet", "vgg", "layouts")
    for event in compared(workload=name)
]


async def test_at_80_by_24_the_comparisons_have_the_screen_while_keys_go_to_them() -> None:
    async with running((80, 24), "one gpu", *MANY) as on:
        rows = [row for row in on.rows if "off→on" in row]
        assert len(rows) == 2
        assert all("1.44x faster (1.40–1.47, 5 of 5 pairs)" in row for row in rows)
        await on.press("F")
        assert len([row for row in on.rows if "off→on" in row]) >= 5
        assert "layouts" in on.text
        assert "conv2d cuda:0" not in on.text
        await on.press(*["down"] * 12)
        assert "conv2d cuda:0" in on.text
        await on.press(*["up"] * 12)
        assert "conv2d cuda:0" not in on.text


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
