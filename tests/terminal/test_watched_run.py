"""``watch -- COMMAND`` and ``watch RUN`` on a terminal: the run outlives the screen."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.terminal.faults import read_to_end
from tests.terminal.terminal import PROGRAM, Terminal
from tests.waiting import until
from tui.watch import runs

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
        terminal.until_shows("Run", "goes on", "no torch is loaded in this process")
        terminal.keys("l")
        # The environment and the input that it would have had, but for what is said in the docs.
        terminal.until_shows("False False")
        terminal.keys("q")
        read_to_end(terminal)
        said = terminal.text()
        assert terminal.exit_code() == 0
    (run,) = runs.kept()
    assert run.goes_on
    said = said.replace("\n", "")  # the terminal breaks lines anywhere
    assert f"goes on as process {run.pid}; kept in {run.folder}" in said
    assert f"gpu-workbench watch {run.folder.name} shows it again" in said
    # By the beginning of its name; then the terminal is lost.
    with Terminal((*PROGRAM, "watch", run.folder.name[:8]), columns=120, rows=40) as terminal:
        terminal.until_shows("Run", "goes on", "no torch is loaded in this process")
        terminal.signal(signal.SIGHUP)
        terminal.exit_code()
    assert run.goes_on
    go.touch()
    until(lambda: not run.goes_on)
    assert run.log.read_text() == "False False\nit has ended by itself\n"
    with Terminal((*PROGRAM, "watch", run.folder.name), columns=120, rows=40) as terminal:
        terminal.until_shows("Watch", "not seen")
        terminal.keys("q")
        read_to_end(terminal)
        said = terminal.text()
        assert terminal.exit_code() == 0
    assert "shows it again" not in said
