"""A session beside the store: what it measures is kept, what earlier ones measured is told.

Both happen in threads: writing waits for the disk and for other programs, and no start waits for
what is read. A store that fails costs no run; it costs these figures and is one line of the log.
What opens the store is imported where it is opened: no start waits for SQLite.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tui.core import reports
from tui.runs.state.runs import CompareState, RunState
from tui.state.events import AnyEvent, EarlierRead, HeldAgainst, LogLine, RunQueued
from tui.state.store import Store
from workloads.protocol import messages

if TYPE_CHECKING:
    from tui.results.store.records import StoredResult
    from tui.runs.state.parameters import Sweep
    from tui.runs.state.runs import Against, EarlierResult
    from workloads.protocol.results import RunResult

T = TypeVar("T")
Apply = Callable[["EarlierRead | HeldAgainst | LogLine"], object]
END_S = 6.0
"""For so long an end waits for what is still to be written: longer than one write for another
program."""


class ResultRecorder:
    """Keeps the results of one session.

    Args:
        place: the file; ``None`` for this user's.
    """

    def __init__(self, place: Path | None = None) -> None:
        self.problems: list[str] = []
        """Why something was not kept, a line each; the same one once."""
        self._tell: Callable[[str], None] | None = None
        self.processes: dict[str, None] = {}
        """What stands for the runners whose results are kept, among all that there ever were."""
        self._session = os.urandom(16).hex()
        self._place = place
        self._waiting: queue.SimpleQueue[StoredResult | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._sweeps: dict[str, str] = {}
        """Of the runs that belong to one, by their ids."""
        self._sweep: dict[str, tuple[Sweep, str]] = {}
        """The newest of each workload, and what stands for it."""

    def attach(self, apply: Callable[[LogLine], object]) -> None:
        """Have what is wrong told as a line of the log, in the loop that runs at this moment."""
        loop = asyncio.get_running_loop()

        def tell(problem: str) -> None:
            line = LogLine("workbench", problem, "error")
            with contextlib.suppress(RuntimeError):  # the loop has ended; the list has it
                loop.call_soon_threadsafe(apply, line)

        self._tell = tell

    def see(self, event: AnyEvent, store: Store) -> None:
        """Keep what an event has brought to its end.

        Args:
            event: that the store has taken, conditions after it included.
            store: of the session.
        """
        if isinstance(event, RunQueued):
            self._note_sweep(event.request, store)
            return
        if isinstance(event, messages.Finished):
            ended = event.result.id
        elif isinstance(event, messages.Compared) and event.done:
            ended = event.comparison.id
        elif isinstance(event, messages.Rejected):
            ended = event.id
        else:
            return
        state = store.runs.get(ended) or store.comparisons.get(ended)
        if state is not None:
            self._keep(state, store)

    def _note_sweep(self, request: messages.Run, store: Store) -> None:
        sweep = store.sweeps.get(request.workload)
        if sweep is None or request.parameters not in sweep.points:
            return
        known, name = self._sweep.get(request.workload, (None, ""))
        if known is not sweep:
            name = os.urandom(16).hex()
            self._sweep[request.workload] = (sweep, name)
        self._sweeps[request.id] = name

    def _keep(self, state: RunState | CompareState, store: Store) -> None:
        # A start keeps nothing, and does without.
        from tui.results.store.kept import stored_form

        pid = store.hello.pid if store.hello else 0
        sweep = self._sweeps.pop(state.request.id, "")
        process = f"{self._session}-{pid}"
        kept = stored_form(state, store, process, sweep)
        if kept is None:
            return
        self.processes[process] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="results", daemon=True)
            self._thread.start()
        self._waiting.put(kept)

    async def close(self) -> None:
        """Wait until all is written, or that is given up and said."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._waiting.put(None)
        await asyncio.to_thread(thread.join, END_S)
        if thread.is_alive():
            self._complain(f"the newest results may not be kept: no answer within {END_S:.0f} s")

    def _write(self) -> None:
        from tui.results.store.database import Database, path
        from tui.results.store.store_file import StoreError

        while (kept := self._waiting.get()) is not None:
            try:
                # Opened each time: what another program moved away or made anew is found.
                with Database(self._place or path(), writing=True) as database:
                    database.add([kept])
            except StoreError as error:
                self._complain(f"results are not kept: {error}")
            except Exception as error:  # noqa: BLE001 (whatever it is, it costs this result alone)
                self._complain(f"results are not kept: {reports.failure_in_words(error)}")

    def _complain(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
            if self._tell is not None:
                self._tell(problem)


class ResultHistory:
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

    async def compare(self, run_id: str, store: Store, apply: Apply) -> None:
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
        """Return the store's answer, or log the problem and return ``None``."""
        from tui.results.store.store_file import StoreError

        try:
            return await asyncio.to_thread(ask)
        except StoreError as error:
            problem = f"earlier results are not shown: {error}"
            if problem != self._problem:
                self._problem = problem
                apply(LogLine("workbench", problem, "warning"))
            return None

    def _read(self, box: str) -> tuple[EarlierResult, ...]:
        from tui.results.store.compare import earlier_results
        from tui.results.store.database import path

        return earlier_results(self._place or path(), box, self.began, traceless=self._traceless)

    def _held(self, runs: list[StoredResult]) -> Against | None:
        from tui.results.store.compare import compare_with_earlier
        from tui.results.store.database import path

        return compare_with_earlier(
            self._place or path(), runs, self.began, traceless=self._traceless
        )


def _alike(result: RunResult, store: Store) -> list[StoredResult]:
    """Return this session's stored results for the same question, the oldest first."""
    # A start measures nothing, and does without.
    from tui.results.store.kept import stored_form

    alike = [
        run
        for run in store.runs.values()
        if run.result is not None
        and run.result.status == "ok"
        and run.result.time is not None
        and _question(run.result) == _question(result)
    ]
    found = (stored_form(run, store, "this session") for run in alike)
    return [one for one in found if one is not None]


def _question(result: RunResult) -> tuple[object, ...]:
    return (
        result.workload,
        result.device,
        {**result.parameters, **result.chosen},
        result.flags,
    )
