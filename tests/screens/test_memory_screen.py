"""The memory screen: the full account, scrolling."""

from __future__ import annotations

import re

import pytest

from tests.screens.app_helpers import running
from tests.screens.driving import press, settle
from tests.screens.helpers import (
    HOSTILE,
    STRANGER,
    WORKER,
    PaneApp,
    clock,
    gpu,
    gpu_process,
    make_store,
    sample,
    screen_text,
    stylesheets,
    torch_memory,
    uuid,
)
from tests.tiers import with_variants
from tui.devices.memory import account
from tui.devices.memory.model import get_value
from tui.devices.screens.memory_tab import MemoryView
from tui.devices.state.devices import CPU
from tui.devices.state.machine import DeviceSelected
from tui.devices.views.device_detail import device_detail
from tui.devices.views.memory import find_shared_reasons
from tui.devices.views.memory_account import account_details, account_lines
from tui.kit.lines import plain, width
from tui.runs.state.state import WorkbenchState


def lines_of(state: WorkbenchState, cells: int) -> list[str]:
    view = state.machine.selected_device
    gauge = account(state.machine, view, clock())
    facts = device_detail(view, state.machine.sample, clock())
    drawn = account_lines(gauge, view, facts, state.machine.worker_pid, cells)
    assert all(width(line) <= cells for line in drawn)
    return [plain(line).rstrip() for line in drawn]


@pytest.mark.parametrize("size", with_variants([(60, 20), (120, 40)], [(80, 24), (200, 55)]))
async def test_the_legend_stands_right_under_the_bar(size: tuple[int, int]) -> None:
    async with running(size) as on:
        await on.press("2")
        assert "allocated 12.3" in on.rows[3]
        assert on.text.count("allocated 12.3 GiB  ") <= 1


async def test_reserved_memory_that_was_never_read_has_no_history() -> None:
    async with running((120, 40), "two gpus") as on:
        await on.press("2")
        assert re.search(r" reserved +16.0 GiB +[·▁]", on.text)
        await on.tell(DeviceSelected(uuid(1)))
        assert re.search(r" power +[\d/]+ W +[·▁]", on.text)
        assert not re.search(r" reserved .*[·▁]", on.text)


@pytest.mark.parametrize("cells", [59, 79, 119, 199])
def test_every_term_is_there_except_parts_of_zero_bytes(cells: int) -> None:
    state = make_store()
    text = "\n".join(lines_of(state, cells))
    gauge = account(state.machine, state.machine.selected_device, clock())
    empty = {term.label for term in gauge.terms if get_value(term.bytes) == 0}
    assert empty == {"pending free", "cuBLAS workspace", "unattributed", "pinned host memory"}
    # Without pending blocks, active is the same as allocated.
    left_out = {*empty, "active"}
    for term in (*gauge.terms, *gauge.peaks):
        label = term.label.removeprefix("cached, ")
        assert bool(re.search(rf"\b{label}\b", text)) == (label not in left_out), label
    assert not re.search(r"\b0 B\b", text)
    for words in ("12.2 GiB", "2.5 GiB e frees", "sampled"):
        assert words in text
    assert "alloc retries" not in text
    assert re.search(r"UUID +GPU-00000000", text)


@pytest.mark.parametrize("cells", [76, 90, 119])
def test_the_key_beside_a_figure_is_never_cut(cells: int) -> None:
    store = make_store("one gpu", torch_memory(workspace=64 * 1024**2))
    rows = lines_of(store, cells)
    assert any("cuBLAS workspace" in row for row in rows)
    assert any("releasable" in row and "e frees" in row for row in rows)


def test_retries_and_failed_allocations_are_counted_once_there_is_one() -> None:
    text = "\n".join(lines_of(make_store("one gpu", torch_memory(alloc_retries=3)), 119))
    assert re.search(r"alloc retries +3\b", text)
    assert not re.search(r"out of memory +0", text)


@pytest.mark.parametrize("cells", [59, 79, 119, 199])
def test_the_details_have_every_term_with_its_source_and_meaning(cells: int) -> None:
    state = make_store()
    view = state.machine.selected_device
    gauge = account(state.machine, view, clock())
    drawn = account_details(gauge, view, cells)
    assert all(width(line) <= cells for line in drawn)
    text = " ".join(" ".join(plain(line) for line in drawn).split())
    for term in (*gauge.terms, *gauge.peaks):
        assert term.label in text
        assert term.about in text
    for words in ("nvidia-smi shows 20.7 GiB in use", "torch", "NVML", "derived"):
        assert words in text


@pytest.mark.parametrize("number", [0, 1])
def test_the_details_have_each_peak_and_each_reason_once(number: int) -> None:
    for state in (make_store(), make_store("one gpu", sample(gpu()))):
        view = state.machine.devices[number]
        gauge = account(state.machine, view, clock())
        text = " ".join(" ".join(plain(row) for row in account_details(gauge, view, 79)).split())
        assert "peak this process" not in text
        assert text.count("peaks ") <= 1
        for reason in find_shared_reasons(gauge):
            assert text.count(reason.reason) == 1, reason


async def test_i_explains_the_account() -> None:
    async with running() as on:
        await on.press("2")
        assert "nvidia-smi shows" not in on.text
        await on.press("i")
        assert "nvidia-smi shows 20.7 GiB in use" in on.text
        await on.press("escape")
        assert "nvidia-smi shows" not in on.text


def test_an_absent_figure_has_its_reason_beside_it() -> None:
    silent = gpu_process(STRANGER, None, unavailable={"memory": "needs root"})
    rows = lines_of(make_store("one gpu", sample(gpu(processes=(gpu_process(), silent)))), 119)
    assert any(row.startswith("others") and "n/a" in row for row in rows)
    assert "1 of 1 give no figure, none is known: needs root" in " ".join(rows)


@pytest.mark.parametrize("cells", [59, 76, 79, 119, 199])
def test_a_device_without_any_figure_has_its_facts(cells: int) -> None:
    assert lines_of(make_store("empty"), cells)


def test_a_reason_that_several_figures_share_is_told_once_for_all_of_them() -> None:
    rows = lines_of(make_store("one gpu", sample(gpu(processes=()))), 119)
    told = [
        row for row in rows if row.startswith("context, this process, others, unattributed n/a: ")
    ]
    assert len(told) == 1
    assert not any(row.startswith("context  ") for row in rows)


def test_where_torch_sees_no_gpu_that_is_told_once_and_the_rest_stays() -> None:
    rows = lines_of(make_store("one gpu", sample(gpu(), gpu(1)), DeviceSelected(uuid(1))), 119)
    account_rows = rows[: next(at for at, row in enumerate(rows) if row.startswith("device ─"))]
    reason = "not among the devices that torch sees"
    text = " ".join(row.strip() for row in account_rows)
    assert text.count(reason) == 1
    assert f"requested, rounding and 14 other figures n/a: {reason}" in text
    assert not any("├ reserved" in row for row in account_rows)
    assert any(row.startswith("├ device used         4.0 MiB") for row in rows)


def test_a_reason_that_several_processes_share_is_told_once() -> None:
    silent = [
        gpu_process(pid, None, user=None, unavailable={"memory": "needs root"}) for pid in (7, 8, 9)
    ]
    rows = lines_of(make_store("one gpu", sample(gpu(processes=tuple(silent)))), 74)
    assert [row for row in rows if "needs root" in row] == ["n/a of 3 processes: needs root"]


def test_facts_of_a_device_that_share_a_reason_are_told_together() -> None:
    why = {"power_w": "not supported by this device", "pstate": "not supported by this device"}
    seen = sample(gpu(power_w=None, pstate=None, unavailable=why))
    rows = lines_of(make_store("one gpu", seen), 119)
    told = [row for row in rows if "not supported by this device" in row]
    assert "performance state, power n/a: not supported by this device" in told


def test_processes_are_listed_the_largest_first_and_ours_is_named() -> None:
    silent = gpu_process(7, None, command=HOSTILE, user=None, unavailable={"memory": "needs root"})
    large = gpu_process(STRANGER, 17 * 1024**3)
    state = make_store("one gpu", sample(gpu(processes=(silent, gpu_process(), large))))
    rows = lines_of(state, 74)
    start = next(at for at, row in enumerate(rows) if row.startswith("processes on the device"))
    pids = [int(row.split()[0]) for row in rows[start + 1 : start + 4]]
    assert pids == [STRANGER, WORKER, 7]
    assert rows[start + 2].endswith("the workbench's runner")
    assert HOSTILE in " ".join(" ".join(rows[start + 3 : start + 5]).split())
    assert rows[start + 4].endswith("needs root")


def test_at_200_cells_the_device_stands_beside_the_account() -> None:
    rows = lines_of(make_store(), 199)
    start = 199 * 3 // 5 + 2
    assert rows[0][start:].startswith("device ")
    assert any(row[start:].startswith("UUID") and row[:start].strip() for row in rows)


def test_the_cpu_s_account_has_the_heap_and_no_private_pools() -> None:
    text = "\n".join(lines_of(make_store("two gpus", DeviceSelected(CPU)), 79))
    assert "heap cached" in text
    assert "private pools" not in text
    assert "processes on the device" not in text


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (120, 40), (200, 50)])
async def test_it_scrolls_to_its_last_line(size: tuple[int, int]) -> None:
    state = make_store()
    app = PaneApp(lambda: MemoryView(state.machine, clock), stylesheets())
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        top = screen_text(app)
        assert "Memory   cuda:0" in top[0]
        assert set(top[1].strip()) == set("█▓▒░▞·")
        text = "\n".join(top)
        for words in ("last ", "memory ", "util ", "power ", "reserved "):
            assert words in text
        # Two areas side by side where there is room.
        both = any("cuda:0 memory 20.7 GiB" in row and "util 61%" in row for row in top)
        assert both == (size[0] >= 150)
        app.query_one("LinesView").focus()
        await press(pilot, "end")
        await settle(pilot)
        assert any("ECC, uncorrected" in row for row in screen_text(app))
