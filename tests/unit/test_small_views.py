"""Notes on the runner and the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import HOSTILE, NOW, make_store
from tui.core.events import LogLine, RunnerStatus
from tui.core.text import numbers
from tui.kit.lines import plain, width
from tui.runs.state.state import WorkbenchState
from tui.runs.views.runner_notes import STILL_WORKS, log_lines, runner_notes
from workloads.protocol import messages


def notes(state: WorkbenchState, cells: int = 200) -> list[str]:
    return [plain(row) for row in runner_notes(state.runs, cells)]


def test_all_is_well() -> None:
    assert notes(make_store()) == []


def test_before_anything_is_known() -> None:
    assert notes(WorkbenchState()) == ["starting the runner, which loads the workloads"]


def test_a_python_without_torch_comes_with_advice() -> None:
    state = make_store("no gpu", messages.Unusable("no module named torch", "give --python PATH"))
    assert notes(state) == [
        "Nothing can be run: no module named torch",
        "give --python PATH",
        STILL_WORKS,
    ]


def test_a_runner_that_died_comes_with_its_report() -> None:
    status = RunnerStatus(
        "restarting", "the runner ended: signal 11", "it is being restarted", "/state/1.txt"
    )
    assert notes(make_store("one gpu", status)) == [
        "the runner ended: signal 11",
        "it is being restarted",
        "Report: /state/1.txt",
    ]


def test_a_runner_that_says_nothing_is_noticed() -> None:
    state = make_store("one gpu", RunnerStatus("ready", "the runner has not answered for 7 s"))
    assert notes(state) == ["the runner has not answered for 7 s"]


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (LogLine("runner", "returned 3 bytes"), "runner returned 3 bytes"),
        (LogLine("monitor", HOSTILE, "error"), f"monitor error: {HOSTILE}"),
        (LogLine("workbench", "a\x1b[31m\nb", "warning"), "workbench warning: a?[31m b"),
    ],
)
def test_a_log_line_has_its_time_its_source_and_its_level(entry: LogLine, shown: str) -> None:
    lines = log_lines(make_store("one gpu", entry).log.entries, 200)
    assert [plain(row) for row in lines] == [f"{numbers.clock(NOW)} {shown}"]


@given(st.text(max_size=200), st.integers(min_value=20, max_value=120))
def test_no_line_is_wider_than_its_pane(text: str, cells: int) -> None:
    state = make_store(
        "one gpu", RunnerStatus("unusable", text, text, text), LogLine("runner", text)
    )
    assert all(width(row) <= cells for row in runner_notes(state.runs, cells))
    assert all(width(row) <= cells for row in log_lines(state.log.entries, cells))
