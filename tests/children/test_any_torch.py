"""Another environment that has torch and nothing of ours, and one with the program but no torch."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.terminal.terminal import Terminal
from tests.tiers import VARIANT
from tui.runs.views.runner_notes import STILL_WORKS
from workloads import START
from workloads.protocol import messages, wire

ROOT = Path(__file__).parents[2]
OURS = ("tui", "workloads", "textual", "rich", "psutil", "pynvml", "platformdirs")


def _needed(name: str, seen: set[str]) -> set[str]:
    """Return a distribution and all that it requires here, without extras."""
    if name not in seen:
        seen.add(name)
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                _needed(requirement.name, seen)
    return seen


@pytest.fixture(scope="module")
def torch_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment with torch and what torch requires, linked from this one."""
    return _linked(tmp_path_factory.mktemp("torch-alone") / "venv", _needed("torch", set()))


def _linked(folder: Path, names: set[str]) -> Path:
    """Make a virtual environment with these distributions of this one; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    for name in names:
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            source = Path(str(found.locate_file(top)))
            if source.exists() and not (packages / top).exists():
                (packages / top).symlink_to(source)
    return folder / "bin" / "python"


def test_the_environment_has_torch_and_nothing_of_ours(torch_alone: Path) -> None:
    found = f"import importlib.util as u; print([n for n in {OURS!r} if u.find_spec(n)])"
    text = subprocess.check_output([torch_alone, "-c", found], text=True, cwd="/")
    assert text.strip() == "[]"


@pytest.fixture(scope="module")
def version(torch_alone: Path) -> str:
    """Of the torch that is there."""
    found = "import torch; print(torch.__version__)"
    return subprocess.check_output([torch_alone, "-c", found], text=True).strip()


@pytest.mark.parametrize("where", ["program", pytest.param("folder", marks=pytest.mark.slow)])
def test_workloads_run_there_and_its_versions_are_shown(
    torch_alone: Path, where: str, version: str
) -> None:
    chosen = torch_alone if where == "program" else torch_alone.parents[1]
    command = [sys.executable, "-m", "tui", "--python", str(chosen)]
    command += ["run", "device_list", "--device", "cpu", "--quick", "--json"]
    out = json.loads(subprocess.check_output(command, text=True))
    assert [result["status"] for result in out["results"]] == ["ok"]
    assert out["environment"]["executable"] == str(torch_alone)
    assert out["environment"]["torch"] == version


# ---- the program without torch ----


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the program's requirements except torch."""
    # An older installation in this environment may still say that torch is required.
    needed = _needed("gpu-workbench", {"torch"}) - {"torch", "gpu-workbench"}
    return _linked(tmp_path_factory.mktemp("bare") / "venv", needed)


def _program(bare: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
    return subprocess.run(
        [bare, "-m", "tui", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, **variables},
    )


def test_no_requirement_of_the_program_is_torch() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    dependencies = text.partition("\ndependencies = [")[2].partition("]")[0]
    assert "textual" in dependencies
    assert "torch" not in dependencies


@VARIANT
def test_what_needs_no_torch_works_without_it(bare: Path) -> None:
    listed = _program(bare, "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "matmul" in listed.stdout
    seen = _program(bare, "devices")
    assert seen.returncode == 0
    assert seen.stdout.splitlines()[-1].startswith("cpu ")
    read = _program(bare, "snapshot", str(ROOT / "tests/snapshots/files/training.pickle"))
    assert (read.returncode, read.stderr) == (0, "")
    assert "Memory by site at the peak" in read.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("run", "matmul"),
        pytest.param(("compare", "conv2d", "--flag", "mkldnn.enabled=on,off"), marks=VARIANT),
    ],
)
def test_what_needs_torch_says_in_one_line_how_to_have_it(bare: Path, words: list[str]) -> None:
    done = _program(bare, *words)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"gpu-workbench: there is no torch in {bare}; ")
    assert "gpu-workbench --python PATH" in line
    assert f"uv pip install --python {bare} torch" in line


@VARIANT
def test_the_torch_of_the_active_environment_is_found(
    bare: Path, torch_alone: Path, version: str
) -> None:
    done = _program(bare, "doctor", VIRTUAL_ENV=str(torch_alone.parents[1]))
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("passed   torch")]
    assert f"{version} in Python" in row
    assert f"at {torch_alone}, the active environment's (VIRTUAL_ENV)" in row


@VARIANT
def test_the_screen_without_torch_says_what_works_and_what_to_type(bare: Path) -> None:
    variables = {"PYTHONPATH": str(ROOT), "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
    with Terminal((str(bare), "-m", "tui"), 120, 40, variables) as terminal:
        terminal.until_shows("there is no torch in", "gpu-workbench --python PATH", STILL_WORKS)
        terminal.keys("2")
        terminal.until_shows("host used")
        terminal.keys("q")
        assert terminal.exit_code() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe can be set on Linux alone")
def test_a_runner_without_torch_says_all_of_it_before_it_ends(bare: Path) -> None:
    with subprocess.Popen(
        [bare, *START, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as runner:
        assert runner.stdout is not None
        # The catalogue is longer than any pipe holds.
        fcntl.fcntl(runner.stdout, fcntl.F_SETPIPE_SZ, 4096)
        with pytest.raises(subprocess.TimeoutExpired):
            runner.wait(1)  # what it says does not fit, so it is still there
        said = [wire.decode(line, messages.EVENTS) for line in runner.stdout]
    assert [type(event) for event in said] == [messages.Hello, messages.Unusable]
