"""The C compiler of the simulated GPU: the system's, or that of the package ``ziglang``."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tui.rehearsal.device.installation import CannotSimulateError

NAMES = ("cc", "gcc", "clang")
OLDEST_GLIBC = "2.28"
"""glibc of torch's own wheels (manylinux_2_28)."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler for this machine."""

    command: tuple[str, ...]
    """The command, such as ``/usr/bin/cc``; arguments follow."""
    name: str
    """Its name and version, in one line."""

    def run(self, arguments: Sequence[str | Path], folder: Path) -> None:
        """Run the compiler in a folder, which also receives its temporary files.

        Raises:
            CannotSimulateError: it does not run, or reports an error.
        """
        command = [*self.command, *(str(argument) for argument in arguments)]
        caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": str(folder)}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "TMPDIR": str(folder), "LC_ALL": "C", **caches},
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as error:
            raise CannotSimulateError(f"{self.name} does not run: {error.strerror}") from error
        if done.returncode:
            raise CannotSimulateError(
                f"{self.name} cannot build the simulated GPU: {_explain_failure(done)}"
            )


def _explain_failure(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line of a compiler's output that names its first error."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "No space left" in line]
    named = errors or lines[-1:]
    return named[0] if named else f"it ended with status {done.returncode}"


def find_compiler() -> Compiler:
    """Return the first C compiler found: the system's, or that of the package ``ziglang``.

    Raises:
        CannotSimulateError: there is none.
    """
    for name in NAMES:
        path = shutil.which(name)
        if path is not None:
            return Compiler((path,), f"{name} ({_version(path)})")
    if importlib.util.find_spec("ziglang") is not None:
        target = f"{platform.machine()}-linux-gnu.{OLDEST_GLIBC}"
        command = (sys.executable, "-m", "ziglang", "cc", "-target", target)
        return Compiler(command, f"ziglang {version('ziglang')}")
    raise CannotSimulateError(
        "the simulated GPU needs a C compiler; install one (apt install gcc), or the one of "
        "PyPI: pip install 'gpu-workbench[rehearse]'"
    )


def _version(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise CannotSimulateError(f"{path} does not run: {error.strerror}") from error
    return done.stdout.splitlines()[0] if done.stdout else "unknown version"
