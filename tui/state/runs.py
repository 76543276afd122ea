"""What is kept of a run and of a comparison that was asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tui.state.conditions import Conditions
from tui.state.earlier import Against
from workloads.protocol import messages
from workloads.protocol.frozen import frozen
from workloads.protocol.inventory import Setting
from workloads.protocol.results import Arm, Comparison, RunResult


@frozen
class RunState:
    """One requested run: queued, going on (``progress``) or ended (``result``)."""

    request: messages.Run
    progress: messages.Progress | None = None
    so_far: RunResult | None = None
    """Its time is taken; what its study has found grows."""
    result: RunResult | None = None
    conditions: Conditions | None = None
    """``None`` before it has ended, and where nothing was measured."""
    demo: bool = False
    """Asked for by the demo, not by the user."""
    against: Against | None = None
    """How it compares with what was kept of earlier sessions; ``None`` where nothing was."""

    @property
    def ended(self) -> bool:
        return self.result is not None

    @property
    def cancelled(self) -> bool:
        return self.result is not None and self.result.status == "cancelled"


@frozen
class CompareState:
    """One requested comparison with what it has found so far."""

    request: messages.Compare
    progress: messages.Progress | None = None
    comparison: Comparison | None = None
    done: bool = False
    conditions: Conditions | None = None
    """``None`` before it has ended, and where nothing was measured."""


def ended_comparison(state: CompareState, ending: messages.Rejected) -> Comparison:
    """A comparison that ended before it could say so itself; its pairs so far are kept."""
    request = state.request
    so_far = state.comparison or Comparison(
        id=request.id,
        workload=request.workload,
        device=request.device,
        parameters=request.parameters,
        flag=request.flag,
        arms=(
            Arm(request.settings[0], None, None),
            Arm(request.settings[1], None, None),
        ),
        ratio=None,
        ci95=None,
        pairs=0,
        pairs_wanted=request.pairs or 0,
        verdict="unclear",
        break_even_calls=None,
        fresh_process=False,
    )
    return replace(so_far, status=ending.status, reason=ending.reason)


def same_parameters(
    parameters: Mapping[str, Setting],
) -> tuple[tuple[str, Setting], ...]:
    return tuple(sorted(parameters.items()))


def standing(runs: Iterable[RunState]) -> RunState | None:
    """Of runs of the same, the newest first, the one whose figures stand.

    A run that was cancelled takes the place of no other: what was measured before is not lost by
    asking for it again.
    """
    known = list(runs)
    return next((run for run in known if not run.cancelled), known[0] if known else None)


KEPT = 100
"""Ended runs that stand no more, before the oldest of them is forgotten: who leaves the workbench
running a demo for days keeps its memory."""

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
        """Note which runs do not stand, after one more has ended."""
        alike = [self._runs[run_id] for run_id in self._alike[_key(newer)]]
        ended = [run for run in alike if run.ended and run.demo == newer.demo]
        stands = standing(reversed(ended))
        for run in ended:
            if run is not stands and run.request.id not in self._superseded:
                self._superseded.append(run.request.id)
        while len(self._superseded) > KEPT:
            gone = self._runs.pop(self._superseded.popleft())
            self._alike[_key(gone)].remove(gone.request.id)


def _key(run: RunState) -> _Key:
    request = run.request
    return request.workload, request.device, same_parameters(request.parameters)
