"""The runner of another host, which is started there with the first request for a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from tui.core.child.supervisor import send_keep_alives
from tui.core.events import LogLine, Publish, RunnerStatus, Topics
from tui.devices.session.monitor_supervisor import MOST_SAMPLES, SampledDevice, sampled
from tui.devices.state.hosts import HostState
from tui.monitor.messages import Sample
from tui.runs.session.runner_session import CANCEL_S, RunnerSession, Spawn
from tui.runs.state.events import HostRunEvent, RunsOfHostEvent
from tui.runs.state.state import RunsState

if TYPE_CHECKING:
    from tui.hosts.address import HostAddress
    from tui.hosts.plan import HostPlan


ROUND_TRIPS = 2
"""Round trips that a cancelled run may take, as the next one may be slower than the last."""


class RunnerAttachment(Protocol):
    """A subscriber to the runs on one machine, such as the result recorder."""

    def attach_runner(self, runner: RunnerSession) -> None:
        """Subscribe to the events of the runs."""

    def start(self) -> None:
        """Begin work that needs a running event loop; the runner starts now."""

    async def detach(self) -> None:
        """End all work; the runner has ended."""


class HostRunner(RunnerSession):
    """Requests for runs on another host. Its first one connects to it and starts the runner.

    Args:
        host: the state of the host.
        runs: the state of the runs there.
        address: the host.
        plan: connects to it.
        publish: publishes an event of the whole session.
        spawn: runs a coroutine until it or the session ends.
        files: the workload files of the user on this machine.
        attachments: subscribers to the runs.
    """

    def __init__(
        self,
        host: HostState,
        runs: RunsState,
        address: HostAddress,
        plan: HostPlan,
        publish: Publish,
        spawn: Spawn,
        files: Sequence[str] = (),
        attachments: Sequence[RunnerAttachment] = (),
    ) -> None:
        def publish_of_host(event: object) -> object:
            if isinstance(event, LogLine):
                return publish(replace(event, text=f"{host.name}: {event.text}"))
            return publish(HostRunEvent(host.name, cast(RunsOfHostEvent, event)))

        self._sampled: deque[tuple[SampledDevice, ...]] = deque(maxlen=MOST_SAMPLES)
        super().__init__(host.bus, runs, publish_of_host, spawn, lambda: self._sampled)
        self._host, self._address, self._plan = host, address, plan
        self._files = tuple(files)
        self._attachments = tuple(attachments)
        self._is_starting = False
        for attachment in self._attachments:
            attachment.attach_runner(self)

    def prepare(self) -> None:
        """Prepare for a request: the first one starts the runner, later ones connect again."""
        if self.supervisor is not None:
            super().prepare()
        elif not self._is_starting:
            self._is_starting = True
            self.publish(RunnerStatus("starting"))
            self.bus.subscribe(Sample, self._store_sample)
            for attachment in self._attachments:
                attachment.start()
            self.spawn(self._start_there())

    def restart_runner(self) -> None:
        """Start a new runner, or the first one."""
        if self.supervisor is None:
            self.prepare()
        else:
            super().restart_runner()

    @property
    def cancel_s(self) -> float:
        """Seconds for the runner to end a cancelled run: the request and the answer take theirs."""
        return CANCEL_S + ROUND_TRIPS * (self._host.round_trip_s or 0.0)

    async def _start_there(self) -> None:
        self.start(files=self._files, connection=await self._plan.connect(self._address))
        await send_keep_alives(lambda: (self.supervisor.child if self.supervisor else None,))

    async def detach(self) -> None:
        """End the attachments, after the end of the runner."""
        for attachment in self._attachments if self._is_starting else ():
            await attachment.detach()

    def _store_sample(self, sample: Sample) -> Topics | None:
        self._sampled.append(sampled(sample))
        return None
