"""The bars of who holds the memory of each GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import GIB, MIB, NOW, STRANGER, WORKER, gpu, gpu_process
from tui.core.text import glyphs
from tui.devices.state.devices import DeviceView
from tui.devices.views.holder_bars import (
    BarPart,
    HeldMemory,
    choose_colors,
    count_bar_rows,
    divide_memory,
    holder_bars,
)
from tui.kit.lines import LAYERS, plain, width
from tui.monitor.messages import DeviceMemory, GpuProcess, ParentProcess

TOTAL = 100 * GIB


def view(*rows: GpuProcess, used: int, index: int = 0, driver: int | None = GIB) -> DeviceView:
    memory = DeviceMemory(TOTAL, used, TOTAL - used - (driver or 0), driver)
    return DeviceView(f"cuda:{index}", gpu(index, memory=memory, processes=rows))


TRAINING = gpu_process(9001, 40 * GIB, command="python train.py --rank 0")
NOTEBOOK = gpu_process(STRANGER, 9 * GIB, command="python notebook.py")


def kinds(gpu: HeldMemory) -> list[tuple[str, int]]:
    return [(part.kind, part.bytes // GIB) for part in gpu.parts]


def drawn(*views: DeviceView, rows: int = 40, cells: int = 100) -> list[str]:
    return [plain(row) for row in holder_bars(divide_memory(views, WORKER), cells, rows)]


def test_a_gpus_memory_is_divided_by_process_the_largest_first() -> None:
    (held,) = divide_memory([view(NOTEBOOK, TRAINING, used=54 * GIB)], WORKER)
    parts = [("process", 40), ("process", 9), ("unattributed", 5), ("driver", 1), ("free", 45)]
    assert kinds(held) == parts
    assert held.parts[0].words[:2] == ("9001 python train.py --rank 0", "40.0 GiB  40%")


def test_what_is_in_use_on_an_idle_gpu_is_no_part() -> None:
    (held,) = divide_memory([view(used=4 * MIB)], WORKER)
    assert [kind for kind, _ in kinds(held)] == ["driver", "free"]


def test_a_gpu_without_figures_has_no_bar() -> None:
    unknown = DeviceView("cuda:0", gpu(0, memory=DeviceMemory(None, None, None, None)))
    assert divide_memory([unknown, DeviceView("cuda:1")], WORKER) == ()


@given(
    st.lists(st.integers(0, 2 * TOTAL), max_size=9),
    st.integers(0, TOTAL),
    st.integers(30, 200),
    st.integers(0, 12),
)
def test_the_parts_fill_the_bar_whatever_the_figures_are(
    sizes: list[int], used: int, cells: int, rows: int
) -> None:
    listed = [gpu_process(100 + place, size) for place, size in enumerate(sizes)]
    held = divide_memory([view(*listed, used=used, driver=None)], WORKER)
    assert sum(part.bytes for part in held[0].parts) == TOTAL
    lines = holder_bars(held, cells, rows, [(100, NOW)])
    assert len(lines) <= rows
    assert {width(line) for line in lines[1:]} <= {cells - 1}


def test_jobs_have_different_colors_and_later_ones_change_none() -> None:
    apart = gpu_process(9001 + len(LAYERS), 9 * GIB)
    held = divide_memory([view(TRAINING, used=50 * GIB), view(apart, used=40 * GIB)], WORKER)
    colors = choose_colors(held)
    assert len(colors) == len(set(colors.values())) == 2
    later = [gpu_process(9100 + place, GIB) for place in range(2 * len(LAYERS))]
    more = [view(TRAINING, *later, used=60 * GIB), view(apart, used=40 * GIB)]
    after = choose_colors(divide_memory(more, WORKER))
    assert {job: after[job] for job in colors} == colors


def test_the_ranks_of_a_launcher_have_its_color() -> None:
    torchrun = ParentProcess(9000, "ada", "torchrun train.py", NOW)
    ranks = [gpu_process(9001 + rank, 9 * GIB, parent=torchrun) for rank in range(2)]
    views = [view(ranks[0], NOTEBOOK, used=20 * GIB), view(ranks[1], used=10 * GIB, index=1)]
    held = divide_memory(views, WORKER)
    jobs = [{part.job for part in gpu.parts if part.kind == "process"} for gpu in held]
    assert jobs == [{torchrun.pid, STRANGER}, {torchrun.pid}]
    assert set(choose_colors(held)) == {torchrun.pid, STRANGER}


def test_each_bar_has_its_gpu_its_processes_and_its_figures() -> None:
    lines = drawn(view(TRAINING, NOTEBOOK, used=49 * GIB), view(used=0, index=1), rows=9, cells=120)
    assert len(lines) == 6
    assert "Memory by process" in lines[0]
    assert "driver" in lines[0]
    assert "unattributed" not in lines[0]
    assert lines[1].startswith("  nvml:0 ")
    assert " 9001 python train.py --rank 0 " in lines[1]
    assert lines[1].endswith(" 50.0 GiB free")
    assert " 40.0 GiB  40%" in lines[2]
    assert lines[5].startswith("  nvml:1 ")


def test_a_narrow_part_has_only_its_pid_or_no_word() -> None:
    small = gpu_process(123456, 2 * GIB, command="python small.py")
    line = drawn(view(NOTEBOOK, small, used=11 * GIB), rows=2, cells=120)[1]
    assert f" {STRANGER} " in line
    assert "123456" not in line


def test_a_part_too_narrow_for_its_pid_has_no_user_either() -> None:
    small = gpu_process(4_194_304, 9 * GIB, command="python notebook.py", user="root")
    rows = drawn(view(small, used=9 * GIB), rows=9)
    assert not any("root" in row or "GiB  9%" in row for row in rows)


def test_the_selected_process_is_marked_in_all_bars() -> None:
    views = [view(TRAINING, used=40 * GIB), view(TRAINING, used=40 * GIB, index=1)]
    held = divide_memory(views, WORKER)
    lines = holder_bars(held, 100, 3, {(TRAINING.pid, TRAINING.started_at)})
    assert [plain(line).count(f"{glyphs.GLYPHS.selected}9001") for line in lines] == [0, 1, 1]


def test_without_room_there_are_no_bars() -> None:
    views = [view(used=0, index=index) for index in range(4)]
    assert drawn(*views, rows=4) == []
    assert drawn(*views, rows=9, cells=40) == []
    assert len(drawn(*views, rows=5)) == 5


def test_a_gpu_without_processes_has_one_row_and_leaves_the_others_more() -> None:
    idle = [view(used=0, index=index) for index in range(3)]
    busy = [view(TRAINING, used=40 * GIB, index=3 + index) for index in range(2)]
    held = divide_memory([*idle, *busy], WORKER)
    assert count_bar_rows(held, 5) == ()
    assert count_bar_rows(held, 6) == (1, 1, 1, 1, 1)
    assert count_bar_rows(held, 9) == (1, 1, 1, 2, 2)
    assert count_bar_rows(held, 99) == (1, 1, 1, 4, 4)
    assert count_bar_rows(held[:3], 99) == (1, 1, 1)


def test_little_unattributed_memory_has_no_part_and_more_if_the_driver_may_have_it() -> None:
    known = [view(NOTEBOOK, used=9 * GIB + rest) for rest in (GIB // 5, GIB // 2)]
    unknown = [view(NOTEBOOK, used=9 * GIB + rest, driver=None) for rest in (GIB // 2, 2 * GIB)]
    found = ["unattributed" in dict(kinds(gpu)) for gpu in divide_memory(known + unknown, WORKER)]
    assert found == [False, True, False, True]


def test_no_gpu_has_no_bar() -> None:
    assert holder_bars((), 100, 9) == []


@pytest.mark.parametrize("rows", [2, 5])
def test_in_ascii_signs_tell_the_parts_apart(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    lines = drawn(view(TRAINING, NOTEBOOK, used=60 * GIB), rows=rows)
    assert all(line.isascii() for line in lines)
    assert "|9001 python" in lines[1]
    assert "|" in lines[1].partition("|9001")[2]
    assert "uuuu" in lines[1]
    assert "." in lines[1]


def test_parts_know_their_process() -> None:
    (held,) = divide_memory([view(TRAINING, used=40 * GIB)], WORKER)
    assert held.parts[0].holder == (9001, TRAINING.started_at)
    assert held.parts[-1] == BarPart("free", 59 * GIB)
