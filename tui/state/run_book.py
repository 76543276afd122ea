"""The runs that were asked for, in order, found by what was asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tui.state.runs import RunState, same_parameters
from workloads.protocol.inventory import Setting

KEPT = 100
"""Ended runs that a newer one has superseded, before the oldest of them is forgotten: who leaves
the workbench running a demo for days keeps its memory."""

_Key = tuple[str, str, tuple[tuple[str, Setting], ...]]
"""Workload, torch's name of the device, parameters."""


class RunBook(Mapping[str, RunState]):
    """Runs by their id, the oldest first."""

    def __init__(self) -> None:
        self._runs: dict[str, RunState] = {}
        self._alike: dict[_Key, list[str]] = {}
        self._superseded: deque[str] = deque()

    def __getitem__(self, run_id: str) -> RunState:
        return self._runs[run_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: RunState) -> None:
        """Take in a run that is asked for."""
        self._runs[run.request.id] = run
        self._alike.setdefault(_key(run), []).append(run.request.id)

    def change(self, run_id: str, **changes: Any) -> None:
        """Replace fields of a run; of one that is not known, nothing."""
        before = self._runs.get(run_id)
        if before is None:
            return
        self._runs[run_id] = after = replace(before, **changes)
        if after.ended and not before.ended:
            self._supersede(after)

    def newest_first(
        self, workload: str, device: str, parameters: Mapping[str, Setting]
    ) -> Iterator[RunState]:
        """The runs of a workload with these parameters on a torch device."""
        ids = self._alike.get((workload, device, same_parameters(parameters)), ())
        return (self._runs[run_id] for run_id in reversed(ids))

    def _supersede(self, newer: RunState) -> None:
        for run_id in self._alike[_key(newer)]:
            if run_id == newer.request.id:
                break
            run = self._runs[run_id]
            if run.ended and run.demo == newer.demo and run_id not in self._superseded:
                self._superseded.append(run_id)
        while len(self._superseded) > KEPT:
            gone = self._runs.pop(self._superseded.popleft())
            self._alike[_key(gone)].remove(gone.request.id)


def _key(run: RunState) -> _Key:
    request = run.request
    return request.workload, request.device, same_parameters(request.parameters)
