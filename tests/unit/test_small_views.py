"""Notes on the runner and the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.screens.helpers import HOSTILE, make_store
from tui.kit.lines import plain, width
from tui.kit.notices import STILL_WORKS, log_lines, runner_notes
from tui.state.events import LogLine, RunnerStatus
from tui.state.store import Store
from workloads.protocol import messages


def notes(store: Store, cells: int = 200) -> list[str]:
    return [plain(row) for row in runner_notes(store, cells)]


def test_all_is_well() -> None:
    assert notes(make_store()) == []


def test_before_anything_is_known() -> None:
    assert notes(Store()) == ["starting the runner, which reads the workloads"]


def test_a_python_without_torch_comes_with_advice() -> None:
    store = make_store("no gpu", messages.Unusable("no module named torch", "give --python PATH"))
    assert notes(store) == [
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
    store = make_store("one gpu", RunnerStatus("ready", "the runner has not answered for 7 s"))
    assert notes(store) == ["the runner has not answered for 7 s"]


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (LogLine("runner", "returned 3 bytes"), "runner returned 3 bytes"),
        (LogLine("monitor", HOSTILE, "error"), f"monitor error: {HOSTILE}"),
        (LogLine("workbench", "a\x1b[31m\nb", "warning"), "workbench warning: a?[31m b"),
    ],
)
def test_a_log_line_names_its_source_and_its_level(entry: LogLine, shown: str) -> None:
    assert [plain(row) for row in log_lines(make_store("one gpu", entry), 200)] == [shown]


@given(st.text(max_size=200), st.integers(min_value=20, max_value=120))
def test_no_line_is_wider_than_its_pane(text: str, cells: int) -> None:
    store = make_store(
        "one gpu", RunnerStatus("unusable", text, text, text), LogLine("runner", text)
    )
    assert all(width(row) <= cells for row in runner_notes(store, cells))
    assert all(width(row) <= cells for row in log_lines(store, cells))
