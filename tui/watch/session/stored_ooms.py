"""Explanations of the OOMs of stored runs, from their logs and samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tui.snapshots.explain.evidence import Circumstances, OomContext
from tui.snapshots.explain.explanation import Explanation
from tui.watch.runs import runs, samples
from tui.watch.runs.log_texts import oom_of_snapshot, texts_of
from tui.watch.runs.ooms import Oom, rank_oom
from tui.watch.runs.runs import StartedRun
from tui.watch.session.run_folder import StoredRun, StoredRuns
from tui.watch.state.explained import (
    circumstances,
    explain_row,
    explain_without_snapshot,
    find_allocator,
    newest_oom,
)
from tui.watch.state.processes import RunProcesses


@dataclass(frozen=True, slots=True)
class StoredOom:
    """The newest OOM of a stored run, preferably one that ended a process, and its explanation."""

    oom: Oom
    explanation: Explanation


def explain_stored(
    stored: StoredRun, should_continue: Callable[[], bool] = lambda: True
) -> StoredOom | None:
    """Return the OOM of a stored run as its open page explains it; ``None`` for a run without one.

    Args:
        stored: the run. Its samples are read; without them, its logs say what they can.
        should_continue: returns whether to continue: many samples take seconds.
    """
    processes = _read_processes(stored.run, should_continue)
    processes.apply_logs(stored.logs, ())
    newest = newest_oom(processes.devices(over=not stored.is_running))
    if newest is not None:
        return StoredOom(newest.oom, explain_row(newest))
    # No sample was taken of the process.
    ooms = [(log, log.ooms[-1]) for log in stored.logs if log.ooms]
    if not ooms:
        return None
    log, oom = max(ooms, key=lambda pair: rank_oom(pair[1]))
    known = Circumstances(watched=True, recorded=log.records)
    return StoredOom(oom, explain_without_snapshot(oom, known))


def _read_processes(run: StartedRun, should_continue: Callable[[], bool]) -> RunProcesses:
    """Return a run's processes with all its samples, or with none if not all could be read."""
    processes = RunProcesses()
    try:
        samples.read(run, processes.apply, should_continue)
    except OSError:  # the open page says why
        return RunProcesses()
    # A part of the samples would have another growth than all of them.
    return processes if should_continue() else RunProcesses()


LONGEST_READ_S = 3.0
"""Seconds after which the samples of a run are left out of the last words on it."""


def _until_too_long() -> Callable[[], bool]:
    """Return a function that tells whether :data:`LONGEST_READ_S` has not passed since."""
    deadline = time.monotonic() + LONGEST_READ_S
    return lambda: time.monotonic() < deadline


def find_oom_context(path: Path) -> OomContext | None:
    """Return the OOM facts from the run in whose folder a snapshot is; ``None`` without a run.

    Args:
        path: the snapshot. Its folder may be a copy, from another machine for example: only the
            lines of a program that ran in our own state folder are read.
    """
    is_own = path.parent.parent.resolve() == runs.folder().resolve()
    # Only what --env has prepared has no such file.
    if not is_own and not (path.parent / "run.json").is_file():
        return None
    found, run = oom_of_snapshot(path), runs.read_run(path.parent)
    if found is None or run is None:
        return None
    log, oom = found
    processes = _read_processes(run, _until_too_long())
    seen = find_allocator(processes, log, oom)
    return OomContext(
        texts_of(run, oom),
        circumstances(
            run if is_own else None, log, oom, seen, processes.listed_holders, processes.gpus
        ),
    )


def describe_fatal_oom(run: StartedRun) -> list[str]:
    """Return the conclusion on the OOM that ended a run's process, and what would help most.

    Empty for a run without one.

    Args:
        run: the run; its files are read.
    """
    should_continue = _until_too_long()
    (stored,) = StoredRuns(lambda: [run]).read()
    found = explain_stored(stored, should_continue)
    if found is None or found.oom.handled is not False:
        return []
    advice = found.explanation.advice[:1]
    return [found.explanation.line, *(f"what would help: {remedy.what}" for remedy in advice)]


class StoredOoms:
    """The explained OOMs of stored runs; the samples of a run are read once for each new OOM."""

    def __init__(self) -> None:
        self._explained: dict[Path, tuple[object, StoredOom | None]] = {}

    def find(self, stored: StoredRun) -> StoredOom | None:
        """Return what :meth:`read` found last; ``None`` before."""
        return self._explained.get(stored.run.folder, (None, None))[1]

    def is_read(self, stored: StoredRun) -> bool:
        """Return whether nothing new has happened to the run since it was read."""
        return self._explained.get(stored.run.folder, (None, None))[0] == _identify(stored)

    def read(self, stored: StoredRun, should_continue: Callable[[], bool]) -> None:
        """Explain the OOM of a run; reads files.

        Args:
            stored: the run.
            should_continue: returns whether to continue; what was read until then is dropped.
        """
        found = explain_stored(stored, should_continue)
        if should_continue():
            self._explained[stored.run.folder] = _identify(stored), found


def _identify(stored: StoredRun) -> object:
    """Return a value that changes with the run's OOMs and at its end, not with each sample."""
    return stored.is_running, tuple((log.identity, log.ooms) for log in stored.logs if log.ooms)
