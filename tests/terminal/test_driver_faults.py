"""The driver fails while the program is on the screen: keys, rows and the way back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.nvml.fixtures import ScriptedNvml
from tests.nvml.scenario import Scenario, busy_box, uuid
from tests.terminal.faults import assert_restored, without_torch
from tests.terminal.terminal import Terminal
from tests.tiers import VARIANT
from tests.waiting import assert_gone
from tui.monitor.nvml import Code

BOX = busy_box(3)
FIGURES = re.compile(r"\d+°C +▴?\d+(/\d+)? W")
"""Temperature and power in a row; a mark stands before power at its cap."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(folder))
    return folder


@pytest.fixture
def terminal(tmp_path: Path, scripted_nvml: ScriptedNvml) -> Iterator[Terminal]:
    """Start a program for one test."""
    with Terminal(without_torch(tmp_path), 120, 40, scripted_nvml.env(BOX)) as found:
        found.until(lambda text: len(list(FIGURES.finditer(text))) == 3)
        yield found


@dataclass
class Kept:
    """A program that tests share, which outlives what they do to the driver."""

    terminal: Terminal
    nvml: ScriptedNvml


@pytest.fixture(scope="module")
def started(scripted_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("driver")
    nvml = ScriptedNvml(scripted_library, folder)
    variables = {**nvml.env(BOX), "GPU_WORKBENCH_STATE": str(folder / "state")}
    with Terminal(without_torch(folder), 120, 40, variables) as terminal:
        yield Kept(terminal, nvml)


@pytest.fixture
def kept(started: Kept) -> Kept:
    """Return the shared program with no fault set."""
    started.nvml.change(BOX)
    started.terminal.until(
        lambda text: len(list(FIGURES.finditer(text))) == 3 and "lost" not in text
    )
    return started


def row_of(text: str, label: str) -> str:
    """Return the row of a device in the list, not a pane's title with its name."""
    found = re.search(rf"^[ │▸]+{label}\b.*", text, re.MULTILINE)
    return found[0] if found else ""


@pytest.mark.slow
def test_t10_keys_are_answered_the_silence_is_told_and_quitting_works(
    terminal: Terminal, scripted_nvml: ScriptedNvml
) -> None:
    family = terminal.family()
    scripted_nvml.change(BOX.returns("nvmlDeviceGetPowerUsage", device=1, hang=True))
    silent = re.compile(r"NVML has not answered for (\d+) s")
    first = silent.search(terminal.until(lambda text: silent.search(text) is not None))
    assert first is not None
    # The age goes on, and so do the keys: each one changes what is shown.
    terminal.until(
        lambda text: any(int(age) > int(first[1]) for age in silent.findall(text)),
    )
    for key, words in (("2", "Memory"), ("4", "Processes"), ("1", "Workloads"), ("?", "escape")):
        terminal.keys(key)
        terminal.until_shows(words)
    terminal.keys("\x1b")
    text = terminal.until(lambda text: FIGURES.search(row_of(text, "cuda:1")) is not None)
    assert "old" in row_of(text, "cuda:1")
    terminal.keys("q")
    assert terminal.exit_code() == 0
    assert_restored(terminal)
    assert_gone(family)


@VARIANT
def test_t8_a_lost_gpu_keeps_its_row_with_its_last_figures_and_the_others_live(kept: Kept) -> None:
    terminal = kept.terminal
    # In the narrow pane of a wide screen the reason takes the whole row.
    terminal.resize(80, 24)
    kept.nvml.change(BOX.returns("*", device=1, code=Code.GPU_IS_LOST))
    text = terminal.until(
        lambda text: (
            "lost" in row_of(text, "cuda:1") and FIGURES.search(row_of(text, "cuda:1")) is not None
        )
    )
    last = FIGURES.search(row_of(text, "cuda:1"))
    assert last is not None
    # They stay as they are while the age and the others' figures go on.
    before = row_of(text, "cuda:0")
    text = terminal.until(
        lambda text: (
            row_of(text, "cuda:0") != before
            and re.search(r"lost ([3-9]|\d\d+) s", row_of(text, "cuda:1")) is not None
        )
    )
    assert last[0] in row_of(text, "cuda:1")
    assert "lost" not in row_of(text, "cuda:0") + row_of(text, "cuda:2")


@pytest.mark.slow
def test_t9_a_reloaded_driver_is_used_again_without_a_restart(kept: Kept) -> None:
    terminal = kept.terminal
    family = {process.pid for process in terminal.family()}
    down = BOX.returns("*", code=Code.UNINITIALIZED)
    kept.nvml.change(down.returns("nvmlInitWithFlags", code=Code.DRIVER_NOT_LOADED))
    terminal.until(
        lambda text: (
            "not loaded" in text
            and all("lost" in row_of(text, f"cuda:{index}") for index in range(3))
        )
    )
    # It may count its devices in another order when it comes back.
    kept.nvml.change(BOX.with_devices(*reversed(BOX.devices)))
    terminal.until(lambda text: len(list(FIGURES.finditer(text))) >= 3 and "lost" not in text)
    # The look at other processes' allocators may have been started meanwhile.
    assert family <= {process.pid for process in terminal.family()}


@VARIANT
def test_t23_the_selection_follows_the_device_and_not_its_number(
    terminal: Terminal, scripted_nvml: ScriptedNvml
) -> None:
    terminal.keys("d", "d")
    terminal.until_shows("▸ cuda:2", "Memory   cuda:2")
    first, _, third = BOX.devices
    assert third.uuid == uuid(2)
    scripted_nvml.change(BOX.with_devices(first, third))
    terminal.until_shows("▸ cuda:1", "Memory   cuda:1")
    scripted_nvml.change(BOX)
    terminal.until_shows("▸ cuda:2", "Memory   cuda:2")


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        pytest.param(
            Scenario().returns("nvmlInitWithFlags", code=Code.DRIVER_NOT_LOADED),
            "not loaded",
            id="T2-not-loaded",
        ),
        pytest.param(
            Scenario(devices=()), "the driver lists no GPU", id="T3-no-devices", marks=VARIANT
        ),
        pytest.param(
            Scenario().returns("nvmlDeviceGetPowerUsage", crash="segv"),
            "SIGSEGV",
            id="T10-the-driver-crashes",
        ),
    ],
)
def test_it_starts_and_says_what_is_wrong_with_the_driver(
    tmp_path: Path, scripted_nvml: ScriptedNvml, scenario: Scenario, words: str
) -> None:
    with Terminal(without_torch(tmp_path), 120, 40, scripted_nvml.env(scenario)) as terminal:
        terminal.until_shows(words, "cpu", "Workloads")
        terminal.keys("q")
        assert terminal.exit_code() == 0


def test_t28_looking_loads_nothing_of_cuda_into_the_program_or_its_monitor(kept: Kept) -> None:
    program, *children = kept.terminal.family()
    monitor = [child for child in children if "tui.monitor" in child.cmdline()]
    assert len(monitor) == 1
    for process in (program, *monitor):
        maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
        assert not re.search(r"libcuda\b|libcudart|libtorch|libc10", maps)
    assert psutil.Process(program.pid).memory_info().rss < 2**30
