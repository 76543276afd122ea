"""Storage of a session's results, and comparison of its runs with earlier sessions.

Both use threads: writing waits for the disk and for other programs, and reading must not delay the
start. A failure of the store loses no run, only these figures, and is logged as one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tui.core import reports
from tui.core.events import LogLine, Publish
from tui.results.store import StoreError, store_path
from tui.runs.session.runner_session import RunnerSession
from tui.runs.session.session import Session
from tui.runs.state.events import ComparedWithEarlier, EarlierRead, RunQueued
from tui.runs.state.runs import CompareState, RunState
from tui.runs.state.state import RunsState
from workloads.protocol import messages

if TYPE_CHECKING:
    from tui.devices.state.machine import MachineState
    from tui.results.store.database import Database
    from tui.results.store.earlier import EarlierSessions
    from tui.results.store.records import StoredResult
    from tui.runs.state.parameters import Sweep
    from workloads.protocol.results import RunResult

T = TypeVar("T")
END_S = 6.0
"""Seconds to wait for writing at the end: longer than one write waits for another program."""


class ResultRecorder:
    """Stores the results of the runs on one machine.

    Args:
        place: path of the store; ``None`` for the store of this user.
    """

    def __init__(self, place: Path | None = None) -> None:
        self.problems: list[str] = []
        """Reasons why results were not stored, a line each, without repetitions."""
        self._publish: Publish | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.processes: dict[str, None] = {}
        """Names of the runners whose results are stored; unique among all runners ever."""
        self._session = os.urandom(16).hex()
        self._place = place
        self._waiting: queue.SimpleQueue[StoredResult | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._sweep_of_run: dict[str, str] = {}
        """Names of sweeps by the ids of their runs."""
        self._newest_sweeps: dict[str, tuple[Sweep, str]] = {}
        """The newest sweep of each workload with its name."""

    def attach(self, session: Session) -> None:
        """Store the result of each run and comparison of a session on its own machine."""
        self.attach_runner(session.here)

    def attach_runner(self, runner: RunnerSession) -> None:
        """Store the result of each run and comparison on one machine."""
        self._publish = runner.publish
        runs, subscribe = runner.runs, runner.bus.subscribe
        subscribe(RunQueued, lambda event: self._note_sweep(event.request, runs))
        subscribe(messages.Finished, lambda event: self._store(event.result.id, runs))
        subscribe(messages.Rejected, lambda event: self._store(event.id, runs))
        subscribe(messages.Compared, lambda event: self._store_compared(event, runs))

    def start(self) -> None:
        """Log problems from now on, in the running event loop."""
        self._loop = asyncio.get_running_loop()

    async def detach(self) -> None:
        """Wait until all results are written, for :data:`END_S` seconds at most."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._waiting.put(None)
        await asyncio.to_thread(thread.join, END_S)
        if thread.is_alive():
            self._log_problem(
                f"the newest results may not be stored: no answer within {END_S:.0f} s"
            )

    def _note_sweep(self, request: messages.Run, runs: RunsState) -> None:
        sweep = runs.sweeps.get(request.workload)
        if sweep is None or request.parameters not in sweep.points:
            return
        known, name = self._newest_sweeps.get(request.workload, (None, ""))
        if known is not sweep:
            name = os.urandom(16).hex()
            self._newest_sweeps[request.workload] = (sweep, name)
        self._sweep_of_run[request.id] = name

    def _store_compared(self, event: messages.Compared, runs: RunsState) -> None:
        if event.done:
            self._store(event.comparison.id, runs)

    def _store(self, run_id: str, runs: RunsState) -> None:
        """Queue the user's run or comparison for writing."""
        run = runs.book.get(run_id)
        state = run or runs.comparisons.get(run_id)
        if state is None or (run is not None and run.demo):
            return
        pid = runs.hello.pid if runs.hello else 0
        sweep = self._sweep_of_run.pop(state.request.id, "")
        process = f"{self._session}-{pid}"
        stored = _import_access().build(state, runs.machine, process, sweep)
        if stored is None:
            return
        self.processes[process] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="results", daemon=True)
            self._thread.start()
        self._waiting.put(stored)

    def _write(self) -> None:
        database_class = _import_access().database
        while (stored := self._waiting.get()) is not None:
            try:
                # Opened for each result: another program may have moved or replaced the file.
                with database_class(self._place or store_path(), writing=True) as database:
                    database.add([stored])
            except StoreError as error:
                self._log_problem(f"results are not stored: {error}")
            except Exception as error:  # noqa: BLE001 (whatever it is, it costs this result alone)
                self._log_problem(f"results are not stored: {reports.describe_failure(error)}")

    def _log_problem(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
            if self._loop is not None and self._publish is not None:
                line = LogLine("workbench", problem, "error")
                with contextlib.suppress(RuntimeError):  # the loop has ended; the list has it
                    self._loop.call_soon_threadsafe(self._publish, line)


class ResultHistory:
    """Reads the results of earlier sessions.

    Args:
        place: path of the store; ``None`` for the store of this user.
        recorder: stores the results of this session, which are not earlier ones; ``None`` if
            they are not stored.
        traceless: read without leaving a trace in the file's folder.
    """

    def __init__(
        self,
        place: Path | None = None,
        recorder: ResultRecorder | None = None,
        *,
        traceless: bool = False,
    ) -> None:
        self.began = time.time()
        """Unix time by this machine's clock; results that ended later belong to this session."""
        self._place = place
        self._recorder = recorder
        self._traceless = traceless
        self._problem = ""

    def attach(self, session: Session) -> None:
        """Compare each successful run of a session on its own machine with earlier runs there."""
        self.attach_runner(session.here)

    def attach_runner(self, runner: RunnerSession) -> None:
        """Compare each successful run on one machine with earlier runs there."""
        self._runner = runner

        def compare(event: messages.Finished) -> None:
            runner.spawn(self.compare(event.result.id, runner.runs, runner.publish))

        runner.bus.subscribe(messages.Finished, compare)

    def start(self) -> None:
        """Read the newest results of each workload."""
        runner = self._runner
        runner.spawn(self.read(runner.runs, runner.publish))

    async def detach(self) -> None:
        """Do nothing: the session ends the tasks."""

    async def read(self, runs: RunsState, publish: Publish) -> None:
        """Publish the newest stored results of each workload."""
        sample = runs.machine.sample
        box = runs.machine.box or (sample.host.name if sample else platform.node())
        earlier_results = await self._query(lambda earlier: earlier.read_newest(box), runs, publish)
        if earlier_results:
            publish(EarlierRead(runs.machine.now(self.began), earlier_results))

    async def compare(self, run_id: str, runs: RunsState, publish: Publish) -> None:
        """Publish the comparison of the user's successful run with earlier runs."""
        state = runs.book.get(run_id)
        if state is None or state.demo or state.result is None or state.result.status != "ok":
            return
        if state.result.time is None or not len(runs.earlier):
            return
        alike, machine = _find_alike(state.result, runs), runs.machine
        comparison = await self._query(
            lambda earlier: earlier.compare(alike, machine), runs, publish
        )
        if comparison is not None:
            publish(ComparedWithEarlier(run_id, comparison))

    async def _query(
        self, query: Callable[[EarlierSessions], T], runs: RunsState, publish: Publish
    ) -> T | None:
        """Query the store in a thread; on failure log the problem and return ``None``."""
        # The time of a result is by the clock of the machine that measured it.
        before = runs.machine.now(self.began)
        own = tuple(self._recorder.processes) if self._recorder is not None else ()
        try:
            return await asyncio.to_thread(self._run_query, query, before, own)
        except StoreError as error:
            problem = f"earlier results are not shown: {error}"
            if problem != self._problem:
                self._problem = problem
                publish(LogLine("workbench", problem, "warning"))
            return None

    def _run_query(
        self, query: Callable[[EarlierSessions], T], before: float, own: Sequence[str]
    ) -> T:
        earlier = _import_access().earlier
        return query(earlier(self._place, before, own, traceless=self._traceless))


class StoreAccess(NamedTuple):
    """The classes that write and read the store, and the function that builds records."""

    database: type[Database]
    earlier: type[EarlierSessions]
    build: Callable[[RunState | CompareState, MachineState, str, str], StoredResult | None]


def _import_access() -> StoreAccess:
    """Import the store's code at its first use, because a start needs no database."""
    # Deferred: 25 modules, 20 ms.
    from tui.results.store.database import Database
    from tui.results.store.earlier import EarlierSessions
    from tui.results.store.records import build_stored_result

    return StoreAccess(Database, EarlierSessions, build_stored_result)


def _find_alike(result: RunResult, runs: RunsState) -> list[RunState]:
    """Return this session's timed runs of the same setting, the oldest first."""
    return [
        run
        for run in runs.book.values()
        if run.result is not None
        and not run.demo
        and run.result.status == "ok"
        and run.result.time is not None
        and _setting(run.result) == _setting(result)
    ]


def _setting(result: RunResult) -> tuple[object, ...]:
    return (result.workload, result.device, {**result.parameters, **result.chosen}, result.flags)
