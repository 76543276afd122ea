"""The fixture ``scripted_nvml``: the driver's library, built from C, for any child process."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.nvml.scenario import Scenario

LIBRARY = "libnvidia-ml.so.1"
SOURCE = Path(__file__).with_name("scripted_nvml.c")


def build_library(folder: Path) -> Path:
    """Compile the scripted NVML into ``folder``; skip the test without a compiler."""
    return compile_library(SOURCE, folder / LIBRARY)


def compile_library(source: Path, library: Path) -> Path:
    """Compile a C file into a library; skip the test without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: the scripted NVML cannot be built")
    warnings = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        [compiler, *warnings, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return library


@dataclass(frozen=True)
class ScriptedNvml:
    """The library, and a scenario file that may change while a process uses it."""

    library: Path
    folder: Path

    @property
    def scenario_file(self) -> Path:
        return self.folder / "scenario"

    @property
    def log_file(self) -> Path:
        return self.folder / "calls"

    def env(self, scenario: Scenario) -> dict[str, str]:
        """Return the environment for a child process that finds this library and this scenario."""
        self.change(scenario)
        others = os.environ.get("LD_LIBRARY_PATH")
        return {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(self.library.parent), others])),
            "SCRIPTED_NVML": str(self.scenario_file),
            "SCRIPTED_NVML_LOG": str(self.log_file),
        }

    def change(self, scenario: Scenario) -> None:
        """Replace the scenario; it applies from the next call on."""
        new = self.folder / "scenario.new"
        new.write_text(scenario.text(), encoding="ascii")
        new.replace(self.scenario_file)

    def calls(self) -> Counter[tuple[str, int]]:
        """Return the number of calls of each function for each device; -1 for none."""
        if not self.log_file.exists():
            return Counter()
        lines = self.log_file.read_text(encoding="ascii").splitlines()
        pairs = [line.split(" ") for line in lines if line.count(" ") == 1]
        return Counter((name, int(device)) for name, device in pairs)


@pytest.fixture(scope="session")
def scripted_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library once for all workers of pytest-xdist: the first builds, the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "scripted_nvml"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        library = folder / LIBRARY
        return library if library.exists() else build_library(folder)


@pytest.fixture
def scripted_nvml(scripted_library: Path, tmp_path: Path) -> ScriptedNvml:
    folder = tmp_path / "nvml"
    folder.mkdir()
    return ScriptedNvml(scripted_library, folder)
