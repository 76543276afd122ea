"""The start of a user's command, with the agent and independent of this program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import workloads.agent
from tui.core.child.inside import Cgroup
from tui.watch.runs import supervised
from tui.watch.runs.runs import (
    StartedRun,
    describe_folder_error,
    drop,
    limits,
    new_run,
    of_process,
    read_again,
    record_end,
)
from tui.watch.runs.supervised import Supervised
from workloads.agent import RECORD, RUN

START_FOLDER = Path(workloads.agent.__file__).with_name("start")
"""Contains only the file that Python executes at its start."""
_STARTED: dict[Path, Supervised] = {}
"""Commands that any part of this program has started, by the run's folder. The pid would not do:
an older stored run may have had the same one, above all in a container."""


def variables(run: Path, entries: int | None, present: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a command.

    Args:
        run: folder of the run.
        entries: entries of torch's memory history from the first CUDA call; ``None`` for none.
        present: the environment without the agent.
    """
    path = present.get("PYTHONPATH", "")
    settings = {
        "PYTHONPATH": f"{START_FOLDER}{os.pathsep}{path}" if path else str(START_FOLDER),
        RUN: str(run),
    }
    return settings if entries is None else {**settings, RECORD: str(entries)}


class StartError(Exception):
    """A command that cannot be started; the text is the reason, in one line."""


def begin(
    command: Sequence[str],
    entries: int | None,
    environment: Mapping[str, str] | None = None,
    *,
    passes_streams: bool = False,
    on_oom: str | None = None,
) -> tuple[StartedRun, Supervised]:
    """Create a run for a command and start it.

    Args:
        command: program and arguments.
        entries: entries of torch's memory history; ``None`` for no history.
        environment: the environment without the agent; ``None`` for this process's.
        passes_streams: as for :func:`start`.
        on_oom: as for :func:`start`.

    Raises:
        StartError: the command cannot be started; no run is left behind.
    """
    try:
        run = new_run(command)
    except OSError as error:
        raise StartError(describe_folder_error(error)) from error
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
    """Start an independent command: neither a terminal nor this process can end it.

    Both output streams go to ``output.log`` in the run's folder, through its supervisor: see
    :mod:`tui.watch.runs.supervisor`, which also writes its process and its end to ``run.json``.

    Args:
        command: program and arguments.
        run: folder of the run.
        entries: entries of torch's memory history; ``None`` for no history.
        environment: the environment without the agent; ``None`` for this process's.
        passes_streams: pass both streams on to this program too, and this program's standard
            input to the command, if that is a pipe or a file.
        on_oom: a shell command to start once, at the first OOM of the run.

    Raises:
        OSError: the program does not exist or cannot be started.
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
    """Return whether this program has started a run."""
    process = _STARTED.get(run.folder)
    return process is not None and process.pid == run.pid


def has_ended(run: StartedRun) -> bool:
    """Return whether the command of a run that this program started has ended."""
    return _STARTED[run.folder].has_ended


def is_over(run: StartedRun) -> bool:
    """Return whether the last process of a run that this program started has ended."""
    return _STARTED[run.folder].is_over


def log_problem(run: StartedRun) -> str:
    """Return why the output of a run started by this program cannot be stored; empty if it can."""
    return _STARTED[run.folder].log_problem if is_child(run) else ""


def with_end(run: StartedRun) -> StartedRun:
    """Return a run as it is written down, plus its end if only this program observed it."""
    process = _STARTED[run.folder] if is_child(run) else None
    code = process.poll() if process is not None and process.is_over else None
    run = read_again(run)
    return run if code is None or run.ended is not None else record_end(run, code)


def replace_with(command: Sequence[str], run: Path, entries: int | None) -> None:
    """Replace this process with the command: same pid, terminal, signals and exit code.

    Raises:
        OSError: the program does not exist or cannot be executed.
    """
    environment = {**os.environ, **variables(run, entries, os.environ)}
    os.execvpe(command[0], list(command), environment)
