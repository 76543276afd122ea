"""Each program's OOM is explained: by default, with the history, and from torch's snapshot alone.

What is held is the first line (where it failed, the cause, the name and line of a leak) and the
first advice.
"""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.oom.table import FOLDER, PROGRAMS, Program
from tests.simulated_gpu import libraries as simulated
from tests.simulated_gpu import place
from tui.rehearsal.device.settings import DeviceSettings
from tui.snapshots.analysis.analysis import Analysis
from tui.snapshots.analysis.verdict import judge
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.explain.inventory import KEY
from tui.snapshots.read.load import load

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]
TWO_MODES = ("default", "record")


def gpus(folder: Path, devices: int) -> dict[str, str]:
    """Return the environment of a program that has simulated GPUs of 8 GiB for itself."""
    libraries = simulated.libraries()
    if libraries is None or not place.is_simulated():
        pytest.skip("the sizes in these programs are those of a simulated GPU of 8 GiB")
    state = folder / "gpu"
    found = simulated.environment(libraries, DeviceSettings(devices=devices), state)
    return {**found, "GPU_WORKBENCH_STATE": str(folder / "state"), "PYTHONPATH": str(ROOT)}


def output_of(command: list[str], folder: Path, *options: str, devices: int = 1) -> bytes:
    """Return what ``watch --no-screen`` prints for a command."""
    words = [sys.executable, "-m", "tui", "watch", "--no-screen", *options, "--", *command]
    environment = gpus(folder, devices)
    return subprocess.run(
        words, env=environment, capture_output=True, check=False, cwd=folder
    ).stdout


def watch(command: list[str], folder: Path, *options: str, devices: int = 1) -> dict[str, Any]:
    """Return what ``watch --no-screen --json`` prints for a command."""
    found: dict[str, Any] = json.loads(
        output_of(command, folder, "--json", *options, devices=devices)
    )
    return found


def oom_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the last OOM of the only process that had one."""
    (ooms,) = [process["ooms"] for process in told["processes"] if process["ooms"]]
    found: dict[str, Any] = ooms[-1]
    return found


def check(program: Program, line: str, advice: list[str]) -> None:
    """Hold a first line and advice against the truth."""
    assert line.startswith("OOM "), line
    # Neither oom.py:1 for oom.py:12 nor the line of a leak for the line that asked.
    where = re.search(r"\w+\.py:\d+", line)
    assert where is not None, line
    assert where[0] in program.lines("asks"), line
    for words in program.says:
        assert words in line, line
    assert any(words in advice[0] for words in program.helps), advice[0]
    for words in program.never:
        assert not any(words in each for each in advice), advice


@pytest.mark.parametrize("mode", TWO_MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_cause_the_line_and_what_helps(program: Program, mode: str, tmp_path: Path) -> None:
    options = ["--record"] if mode == "record" else []
    oom = oom_of(
        watch([sys.executable, str(program.path)], tmp_path, *options, devices=program.devices)
    )
    found = oom["explanation"]
    check(program, found["line"], [f"{each['what']}: {each['why']}" for each in found["advice"]])
    assert found["cause"] == program.cause
    if program.cause == "leak":
        lines = program.lines("leaks")
        # No one line adds to a module's buffers, which the inventory has by their names.
        assert not lines or any(leaks in found["line"] for leaks in lines), found["line"]
    if oom["snapshot"] is None:
        # The last of many OOMs within a second has none.
        assert program.name == "many_retries"
    elif mode == "record":
        alone(program, Path(oom["snapshot"]))


def alone(program: Program, snapshot: Path) -> None:
    """Judge the same snapshot as torch itself would have written it."""
    whole = pickle.loads(snapshot.read_bytes())
    del whole[KEY]
    bare = snapshot.with_suffix(".bare")
    bare.write_bytes(pickle.dumps(whole))
    found = explanation_of(bare)
    assert found.cause in (program.cause, *program.alone), found.line
    assert program.name in found.line, found.line
    if found.cause == "leak":
        (best, *_) = found.advice
        assert "smaller batch" not in best.what, best


def explanation_of(snapshot: Path) -> Explanation:
    with snapshot.open("rb") as file:
        devices = Analysis(load(file)).devices.values()
    device = next(device for device in devices if device.replay.ooms)
    return judge(device, device.replay.ooms[-1], ()).explanation


def test_each_program_is_in_the_table() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "rank_of_two"}
    assert {program.name for program in PROGRAMS} == files
    assert len(PROGRAMS) >= 44


def test_a_rank_that_runs_out_alone_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    told = watch([*command, str(FOLDER / "rank_of_two.py")], tmp_path, devices=2)
    (process,) = [each for each in told["processes"] if each["ooms"]]
    assert process["rank"] == 1
    assert told["first_failure"] == "rank 1 ran out of memory; torchrun ended rank 0"
    line = process["ooms"][-1]["explanation"]["line"]
    assert "Leak: outputs (list of" in line
    assert "rank_of_two.py:" in line


def test_the_text_gives_the_cause_then_what_helps_then_the_figures(tmp_path: Path) -> None:
    printed = output_of([sys.executable, str(FOLDER / "list_of_losses.py")], tmp_path).decode()
    order = (
        "Leak: losses (list of",
        "Used 7.",
        "What would help",
        "Could not allocate",
        "Requested at",
        "OOM 1 of 1 in process",
        "; stored in ",  # torch aborts now and then as it exits after an OOM of a backward pass
        "  cuda:0: peak 6.",
    )
    places = [printed.find(words) for words in order]
    assert -1 not in places, printed
    assert places == sorted(places), printed
    # The traceback has the text of the exception, and it goes to stderr.
    assert "CUDA out of memory" not in printed
    assert printed.count("Leak: losses") == 1
