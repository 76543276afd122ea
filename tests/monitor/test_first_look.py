"""The monitor that is started before there are screens, and a session that takes it over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.children.sessions import lines, saying, until
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.tiers import VARIANT
from tui.core.child.launch import FOLDER, Launched, launch
from tui.monitor import serve_command
from tui.runs.session.session import Session

ROOT = Path(__file__).parents[2]


def session_over(monitor: Launched, folder: Path) -> Session:
    return Session(saying(folder), 0.2, monitor=monitor)


def launched(scenario_of: dict[str, str] | None = None) -> Launched:
    variables = {"PYTHONPATH": str(ROOT), **(scenario_of or {})}
    return launch(serve_command(0.2), variables, FOLDER)


async def test_it_is_taken_over_with_what_it_has_said(
    tmp_path: Path, scripted_nvml: ScriptedNvml
) -> None:
    monitor = launched(scripted_nvml.env(busy_box()))
    session = session_over(monitor, tmp_path)
    session.watch()
    try:
        await session.wait_for_sample(60)
        assert session.state.machine.sample is not None
        assert len(session.state.machine.sample.devices) == 8
        # No runner yet: torch's import would take the cores from the first paint.
        assert [child.pid for child in session._children()] == [monitor.pid]
        await session.start()
        assert session._children()[0].pid == monitor.pid
    finally:
        await session.stop()
    assert monitor.poll() is not None


@VARIANT
async def test_one_that_has_died_meanwhile_starts_anew(tmp_path: Path) -> None:
    dead = launch((sys.executable, "-c", "raise SystemExit(3)"))
    dead.wait()
    session = session_over(dead, tmp_path)
    session.watch()
    try:
        await session.wait_for_sample(60)
        assert session.state.machine.sample is None
        assert (
            session.state.machine.monitor.reason
            == "the monitor ended: exit status 3; it is restarted"
        )
        await until(session, lambda: session.state.machine.sample is not None)
    finally:
        await session.stop()


async def test_a_driver_that_hangs_keeps_nobody_waiting(
    tmp_path: Path, scripted_nvml: ScriptedNvml
) -> None:
    hangs = scripted_nvml.env(busy_box().returns("nvmlInitWithFlags", hang=True))
    session = session_over(launched(hangs), tmp_path)
    session.watch()
    try:
        await session.wait_for_sample(60)
        assert session.state.machine.sample is not None
        assert "NVML is still starting" in (session.state.machine.sample.driver.error or "")
    finally:
        await session.stop()


async def test_one_that_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    session = session_over(launch(("cat",)), tmp_path)
    session.watch()
    try:
        await session.wait_for_sample(0.05)
        assert session.state.machine.sample is None
    finally:
        await session.stop()


async def test_a_session_without_a_monitor_waits_for_none(tmp_path: Path) -> None:
    session = Session(saying(tmp_path), None)
    session.watch()
    await session.wait_for_sample(60)
    await session.start()
    await session.stop()
    assert not lines(session, "error")


def ended(pid: int) -> bool:
    """Whether it is gone, or waits only for somebody to ask how it ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "raise KeyboardInterrupt"])
def test_it_ends_with_a_program_that_ends_while_it_starts(end: str) -> None:
    code = (
        "import json, os, sys\n"
        "from tui.core.child.launch import FOLDER, launch\n"
        "from tui.monitor import serve_command\n"
        f"child = launch(serve_command(0.2), {{'PYTHONPATH': {str(ROOT)!r}}}, FOLDER)\n"
        "print(json.dumps(child.pid), flush=True)\n"
        f"{end}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    pid = json.loads(done.stdout)
    deadline = time.monotonic() + 60
    while not ended(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
