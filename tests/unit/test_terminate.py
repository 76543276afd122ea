"""The signals that end a process: sent to the process that was shown, and to no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.screens.helpers import NOW, gpu_process
from tui.devices.session.terminate import explain_unmatched, refusal, send_signal
from tui.monitor.messages import GpuProcess


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


def _row(pid: int, started_at: float | None = None) -> GpuProcess:
    started = started_at if started_at is not None else psutil.Process(pid).create_time()
    return gpu_process(pid, started_at=started)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_process_shown_gets_the_signal(
    sleeper: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    assert send_signal(_row(sleeper.pid), number) is None
    assert sleeper.wait(60) == -number


def test_another_process_with_the_same_number_gets_nothing(
    sleeper: subprocess.Popen[bytes],
) -> None:
    earlier = psutil.Process(sleeper.pid).create_time() - 3600
    problem = send_signal(_row(sleeper.pid, earlier), signal.SIGTERM)
    assert problem is not None
    assert "belongs to another process" in problem
    assert sleeper.poll() is None


def test_a_process_that_has_ended_is_said_to_have(sleeper: subprocess.Popen[bytes]) -> None:
    row = _row(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    problem = send_signal(row, signal.SIGTERM)
    assert problem == f"{row.pid} has ended already"


def test_a_pid_that_is_not_tied_to_a_process_here_is_refused() -> None:
    row = gpu_process(1, started_at=None, unavailable={"user": "in a container the PID is …"})
    assert "in a container" in (refusal(row) or "")
    assert send_signal(row, signal.SIGTERM) == refusal(row)


def test_this_program_is_refused() -> None:
    assert "this workbench" in (refusal(_row(os.getpid())) or "")


def test_why_a_process_is_not_matched_says_nothing_of_a_signal() -> None:
    row = gpu_process(7, started_at=None, unavailable={"user": "in a container"})
    assert explain_unmatched(row) == "in a container"
    assert "matched to a process" in (explain_unmatched(gpu_process(7, started_at=None)) or "")
    assert explain_unmatched(gpu_process(7, started_at=NOW)) is None
