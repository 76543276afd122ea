"""The program in a real terminal, driven by keys."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests import ceilings
from tests.children.sessions import misbehaving, saying
from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.results.made_runner import made
from tests.terminal.terminal import PROGRAM, Terminal
from tests.tiers import VARIANT
from tests.waiting import assert_gone
from tui.monitor.nvml import Code
from workloads.protocol.results import OUT_OF_MEMORY

END_S = 60.0
"""For an end that takes two seconds on a machine that has nothing else to do."""
LEAVES_ALTERNATE_SCREEN = b"\x1b[?1049l"
SIZE = (80, 24)
TWO_GPUS = busy_box(2)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """Start a program with a real runner and brief time budgets, for tests that do not end it."""
    folder = tmp_path_factory.mktemp("program")
    ceilings.keep(folder / "state")
    argv = (*PROGRAM, "--python", misbehaving(folder))
    variables = {"GPU_WORKBENCH_STATE": str(folder / "state")}
    with Terminal(argv, *SIZE, variables) as terminal:
        yield terminal


@pytest.fixture
def workbench(started: Terminal) -> Iterator[Terminal]:
    """Return the shared program at rest, with the table in view."""
    started.until_shows("transfer", "ready")
    yield started
    if "running" in started.text():
        started.keys("X")
    started.until(lambda text: "running" not in text)


@pytest.fixture
def doomed(state: Path) -> Iterator[Terminal]:
    """Start a program for one test, with its usual runner."""
    ceilings.keep(state)
    with Terminal() as terminal:
        terminal.until_shows("matmul n=", "ready")
        yield terminal


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Terminal]:
    """Start a program for one test whose runner only says that it is ready."""
    with Terminal((*PROGRAM, "--python", saying(tmp_path))) as terminal:
        terminal.until_shows("matmul n=", "ready")
        yield terminal


def _start_a_long_run(terminal: Terminal) -> None:
    terminal.keys("R")
    terminal.until_shows("y yes")
    terminal.keys("y")
    terminal.until_shows("running")
    # The program, the monitor, the runner and its worker.
    terminal.until(lambda _text: len(terminal.family()) >= 4)


def _run_the_selected(terminal: Terminal) -> None:
    if "transfer mib" not in terminal.text():
        terminal.keys("jj")  # past the products of matrices, which take longer
    terminal.until_shows("transfer mib")
    terminal.keys("r")
    terminal.until(
        lambda text: any("transfer mib" in row and " ok" in row for row in text.split("\n"))
    )


def _runner(terminal: Terminal) -> psutil.Process:
    """Return the runner's process, a child of the program."""
    (runner,) = [
        process
        for process in psutil.Process(terminal.process.pid).children()
        if "serve" in process.cmdline() and "tui.monitor" not in process.cmdline()
    ]
    return runner


# ---- while it goes on ----


def test_r_runs_the_selected_workload_and_its_figure_appears(workbench: Terminal) -> None:
    _run_the_selected(workbench)


def test_the_screen_process_has_no_torch_and_no_nvml_mapped(workbench: Terminal) -> None:
    maps = Path(f"/proc/{workbench.process.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert "libnvidia-ml" not in maps
    assert "/torch/" in Path(f"/proc/{_runner(workbench).pid}/maps").read_text()


def test_runs_are_cancelled_and_the_screen_says_so(workbench: Terminal) -> None:
    assert "cancelled" not in workbench.text()
    _start_a_long_run(workbench)
    # All of them: the one under the cursor may be at its end.
    workbench.keys("X")
    workbench.until_shows("cancelled")


def test_switching_a_flag_shows_a_verdict(workbench: Terminal) -> None:
    workbench.until_shows("[x] enabled")
    workbench.keys("F", " ")
    text = workbench.until(lambda text: "pairs" in text and "so far" not in text)
    words = ("faster", "slower", "same", "unclear")
    assert any(word in text for word in words)
    workbench.keys("w")


def test_it_follows_a_change_of_size(workbench: Terminal) -> None:
    workbench.resize(120, 40)
    workbench.until(lambda text: any(len(row) > 100 for row in text.split("\n")))
    workbench.resize(60, 20)
    workbench.until_shows("Devices", "Workloads")
    workbench.resize(*SIZE)
    workbench.until_shows("transfer", "ready", "q quit")


@pytest.mark.parametrize(
    "number",
    [
        # Without a screen these are tried in the default run too.
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(signal.SIGSEGV, marks=pytest.mark.slow),
        pytest.param(signal.SIGABRT, marks=pytest.mark.slow),
    ],
)
def test_a_runner_that_dies_is_said_on_the_screen_and_the_next_run_works(
    doomed: Terminal, number: signal.Signals
) -> None:
    _start_a_long_run(doomed)
    assert "failed" not in doomed.text()
    _runner(doomed).send_signal(number)
    doomed.until_shows("failed")
    doomed.keys("l")
    doomed.until_shows(number.name)
    doomed.keys("\x1b")  # escape
    doomed.until_shows("matmul n=", "ready")
    _run_the_selected(doomed)


# ---- its end ----


def test_q_ends_it_with_0_and_restores_the_terminal(idle: Terminal) -> None:
    idle.keys("q")
    assert idle.exit_code() == 0
    assert LEAVES_ALTERNATE_SCREEN in idle.output


def test_ctrl_c_ends_it_with_130(idle: Terminal) -> None:
    idle.keys("\x03")
    assert idle.exit_code() == 130
    assert LEAVES_ALTERNATE_SCREEN in idle.output


# A terminal that vanishes sends SIGHUP; the tests of its faults try the other signals.
@VARIANT
def test_a_signal_ends_it_and_its_children(doomed: Terminal) -> None:
    _start_a_long_run(doomed)
    family = doomed.family()
    asked = time.monotonic()
    doomed.signal(signal.SIGTERM)
    assert doomed.exit_code() == 128 + signal.SIGTERM
    assert_gone(family, max(0.0, END_S - (time.monotonic() - asked)))
    assert LEAVES_ALTERNATE_SCREEN in doomed.output


@VARIANT
def test_a_vanished_terminal_ends_it_and_its_children(doomed: Terminal) -> None:
    _start_a_long_run(doomed)
    family = doomed.family()
    asked = time.monotonic()
    doomed.hang_up()
    assert_gone(family, max(0.0, END_S - (time.monotonic() - asked)))


def test_killed_outright_it_leaves_no_child(doomed: Terminal) -> None:
    _start_a_long_run(doomed)
    family = doomed.family()
    doomed.process.kill()
    doomed.process.wait()
    assert_gone(family)


# ---- how it starts ----


@VARIANT
def test_every_pane_can_be_had_at_each_size(tmp_path: Path) -> None:
    # Once a row is as wide as the larger terminal, it is drawn anew.
    with Terminal((*PROGRAM, "--python", saying(tmp_path)), 60, 20) as terminal:
        for columns, rows in ((60, 20), (80, 24), (120, 40), (200, 50)):
            terminal.resize(columns, rows)
            terminal.until(
                lambda text, columns=columns: columns in map(len, text.split("\n"))  # type: ignore[misc]
            )
            terminal.until_shows("Devices", "Memory", "Workloads", "Backends")


@VARIANT
def test_a_python_without_torch_is_said_on_the_screen(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no torch here >&2\nexit 1\n")
    python.chmod(0o755)
    with Terminal((*PROGRAM, "--python", str(python))) as terminal:
        terminal.until_shows("the runner ended: exit status 1", "Report:")


# ---- beside a driver ----


@dataclass
class Beside:
    """A program that tests share, and the driver's library that it has found."""

    terminal: Terminal
    nvml: ScriptedNvml


@pytest.fixture(scope="module")
def beside(scripted_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("two-gpus")
    nvml = ScriptedNvml(scripted_library, folder)
    variables = {**nvml.env(TWO_GPUS), "GPU_WORKBENCH_STATE": str(folder / "state")}
    with Terminal((*PROGRAM, "--python", saying(folder)), 120, 40, variables) as terminal:
        yield Beside(terminal, nvml)


def test_nvml_devices_are_listed_beside_the_cpu_and_their_memory_is_drawn(beside: Beside) -> None:
    terminal = beside.terminal
    text = terminal.until_shows("H200", "cuda:0", "cuda:1", "ready", "driver 580")
    assert len(re.findall(r"cuda:\d .*140\.4G +\d+°C +▴?\d+ W", text)) == 2
    terminal.until_shows("Memory   cuda:0")
    terminal.keys("d")
    terminal.until_shows("Memory   cuda:1")


@VARIANT
def test_a_device_that_is_lost_keeps_its_row_and_the_others_live(beside: Beside) -> None:
    terminal = beside.terminal
    terminal.until_shows("cuda:0", "cuda:1", "140.4G")
    beside.nvml.change(TWO_GPUS.returns("*", device=1, code=Code.GPU_IS_LOST))
    text = terminal.until_shows("lost")
    assert "cuda:0" in text


def _until_written(terminal: Terminal, sequence: bytes) -> None:
    terminal.until(lambda _text: sequence in bytes(terminal.output))


@VARIANT
def test_memory_that_runs_out_rings_and_notifies_unless_the_setting_is_off(tmp_path: Path) -> None:
    python = made(tmp_path, reason=f"{OUT_OF_MEMORY}nothing is left")
    rang = b"\x1b]9;gpu-workbench: matmul on cpu ran out of memory\x1b\\"
    for alarm in ("on", "off"):
        variables = {"GPU_WORKBENCH_ALARM": alarm}
        with Terminal((*PROGRAM, "--python", python), *SIZE, variables) as terminal:
            terminal.until_shows("matmul n=", "ready")
            terminal.keys("r")
            terminal.until_shows("out of memory")
            if alarm == "on":
                _until_written(terminal, rang)
            terminal.keys("q")
            assert terminal.exit_code() == 0
            assert (rang in bytes(terminal.output)) == (alarm == "on")
