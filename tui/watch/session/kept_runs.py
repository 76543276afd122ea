"""The list of runs that are kept, each with what its processes left in its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun
from tui.watch.session.sampler import RunFolder


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run, and what its processes have left."""

    run: StartedRun
    goes_on: bool
    left: tuple[ProcessLog, ...]

    @property
    def steps(self) -> int | None:
        """Of the process that made the most; ``None`` where none has said."""
        return max((each.steps for each in self.left if each.steps is not None), default=None)

    @property
    def ooms(self) -> int:
        """Of all its processes."""
        return sum(each.oom_count for each in self.left)

    @property
    def snapshots(self) -> int:
        """Of all its processes, those of OOMs that are still there among them."""
        of_ooms = sum(oom.snapshot is not None for each in self.left for oom in each.ooms)
        return of_ooms + sum(len(each.snapshots) for each in self.left)


class KeptRuns:
    """The list of kept runs: of a run, only what has changed since the last look is read.

    Args:
        kept: gives the runs, the newest first.
    """

    def __init__(self, kept: Callable[[], list[StartedRun]]) -> None:
        self._kept = kept
        self._folders: dict[Path, RunFolder] = {}

    def look(self) -> tuple[KeptRun, ...]:
        """All of them with what their processes have left; reads files."""
        found = self._kept()
        known = self._folders
        self._folders = {
            each.folder: known.get(each.folder) or RunFolder(each.folder) for each in found
        }
        return tuple(
            KeptRun(each, each.goes_on, self._folders[each.folder].left()) for each in found
        )
