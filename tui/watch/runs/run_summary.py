"""The end of a run in one line, for commands and for the terminal after the screen."""

from __future__ import annotations

import signal

from tui.core.text import numbers as fmt
from tui.watch.runs import start
from tui.watch.runs.run_end import describe_unseen_end
from tui.watch.runs.runs import StartedRun


def describe_left_run(run: StartedRun) -> str:
    """Return the state of a run that is left, its folder, and how to come back to it."""
    run = start.with_end(run)
    if run.ended is None and not run.is_running:
        sentence = f"{name_of(run)}: {describe_unseen_end(run.last_sign)}; stored in {run.folder}"
    elif run.ended is None:
        sentence = f"{name_of(run)} is still running as process {run.pid}; stored in {run.folder}"
    else:
        sentence = describe_end(run)
    return f"{sentence}; gpu-workbench watch {run.folder.name} shows it again"


def describe_end(run: StartedRun) -> str:
    """Describe how a run ended, how long it took, and where it is stored."""
    lasted = fmt.duration((run.ended or run.began) - run.began)
    if run.signal is not None:
        how = f"was ended by {signal_name(run.signal)}"
    elif run.code is None:
        how = "ended with an unknown exit code"
    else:
        how = f"ended with exit code {run.code}"
    return f"{name_of(run)} {how} after {lasted}; stored in {run.folder}"


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number: some, such as threads' own, have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def name_of(run: StartedRun) -> str:
    """Return the first two words of a run's command."""
    return " ".join(run.command[:2]) or "what --env has started"
