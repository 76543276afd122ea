"""The torch of a user's Python is found without importing it; what cannot be simulated is named."""

from __future__ import annotations

import os
import shutil
import venv
from pathlib import Path

import pytest

from tests.rehearsal.small_torch import write_version
from tui.rehearsal.device.installation import CannotSimulateError, find_torch


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python without packages."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


@pytest.fixture
def site(python: Path) -> Path:
    """Its folder of packages."""
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    return site


@pytest.fixture(autouse=True)
def _no_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


def install(site: Path, version: str, cuda: str | None) -> None:
    write_version(site / "torch", version, cuda)
    (site / "torch" / "__init__.py").write_text("raise SystemExit(7)", encoding="utf-8")
    (site / "torch" / "lib").mkdir(exist_ok=True)
    (site / "torch" / "lib" / "libtorch_cuda.so").touch()


def refusal(python: str) -> str:
    with pytest.raises(CannotSimulateError) as caught:
        find_torch(python)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    return text


def test_a_torch_is_found_without_importing_it(python: Path, site: Path) -> None:
    install(site, "2.13.0+cu130", "13.0")
    found = find_torch(str(python))
    assert (found.python, found.folder) == (python, site / "torch")
    assert (found.version, found.cuda, found.cuda_number) == ("2.13.0+cu130", "13.0", 13000)


def test_the_version_of_cudnn_is_the_one_that_torch_requires(python: Path, site: Path) -> None:
    install(site, "2.15.0+cu132", "13.2")
    assert find_torch(str(python)).cudnn_number == 92000
    about = site / "torch-2.15.0.dist-info"
    about.mkdir()
    lines = "Name: torch\nRequires-Dist: nvidia-cudnn-cu13==9.26.0.51; platform_system == 'Linux'\n"
    (about / "METADATA").write_text(lines, encoding="utf-8")
    try:
        assert find_torch(str(python)).cudnn_number == 92600
    finally:
        shutil.rmtree(about)  # the folder is shared by this file's tests


def test_a_file_in_the_current_folder_is_not_torch(
    python: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "2.10.0+cu126", "12.6")
    (tmp_path / "torch.py").write_text("raise SystemExit(8)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert find_torch(str(python)).cuda_number == 12060


@pytest.mark.parametrize(
    ("version", "cuda", "named"),
    [
        ("2.13.0+cpu", None, "torch 2.13.0+cpu in {python} is a build without CUDA"),
        ("2.9.1+cu130", "13.0", "torch 2.9.1+cu130, older than the simulated GPU supports"),
        ("2.16.0", "13.0", "torch 2.16.0, newer than the simulated GPU supports: torch 2.10 to"),
        ("2.10.0+cu118", "11.8", "the torch here is for CUDA 11.8, older than"),
        ("2.15.0+cu140", "14.0", "the torch here is for CUDA 14.0, newer than"),
        ("unknown", "13.0", "'unknown' is not a version"),
    ],
)
def test_a_torch_that_cannot_be_simulated_is_named(
    python: Path, site: Path, version: str, cuda: str | None, named: str
) -> None:
    install(site, version, cuda)
    assert named.format(python=python) in refusal(str(python))


def test_a_python_without_torch_is_named(python: Path, site: Path) -> None:
    shutil.rmtree(site / "torch", ignore_errors=True)
    assert refusal(str(python)) == f"{python} has no torch; install its CUDA build there"


def test_an_incomplete_torch_is_named(python: Path, site: Path) -> None:
    install(site, "2.13.0", "13.0")
    (site / "torch" / "version.py").unlink()
    assert "incomplete: No such file or directory: version.py" in refusal(str(python))
    (site / "torch" / "version.py").write_text("x = 1", encoding="utf-8")
    assert "does not say its version" in refusal(str(python))


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("echo hello", "it printed 'hello'"),
        ("echo 5", "it printed '5'"),
        ("exit 3", "it printed nothing"),
        ("echo broken >&2; exit 3", "broken"),
    ],
)
def test_a_program_that_is_no_python_is_named(tmp_path: Path, script: str, named: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(0o755)
    text = refusal(str(program))
    assert str(program) in text
    assert named in text


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    assert "is not a program" in refusal(str(tmp_path / "none"))
    not_executable = tmp_path / "file"
    not_executable.touch()
    assert "is not a program" in refusal(str(not_executable))
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF" + os.urandom(64))
    broken.chmod(0o755)
    assert "does not run" in refusal(str(broken))


def test_a_name_is_searched_on_the_path(
    python: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "2.14.1+cu128", "12.8")
    monkeypatch.setenv("PATH", str(python.parent))
    assert find_torch(python.name).python == python
