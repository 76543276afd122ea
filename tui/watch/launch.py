"""A command of the user's, started so that its Python processes have the agent."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import workloads.agent
from workloads.agent import RECORD, RUN

EXAMPLE = "gpu-workbench watch -- python train.py"
"""What is named where somebody has a program that runs out of memory."""
RECORDING = "gpu-workbench watch --record -- python train.py"
"""The same with torch's memory history, which tells who held the memory."""
FOLDER = Path(workloads.agent.__file__).with_name("start")
"""Holds the file that Python executes at its start, and nothing else."""


def variables(run: Path, entries: int | None, present: Mapping[str, str]) -> dict[str, str]:
    """What is to be set in a command's environment.

    Args:
        run: the folder of the run.
        entries: of torch's memory history, from the first CUDA call on; ``None`` for no history.
        present: the environment that it would have had.
    """
    path = present.get("PYTHONPATH", "")
    found = {"PYTHONPATH": f"{FOLDER}{os.pathsep}{path}" if path else str(FOLDER), RUN: str(run)}
    return found if entries is None else {**found, RECORD: str(entries)}


def as_exports(run: Path, entries: int | None) -> list[str]:
    """The same as lines of a shell, for the environment in which they are read."""
    lines = []
    for name, value in variables(run, entries, {}).items():
        more = "${PYTHONPATH:+:$PYTHONPATH}" if name == "PYTHONPATH" else ""
        lines.append(f"export {name}={shlex.quote(value)}{more}")
    return lines


def start(command: Sequence[str], run: Path, entries: int | None) -> subprocess.Popen[bytes]:
    """Start a command that belongs to itself: neither a terminal nor this process can end it.

    Its output, both streams, is appended to ``output.log`` in the run's folder.

    Raises:
        OSError: there is no such program, or the folder cannot be written to.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(run / "output.log", flags, 0o600)
    try:
        return subprocess.Popen(
            command,
            env={**os.environ, **variables(run, entries, os.environ)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)


def replace_with(command: Sequence[str], run: Path, entries: int | None) -> None:
    """Become the command: same pid, terminal, signals and exit code. Does not return.

    Raises:
        OSError: there is no such program.
    """
    environment = {**os.environ, **variables(run, entries, os.environ)}
    os.execvpe(command[0], list(command), environment)
