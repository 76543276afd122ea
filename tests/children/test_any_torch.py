"""``--python``: another environment that has torch and nothing of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

OURS = ("tui", "workloads", "textual", "rich", "psutil", "pynvml", "platformdirs")


def _needed(name: str, seen: set[str]) -> set[str]:
    """A distribution and all that it requires here, without extras."""
    if name not in seen:
        seen.add(name)
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                _needed(requirement.name, seen)
    return seen


@pytest.fixture(scope="module")
def torch_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with torch and what torch requires, linked from this one."""
    folder = tmp_path_factory.mktemp("torch-alone") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    for name in _needed("torch", set()):
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


@pytest.mark.parametrize("where", ["program", "folder"])
def test_workloads_run_there_and_its_versions_are_shown(
    torch_alone: Path, where: str, version: str
) -> None:
    chosen = torch_alone if where == "program" else torch_alone.parents[1]
    command = [sys.executable, "-m", "tui", "--python", str(chosen)]
    command += ["run", "matmul", "conv2d", "--device", "cpu", "--quick", "--json"]
    command += ["--set", "n=64", "--set", "size=16", "--set", "channels=8"]
    out = json.loads(subprocess.check_output(command, text=True))
    assert [result["status"] for result in out["results"]] == ["ok", "ok"]
    assert out["environment"]["executable"] == str(torch_alone)
    assert out["environment"]["torch"] == version
