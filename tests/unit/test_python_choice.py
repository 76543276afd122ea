"""Which Python runs the workloads where none is named: this one, or an active environment's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tui.kit.command_line import values
from tui.kit.command_line.values import OWN, PythonChoice, has_torch, unnamed

TORCH = "lib/python3.12/site-packages/torch/__init__.py"


def environment(prefix: Path, *files: str, python: bool = True, home: Path | None = None) -> str:
    """Make the folder of an environment with some files, and one of its base Python if given."""
    for name in (*files, *(["bin/python"] if python else [])):
        path = prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)
    if home is not None:
        text = f"home = {home / 'bin'}\nInclude-System-Site-Packages = True\nversion = 3.12.1\n"
        (prefix / "pyvenv.cfg").write_text(text)
    return str(prefix)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide torch from this Python."""
    monkeypatch.setattr(values, "own_has_torch", lambda: False)


@pytest.mark.parametrize(
    ("file", "there"),
    [
        (TORCH, True),
        ("lib64/python3.10/site-packages/torch/__init__.py", True),
        ("lib/python3.12/site-packages/torch-2.13.0.dist-info/METADATA", True),
        ("lib/python3.12/site-packages/torch.egg-link", True),
        ("lib/python3.12/site-packages/torchvision/__init__.py", False),
        ("lib/python3.12/site-packages/torch_geometric-2.6.dist-info/METADATA", False),
        ("lib/python3.12/dist-packages/torch/__init__.py", False),
        ("share/torch/__init__.py", False),
    ],
)
def test_torch_is_told_by_the_files_of_an_environment(
    file: str, there: bool, tmp_path: Path
) -> None:
    assert not has_torch(Path(environment(tmp_path)))
    assert has_torch(Path(environment(tmp_path, file))) == there


@pytest.mark.parametrize(
    "file", [TORCH, "local/lib/python3.12/dist-packages/torch/__init__.py"], ids=["site", "debian"]
)
def test_torch_of_the_python_beneath_counts_where_it_is_seen(file: str, tmp_path: Path) -> None:
    base = tmp_path / "usr"
    environment(base, file)
    assert has_torch(Path(environment(tmp_path / "seen", home=base)))
    apart = Path(environment(tmp_path / "apart", home=base))
    config = (apart / "pyvenv.cfg").read_text()
    (apart / "pyvenv.cfg").write_text(config.replace("True", "false"))
    assert not has_torch(apart)


@pytest.mark.usefixtures("bare")
def test_the_active_environment_is_taken_for_its_torch(tmp_path: Path) -> None:
    venv = environment(tmp_path / "venv", TORCH)
    conda = environment(tmp_path / "conda", TORCH)
    bare = environment(tmp_path / "bare")
    both = unnamed({"CONDA_PREFIX": conda, "VIRTUAL_ENV": venv})
    assert both == PythonChoice(f"{venv}/bin/python", "VIRTUAL_ENV")
    assert both.why == (
        "the active environment's (VIRTUAL_ENV): this program's own Python has no torch"
    )
    second = unnamed({"CONDA_PREFIX": conda, "VIRTUAL_ENV": bare})
    assert second == PythonChoice(f"{conda}/bin/python", "CONDA_PREFIX")


@pytest.mark.usefixtures("bare")
def test_without_an_environment_that_has_torch_it_is_this_python(tmp_path: Path) -> None:
    own = PythonChoice(sys.executable, OWN)
    no_program = environment(tmp_path / "broken", TORCH, python=False)
    for variables in (
        {},
        {"VIRTUAL_ENV": ""},
        {"VIRTUAL_ENV": environment(tmp_path / "bare")},
        {"VIRTUAL_ENV": no_program},
        {"CONDA_PREFIX": str(tmp_path / "gone")},
        {"VIRTUAL_ENV": sys.prefix},
    ):
        assert unnamed(variables) == own
    assert own.why == "this program's own"
    assert not own.is_detected


def test_this_python_is_taken_where_it_has_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "own_has_torch", lambda: True)
    venv = environment(tmp_path, TORCH)
    assert unnamed({"VIRTUAL_ENV": venv}) == PythonChoice(sys.executable, OWN)
