"""``watch -- COMMAND`` and ``watch RUN`` on a terminal: the run outlives the screen."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.faults import assert_restored, read_to_end
from tests.terminal.terminal import PROGRAM, Terminal
from tests.tiers import VARIANT
from tests.waiting import until
from tui.watch.runs import runs

SLEEPS = "import time\nprint('it goes', flush=True)\ntime.sleep(1e6)\n"
WAITS = (
    "import os, pathlib, sys, time\n"
    "print('TEXTUAL_ANIMATIONS' in os.environ, os.isatty(0), flush=True)\n"
    "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\n"
    "print('it has ended by itself', flush=True)\n"
)


@pytest.mark.slow
def test_a_run_goes_on_when_the_screen_is_left_and_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("TEXTUAL_ANIMATIONS", raising=False)
    go = tmp_path / "go"
    words = ("watch", "--record=500", "--", sys.executable, "-c", WAITS, str(go))
    with Terminal((*PROGRAM, *words), columns=120, rows=40) as terminal:
        terminal.until_shows("Run", "running", "no torch is loaded in this process")
        terminal.keys("l")
        # The environment and the input that it would have had, but for what is said in the docs.
        terminal.until_shows("False False")
        terminal.keys("q")
        read_to_end(terminal)
        said = terminal.text()
        assert terminal.exit_code() == 0
    (run,) = runs.stored_runs()
    _assert_told(said)
    # By the beginning of its name; then the terminal is lost.
    with Terminal((*PROGRAM, "watch", run.folder.name[:8]), columns=120, rows=40) as terminal:
        terminal.until_shows("Run", "running", "no torch is loaded in this process")
        terminal.signal(signal.SIGHUP)
        terminal.exit_code()
    assert run.is_running
    go.touch()
    until(lambda: not run.is_running)
    assert run.log.read_text() == "False False\nit has ended by itself\n"
    with Terminal((*PROGRAM, "watch", run.folder.name), columns=120, rows=40) as terminal:
        terminal.until_shows("Watch", "exit code 0")
        terminal.keys("q")
        read_to_end(terminal)
        said = terminal.text()
        assert terminal.exit_code() == 0
    assert "shows it again" not in said


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Open the screen of a running watched run; the test ends both."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    words = ("watch", "--", sys.executable, "-c", SLEEPS)
    with Terminal((*PROGRAM, *words), columns=120, rows=40) as terminal:
        terminal.until_shows("Run", "running", "no torch is loaded in this process")
        try:
            yield terminal
        finally:
            for run in runs.stored_runs():
                if run.is_running and run.pid is not None:
                    os.killpg(run.pid, signal.SIGKILL)


def _assert_told(said: str) -> None:
    """Assert that the run continues, and that the last line says how to return to it."""
    (run,) = runs.stored_runs()
    assert run.is_running
    words = f"is still running as process {run.pid}; stored in {run.folder}; gpu-workbench watch"
    # The terminal breaks lines anywhere, and drops a space that ends one.
    assert "".join(f"{words} {run.folder.name} shows it again".split()) in "".join(said.split())


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGHUP,
        pytest.param(signal.SIGQUIT, marks=VARIANT),
        pytest.param(signal.SIGALRM, marks=VARIANT),
    ],
)
def test_a_signal_to_the_screen_leaves_the_run_alive_and_says_how_to_come_back(
    live: Terminal, number: signal.Signals
) -> None:
    live.signal(number)
    assert live.exit_code() == 128 + number
    assert_restored(live)
    _assert_told(live.text())


@VARIANT
def test_ctrl_c_asks_whether_to_leave_the_run_or_to_end_it(live: Terminal) -> None:
    live.keys("\x03")
    live.until_shows("Leave the run or end it?", "l leaves it running", "e ends it")
    live.keys("\x1b")
    live.until(lambda text: "Leave the run" not in text)
    live.keys("\x03")
    live.until_shows("Leave the run or end it?")
    live.keys("l")
    assert live.exit_code() == 130
    assert_restored(live)
    _assert_told(live.text())


@VARIANT
def test_ctrl_c_may_end_the_run_and_the_screen_shows_how(live: Terminal) -> None:
    live.keys("\x03")
    live.until_shows("Leave the run or end it?")
    live.keys("e")
    live.until_shows("Run", "ended by SIGINT")
    (run,) = runs.stored_runs()
    assert not run.is_running
    live.keys("\x03")
    assert live.exit_code() == 130
