"""OOM messages in a run's output, and lines of the program's source. Reads files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tui.watch.runs.ooms import Oom
from tui.watch.runs.process_logs import ProcessLog, process_logs_in
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.untrusted import open_regular

LONGEST_LOG = 1 << 20
"""Bytes at the end of a run's output that are searched."""
MOST_LINES = 20
"""Most matching lines that are returned, the last ones."""
LOGGED = "memory allocation failed with OOM on device"
"""Message that torch 2.13 writes to standard error if the driver refuses memory."""
LONGEST_SOURCE = 4 << 20
LONGEST_LINE = 400


def last_lines(run: StartedRun) -> list[str]:
    """Return the lines at the end of a run's output, shortened; none if it cannot be read."""
    try:
        with open_regular(run.log) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST_LOG))
            lines = file.read(LONGEST_LOG).splitlines()
    except OSError:
        return []
    return [line[:LONGEST_LINE].decode("utf-8", errors="replace") for line in lines]


def texts_of(run: StartedRun, oom: Oom) -> str:
    """Return all texts about one OOM: torch's lines in the output, then the exception's text."""
    logged = [line for line in last_lines(run) if LOGGED in line][-MOST_LINES:]
    return "\n".join(filter(None, [*logged, oom.text]))


def oom_of_snapshot(path: Path) -> tuple[ProcessLog, Oom] | None:
    """Return the process and the OOM at which a snapshot in a run's folder was written.

    ``None`` if no agent has noted it there, or if it was written on demand.
    """
    for log in process_logs_in(path.parent):
        for oom in log.ooms:
            if oom.snapshot is not None and oom.snapshot.name == path.name:
                return log, oom
    return None


def source_line(filename: str, line: int) -> str:
    """Return one line of a source file; empty if it cannot be read.

    Only for a program that ran here: an untrusted snapshot may name any file.
    """
    try:
        with Path(filename).open("rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > LONGEST_SOURCE:
                return ""
            lines = file.read(LONGEST_SOURCE).splitlines()
    except (OSError, ValueError):
        return ""
    if not 0 < line <= len(lines):
        return ""
    return lines[line - 1][:LONGEST_LINE].decode("utf-8", errors="replace").strip()
