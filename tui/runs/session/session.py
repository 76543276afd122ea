"""One session of the workbench: the children, the states, and the requests of front ends.

The screens and the headless commands are thin layers over a session, which imports neither.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tui.core import state_folder
from tui.core.child.launch import Launched
from tui.core.child.supervisor import ChildSupervisor, send_keep_alives
from tui.core.events import RunnerStatus
from tui.devices.session.device_session import DeviceSession
from tui.devices.state.machine import PeaksReset
from tui.hosts.events import HostsNamed
from tui.runs.session.host_runner import HostRunner, RunnerAttachment
from tui.runs.session.runner_session import RunnerSession
from tui.runs.state.events import CatalogueRead
from tui.runs.state.parameters import Sweep
from tui.runs.state.state import WorkbenchState
from workloads.protocol.messages import Budget
from workloads.protocol.results import Setting

if TYPE_CHECKING:
    from tui.hosts.children import HostConnection
    from tui.hosts.plan import HostPlan


class Attachment(Protocol):
    """A subscriber to the events of a session, such as a recorder."""

    def attach(self, session: Session) -> None:
        """Subscribe to the events of a new session."""

    def start(self) -> None:
        """Begin work that needs a running event loop; the session starts its children now."""

    async def detach(self) -> None:
        """End all work; the session's children have ended."""


class Session(DeviceSession):
    """The children and the states of one run of the program.

    Args:
        python: the Python that runs the workloads; it needs torch.
        interval: seconds between two samples of the monitor; ``None`` for no monitor.
        files: the workload files of the user; the runner reads them.
        attachments: subscribers to the session's events, from the first event on.
        monitor: a started monitor with that interval.
        variables: environment variables of this runner, in addition to every runner's.
        readonly: write no files.
        connection: the host that the children run on, in ``python`` of that host; ``None`` for
            this machine.
        hosts: the other hosts to connect to; ``None`` for none.
        host_attachments: creates the subscribers to the runs on one of these hosts.
    """

    def __init__(
        self,
        python: str = sys.executable,
        interval: float | None = 1.0,
        files: Sequence[str] = (),
        attachments: Sequence[Attachment] = (),
        monitor: Launched | None = None,
        *,
        variables: Mapping[str, str] | None = None,
        readonly: bool = False,
        hosts: HostPlan | None = None,
        connection: HostConnection | None = None,
        host_attachments: Callable[[], Sequence[RunnerAttachment]] = tuple,
    ) -> None:
        self.state = WorkbenchState()
        if connection is not None:
            self.state.machine.box = connection.host.name
        super().__init__(self.state.bus, self.state.machine, interval, monitor, hosts, connection)
        self._python = python
        self._files = tuple(files)
        self._variables = variables
        self.here = RunnerSession(
            self.state.bus,
            self.state.runs,
            self.state.publish,
            self.spawn,
            lambda: self._monitor.sampled if self._monitor is not None else None,
        )
        """The runs on this machine, or on the host of ``connection``."""
        self._of_hosts: dict[str, HostRunner] = {}
        """The runs on each other host."""
        self._make_host_attachments = host_attachments
        self.state.bus.subscribe(HostsNamed, self._add_hosts)
        self._attachments = tuple(attachments)
        for attachment in self._attachments:
            attachment.attach(self)
        self.state.publish(CatalogueRead(state_folder.catalogue(store=not readonly)))

    def _add_hosts(self, _event: HostsNamed) -> None:
        if self._hosts is None:
            return
        for address in self._hosts.hosts:
            host = self.state.machine.hosts.find_named(address.name)
            if host is not None:
                self._of_hosts[host.name] = HostRunner(
                    host,
                    self.state.runs.of_hosts[host.name],
                    address,
                    self._hosts,
                    self.state.publish,
                    self.spawn,
                    self._files,
                    self._make_host_attachments(),
                )

    # ---- life ----

    async def start(self) -> None:
        """Start the children; their messages update the states.

        The runner executes earlier requests once it is ready. That of another host is started with
        the first request for a run there.
        """
        self.watch()
        for attachment in self._attachments:
            attachment.start()
        if self._hosts is not None and not self._hosts.here:
            advice = "start without --no-here to run workloads on this machine"
            self.state.publish(RunnerStatus("unusable", "this machine is left out", advice))
            return
        self.here.start(self._python, self._files, self._variables, self._connection)
        if self._connection is not None:
            self.spawn(send_keep_alives(self._children))

    async def stop(self) -> None:
        """End the children and their child processes, within about two seconds."""
        await super().stop()
        for attachment in self._attachments:
            await attachment.detach()
        for runner in self._of_hosts.values():
            await runner.detach()

    def _supervisors(self) -> tuple[ChildSupervisor[Any] | None, ...]:
        runners = (self.here, *self._of_hosts.values())
        return *super()._supervisors(), *(runner.supervisor for runner in runners)

    # ---- requests of front ends, see ``RunActions``: those of the selected row's machine ----

    @property
    def _shown(self) -> RunnerSession:
        return self.find_runner(self.state.machine.shown.host)

    def find_runner(self, host: str) -> RunnerSession:
        """Return the runs on a host; an empty name means this machine."""
        return self._of_hosts[host] if host else self.here

    def set_parameters(self, workload: str, parameters: dict[str, Setting]) -> None:
        self._shown.set_parameters(workload, parameters)

    def set_sweep(self, workload: str, sweep: Sweep) -> None:
        self._shown.set_sweep(workload, sweep)

    def run(
        self,
        workloads: Sequence[str],
        devices: Sequence[str] | None = None,
        budget: Budget = "normal",
    ) -> None:
        self._shown.run(workloads, devices, budget)

    def run_to_present(self, workload: str) -> None:
        self._shown.run_to_present(workload)

    def cancel(self, run_id: str = "") -> None:
        if run_id:
            self._shown.cancel(run_id)
            return
        for runner in (self.here, *self._of_hosts.values()):
            runner.cancel()

    def cancel_shown(self) -> None:
        self._shown.cancel()

    def set_flag(self, name: str, value: bool) -> None:
        self._shown.set_flag(name, value)

    def compare(self, workload: str, flag: str) -> None:
        self._shown.compare(workload, flag)

    def restart_runner(self) -> None:
        self._shown.restart_runner()

    def empty_cache(self, key: str) -> None:
        runner, key = self._find_device(key)
        runner.empty_cache(key)

    def reset_peaks(self, key: str) -> None:
        self.state.publish(PeaksReset(key))
        runner, key = self._find_device(key)
        runner.reset_peaks(key)

    def _find_device(self, key: str) -> tuple[RunnerSession, str]:
        """Return the runs on the machine of a row, and the key of its device on that machine."""
        host = self.state.machine.hosts.find(key)
        if host is None:
            return self.here, key
        return self._of_hosts[host.name], host.find_key(key)
