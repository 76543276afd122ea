"""Sampling of a run: its processes, its agents and its folder."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from tui.allocators.messages import (
    ProcessFigures,
    Seen,
    StepsCounted,
    TorchProcesses,
)
from tui.core.events import WatchStatus
from tui.devices.session.shared_watch import SharedWatch, WatchInterest, WatchParty
from tui.watch.runs.agents import AgentRequest, Agents
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.samples import SamplesFile
from tui.watch.session.run_folder import RunFolder, RunReading

SAMPLE_S = 0.5
POLL_S = 0.5
"""Seconds between two requests to the agents."""


class Sampler:
    """Samples a run until it is cancelled, without affecting the run.

    Args:
        run: the run to sample.
        on_sample: called in the event loop with each sample.
        watch: reads the run's processes while the run is sampled.
        starter: whether this program started the run.
        on_status: called when :attr:`why_no_samples` changes.
    """

    def __init__(
        self,
        run: StartedRun,
        on_sample: Callable[[Seen | RunReading], None],
        watch: SharedWatch,
        *,
        starter: bool,
        on_status: Callable[[], None] = lambda: None,
    ) -> None:
        self.why_no_samples = ""
        """Why no more samples arrive; empty while they do."""
        self.file = SamplesFile(run, starter=starter)
        self._run = run
        self._on_sample = on_sample
        self._on_status = on_status
        self._folder = RunFolder(run.folder)
        self._agents = Agents()
        self._requests: list[tuple[str, AgentRequest]] = []
        self._poll_now = asyncio.Event()
        self._first: frozenset[int] = frozenset(() if run.pid is None else (run.pid,))
        self._watch = watch
        self._pids = self._first
        self._pace = SAMPLE_S
        self._is_sampling = False
        self._party: WatchParty | None = None
        """Its part in the watch while the run is sampled and has a process to read."""

    async def run(self) -> None:
        """Sample the run until cancelled, then end the child started for it."""
        self._is_sampling = True
        self._update_interest()
        try:
            await self._poll_agents()
        finally:
            self._is_sampling = False
            if self._party is not None:
                self._party.leave()
            self._agents.close()
            await self._watch.ended()
            self.file.close()

    # ---- requests ----

    def request(self, identity: str, request: AgentRequest) -> None:
        """Send a request to an agent; a later sample shows the result."""
        self._requests.append((identity, request))
        self._poll_now.set()

    def store(self, event: Seen) -> None:
        """Store an event that another part of the program observed."""
        self.file.store(event)

    # ---- the watch ----

    def set_pace(self, seconds: float) -> None:
        """Sample this many seconds apart."""
        self._pace = seconds
        self._update_interest()

    def set_listed(self, pids: tuple[int, ...]) -> None:
        """Set the processes that NVML lists."""
        self._watch.set_listed(pids)

    def _update_interest(self) -> None:
        """Read the run's processes as soon as there are any."""
        if not self._is_sampling or not self._pids:
            return
        interest = WatchInterest(self._pace, self._pids)
        if self._party is None:
            self._party = self._watch.join(interest, self._apply_event)
        else:
            self._party.set_interest(interest)

    def _apply_event(self, event: object) -> None:
        if isinstance(event, (TorchProcesses, ProcessFigures)):
            self.why_no_samples = ""
            self.file.store(event)
            self._on_sample(event)
        elif isinstance(event, WatchStatus):
            self.why_no_samples = event.reason
            self._on_status()

    # ---- the agents ----

    async def _poll_agents(self) -> None:
        """Ask the agents; while connected, this program's children may read their processes."""
        while True:
            self._poll_now.clear()
            requests, self._requests = self._requests, []
            # An agent can answer only when its process releases the interpreter.
            reading = await asyncio.to_thread(self._read_folder, requests)
            self._apply_reading(reading)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._poll_now.wait(), POLL_S)

    def _read_folder(self, requests: Sequence[tuple[str, AgentRequest]]) -> RunReading:
        """Ask the agents and read the folder; runs in its own thread."""
        refused = [request for request in requests if self._agents.request(*request) is None]
        states = self._agents.states(str(self._run.folder))
        return self._folder.read(time.time(), states, refused)

    def _apply_reading(self, reading: RunReading) -> None:
        steps = {state.log_name: state.steps for state in reading.states}
        if steps:
            counted = StepsCounted(reading.at, steps)
            self.file.store(counted)
            self._on_sample(counted)
        self._on_sample(reading)
        # They may have left the process tree of the first process, or there is none.
        self._pids = self._first.union(reading.there) or self._pids
        self._update_interest()
