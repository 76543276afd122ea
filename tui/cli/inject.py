"""``gpu-workbench watch --pid N --inject``: the agent into a process that runs already."""

from __future__ import annotations

import shlex
import sys
import time

from tui.cli.errors import Failure
from tui.cli.streams import say
from tui.watch import runs
from tui.watch.agents import (
    Agents,
    CannotInjectError,
    How,
    Target,
    check_injection,
    put_in,
    target_of,
)
from tui.watch.kept import left_in, troubles_in
from tui.watch.runs import Run

PATIENCE_S = 5.0
"""For the main thread to come to Python: beyond, it is told what the agent waits for."""
_LOOK_S = 0.05


def put_agent_in(pid: int, how: How, entries: int) -> None:
    """Put it in, and tell on stderr what has become of it.

    Args:
        pid: of the process.
        how: by Python itself, or by gdb, which is asked about first.
        entries: of torch's memory history, from then on; 0 for no history.

    Raises:
        Failure: it cannot be put in, or its user does not want it.
    """
    agents = Agents()
    try:
        there = [state for state in agents.states() if state.pid == pid]
    finally:
        agents.close()
    if there:
        say(f"the agent is in process {pid} already; its run is {there[0].run}")
        return
    try:
        target = target_of(pid)
        check_injection(target, how)
        if how == "gdb":
            _ask(target)
        run = runs.new_run(target.command)
        try:
            run = runs.started(run, pid)
            put_in(target, how, run.folder, entries)
        except CannotInjectError:
            runs.drop(run)
            raise
    except CannotInjectError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(runs.no_folder_words(error)) from error
    _tell(pid, run)


def _ask(target: Target) -> None:
    if not sys.stdin.isatty():
        raise Failure("--inject=gdb: it asks before it stops a process, and there is no terminal")
    say(
        f"gdb will stop process {target.pid} ({shlex.join(target.command)[:60]}) for about a second"
        " and leave a script with it; debuggers have been seen to hang programs"
    )
    say("go on? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure(f"process {target.pid} is left as it is")


def _tell(pid: int, run: Run) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if troubles := troubles_in(run.folder):
            raise Failure(f"process {pid} did not take the agent: {troubles[0]}")
        if left_in(run.folder):
            say(f"the agent is in process {pid}; its run is {run.folder}")
            return
        time.sleep(_LOOK_S)
    say(
        f"the agent is with process {pid} and starts when its main thread comes to Python, or with "
        f"its first CUDA call; its run is {run.folder}"
    )
