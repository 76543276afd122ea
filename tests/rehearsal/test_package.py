"""An installed package contains the simulated GPU's sources, and builds from them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.rehearsal import small_torch
from tui.rehearsal.device import build

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import sys
from pathlib import Path
from tui.rehearsal.device import build
from tui.rehearsal.device.installation import read_torch
from tui.rehearsal.device.prepare import build_once
print(build.HERE)
print(build_once(read_torch(Path("python"), Path(sys.argv[1])), Path(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a copy of the sources, since a build writes files among them."""
    sources = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE", "gpu_workbench_entry.py"):
        shutil.copy(ROOT / name, sources)
    for name in ("tui", "workloads"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, sources / name, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", "wheels", "."], cwd=sources, check=True, timeout=100)
    (made,) = (sources / "wheels").glob("*.whl")
    return made


@pytest.mark.slow
def test_a_wheel_contains_every_source(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contained = {name for name in archive.namelist() if name.startswith("tui/rehearsal/device")}
    sources = [path for path in build.HERE.iterdir() if path.suffix in {".c", ".h", ".py"}]
    assert {path.relative_to(ROOT).as_posix() for path in sources} <= contained


@pytest.mark.slow
def test_a_simulated_gpu_is_built_from_a_wheel(wheel: Path, tmp_path: Path) -> None:
    torch = small_torch.install(tmp_path / "site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(torch.folder), str(tmp_path / "cache")],
        cwd=tmp_path / "installed",
        check=True,
        capture_output=True,
        text=True,
    )
    sources, libraries = done.stdout.splitlines()
    assert Path(sources) == tmp_path / "installed" / "tui" / "rehearsal" / "device"
    assert (Path(libraries) / build.PRELOAD).is_file()
