"""A command of the user's, started so that it has the agent and belongs to itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import workloads.agent
from tui.core.child.inside import Cgroup
from tui.watch.runs import supervised
from tui.watch.runs.runs import (
    StartedRun,
    drop,
    ended,
    limits,
    new_run,
    no_folder_words,
    of_process,
    read_again,
)
from tui.watch.runs.supervised import Supervised
from workloads.agent import RECORD, RUN

START_FOLDER = Path(workloads.agent.__file__).with_name("start")
"""Holds the file that Python executes at its start, and nothing else."""
_STARTED: dict[Path, Supervised] = {}
"""By the run's folder: what this program has started, whichever part of it asks. A kept run of
earlier may have had the same pid, above all in a container."""


def variables(run: Path, entries: int | None, present: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a command.

    Args:
        run: the folder of the run.
        entries: of torch's memory history, from the first CUDA call on; ``None`` for no history.
        present: the environment that it would have had.
    """
    path = present.get("PYTHONPATH", "")
    found = {
        "PYTHONPATH": f"{START_FOLDER}{os.pathsep}{path}" if path else str(START_FOLDER),
        RUN: str(run),
    }
    return found if entries is None else {**found, RECORD: str(entries)}


class StartError(Exception):
    """A command that cannot be started, and why, in one line."""


def begin(
    command: Sequence[str],
    entries: int | None,
    environment: Mapping[str, str] | None = None,
    *,
    passes_streams: bool = False,
    on_oom: str | None = None,
) -> tuple[StartedRun, Supervised]:
    """Make a run of a command and start it.

    Args:
        command: program and arguments.
        entries: of torch's memory history; ``None`` for no history.
        environment: that it would have had; ``None`` for this process's.
        passes_streams: as :func:`start` has it.
        on_oom: likewise.

    Raises:
        StartError: it cannot be started; no run is left of it.
    """
    try:
        run = new_run(command)
    except OSError as error:
        raise StartError(no_folder_words(error)) from error
    try:
        process = start(
            command,
            run.folder,
            entries,
            environment,
            passes_streams=passes_streams,
            on_oom=on_oom,
        )
    except OSError as error:
        drop(run)
        raise StartError(f"{command[0]}: {error.strerror}") from error
    run = read_again(run)
    return run if run.pid == process.pid else of_process(run, process.pid), process


def start(
    command: Sequence[str],
    run: Path,
    entries: int | None,
    environment: Mapping[str, str] | None = None,
    *,
    passes_streams: bool = False,
    on_oom: str | None = None,
) -> Supervised:
    """Start a command that belongs to itself: neither a terminal nor this process can end it.

    Its output, both streams, goes to ``output.log`` in the run's folder, through its supervisor:
    see :mod:`tui.watch.runs.supervisor`, which also writes its process and its end to ``run.json``.

    Args:
        command: program and arguments.
        run: the folder of the run.
        entries: of torch's memory history; ``None`` for no history.
        environment: that it would have had; ``None`` for this process's.
        passes_streams: hand both streams to this program too, and its standard input, where that
            is a pipe or a file, to the command.
        on_oom: a shell command that is started once, at the first OOM of the run.

    Raises:
        OSError: there is no such program.
    """
    present = os.environ if environment is None else environment
    process = supervised.start(
        command,
        run,
        {**present, **variables(run, entries, present)},
        limit=limits().log_bytes,
        separate=passes_streams,
        passes_stdin=passes_streams,
        on_oom=on_oom,
        oom_kills_file=Cgroup().oom_kills_file(),
    )
    _STARTED[run] = process
    return process


def is_child(run: StartedRun) -> bool:
    """Whether this program has started it."""
    process = _STARTED.get(run.folder)
    return process is not None and process.pid == run.pid


def has_ended(run: StartedRun) -> bool:
    """Whether the command has ended of a run that this program has started."""
    return _STARTED[run.folder].has_ended


def is_over(run: StartedRun) -> bool:
    """Whether the last process has ended of a run that this program has started."""
    return _STARTED[run.folder].is_over


def log_problem(run: StartedRun) -> str:
    """Why the output of a run cannot be kept that this program has started; empty where it can."""
    return _STARTED[run.folder].log_problem if is_child(run) else ""


def with_end(run: StartedRun) -> StartedRun:
    """Return a run as it is written down, with its end where this program alone knows it."""
    process = _STARTED[run.folder] if is_child(run) else None
    code = process.poll() if process is not None and process.is_over else None
    run = read_again(run)
    return run if code is None or run.ended is not None else ended(run, code)


def replace_with(command: Sequence[str], run: Path, entries: int | None) -> None:
    """Become the command: same pid, terminal, signals and exit code. Does not return.

    Raises:
        OSError: there is no such program.
    """
    environment = {**os.environ, **variables(run, entries, os.environ)}
    os.execvpe(command[0], list(command), environment)
