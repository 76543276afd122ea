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
        return max((each.steps for each in self.logs if each.steps is not None), default=None)

    @property
    def ooms(self) -> int:
        """OOMs of all its processes."""
        return sum(each.oom_count for each in self.logs)

    @property
    def snapshots(self) -> int:
        """Snapshots of all its processes, including existing snapshots of OOMs."""
        of_ooms = sum(oom.snapshot is not None for each in self.logs for oom in each.ooms)
        return of_ooms + sum(len(each.snapshots) for each in self.logs)


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
        found = self._list_runs()
        known = self._folders
        self._folders = {
            each.folder: known.get(each.folder) or RunFolder(each.folder) for each in found
        }
        return tuple(
            StoredRun(each, each.is_running, self._folders[each.folder].logs()) for each in found
        )
