"""The kernel's OOM killer, which ends what takes too much of the host's memory: it is told."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.watch.following import until
from tui.core.child.inside import Cgroup
from tui.kit.command_line.alarm import CommandAlarm
from tui.watch.cli.launch import (
    RunOutcome,
    RunWithoutScreen,
    build_report,
    format_markdown,
    format_text,
)
from tui.watch.runs import start
from tui.watch.runs.run_summary import describe_oom_kills
from tui.watch.runs.runs import StartedRun, read_again
from tui.watch.session.watched_session import WatchedRunSession

# A signal that this program cannot tell from the kernel's, and the kernel's count of its own.
KILLED = """
import os, signal, sys
open(sys.argv[1], "w").write("oom 1\\noom_kill 3\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""
ENDED = "the kernel's OOM killer ended the run: host memory, not the GPU's"


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the file in which the kernel counts OOM kills; it has counted two."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    group = tmp_path / "cgroup"
    group.mkdir()
    (tmp_path / "membership").write_text("0::/\n")
    monkeypatch.setattr(start, "Cgroup", lambda: Cgroup(group, tmp_path / "membership"))
    file = group / "memory.events"
    file.write_text("oom 2\noom_kill 2\n")
    return file


async def outcome(code: str, events: Path) -> RunOutcome:
    command = (sys.executable, "-c", code, str(events))
    return await RunWithoutScreen(command, None, shows_output=False, alarm=CommandAlarm({})).run()


async def test_a_run_that_the_kernel_ended_says_so_everywhere(events: Path) -> None:
    found = await outcome(KILLED, events)
    assert found.run.signal == signal.SIGKILL
    assert any(line.startswith(ENDED) for line in await format_text(found))
    assert any(line.startswith(ENDED) for line in await format_markdown(found))
    assert build_report(found)["host_oom_kills"] == 1
    session = WatchedRunSession()
    session.open(read_again(found.run))
    shown = await until(session, lambda state: state.replayed and state)
    assert shown.notes[0].startswith(ENDED)
    await session.stop()


async def test_a_run_that_something_else_ended_says_nothing_of_it(events: Path) -> None:
    found = await outcome("import os; os.kill(os.getpid(), 9)", events)
    assert not any("OOM killer" in line for line in await format_text(found))
    told = build_report(found)
    assert told["host_oom_kills"] == 0
    assert "host_oom_kills" not in told["unavailable"]


async def test_without_a_count_it_is_not_known(events: Path) -> None:
    events.unlink()
    told = build_report(await outcome("pass", events))
    assert told["host_oom_kills"] is None
    assert "OOM killer" in told["unavailable"]["host_oom_kills"]


@pytest.mark.parametrize(
    ("kills", "code", "number", "whom"),
    [
        (1, None, 9, "ended the run:"),
        (1, 137, None, "ended the run:"),
        (1, 1, None, "ended 1 process of the run's cgroup:"),
        (3, None, 9, "ended 3 processes of the run's cgroup:"),
    ],
)
def test_whom_it_ended_is_reported_as_far_as_it_is_known(
    kills: int, code: int | None, number: int | None, whom: str, tmp_path: Path
) -> None:
    run = StartedRun(tmp_path, (), "/", 1.0, ended=2.0, code=code, signal=number, oom_kills=kills)
    assert whom in describe_oom_kills(run)
