"""What is said of a child that has said nothing for a while."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tests.hog import busy
from tests.screens.helpers import make_store
from tests.screens.results import progress, queued
from tests.waiting import until
from tui.app.header import describe_runner
from tui.core.events import RunnerStatus
from tui.kit.command_line.progress import ProgressLine
from tui.kit.lines import plain
from tui.runs.session.runner_supervisor import inspect_process
from tui.runs.session.silence import ProcessActivity, describe_silence
from tui.runs.views.runner_notes import runner_notes
from tui.runs.views.workload_state import format_state

STOPPED = describe_silence("worker", 71, 12.4, None, ProcessActivity("T", 3.0, 9.0))


def test_a_stopped_process_is_said_to_be_stopped_and_how_it_goes_on() -> None:
    assert STOPPED.reason == "no word from the worker for 12 s: stopped (state T)"
    assert STOPPED.advice == "kill -CONT 71 continues it, kill -KILL 71 ends it"


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (
            ProcessActivity("R", 3.0, 9.0),
            ProcessActivity("R", 5.0, 10.0),
            "still computing after 6 s: the runner, 2.0 cores busy; one call may take long",
        ),
        (
            ProcessActivity("R", 3.0, 9.0),
            ProcessActivity("S", 4.0, 10.0),
            "still computing after 6 s: the runner, 1.0 cores busy",
        ),
        (
            ProcessActivity("S", 3.0, 9.0),
            ProcessActivity("S", 3.0, 10.0),
            "takes no processor time (state S)",
        ),
        (
            ProcessActivity("S", 3.0, 9.0),
            ProcessActivity("S", 3.0, 10.0, "cc1plus (pid 5)"),
            "still computing after 6 s: the runner, waiting for cc1plus (pid 5)",
        ),
        (None, ProcessActivity("R", 3.0, 9.0), "still computing after 6 s: the runner, one call"),
        (
            ProcessActivity("S", 3.0, 9.0),
            ProcessActivity("D", 3.0, 10.0),
            "a disk or a driver (state D)",
        ),
        (
            ProcessActivity("S", 3.0, 9.0),
            ProcessActivity("t", 3.0, 10.0),
            "stopped by a debugger (state t)",
        ),
        (None, ProcessActivity("Z", 3.0, 9.0), "it has ended (state Z)"),
        (None, None, "process 71 cannot be inspected"),
    ],
)
def test_what_is_known_of_it_is_said_and_nothing_more(
    before: ProcessActivity | None, now: ProcessActivity | None, says: str
) -> None:
    actual = describe_silence("runner", 71, 6.0, before, now)
    assert actual.reason.startswith(("no word from the runner for 6 s: ", "still computing"))
    assert "state R" not in actual.reason
    assert says in actual.reason
    assert "dead" not in actual.reason


def test_a_sleeping_process_is_judged_at_its_second_inspection() -> None:
    assert describe_silence("worker", 71, 6.0, None, ProcessActivity("S", 3.0, 9.0)).reason == ""


def test_a_computing_worker_is_named_by_its_workload_and_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ProgressLine()
    now = ProcessActivity("R", 3.0, 9.0)
    for name in ("matmul", "mlp", "matmul"):
        for seconds in (6.0, 7.0):
            said = describe_silence("worker", 71, seconds, None, now, name)
            line.show_going_on("0/1 done", RunnerStatus("ready", said.reason, said.advice))
        line.show_going_on("0/1 done", RunnerStatus("ready"))
    assert capsys.readouterr().err.splitlines() == [
        "gpu-workbench: still computing after 6 s: matmul, one call may take long",
        "gpu-workbench: still computing after 6 s: mlp, one call may take long",
    ]


def test_a_process_is_looked_at_by_its_number() -> None:
    with busy(ours=True) as pid:
        seen = inspect_process(pid, 1.0)
        assert seen is not None
        assert seen.state in ("R", "S")
        assert seen.cpu_s >= 0
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    assert inspect_process(int(ended.stdout), 1.0) is None


def test_a_child_that_runs_is_named() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        try:

            def find_child() -> str:
                seen = inspect_process(parent.pid, 1.0)
                return seen.child if seen else ""

            name, _, pid = until(find_child).partition(" (pid ")
            assert "python" in name
            assert int(pid.rstrip(")")) != parent.pid
        finally:
            for child in psutil.Process(parent.pid).children():
                child.kill()
            parent.kill()


def test_the_screen_says_so_in_the_place_of_how_far_a_run_is() -> None:
    state = make_store("one gpu", queued())
    state.publish(progress(phase="warm-up", remaining_s=None))
    state.publish(RunnerStatus("ready", STOPPED.reason, STOPPED.advice))
    words = "no word from the worker for 12 s"
    assert describe_runner(state.runs).text == f"running matmul on cuda:0, {words}"
    (run,) = state.runs.book.values()
    assert plain(format_state(state.runs, {"cuda:0": run})[0]) == words
    assert [plain(row).strip() for row in runner_notes(state.runs, 80)] == [
        STOPPED.reason,
        STOPPED.advice,
    ]


def test_without_a_terminal_each_silence_is_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    line = ProgressLine()
    quiet, silent = RunnerStatus("ready"), RunnerStatus("ready", STOPPED.reason, STOPPED.advice)
    for runner in (quiet, silent, silent, quiet, silent, RunnerStatus("restarting", "it ended")):
        line.show_going_on("0/1 done", runner)
    assert (
        capsys.readouterr().err.splitlines()
        == [f"gpu-workbench: {STOPPED.reason}; {STOPPED.advice}"] * 2
    )
