"""What earlier sessions measured on this box, told to the store of this one.

Read in a thread, and not before the first screen is drawn: no start waits for it. What is wrong
with the file costs these figures and is one line of the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tui.state.events import EarlierRead, HeldAgainst, LogLine
from tui.state.store import Store

if TYPE_CHECKING:
    from tui.results.records import Kept
    from tui.state.earlier import Against, EarlierResult
    from workloads.protocol.results import RunResult

T = TypeVar("T")
Apply = Callable[["EarlierRead | HeldAgainst | LogLine"], object]


class EarlierSessions:
    """Looks into the store of results.

    Args:
        place: the file; ``None`` for this user's.
        traceless: leave no trace of the look.
    """

    def __init__(self, place: Path | None = None, *, traceless: bool = False) -> None:
        self.began = time.time()
        """Unix time; what ended later is of this session."""
        self._place = place
        self._traceless = traceless
        self._problem = ""

    async def read(self, store: Store, apply: Apply) -> None:
        """Tell what there is of each workload."""
        import platform

        box = store.sample.host.name if store.sample else platform.node()
        found = await self._asked(lambda: self._read(box), apply)
        if found:
            apply(EarlierRead(self.began, found))

    async def hold(self, run_id: str, store: Store, apply: Apply) -> None:
        """Tell how a run that has ended well compares with earlier ones."""
        state = store.runs.get(run_id)
        if state is None or state.result is None or state.result.status != "ok":
            return
        if state.result.time is None or not len(store.earlier):
            return
        runs = _alike(state.result, store)
        found = await self._asked(lambda: self._held(runs), apply)
        if found is not None:
            apply(HeldAgainst(run_id, found))

    async def _asked(self, ask: Callable[[], T], apply: Apply) -> T | None:
        """What the store answers; ``None``, and a line of the log, where it cannot."""
        from tui.results.errors import StoreError

        try:
            return await asyncio.to_thread(ask)
        except StoreError as error:
            problem = f"earlier results are not shown: {error}"
            if problem != self._problem:
                self._problem = problem
                apply(LogLine("workbench", problem, "warning"))
            return None

    def _read(self, box: str) -> tuple[EarlierResult, ...]:
        from tui.results.database import path
        from tui.results.earlier import read

        return read(self._place or path(), box, self.began, traceless=self._traceless)

    def _held(self, runs: list[Kept]) -> Against | None:
        from tui.results.database import path
        from tui.results.earlier import held_against

        return held_against(self._place or path(), runs, self.began, traceless=self._traceless)


def _alike(result: RunResult, store: Store) -> list[Kept]:
    """What is kept of this session's runs of the same, the oldest first; of this one at least."""
    # A start, which measures nothing, does without.
    from tui.results.keep import kept_of

    alike = [
        run
        for run in store.runs.values()
        if run.result is not None
        and run.result.status == "ok"
        and run.result.time is not None
        and _question(run.result) == _question(result)
    ]
    found = (kept_of(run, store, "this session") for run in alike)
    return [one for one in found if one is not None]


def _question(result: RunResult) -> tuple[object, ...]:
    return (
        result.workload,
        result.device,
        {**result.parameters, **result.chosen},
        result.flags,
    )
