"""The program in a real terminal, driven by keys."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import busy_box
from tests.terminal.terminal import PROGRAM, Terminal
from tui.devices.nvml_call import Code

END_S = 2.0
LEAVES_ALTERNATE_SCREEN = b"\x1b[?1049l"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path))
    return tmp_path


@pytest.fixture
def workbench() -> Iterator[Terminal]:
    with Terminal() as terminal:
        terminal.until_shows("transfer mib", "ready")
        yield terminal


def _start_a_long_run(terminal: Terminal) -> None:
    terminal.keys("R")
    terminal.until_shows("running")
    # The program, the monitor, the runner and its worker.
    terminal.until(lambda _text: len(terminal.family()) >= 4)


def _runner(terminal: Terminal) -> psutil.Process:
    """The runner's own process, whose parent is the program."""
    (runner,) = [
        process
        for process in psutil.Process(terminal.process.pid).children()
        if "serve" in process.cmdline() and "tui.devices" not in process.cmdline()
    ]
    return runner


def test_r_runs_the_selected_workload_and_its_figure_appears(workbench: Terminal) -> None:
    workbench.keys("r")
    workbench.until(
        lambda text: any("transfer mib" in row and " ok" in row for row in text.split("\n"))
    )


def test_q_ends_it_with_0_and_restores_the_terminal(workbench: Terminal) -> None:
    workbench.keys("q")
    assert workbench.exit_code() == 0
    assert LEAVES_ALTERNATE_SCREEN in workbench.output


def test_the_screen_process_has_no_torch_and_no_nvml_mapped(workbench: Terminal) -> None:
    maps = Path(f"/proc/{workbench.process.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert "libnvidia-ml" not in maps
    assert "/torch/" in Path(f"/proc/{_runner(workbench).pid}/maps").read_text()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["SIGTERM", "SIGHUP"]
)
def test_a_signal_ends_it_and_its_children_within_two_seconds(
    workbench: Terminal, number: signal.Signals, code: int
) -> None:
    _start_a_long_run(workbench)
    family = workbench.family()
    asked = time.monotonic()
    workbench.signal(number)
    assert workbench.exit_code() == code
    _, alive = psutil.wait_procs(family, timeout=max(0.0, END_S - (time.monotonic() - asked)))
    assert alive == []
    assert LEAVES_ALTERNATE_SCREEN in workbench.output


def test_a_vanished_terminal_ends_it_and_its_children_within_two_seconds(
    workbench: Terminal,
) -> None:
    _start_a_long_run(workbench)
    family = workbench.family()
    asked = time.monotonic()
    workbench.hang_up()
    _, alive = psutil.wait_procs(family, timeout=max(0.0, END_S - (time.monotonic() - asked)))
    assert alive == []


def test_ctrl_c_ends_it_with_130(workbench: Terminal) -> None:
    workbench.keys("\x03")
    assert workbench.exit_code() == 130
    assert LEAVES_ALTERNATE_SCREEN in workbench.output


def test_killed_outright_it_leaves_no_child(workbench: Terminal) -> None:
    _start_a_long_run(workbench)
    family = workbench.family()
    workbench.process.kill()
    workbench.process.wait()
    assert psutil.wait_procs(family, timeout=5)[1] == []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_runner_that_dies_is_said_on_the_screen_and_the_next_run_works(
    workbench: Terminal, number: signal.Signals
) -> None:
    _start_a_long_run(workbench)
    _runner(workbench).send_signal(number)
    workbench.until_shows("failed")
    workbench.keys("l")
    workbench.until_shows(number.name)
    workbench.keys("\x1b")  # escape
    workbench.until_shows("transfer mib", "ready")
    workbench.keys("r")
    workbench.until(
        lambda text: any("transfer mib" in row and " ok" in row for row in text.split("\n"))
    )


def test_x_cancels_and_the_screen_says_so(workbench: Terminal) -> None:
    _start_a_long_run(workbench)
    workbench.keys("x")
    workbench.until_shows("cancelled")


def test_switching_a_flag_shows_a_verdict(workbench: Terminal) -> None:
    workbench.until_shows("[x] enabled")
    workbench.keys("b", " ")
    text = workbench.until(lambda text: "pairs" in text and "so far" not in text)
    assert any(word in text for word in ("faster", "slower", "same", "unclear"))


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (60, 20), (200, 50)])
def test_every_pane_can_be_had_at_each_size(columns: int, rows: int) -> None:
    with Terminal(columns=columns, rows=rows) as terminal:
        terminal.until_shows("Devices", "Memory", "Workloads", "Backends")


def test_it_follows_a_change_of_size(workbench: Terminal) -> None:
    workbench.resize(120, 40)
    workbench.until(lambda text: any(len(row) > 100 for row in text.split("\n")))
    workbench.resize(60, 20)
    workbench.until_shows("Devices", "Workloads")


def test_a_python_without_torch_is_said_on_the_screen(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no torch here >&2\nexit 1\n")
    python.chmod(0o755)
    with Terminal((*PROGRAM, "--python", str(python))) as terminal:
        terminal.until_shows("the runner ended: exit status 1", "Report:")


def test_nvml_devices_are_listed_beside_the_cpu_and_their_memory_is_drawn(
    scripted_nvml: ScriptedNvml,
) -> None:
    variables = scripted_nvml.env(busy_box(2))
    with Terminal(columns=120, rows=40, variables=variables) as terminal:
        text = terminal.until_shows("NVIDIA H200", "nvml:0", "nvml:1", "ready", "driver 580")
        assert text.count("/700 W") == 2
        terminal.keys("d")
        terminal.until_shows("Memory   nvml:0")


def test_a_device_that_is_lost_keeps_its_row_and_the_others_live(
    scripted_nvml: ScriptedNvml,
) -> None:
    scenario = busy_box(2)
    with Terminal(columns=120, rows=40, variables=scripted_nvml.env(scenario)) as terminal:
        terminal.until_shows("nvml:0", "nvml:1", "/700 W")
        scripted_nvml.change(scenario.returns("*", device=1, code=Code.GPU_IS_LOST))
        text = terminal.until_shows("lost")
        assert "nvml:0" in text
