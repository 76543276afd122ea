"""The folders of stored runs, of which only the files that changed are read again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.allocators.agents import AgentState
from tui.watch.runs.agents import AgentRequest
from tui.watch.runs.process_logs import (
    Contents,
    ProcessLog,
    agent_files,
    read_folder,
    snapshots_in,
    troubles_in,
)
from tui.watch.runs.rehearsals import RehearsalNote, read_note
from tui.watch.runs.runs import StartedRun, processes_of
from tui.watch.session.followed_file import FollowedFile


@dataclass(frozen=True, slots=True)
class RunReading:
    """The agents' answers and the contents of the run's folder at one time."""

    at: float
    """Unix time."""
    states: tuple[AgentState, ...]
    there: tuple[int, ...]
    """Running processes that have an agent, whether it answers or not."""
    logs: tuple[ProcessLog, ...]
    troubles: tuple[str, ...]
    """Why some processes have no agent."""
    snapshots: tuple[Path, ...]
    """Snapshot files, newest first."""
    refused: tuple[tuple[str, AgentRequest], ...] = ()
    """Requests that did not reach an agent, each with the agent's identity."""
    skipped: tuple[str, ...] = ()
    """Files in the folder that could not be read, one line each."""


class RunFolder:
    """A run's folder; files that changed are read again.

    Args:
        place: the folder.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._stamp: object = None
        self._read: tuple[Contents, tuple[str, ...]] = (Contents((), ()), ())

    def read(
        self,
        at: float,
        states: Sequence[AgentState],
        refused: Sequence[tuple[str, AgentRequest]] = (),
    ) -> RunReading:
        """Return the contents of the folder, with the agents' states.

        Args:
            at: Unix time.
            states: states of the agents that answer.
            refused: requests that did not reach an agent.
        """
        snapshots = self._read_changed()
        newest = sorted(snapshots, key=lambda path: snapshots[path], reverse=True)
        contents, troubles = self._read
        return RunReading(
            at,
            tuple(states),
            tuple(processes_of(self._place)),
            contents.logs,
            troubles,
            tuple(newest),
            tuple(refused),
            contents.skipped,
        )

    def logs(self) -> tuple[ProcessLog, ...]:
        """Return the log of each process, in the order in which they began."""
        self._read_changed()
        return self._read[0].logs

    def _read_changed(self) -> dict[Path, tuple[int, int]]:
        """Read the files that changed since the last time; returns the snapshots."""
        # Samples are left out: they grow all the time and do not come from an agent.
        files = [*agent_files(self._place), self._place / "agent-errors.log"]
        snapshots = snapshots_in(self._place)
        # A process that is killed changes no file.
        stamp = (_with_sizes(files), snapshots, processes_of(self._place))
        if stamp != self._stamp:
            self._stamp = stamp
            self._read = read_folder(self._place), tuple(troubles_in(self._place))
        return snapshots


def _with_sizes(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    sized = {}
    for path in paths:
        with contextlib.suppress(OSError):  # the folder is gone, or never existed
            facts = path.lstat()
            sized[path] = facts.st_mtime_ns, facts.st_size
    return sized


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run and the files that its processes left."""

    run: StartedRun
    is_running: bool
    logs: tuple[ProcessLog, ...]
    output: tuple[str, ...] = ()
    """The last lines of its output, cleaned for the screen."""
    rehearsal: RehearsalNote | None = None
    """The note of a run on simulated cards; ``None`` for any other run."""

    @property
    def steps(self) -> int | None:
        """The most steps that any process made; ``None`` if none reported any."""
        return max((log.steps for log in self.logs if log.steps is not None), default=None)

    @property
    def ooms(self) -> int:
        """OOMs of all its processes."""
        return sum(log.oom_count for log in self.logs)

    @property
    def snapshots(self) -> int:
        """Snapshots of all its processes, including existing snapshots of OOMs."""
        of_ooms = sum(oom.snapshot is not None for log in self.logs for oom in log.ooms)
        return of_ooms + sum(len(log.snapshots) for log in self.logs)


OUTPUT_BYTES, OUTPUT_LINES = 8192, 40
"""The end of a stored run's output that is read, and the lines of it that are shown."""


class StoredRuns:
    """The list of stored runs; of each run, only the files that changed are read again.

    Args:
        list_runs: returns the runs, newest first.
    """

    def __init__(self, list_runs: Callable[[], list[StartedRun]]) -> None:
        self._list_runs = list_runs
        self._folders: dict[Path, tuple[RunFolder, FollowedFile]] = {}

    def read(self) -> tuple[StoredRun, ...]:
        """Return all runs with the files that their processes left; reads files."""
        runs = self._list_runs()
        known = self._folders
        self._folders = {
            run.folder: known.get(run.folder)
            or (RunFolder(run.folder), FollowedFile(run.log, OUTPUT_BYTES))
            for run in runs
        }
        return tuple(self._read_run(run, *self._folders[run.folder]) for run in runs)

    def _read_run(self, run: StartedRun, folder: RunFolder, output: FollowedFile) -> StoredRun:
        output.read()
        lines, note = output.lines[-OUTPUT_LINES:], read_note(run.folder)
        return StoredRun(run, run.is_running, folder.logs(), lines, note)
