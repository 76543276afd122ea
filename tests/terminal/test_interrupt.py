"""Ctrl-C at any moment of the start: exit code 130, no traceback, no process that is left."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.children.sessions import saying
from tests.terminal.faults import read_to_end
from tests.terminal.terminal import PROGRAM, Terminal
from tests.waiting import until

MARK = "GPU_WORKBENCH_INTERRUPTED"
LATEST_S = 0.6
"""After the start; the first 250 ms are imports."""
COMMANDS: dict[tuple[str, ...], int | None] = {
    ("--version",): 0,
    ("--help",): 0,
    ("devices",): 0,
    ("list",): 0,
    ("results",): 0,
    ("watch",): 0,
    ("doctor",): 0,
    ("snapshot", "/dev/null"): 1,
    ("run", "transfer"): None,
    ("compare", "conv2d", "--flag", "cudnn.benchmark=off,on"): None,
}
"""With the exit code where the signal comes too late; ``None`` where it cannot."""


@pytest.fixture(autouse=True)
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Carried by every process that a test starts."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(tmp_path / "config.toml"))
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    return value


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False  # it has ended, or is another user's


def _assert_none_left(mark: str) -> None:
    mine = os.getpid()
    until(
        lambda: not any(_carries(each, mark) for each in psutil.process_iter() if each.pid != mine)
    )


def _is_python_s_own(said: str) -> bool:
    """Whether it came before the first statement of the program that can answer it was done."""
    ours = [line for line in said.splitlines() if 'File "' in line and "/tui/" in line]
    return all("/tui/__main__.py" in line or "/tui/core/interrupt.py" in line for line in ours)


def assert_quiet(said: str) -> None:
    """At most one line, unless Python itself was interrupted while it started."""
    if "Traceback" in said or "Fatal Python error" in said:
        assert _is_python_s_own(said), said
    else:
        assert len(said.strip().splitlines()) <= 1, said


def _after_the_screen(output: bytes) -> str:
    """Return the text on the terminal afterwards, without escapes and without the screen."""
    left = output[output.rfind(b"\x1b[?1049l") + 1 :]
    return re.sub(r"\x1b?\[[<>=?]?[0-9;$]*[a-zA-Z]", "", left.decode(errors="replace"))


def interrupt(command: Sequence[str], after_s: float, mark: str) -> None:
    """Start a command, send it SIGINT after a while, and see how it ends."""
    with subprocess.Popen(
        (*PROGRAM, *command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert_quiet(said)
    if "Traceback" not in said and "Fatal" not in said:
        codes = (130, -signal.SIGINT, COMMANDS[tuple(command)])
        assert process.returncode in codes, (command, process.returncode, said)
    _assert_none_left(mark)


def interrupt_screen(folder: Path, after_s: float, mark: str) -> None:
    """Interrupt the program on its screen, which must restore the terminal."""
    with Terminal((*PROGRAM, "--python", saying(folder))) as terminal:
        time.sleep(after_s)
        if terminal.process.poll() is None:
            terminal.signal(signal.SIGINT)
        code = terminal.exit_code()
        read_to_end(terminal)
        said = _after_the_screen(terminal.output)
        assert_quiet(said)
        if "Traceback" not in said and "Fatal" not in said:
            assert code in (130, -signal.SIGINT), (after_s, said)
        for mode in (1049, 1000, 2004):
            on, off = (f"\x1b[?{mode}{end}".encode() for end in "hl")
            assert terminal.output.rfind(on) <= terminal.output.rfind(off), mode
    _assert_none_left(mark)


def test_ctrl_c_amid_imports_is_no_traceback(tmp_path: Path) -> None:
    """An import that takes long: the moment is sure to be amid the imports."""
    slow = tmp_path / "slow"
    slow.mkdir()
    ready = tmp_path / "ready"
    # In short steps: Python would sleep on after a signal that comes just before a sleep.
    (slow / "difflib.py").write_text(
        f"import pathlib, time; pathlib.Path({str(ready)!r}).touch()\n"
        "for _ in range(6000): time.sleep(0.01)\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(slow)}
    with subprocess.Popen(
        (*PROGRAM, "--version"),
        env=variables,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        until(ready.exists)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")


def test_a_program_that_is_to_ignore_ctrl_c_does(tmp_path: Path) -> None:
    del tmp_path
    with subprocess.Popen(
        (*PROGRAM, "--version"),
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ) as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("after_s", [0.1, 0.25])
def test_ctrl_c_in_the_start_of_the_screen(tmp_path: Path, mark: str, after_s: float) -> None:
    interrupt_screen(tmp_path, after_s, mark)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sixty_times_ctrl_c_in_the_start_of_the_screen(tmp_path: Path, mark: str) -> None:
    chosen = random.Random(11)
    for _ in range(60):
        interrupt_screen(tmp_path, chosen.uniform(0.0, LATEST_S), mark)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", list(COMMANDS), ids=lambda command: command[0])
def test_ctrl_c_at_random_moments_of_a_command(command: tuple[str, ...], mark: str) -> None:
    chosen = random.Random(command[0])
    for _ in range(6):
        interrupt(command, chosen.uniform(0.0, LATEST_S), mark)
