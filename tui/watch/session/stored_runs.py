"""The list of stored runs, each with the files that its processes left in its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun
from tui.watch.session.sampler import RunFolder


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run and the files that its processes left."""

    run: StartedRun
    is_running: bool
    logs: tuple[ProcessLog, ...]

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


class StoredRuns:
    """The list of stored runs; of each run, only the files that changed are read again.

    Args:
        list_runs: returns the runs, newest first.
    """

    def __init__(self, list_runs: Callable[[], list[StartedRun]]) -> None:
        self._list_runs = list_runs
        self._folders: dict[Path, RunFolder] = {}

    def read(self) -> tuple[StoredRun, ...]:
        """Return all runs with the files that their processes left; reads files."""
        runs = self._list_runs()
        known = self._folders
        self._folders = {run.folder: known.get(run.folder) or RunFolder(run.folder) for run in runs}
        return tuple(
            StoredRun(run, run.is_running, self._folders[run.folder].logs()) for run in runs
        )
