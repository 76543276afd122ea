"""Samples a run: a watch of its processes, its agents, and its folder."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.core.events import WatchStatus
from tui.devices.allocators.messages import (
    ProcessFigures,
    Seen,
    StepsTold,
    TorchProcesses,
)
from tui.devices.session.watch_supervisor import WatchSupervisor
from tui.watch.runs.agents import Agents, AgentState, Ask
from tui.watch.runs.process_logs import (
    Contents,
    ProcessLog,
    agent_files,
    read_folder,
    snapshots_in,
    troubles_in,
)
from tui.watch.runs.runs import StartedRun, processes_of
from tui.watch.runs.samples import SamplesFile
from workloads.agent import program_name

SAMPLE_S = 0.5
ASK_S = 0.5
"""Between two questions to the agents."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What the agents of a run say, and what lies in its folder."""

    at: float
    """Unix time."""
    states: tuple[AgentState, ...]
    there: tuple[int, ...]
    """Processes with an agent that go on, whether it answers or not."""
    left: tuple[ProcessLog, ...]
    troubles: tuple[str, ...]
    """Why there is no agent in some process."""
    snapshots: tuple[Path, ...]
    """The newest first."""
    refused: tuple[tuple[str, Ask], ...] = ()
    """Requests that did not reach an agent, with its identity."""
    skipped: tuple[str, ...] = ()
    """What in the folder could not be read, a line each."""


class RunFolder:
    """A run's folder, read again where something in it has changed.

    Args:
        place: the folder.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._stamp: object = None
        self._read: tuple[Contents, tuple[str, ...]] = (Contents((), ()), ())

    def look(
        self, at: float, states: Sequence[AgentState], refused: Sequence[tuple[str, Ask]] = ()
    ) -> Looked:
        """Return the contents of the folder, with the agents' states.

        Args:
            at: Unix time.
            states: of the agents that answer.
            refused: requests that did not reach one.
        """
        snapshots = self._read_changed()
        newest = sorted(snapshots, key=lambda path: snapshots[path], reverse=True)
        contents, troubles = self._read
        return Looked(
            at,
            tuple(states),
            tuple(processes_of(self._place)),
            contents.left,
            troubles,
            tuple(newest),
            tuple(refused),
            contents.skipped,
        )

    def left(self) -> tuple[ProcessLog, ...]:
        """Return the log of each process, in the order in which they began."""
        self._read_changed()
        return self._read[0].left

    def _read_changed(self) -> dict[Path, tuple[int, int]]:
        """Read what has changed since the last look; returns the snapshots."""
        # Not the samples: they grow all the time, and are not an agent's.
        told = [*agent_files(self._place), self._place / "agent-errors.log"]
        snapshots = snapshots_in(self._place)
        stamp = (_with_sizes(told), snapshots)
        if stamp != self._stamp:
            self._stamp = stamp
            self._read = read_folder(self._place), tuple(troubles_in(self._place))
        return snapshots


def _with_sizes(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):  # it is gone, or was never there
            facts = path.lstat()
            found[path] = facts.st_mtime_ns, facts.st_size
    return found


class Sampler:
    """Watches a run until it is cancelled; leaves the run as it is.

    Args:
        run: what is watched.
        take: is called with what is seen, in the event loop.
        starter: this program has started the run.
        told: is called when :attr:`why_no_samples` is another.
        clock: Unix time now.
    """

    def __init__(
        self,
        run: StartedRun,
        take: Callable[[Seen | Looked], None],
        *,
        starter: bool,
        told: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.why_no_samples = ""
        """Why no more of them come; empty while they do."""
        self.file = SamplesFile(run, starter=starter)
        self._run = run
        self._take = take
        self._told = told
        self._clock = clock
        self._folder = RunFolder(run.folder)
        self._agents = Agents()
        self._asked: list[tuple[str, Ask]] = []
        self._ask_now = asyncio.Event()
        self._first: frozenset[int] = frozenset(() if run.pid is None else (run.pid,))
        self.watch = WatchSupervisor(self._apply_event, pace=SAMPLE_S, pids=self._first)
        self._has_pids = asyncio.Event()

    async def work(self) -> None:
        """Sample it; returns when it is cancelled, and then has ended what it started."""
        if self._first:
            self._has_pids.set()
        tasks = [asyncio.create_task(self._supervise_watch()), asyncio.create_task(self._ask())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._agents.close()
            if self.watch.child is not None:
                await self.watch.child.stop()
            self.file.close()

    # ---- what it is told ----

    def ask(self, identity: str, what: Ask) -> None:
        """Ask an agent for something; what comes of it is seen at a later look."""
        self._asked.append((identity, what))
        self._ask_now.set()

    def keep(self, event: Seen) -> None:
        """Keep what somebody else has seen of the run."""
        self.file.keep(event)

    # ---- the watch ----

    async def _supervise_watch(self) -> None:
        """Keep a watch running once there is a process to watch; a run goes on without it."""
        await self._has_pids.wait()
        await self.watch.supervise()

    def _apply_event(self, event: object) -> None:
        if isinstance(event, (TorchProcesses, ProcessFigures)):
            self.why_no_samples = ""
            self.file.keep(event)
            self._take(event)
        elif isinstance(event, WatchStatus):
            self.why_no_samples = event.reason
            self._told()

    # ---- the agents ----

    async def _ask(self) -> None:
        """Ask the agents; to be connected lets this program's children read their processes."""
        while True:
            self._ask_now.clear()
            asked, self._asked = self._asked, []
            # An agent answers when its process lets it have the interpreter.
            looked = await asyncio.to_thread(self._look, asked)
            self._apply_looked(looked)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ask_now.wait(), ASK_S)

    def _look(self, asked: Sequence[tuple[str, Ask]]) -> Looked:
        """In a thread of its own."""
        refused = [each for each in asked if self._agents.ask(*each) is None]
        states = self._agents.states(str(self._run.folder))
        return self._folder.look(self._clock(), states, refused)

    def _apply_looked(self, looked: Looked) -> None:
        steps = {program_name(each.identity, each.program): each.steps for each in looked.states}
        if steps:
            told = StepsTold(looked.at, steps)
            self.file.keep(told)
            self._take(told)
        self._take(looked)
        # They may have left the tree of the first one, or there is no first one.
        pids = self._first.union(looked.there)
        if pids:
            self.watch.set_pids(pids)
            self._has_pids.set()
