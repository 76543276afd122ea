"""The panes of the workbench: reached, folded, zoomed and clicked, at each size."""

from __future__ import annotations

import pytest

from tests.screens.app_helpers import running
from tests.screens.helpers import (
    GIB,
    STRANGER,
    WORKER,
    environment,
    gpu,
    gpu_process,
    hello,
    sample,
    torch_gpu,
    torch_memory,
    workload,
)
from tests.screens.opened import select_workload
from tests.screens.results import compared, ran
from tests.tiers import VARIANT, with_variants
from tui.kit.lines import plain, width
from workloads.protocol import messages
from workloads.protocol.results import Rates

SIZES = with_variants([(80, 24), (200, 50)], [(60, 20), (120, 40), (80, 50), (120, 24)])


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
            assert " gpu-box-3  " in on.rows[0]
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


async def test_a_workload_without_a_run_is_in_brief_until_its_detail_has_the_focus() -> None:
    async with running((120, 40)) as on:
        assert on.row("Two square matrices multiplied.")
        assert not on.row("Look for")
        await on.press("i")
        assert on.row("Look for")
        await on.press("w")
        assert not on.row("Look for")
        await on.tell(*ran())
        assert on.row("2.71 ms")
        assert on.row("Look for")


async def test_the_detail_fills_its_rows_with_whole_thoughts_once_something_has_run() -> None:
    thoughts = [f"Thought {number} has a sentence of its own." for number in range(60)]
    told = workload(look_for=" ".join(thoughts))
    idle = workload("mlp", about=" ".join(thoughts))
    async with running((120, 40), "one gpu", hello(told, idle), *ran()) as on:
        body = on.workbench.detail.body
        for workload_name in ("matmul", "mlp"):
            select_workload(on.workbench.workloads.table, workload_name)
            await on.settle()
            shown = [plain(row).rstrip() for row in body.shown_lines]
            assert body.size.height - 1 <= len(shown) <= body.size.height
            assert shown[-1].endswith("own.")
            assert "Thought 59" not in " ".join(shown)


@pytest.mark.parametrize("thoughts", [1, 60])
@VARIANT
async def test_a_detail_that_was_scrolled_starts_at_its_top_in_brief(thoughts: int) -> None:
    told = [f"Thought {number} has a sentence of its own." for number in range(thoughts)]
    described = workload(look_for=" ".join(told), about=" ".join(told))
    async with running((120, 40), "one gpu", hello(described), *ran()) as on:
        body = on.workbench.detail.body
        for _ in range(2):
            await on.press("i", *["j"] * 23, "escape")
            assert 0 == body.scroll_offset.y == body.vertical_scrollbar.position
            assert "matmul: " in plain(body.shown_lines[0])
            assert on.row("matmul: ")


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
        assert on.row("memory bandwidth peak 4.80 TB/s")
        await on.press("O")
        assert on.row("2.71 ms")
        assert not on.row("Roofline of")
        # From the table it is shown, whichever page was the last.
        await on.press("O", "escape", "O")
        assert on.row("Roofline of cuda:0")
        await on.press("i")
        assert on.row("2.71 ms")


async def test_enter_on_a_roofline_without_a_roof_runs_what_measures_it() -> None:
    async with running((100, 30), "no gpu") as on:
        await on.press("O")
        assert on.row("memory bandwidth n/a: not measured yet")
        assert "enter measure" not in on.rows[-1]  # the catalogue lacks the workload
        infos = (*on.session.state.runs.catalogue, workload("ceiling"))
        await on.tell(messages.Hello(1, 1, "3.12", "python", infos))
        assert on.row("memory bandwidth n/a: not measured yet; enter runs ceiling")
        assert "enter measure" in on.rows[-1]
        await on.press("enter")
        assert on.session.asked == [("run", ("ceiling",), None, "normal")]
        assert not on.row("enter runs ceiling")
        await on.press("escape")
        assert "enter measure" not in on.rows[-1]


async def test_on_the_heading_of_a_group_the_detail_has_bars_of_its_workloads() -> None:
    async with running((120, 40), "one gpu", *ran("matmul", "cpu", median=0.271), *ran()) as on:
        await on.press("up")
        assert on.row("Detail   health")
        assert on.row("health: time of a call on cpu and cuda:0")
        assert on.row("matmul  100x")
        bars = [row for row in on.rows if "█" in row and (" cpu " in row or "cuda:0 " in row)]
        assert any("271 ms" in row for row in bars)


async def test_at_80x24_without_a_gpu_the_workloads_have_the_spare_rows() -> None:
    async with running((80, 24), "no gpu") as on:
        assert on.row("! no NVIDIA driver (v, enter: more)")
        panes = on.workbench.panes
        assert panes["devices"].region.height == 4
        assert len(on.workbench.memory.body.shown_lines) == on.workbench.memory.body.size.height
        assert panes["workloads"].region.height == 13
        await on.press("v", "enter")
        assert "start it with --gpus all" in on.text


async def test_on_a_wide_screen_every_column_of_the_workloads_is_there() -> None:
    async with running((210, 60), "two gpus", *ran(), *ran("matmul", "cpu")) as on:
        assert not on.workbench.workloads.table.hidden_columns()
        assert on.row("of limit  peak memory  state")


async def test_in_three_columns_the_memory_pane_grows_with_its_account() -> None:
    alone = sample(gpu(0, processes=()))
    holders = tuple(gpu_process(pid, GIB) for pid in (WORKER, STRANGER, 778, 779))
    async with running((200, 60), "empty", alone, hello()) as on:
        body = on.workbench.memory.body
        before = len(body.shown_lines)
        await on.tell(
            messages.Ready(environment(torch_gpu()), 1.8),
            messages.WorkerStarted(WORKER),
            torch_memory(),
            sample(gpu(0, processes=holders)),
        )
        assert on.row("779 ada")
        assert before < len(body.shown_lines) <= body.size.height


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


@VARIANT
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


@VARIANT
async def test_at_80_by_24_the_comparisons_have_the_screen_while_keys_go_to_them() -> None:
    async with running((80, 24), "one gpu", *MANY) as on:
        rows = [row for row in on.rows if "off→on" in row]
        assert len(rows) == 2
        assert all("1.44x faster (1.40–1.47, 5 pairs)" in row for row in rows)
        await on.press("F")
        assert len([row for row in on.rows if "off→on" in row]) >= 5
        assert "layouts" in on.text
        assert "conv2d on cuda:0" not in on.text
        await on.press(*["down"] * 12)
        assert "conv2d on cuda:0" in on.text
        await on.press(*["up"] * 12)
        assert "conv2d on cuda:0" not in on.text


async def test_a_blank_stands_before_the_scroll_bars_of_the_table_and_the_detail() -> None:
    reason = "a reason of many words " * 20
    async with running((120, 40), "one gpu", *ran(status="failed", reason=reason)) as on:
        for view in (on.workbench.detail.body, on.workbench.workloads.table):
            # The region ends before the bar; its last cell is the blank.
            assert view.cells == view.scrollable_content_region.width - 1
            assert max(map(width, view.shown_lines)) <= view.cells
