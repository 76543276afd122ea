"""A command of the user's, started so that its Python processes have the agent."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import workloads.agent
from tui.watch import runs
from tui.watch.runs import Run
from workloads.agent import RECORD, RUN

EXAMPLE = "gpu-workbench watch -- python train.py"
"""What is named where somebody has a program that runs out of memory."""
RECORDING = "gpu-workbench watch --record -- python train.py"
"""The same with torch's memory history, which tells who held the memory."""
FOLDER = Path(workloads.agent.__file__).with_name("start")
"""Holds the file that Python executes at its start, and nothing else."""
_STARTED: dict[Path, subprocess.Popen[bytes]] = {}
"""By the run's folder: the parent alone learns an exit code, whichever part of it asks. A kept run
of earlier may have had the same pid, above all in a container."""


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


class StartError(Exception):
    """A command that cannot be started, and why, in one line."""


def begin(
    command: Sequence[str], entries: int | None, environment: Mapping[str, str] | None = None
) -> tuple[Run, subprocess.Popen[bytes]]:
    """Make a run of a command and start it.

    Args:
        command: program and arguments.
        entries: of torch's memory history; ``None`` for no history.
        environment: that it would have had; ``None`` for this process's.

    Raises:
        StartError: it cannot be started; no run is left of it.
    """
    try:
        run = runs.begin(command)
    except OSError as error:
        raise StartError(runs.no_folder_words(error)) from error
    try:
        process = start(command, run.folder, entries, environment)
    except OSError as error:
        runs.drop(run)
        raise StartError(f"{command[0]}: {error.strerror}") from error
    run = runs.of_process(run, process.pid)
    with contextlib.suppress(OSError):  # it goes on all the same
        runs.save(run)
    return run, process


def start(
    command: Sequence[str],
    run: Path,
    entries: int | None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command that belongs to itself: neither a terminal nor this process can end it.

    Its output, both streams, is appended to ``output.log`` in the run's folder.

    Raises:
        OSError: there is no such program, or the folder cannot be written to.
    """
    present = os.environ if environment is None else environment
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(run / "output.log", flags, 0o600)
    try:
        process = subprocess.Popen(
            command,
            env={**present, **variables(run, entries, present)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    _STARTED[run] = process
    return process


def is_child(run: Run) -> bool:
    """Whether this process has started it: then its pid is no other's until its end was seen."""
    process = _STARTED.get(run.folder)
    return process is not None and process.pid == run.pid


def end_of(run: Run) -> int | None:
    """How a run has ended that this process has started, as ``Popen.returncode`` tells it.

    Returns:
        ``None`` while it goes on, and where this process has not started it.
    """
    return _STARTED[run.folder].poll() if is_child(run) else None


def with_end(run: Run) -> Run:
    """A run as it is written down; if this process knows its end, with it, and that is kept."""
    code = end_of(run)
    run = runs.read_again(run)
    return run if code is None or run.ended is not None else runs.ended(run, code)


def replace_with(command: Sequence[str], run: Path, entries: int | None) -> None:
    """Become the command: same pid, terminal, signals and exit code. Does not return.

    Raises:
        OSError: there is no such program.
    """
    environment = {**os.environ, **variables(run, entries, os.environ)}
    os.execvpe(command[0], list(command), environment)
