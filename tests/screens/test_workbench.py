"""The workbench as plain text, and the keys that run, cancel, compare and select."""

from __future__ import annotations

import pytest

from tests.screens.app_helpers import running
from tests.screens.helpers import NO_DRIVER, NOW, gpu, hello, sample, workload
from tests.screens.results import compare_queued, compared, progress, queued, ran
from tests.tiers import VARIANT
from tui.app.workbench import QuitScreen
from tui.core.events import RunnerStatus
from tui.runs.views import arrangement
from workloads.protocol import messages


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
        assert "1.44x faster (1.40–1.47, 5 pairs)" in on.text


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
        assert "Backends   cudnn [x] enabled  [ ] benchmark" in on.text
        await on.press("F")
        assert pane.outer_size.height > 4
        assert detail.outer_size.width < size[0]
        await on.press("w")
        assert pane.outer_size.height == 1
        await on.tell(*compared())
        assert pane.outer_size.height > 4


async def test_the_whole_reason_of_no_driver_is_one_page_away_where_there_is_no_gpu() -> None:
    async with running((80, 24), "no gpu") as on:
        assert on.row("(v, enter: more)")
        await on.press("v", "enter")
        assert NO_DRIVER in " ".join(on.text.replace("│", " ").split())


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


@VARIANT
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
        assert "Quit and cancel the runs?" in on.text
        assert "Quitting cancels it." in on.text
        assert "lost" not in on.text  # the finished one is stored
        await on.press("n")
        on.app.stores_results = False
        await on.press(key)
        assert "1 result of this session is lost" in on.text
        await on.press("n")
        assert on.app.return_code is None
        assert "Quit" not in on.text
        await on.press(key, "y")
        assert on.app.return_code == 0


async def test_the_question_before_the_end_follows_what_runs() -> None:
    async with running((80, 24), "one gpu", queued("mlp"), queued("matmul")) as on:
        await on.press("q")
        assert "Quitting cancels all 2." in on.text

        async def shows(words: str) -> None:
            question = on.app.screen
            assert isinstance(question, QuitScreen)
            question.rebuild()
            await on.settle()
            assert words in on.text

        await on.tell(*ran("mlp")[1:])
        await shows("Quitting cancels it.")
        await on.tell(*ran("matmul")[1:])
        await shows("All runs have ended. Quitting cancels nothing.")
        await on.press("y")
        assert on.app.return_code == 0


async def test_q_ends_at_once_where_nothing_runs() -> None:
    async with running((80, 24), "one gpu", *ran("matmul")) as on:
        await on.press("q")
        assert on.app.return_code == 0


async def test_x_cancels_the_selected_workload_s_runs_first_and_then_all_of_this_machine() -> None:
    async with running((80, 24), "one gpu", queued("mlp"), queued("matmul", "cpu")) as on:
        await on.press("x")
        assert on.asked == [("cancel", "matmul on cpu")]
        await on.tell(*ran("matmul", "cpu")[1:])
        await on.press("x")
        assert on.asked[1:] == [("cancel_shown",)]


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
        await on.press("F", "space")
        assert on.asked == [("set_flag", "cudnn.benchmark", True)]
        assert "[x] benchmark" in on.row("cudnn [x]")
        await on.press("space")
        assert on.asked[1:] == [("set_flag", "cudnn.benchmark", False)]


async def test_each_arrow_and_j_and_k_move_between_flags() -> None:
    async with running() as on:
        await on.press("F", "down", "space", "k", "up", "space")
        assert on.asked == [
            ("set_flag", "cudnn.deterministic", True),
            ("set_flag", "cudnn.enabled", False),
        ]
        await on.press("j", "space")
        assert on.asked[2:] == [("set_flag", "cudnn.benchmark", True)]


async def test_c_compares_again_what_was_compared() -> None:
    async with running((80, 24), "one gpu", *compared("cudnn.enabled", "mlp")) as on:
        await on.press("F", "left", "c")
        assert on.asked == [("compare", "mlp", "cudnn.enabled")]


async def test_c_compares_the_convolutions_where_nothing_was_compared() -> None:
    async with running() as on:
        await on.press("c")
        assert on.asked == [("compare", "conv2d", "cudnn.benchmark")]


async def test_d_goes_round_the_devices() -> None:
    async with running((80, 24), "two gpus") as on:
        await on.press("d")
        assert on.row("▸ cuda:1")
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
        assert not on.row("matrix product")
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
        await on.until(lambda: "copied, if the terminal" in on.text)


async def test_readonly_asks_the_runner_for_nothing() -> None:
    async with running((80, 24), "one gpu", queued(), readonly=True) as on:
        await on.press("r", "R", "x", "X", "e", "0", "c", "enter", "equals_sign", "F", "space")
        assert on.asked == []
        assert " r run" not in on.rows[-1]
        assert on.row("Workloads")


async def test_in_three_columns_the_backends_grow_with_their_verdicts() -> None:
    async with running((200, 60), "two gpus") as on:
        await on.tell(compare_queued(), compare_queued("cudnn.deterministic", "matmul"))
        await on.tell(*compared()[1:])
        await on.tell(*compared("cudnn.deterministic", "matmul")[1:])
        # Both bars of each, the ratio and its scale: more than the rows of other layouts.
        assert on.text.count("off ■") == 2
        assert on.text.count("on  ■") == 2
        assert on.workbench.backend.size.height > arrangement.BACKEND_ROWS
