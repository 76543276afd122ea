"""The scripted target: a process that holds the statistics of torch's allocator, from C."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tui.allocators.layouts import Numbers

SOURCE = Path(__file__).with_name("scripted_target.c")
MAIN = """int scripted_target(char **);
int main(int count, char **words) { return count ? scripted_target(words) : 1; }
"""
TORCH = "2.13.0+scripted"
LAYOUTS = {"1.13": 0, "2.0": 1, "2.13": 2}
VECTOR_AT = 22_584


class ScriptedTarget:
    """Talks to the process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def ask(self, *words: object) -> str:
        """Send a command; returns its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def do(self, *words: object) -> None:
        """Send a command that has no answer but that it was done."""
        assert self.ask(*words) == "done"

    def make(self, devices: int, version: str = "2.13", vector_at: int = VECTOR_AT) -> None:
        """Set the allocator up, as torch does when CUDA is first used."""
        self.do("make", devices, LAYOUTS[version], vector_at)

    def numbers(self, device: int) -> Numbers:
        """All 110 numbers of a device, as the process itself has them."""
        return tuple(map(int, self.ask("numbers", device).split()))


def build_target(folder: Path) -> Path:
    """Compile the program into a folder; skips the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler: the scripted target cannot be built")
    library, program, main = (
        folder / "torch/lib/libc10_cuda.so",
        folder / "target",
        folder / "main.c",
    )
    library.parent.mkdir(parents=True)
    (folder / "torch" / "version.py").write_text(f"__version__ = {TORCH!r}\n", encoding="ascii")
    main.write_text(MAIN, encoding="ascii")
    flags = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread"]
    for command in (
        [*flags, "-shared", "-fPIC", "-Wl,--hash-style=gnu", "-o", library, SOURCE],
        [*flags, "-o", program, main, library, f"-Wl,-rpath,{library.parent}"],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="session")
def target_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once for all workers of pytest-xdist: the first builds it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "scripted_target"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = folder / "target"
        return program if program.exists() else build_target(folder)


@contextmanager
def running(
    program: Path, variables: dict[str, str] | None = None, user: int | None = None
) -> Iterator[ScriptedTarget]:
    """Start a target, of another user if given; it ends with the block."""
    process = subprocess.Popen(
        [program],
        user=user,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(variables or {})},
    )
    try:
        yield ScriptedTarget(process)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def target(target_program: Path) -> Iterator[ScriptedTarget]:
    with running(target_program) as found:
        yield found
