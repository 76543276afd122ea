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
from tui.core.events import LogLine, Publish
from tui.runs.session.session import Session
from tui.runs.state.events import EarlierRead, HeldAgainst, RunQueued
from tui.runs.state.runs import CompareState, RunState
from tui.runs.state.state import RunsState
from workloads.protocol import messages

if TYPE_CHECKING:
    from tui.results.store.records import StoredResult
    from tui.runs.state.parameters import Sweep
    from tui.runs.state.runs import Against, EarlierResult
    from workloads.protocol.results import RunResult

T = TypeVar("T")
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
        self._publish: Publish | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
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

    def attach(self, session: Session) -> None:
        """Store what the runs and comparisons of a session come to."""
        self._publish = session.state.publish
        runs, subscribe = session.state.runs, session.state.bus.subscribe
        subscribe(RunQueued, lambda event: self._note_sweep(event.request, runs))
        subscribe(messages.Finished, lambda event: self._store(event.result.id, runs))
        subscribe(messages.Rejected, lambda event: self._store(event.id, runs))
        subscribe(messages.Compared, lambda event: self._store_compared(event, runs))

    def start(self) -> None:
        """Log from now on what is wrong, in the loop that runs at this moment."""
        self._loop = asyncio.get_running_loop()

    def _store_compared(self, event: messages.Compared, runs: RunsState) -> None:
        if event.done:
            self._store(event.comparison.id, runs)

    def _store(self, run_id: str, runs: RunsState) -> None:
        """Store what a run or a comparison has come to, its conditions included."""
        state = runs.book.get(run_id) or runs.comparisons.get(run_id)
        if state is not None:
            self._keep(state, runs)

    def _note_sweep(self, request: messages.Run, runs: RunsState) -> None:
        sweep = runs.sweeps.get(request.workload)
        if sweep is None or request.parameters not in sweep.points:
            return
        known, name = self._sweep.get(request.workload, (None, ""))
        if known is not sweep:
            name = os.urandom(16).hex()
            self._sweep[request.workload] = (sweep, name)
        self._sweeps[request.id] = name

    def _keep(self, state: RunState | CompareState, runs: RunsState) -> None:
        # A start keeps nothing, and does without.
        from tui.results.store.kept import stored_form

        pid = runs.hello.pid if runs.hello else 0
        sweep = self._sweeps.pop(state.request.id, "")
        process = f"{self._session}-{pid}"
        kept = stored_form(state, runs.machine, process, sweep)
        if kept is None:
            return
        self.processes[process] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="results", daemon=True)
            self._thread.start()
        self._waiting.put(kept)

    async def detach(self) -> None:
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
                self._complain(f"results are not kept: {reports.describe_failure(error)}")

    def _complain(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
            if self._loop is not None and self._publish is not None:
                line = LogLine("workbench", problem, "error")
                with contextlib.suppress(RuntimeError):  # the loop has ended; the list has it
                    self._loop.call_soon_threadsafe(self._publish, line)


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

    def attach(self, session: Session) -> None:
        """Compare each run of a session that ends well with earlier ones."""
        self._session = session

        def compare(event: messages.Finished) -> None:
            session.spawn(self.compare(event.result.id, session.state.runs, session.state.publish))

        session.state.bus.subscribe(messages.Finished, compare)

    def start(self) -> None:
        """Read what there is of each workload."""
        state = self._session.state
        self._session.spawn(self.read(state.runs, state.publish))

    async def detach(self) -> None:
        """Do nothing: what it does ends with the session's tasks."""

    async def read(self, runs: RunsState, publish: Publish) -> None:
        """Publish the newest stored results of each workload."""
        import platform

        sample = runs.machine.sample
        box = sample.host.name if sample else platform.node()
        found = await self._asked(lambda: self._read(box), publish)
        if found:
            publish(EarlierRead(self.began, found))

    async def compare(self, run_id: str, runs: RunsState, publish: Publish) -> None:
        """Publish how a run that has ended well compares with earlier ones."""
        state = runs.book.get(run_id)
        if state is None or state.result is None or state.result.status != "ok":
            return
        if state.result.time is None or not len(runs.earlier):
            return
        alike = _alike(state.result, runs)
        found = await self._asked(lambda: self._held(alike), publish)
        if found is not None:
            publish(HeldAgainst(run_id, found))

    async def _asked(self, ask: Callable[[], T], publish: Publish) -> T | None:
        """Return the store's answer, or log the problem and return ``None``."""
        from tui.results.store.store_file import StoreError

        try:
            return await asyncio.to_thread(ask)
        except StoreError as error:
            problem = f"earlier results are not shown: {error}"
            if problem != self._problem:
                self._problem = problem
                publish(LogLine("workbench", problem, "warning"))
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


def _alike(result: RunResult, runs: RunsState) -> list[StoredResult]:
    """Return this session's stored results for the same question, the oldest first."""
    # A start measures nothing, and does without.
    from tui.results.store.kept import stored_form

    alike = [
        run
        for run in runs.book.values()
        if run.result is not None
        and run.result.status == "ok"
        and run.result.time is not None
        and _question(run.result) == _question(result)
    ]
    found = (stored_form(run, runs.machine, "this session") for run in alike)
    return [one for one in found if one is not None]


def _question(result: RunResult) -> tuple[object, ...]:
    return (
        result.workload,
        result.device,
        {**result.parameters, **result.chosen},
        result.flags,
    )
