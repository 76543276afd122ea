"""A user's file of workloads that never returns from import."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children.sessions import until
from tests.terminal.terminal import Terminal
from tests.tiers import VARIANT
from tui.headless.catalogue import read_catalogue
from tui.runs.session import runner_supervisor as supervisors
from tui.runs.session.session import Session
from workloads import ENTRY

ENDLESS = """
import time
while True:
    try:
        time.sleep(600)
    except Exception:
        pass
"""
LATE = """
import time
from workloads.workload import Case, workload
time.sleep(2.5)

@workload(group="mine", title="late", about="a.", look_for="l.")
def late(on):
    return Case(lambda: None)
"""


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS)
    return path


@VARIANT
async def test_a_session_says_that_the_runner_still_imports_it(
    endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "SILENT_S", 0.2)
    session = Session(sys.executable, None, (str(endless),))
    await session.start()
    try:
        await until(session, lambda: bool(session.state.runs.runner.reason))
        runner = session.state.runs.runner
        assert runner.status == "starting"
        assert runner.reason.startswith("no answer for ")
        assert runner.reason.endswith(" s: the runner still imports endless.py")
        assert runner.advice
    finally:
        await session.stop()


@pytest.mark.slow
async def test_what_is_said_of_a_slow_file_is_over_once_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "SILENT_S", 0.2)
    path = tmp_path / "late.py"
    path.write_text(LATE)
    session = Session(sys.executable, None, (str(path),))
    await session.start()
    try:
        await until(session, lambda: "late.py" in session.state.runs.runner.reason)
        await until(session, lambda: bool(session.state.runs.catalogue))
        await until(session, lambda: session.state.runs.runner.status == "ready")
        assert session.state.runs.runner.reason == ""
    finally:
        await session.stop()


@VARIANT
async def test_list_says_it_once_where_there_is_no_terminal(
    endless: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisors, "SILENT_S", 0.2)
    said = ""
    listing = asyncio.create_task(read_catalogue(sys.executable, [str(endless)]))
    while "endless.py" not in said:
        assert not listing.done()
        await asyncio.sleep(0.02)
        said += capfd.readouterr().err
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    assert said.startswith("gpu-workbench: no answer for ")
    assert said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("run", "matmul", "--device", "cpu"),
        ("compare", "conv2d", "--flag", "mkldnn.enabled=off,on"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_says_it_and_ctrl_c_ends_it(
    endless: Path, words: tuple[str, ...], tmp_path: Path
) -> None:
    command = [sys.executable, ENTRY, "tui", *words, "--workloads", str(endless)]
    variables = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("gpu-workbench: no answer for ")
        assert "endless.py" in line
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
        assert process.wait(30) == 130


@pytest.mark.slow
def test_the_screen_says_it_and_can_be_left(endless: Path, tmp_path: Path) -> None:
    command = (sys.executable, ENTRY, "tui", "--workloads", str(endless))
    with Terminal(command, 140, 40, {"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.until_shows("no answer for", "endless.py")
        terminal.keys("q")
        assert terminal.exit_code() == 0
