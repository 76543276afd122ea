"""Bar, legend, figures and history as text."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import (
    GIB,
    NOW,
    WORKER,
    gpu,
    gpu_process,
    make_store,
    sample,
    torch_memory,
)
from tui.core.text import glyphs
from tui.devices.memory import Slice, account
from tui.devices.memory.model import Absent, Value
from tui.devices.views.memory import (
    bar_cells,
    bar_line,
    choose_sizes,
    draw_body,
    legend_lines,
    memory_title,
    reason_lines,
)
from tui.devices.views.memory_account import account_lines
from tui.kit.lines import plain, width
from tui.monitor.messages import DeviceMemory


def parts(*sizes: int) -> list[Slice]:
    return [Slice(str(at), str(at), Value(size)) for at, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 200 * GIB), min_size=1, max_size=8), st.integers(1, 250))
def test_the_bar_is_full_and_hides_nothing_that_is_not_zero(sizes: list[int], cells: int) -> None:
    total = sum(sizes)
    if not total:
        return
    drawn = dict(bar_cells(parts(*sizes), total, cells))
    assert sum(drawn.values()) == cells
    present = {str(at) for at, size in enumerate(sizes) if size}
    assert drawn.keys() <= present
    if len(present) <= cells:
        assert drawn.keys() == present


@given(st.lists(st.integers(1, 200 * GIB), min_size=2, max_size=8), st.integers(20, 250))
def test_each_slice_is_within_a_cell_of_its_share_unless_room_went_to_small_ones(
    sizes: list[int], cells: int
) -> None:
    drawn = dict(bar_cells(parts(*sizes), sum(sizes), cells))
    small = sum(1 for size in sizes if size * cells < sum(sizes))
    for at, size in enumerate(sizes):
        assert abs(drawn[str(at)] - size * cells / sum(sizes)) <= 1 + small


def test_every_fill_of_the_bar_is_named_in_the_legend() -> None:
    state = make_store()
    gauge = account(state.machine, state.machine.selected_device, NOW)
    bar = plain(bar_line(gauge, 120))
    named = " ".join(plain(line) for line in legend_lines(gauge, 120))
    assert set(bar) == set("█▓▒░▞·")
    assert all(f"{glyph} " in named for glyph in set(bar.replace("█", "■")))


@given(st.integers(40, 220))
def test_the_pane_s_lines_fit(cells: int) -> None:
    state = make_store("one gpu", torch_memory(reserved=18 * GIB, ooms=2))
    view = state.machine.selected_device
    gauge = account(state.machine, view, NOW)
    assert all(width(line) <= cells for line in draw_body(gauge, view, cells))
    assert width(bar_line(gauge, cells)) == cells
    assert len(memory_title(gauge, view, cells)) <= cells


def test_at_80_cells_the_slices_take_one_line_in_the_short_style_which_the_title_has_too() -> None:
    state = make_store()
    view = state.machine.selected_device
    gauge = account(state.machine, view, NOW)
    short = choose_sizes(79)
    assert [plain(line) for line in legend_lines(gauge, 79, short)] == [
        "■ allocated 12.3G  ▓ cached 3.7G  ▒ context 614M  ░ others 4.1G  ▞ driver 614M"
    ]
    assert memory_title(gauge, view, 76, format_size=short).endswith("118.5 of 139.8G free")


def test_names_with_commas_stay_apart_in_a_list_of_missing_figures() -> None:
    reasons = {Absent("no runner"): ["heap in use", "runner, unique", "runner, shared"]}
    text = " ".join(plain(row) for row in reason_lines(reasons, 200))
    assert text.startswith("heap in use; runner, unique; runner, shared n/a: no runner")


def test_the_cpu_s_account_is_silent_about_a_runner_that_does_not_run() -> None:
    state = make_store("no gpu")
    view = state.machine.selected_device
    gauge = account(state.machine, view, NOW)
    idle = replace(
        gauge, slices=(Slice("unique", "runner", Absent("none runs")), *gauge.slices[1:])
    )
    assert "runner n/a (i)" in [plain(row) for row in draw_body(idle, view, 79, WORKER)]
    assert not any("n/a" in plain(row) for row in draw_body(idle, view, 79, None))


def test_a_sampled_peak_below_the_exact_one_of_torch_is_left_out() -> None:
    def peaks(reserved: int) -> str:
        state = make_store("one gpu", torch_memory(reserved_peak=reserved))
        view = state.machine.selected_device
        gauge = account(state.machine, view, NOW)
        lines = [plain(row) for row in account_lines(gauge, view, [], WORKER, 79)]
        return "\n".join(lines)

    assert "20.7 GiB sampled" in peaks(16 * GIB)
    assert "16.6 GiB sampled" in peaks(16 * GIB)
    # Neither sample was taken while torch held that much.
    assert "sampled" not in peaks(21 * GIB)


def test_the_title_names_what_must_not_be_overlooked() -> None:
    state = make_store("one gpu", torch_memory(ooms=1))
    gauge = account(state.machine, state.machine.selected_device, NOW + 12)
    words = memory_title(gauge, state.machine.selected_device, 100)
    assert "118.5 of 139.8 GiB free" in words
    assert "12 s old" in words
    assert "! 1 warning" in words
    short = memory_title(gauge, state.machine.selected_device, 30)
    assert short.startswith("Memory   cuda:0   12 s old")


def test_unattributed_memory_is_hatched_and_named_and_no_fill_looks_like_a_fault() -> None:
    for drawn in (glyphs.UNICODE, glyphs.ASCII):
        fills = drawn.slices
        assert "?" not in fills.values()
        assert len({fills[key] for key in ("unattributed", "unknown", "free", "others")}) == 4
    state = make_store("one gpu", sample(gpu(1, processes=(), memory=DeviceMemory(100, 90, 10, 0))))
    gauge = account(state.machine, state.machine.devices[0], NOW)
    assert plain(bar_line(gauge, 40)).startswith("╱" * 30)
    assert any("╱ unattributed 90 B" in plain(line) for line in legend_lines(gauge, 80))


def test_who_else_holds_the_memory_is_named_the_largest_first() -> None:
    others = [
        gpu_process(100 + at, at * GIB, user="bob", command=f"serve {at}") for at in range(1, 6)
    ]
    state = make_store("one gpu", sample(gpu(0, processes=(gpu_process(), *others))))
    view = state.machine.devices[0]
    text = [
        plain(row)
        for row in draw_body(account(state.machine, view, NOW), view, 60, state.machine.worker_pid)
    ]
    at = text.index("105 bob 5.0G serve 5")
    rest = "2 more processes: see the tab 4"
    assert text[at + 1 : at + 4] == ["104 bob 4.0G serve 4", "103 bob 3.0G serve 3", rest]
    assert len(text) == at + 4
    assert not any(row.startswith(str(WORKER)) for row in text)


def test_a_title_says_free_of_what_where_a_warning_takes_room() -> None:
    state = make_store("one gpu", sample(gpu(0, memory=DeviceMemory(GIB, GIB // 9, GIB, 0))))
    view = state.machine.devices[0]
    gauge = account(state.machine, view, NOW)
    assert gauge.warnings
    assert memory_title(gauge, view, len(memory_title(gauge, view, 99)) - 7).endswith("G free")


def test_the_used_figure_of_the_idle_gpu_needs_no_torch() -> None:
    state = make_store("one gpu", sample(gpu(1)))
    view = state.machine.devices[0]
    text = "\n".join(
        plain(line) for line in draw_body(account(state.machine, view, NOW), view, 100)
    )
    assert "allocated, cached, context n/a (i)" in text
    assert "unattributed 4.0 MiB" in text
