"""The runs that are kept, in words: in a list, and when one is left."""

from __future__ import annotations

import signal
import time
from typing import Any

from tui.text import numbers as text
from tui.watch import runs
from tui.watch.runs import Run


def left_in_words(run: Run) -> str:
    """What becomes of a run that is no longer looked at, where it is kept and how to come back."""
    run = runs.with_end(run)
    if run.ended is None and not run.goes_on:
        told = f"{_name_of(run)}: its end was not seen; kept in {run.folder}"
    elif run.ended is None:
        told = f"{_name_of(run)} goes on as process {run.pid}; kept in {run.folder}"
    else:
        told = end_in_words(run)
    return f"{told}; gpu-workbench watch {run.folder.name} shows it again"


def end_in_words(run: Run) -> str:
    """How it ended, how long it took, and where it is kept."""
    lasted = text.duration((run.ended or run.began) - run.began)
    if run.signal is not None:
        how = f"was ended by {signal.Signals(run.signal).name}"
    else:
        how = f"ended with exit code {run.code}"
    return f"{_name_of(run)} {how} after {lasted}; kept in {run.folder}"


def _name_of(run: Run) -> str:
    return " ".join(run.command[:2]) or "what --env has started"


def kept_lines() -> list[str]:
    """A line for each run that is kept, the newest first; nothing where there is none."""
    found = runs.kept()
    if not found:
        return []
    heading = f"kept runs, in {runs.folder()}; gpu-workbench watch NAME shows one:"
    return [heading, *map(_kept_line, found)]


def _kept_line(run: Run) -> str:
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began))
    size = text.size(runs.size_of(run.folder))
    snapshots = text.count(len(list(run.folder.glob("*.pickle"))), "snapshot")
    command = " ".join(run.command) or "by --env"
    return f"  {run.folder.name}  {began}  {_end(run)}  {snapshots}  {size}  {command}"


def _end(run: Run) -> str:
    if run.signal is not None:
        return f"ended by {signal.Signals(run.signal).name}"
    if run.code is not None:
        return f"exit code {run.code}"
    return "goes on" if run.goes_on else "its end was not seen"


def kept_as_plain() -> list[dict[str, Any]]:
    """The same as plain data."""
    return [
        {
            "folder": str(run.folder),
            "command": list(run.command),
            "cwd": run.cwd,
            "began": run.began,
            "ended": run.ended,
            "goes_on": run.goes_on,
            "exit": {"code": run.code, "signal": run.signal},
            "snapshots": sorted(str(path) for path in run.folder.glob("*.pickle")),
        }
        for run in runs.kept()
    ]
