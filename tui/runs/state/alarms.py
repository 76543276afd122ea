"""When to call the user: runs that ran out of memory, and the end of long ones."""

from __future__ import annotations

from collections.abc import Callable

from tui.core.text import numbers as text
from tui.kit.terminal.alarm import LONG_S
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from workloads.protocol.results import OUT_OF_MEMORY


class RunAlarms:
    """Compares the runs with the last call's runs, and returns lines for the user.

    Args:
        clock: returns the Unix time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: float | None = None
        """Unix time at which the present runs began; ``None`` if nothing runs."""
        self._seen: set[str] = set()
        """Ids of runs whose end was seen."""

    def of_runs(self, runs: RunsState) -> list[str]:
        """Return a line for runs that ran out of memory, and one when long runs have ended."""
        alarms = self.of_ooms(runs)
        if runs.pending():
            self._began = self._clock() if self._began is None else self._began
        elif self._began is not None:
            took, self._began = self._clock() - self._began, None
            if took >= LONG_S:
                own = (run for run in runs.book.values() if not run.demo)
                ended = [run for run in own if run.request.id in runs.requested]
                words = text.count(len(ended), "run") if len(ended) > 1 else "the run"
                alarms.append(f"{words} ended after {text.duration(took)}")
        return alarms

    def of_ooms(self, runs: RunsState) -> list[str]:
        """Return a line for each run that has run out of memory since the last call."""
        alarms: list[str] = []
        for run in runs.book.values():
            if run.result is not None and not run.demo and run.request.id not in self._seen:
                self._seen.add(run.request.id)
                if _ran_out(run):
                    name = f"{run.request.workload} on {run.request.device}"
                    alarms.append(f"{name} ran out of memory")
        return alarms


def _ran_out(run: RunState) -> bool:
    return run.result is not None and (run.result.reason or "").startswith(OUT_OF_MEMORY)
