"""The header line: the runner's state and the tabs always, facts as far as there is room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import HOSTILE, host, make_store, sample
from tests.screens.results import compare_queued, comparison, progress, queued
from tui.app.header import describe_runner, header_line, tab_at
from tui.core.events import ChildStatus, RunnerStatus
from tui.devices.state.machine import SIMULATED, SIMULATED_SHORT
from tui.kit.commands.command import TABS
from tui.kit.lines import plain, width
from tui.runs.state.state import WorkbenchState
from workloads.protocol import messages


def test_at_180_cells_all_versions_are_there() -> None:
    line = plain(header_line(make_store().runs, "workbench", 180))
    assert line.split("  ")[:6] == [
        " gpu-workbench", "gpu-box-3", "driver 580.159.03", "torch 2.13.0+cu130", "CUDA 13.0",
        "cuDNN 9.20.0",
    ]  # fmt: skip
    assert line.endswith("".join(f" {tab.key} {tab.title} " for tab in TABS))


def test_at_60_cells_host_and_state_remain() -> None:
    line = plain(header_line(make_store().runs, "workbench", 60))
    assert line.startswith(" gpu-workbench  gpu-box-3  ready  ")
    assert " 1 Work  2 " in line


@pytest.mark.parametrize("status", ["starting", "importing torch", "ready", "ended"])
def test_the_runner_s_state_is_a_word(status: ChildStatus) -> None:
    state = make_store("one gpu", RunnerStatus(status))
    assert describe_runner(state.runs).text == status


def test_a_runner_that_cannot_be_used_is_told_by_what_it_means() -> None:
    state = make_store("one gpu", RunnerStatus("unusable", "no module named 'torch'"))
    assert describe_runner(state.runs).text == "nothing can be run"


def test_a_restart_says_why() -> None:
    state = make_store("one gpu", RunnerStatus("restarting", "the runner ended: signal 9"))
    assert describe_runner(state.runs).text == "restarting: the runner ended: signal 9"


def test_what_is_measured_now_is_named_with_how_far_it_is() -> None:
    state = make_store("one gpu", queued(), queued("mlp"))
    assert describe_runner(state.runs).text == "2 queued"
    state.publish(progress(phase="warm-up", remaining_s=None))
    assert describe_runner(state.runs).text == "running matmul on cuda:0, warm-up, 1 queued"
    state.publish(progress())
    assert describe_runner(state.runs).text == "running matmul on cuda:0, ≤4 s left, 1 queued"
    assert describe_runner(state.runs, 40).text == "running matmul on cuda:0, ≤4 s left"
    assert describe_runner(state.runs, 30).text == "running matmul, ≤4 s left"
    assert describe_runner(state.runs, 10).text == "matmul, ≤4 s left"


def test_a_comparison_is_named_by_its_flag_and_counted_in_pairs() -> None:
    state = make_store("one gpu", compare_queued())
    state.publish(progress(id="cudnn.benchmark of conv2d", phase="preparing"))
    assert describe_runner(state.runs).text == "running conv2d with cudnn.benchmark, preparing"
    state.publish(messages.Compared(comparison(pairs=2), done=False))
    assert describe_runner(state.runs).text == "running conv2d with cudnn.benchmark, pair 3 of 5"


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (60, " gpu-box-3  matmul, ≤4 s left "),
        (80, " gpu-box-3  matmul, ≤4 s left "),
        (100, " gpu-box-3  running matmul on cuda:0, ≤4 s left "),
        (120, " gpu-workbench  gpu-box-3  running matmul on cuda:0, ≤4 s left "),
        (160, " gpu-workbench  gpu-box-3  driver 580.159.03  running matmul on cuda:0, ≤4 s left"),
    ],
)
def test_what_goes_on_survives_where_it_is_narrow(cells: int, shown: str) -> None:
    state = make_store("one gpu", queued(), queued("mlp"), progress())
    assert shown in plain(header_line(state.runs, "workbench", cells))


def test_a_replay_says_so_beside_what_goes_on() -> None:
    state = make_store("one gpu", queued(), progress())
    words = plain(header_line(state.runs, "workbench", 80, note="replay 1:20"))
    assert words.startswith(" replay 1:20  matmul, ≤4 s left ")


def test_an_ended_replay_runs_nothing_and_cuts_no_fact() -> None:
    state = make_store("one gpu", queued(), progress())
    note = "REPLAY 1:05/1:05 end"
    for cells in range(80, 181):
        words = plain(header_line(state.runs, "workbench", cells, note=note, ended=True))
        assert "matmul" not in words
        assert "…" not in words


@pytest.mark.parametrize("cells", [44, 60, 80, 100, 160])
@pytest.mark.parametrize("busy", [False, True])
def test_simulated_gpus_are_named_whatever_goes_on(cells: int, busy: bool) -> None:
    state = make_store("one gpu", *((queued(), progress()) if busy else ()))
    assert SIMULATED_SHORT not in plain(header_line(state.runs, "workbench", cells))
    state.machine.simulated = True
    words = plain(header_line(state.runs, "workbench", cells, note="REPLAY 1:20"))
    assert (SIMULATED in words) is (cells >= 140)
    assert SIMULATED_SHORT in words
    assert all(f" {tab.key}" in words for tab in TABS)
    assert width(header_line(state.runs, "workbench", cells)) == cells


def test_all_tabs_have_names_in_a_recording_of_simulated_gpus() -> None:
    state = make_store("one gpu", queued(), progress())
    state.machine.simulated = True
    note = "REPLAY 0:07/2:33 1x"
    narrow = plain(header_line(state.runs, "workbench", 80, note=note))
    assert narrow.startswith(" simulated  REPLAY 0:07/2:33 1x  ")
    assert narrow.endswith("".join(f" {tab.key} {tab.short}" for tab in TABS))
    wide = plain(header_line(state.runs, "workbench", 120, note=note))
    assert wide.startswith(
        " gpu-workbench  simulated  REPLAY 0:07/2:33 1x  matmul, \u22644 s left "
    )


@pytest.mark.parametrize("note", ["", "REPLAY 0:07/2:33 1x"])
@pytest.mark.parametrize("cells", [60, 80, 120])
def test_a_click_on_a_tab_finds_it_beside_what_is_said_of_simulated_gpus(
    cells: int, note: str
) -> None:
    state = make_store()
    state.machine.simulated = True
    line = plain(header_line(state.runs, "workbench", cells, note=note))
    for key, name in (("1", "workbench"), ("2", "memory"), ("4", "processes")):
        x = line.rindex(f" {key}") + 1
        assert tab_at(state.machine, x, cells, "workbench", note) == name


def test_a_store_that_forgets_still_knows_that_gpus_are_simulated() -> None:
    state = make_store()
    state.machine.simulated = True
    state.forget()
    assert state.machine.simulated
    assert state.machine.sample is None


def test_without_a_driver_and_cuda_it_says_so() -> None:
    line = plain(header_line(make_store("no gpu").runs, "memory", 150))
    assert "no driver" in line
    assert "CUDA n/a" in line


@given(st.integers(min_value=30, max_value=250), st.text(max_size=60))
def test_it_is_exactly_as_wide_as_the_screen(cells: int, name: str) -> None:
    state = make_store("one gpu", sample(host=host(name=name + HOSTILE)))
    state.publish(messages.Heartbeat(0.0, name))
    assert width(header_line(state.runs, "workbench", cells)) == cells


@pytest.mark.parametrize("busy", [False, True])
def test_a_click_on_a_tab_finds_it(busy: bool) -> None:
    state = make_store("one gpu", *((queued(), progress()) if busy else ()))
    line = plain(header_line(state.runs, "workbench", 80))
    for key, name in (("1", "workbench"), ("2", "memory"), ("4", "processes")):
        assert tab_at(state.machine, line.rindex(f" {key} ") + 1, 80, "workbench") == name
    assert tab_at(state.machine, 3, 80, "workbench") is None


@pytest.mark.parametrize("cells", [80, 100, 120, 160, 200])
def test_tabs_keep_their_place_whatever_goes_on_and_whichever_is_open(cells: int) -> None:
    def places(state: WorkbenchState, tab: str) -> list[str | None]:
        return [tab_at(state.machine, x, cells, tab) for x in range(cells)]

    idle, busy = make_store(), make_store("one gpu", queued(), progress())
    actual = places(idle, "workbench")
    tabs = [tab.id for tab in TABS]
    assert set(actual) == {None, *tabs}
    for tab in tabs:
        assert places(idle, tab) == places(busy, tab) == actual


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (80, " gpu-workbench  gpu-box-3  ready "),
        (110, " gpu-box-3  driver 580.159.03  torch 2.13.0+cu130  ready "),
        (120, " gpu-workbench  gpu-box-3  driver 580.159.03  torch 2.13.0  ready "),
        (160, " gpu-workbench  gpu-box-3  driver 580.159.03  torch 2.13.0+cu130  CUDA 13.0  "),
    ],
)
def test_what_figures_depend_on_matters_more_than_the_program_s_name(
    cells: int, shown: str
) -> None:
    assert plain(header_line(make_store("one gpu").runs, "workbench", cells)).startswith(shown)
