"""Runs on a host, from the connection to the end, and the hosts that a command names."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tui.devices.host_options import add_connection
from tui.devices.host_plan import find_other_hosts
from tui.devices.state.devices import CPU
from tui.headless.waiter import (
    Waiter,
    choose_devices,
    choose_interval,
    describe_current_run,
    set_parameters,
)
from tui.hosts.address import HERE, HostAddress
from tui.hosts.children import HostConnection
from tui.hosts.choice import HostChoice
from tui.hosts.supervisor import with_shared_connection
from tui.kit.command_line.options import Parser
from tui.kit.command_line.output import Failure, UsageError
from tui.kit.command_line.progress import ProgressLine
from tui.kit.command_line.values import python_to_use
from tui.kit.terminal.ending import SIGNALS, handle_signals
from tui.results.store.recorder import ResultRecorder
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from tui.runs.views.result_text import encode_results
from workloads.protocol.machine_identity import MachineIdentity

if TYPE_CHECKING:
    from tui.core.settings import Value


INTERRUPTED = "interrupted before it was connected"
"""The error of a host whose connection a signal has ended."""


class HostRuns:
    """The runs on one host; an error there does not affect other hosts.

    Args:
        host: the host.
        python: name or path of its Python; ``None`` to find one with torch.
        devices: torch's names of the devices to run on. If it is the CPU alone, the host's GPUs are
            not sampled: that would disturb its timings.
        files: the workload files of the user on this machine.
        storing: store the results.
    """

    def __init__(
        self,
        host: HostAddress,
        python: str | None,
        devices: Sequence[str],
        *,
        files: Sequence[str],
        storing: bool,
    ) -> None:
        self.host = host
        self.error = ""
        """Why nothing ran, or nothing more."""
        self.reached = host
        """The host with the connection that its children share, once it is connected."""
        self.python = python
        """Name or path of its Python; ``None`` to find one with torch."""
        self._devices, self._files, self._storing = devices, tuple(files), storing
        self._recorder = ResultRecorder() if storing else None
        self.session: Session | None = None
        """The session; ``None`` before the connection."""
        self._waiter: Waiter | None = None
        self._signalled: signal.Signals | None = None
        self._show: list[Callable[[], None]] = []
        self._running = False

    @property
    def state(self) -> RunsState | None:
        """The state of the runs; ``None`` before the connection."""
        return self.session.state.runs if self.session is not None else None

    @property
    def signalled(self) -> bool:
        """True after a signal."""
        return self._signalled is not None

    @property
    def entries(self) -> Sequence[RunState]:
        """The runs, in their order."""
        return tuple(self.state.book.values()) if self.state is not None else ()

    @property
    def problems(self) -> Sequence[str]:
        """Problems with the user's workload files there, then why results were not stored."""
        hello = self.state.hello if self.state is not None else None
        of_files = [f"{self.host.name}: {problem}" for problem in (hello.problems if hello else ())]
        return (*of_files, *(self._recorder.problems if self._recorder else ()))

    @property
    def failed(self) -> bool:
        """True if the host was not reached or a run failed."""
        return bool(self.error) or any(entry.failed for entry in self.entries)

    @property
    def progress(self) -> str:
        """Description of the host's activity; empty without any."""
        runs = self.state
        if runs is None or self.error or (self._waiter and not self._running):
            return ""
        doing = describe_current_run(runs) if self._running else f"runner: {runs.runner.status}"
        return f"{self.host.name}: {doing}"

    def another(self) -> HostRuns:
        """Return runs on the same host in a runner of their own, not connected yet."""
        return HostRuns(
            self.host, self.python, self._devices, files=self._files, storing=self._storing
        )

    def on_change(self, show: Callable[[], None]) -> None:
        """Call a function when the progress changes."""
        self._show.append(show)

    def note_signal(self, number: signal.Signals) -> None:
        """End the runs; measurements so far remain."""
        self._signalled = number
        if self._waiter is not None:
            self._waiter.note_signal(number)

    def exit_code(self, otherwise: int) -> int:
        """Return the exit code of the signal that ended the command, else ``otherwise``."""
        return otherwise if self._signalled is None else 128 + int(self._signalled)

    async def connect(self) -> None:
        """Start the children on the host and wait until torch is imported there."""
        host = self.reached = await with_shared_connection(self.host)
        session = Session(
            interval=choose_interval(self._devices),
            files=self._files,
            attachments=[self._recorder] if self._recorder else [],
            readonly=True,
            connection=HostConnection(host, self.python, alone=self.host),
        )
        self.session = session
        self._running = True
        waiter = self._waiter = Waiter(session, signals=False)
        if self.signalled:
            self.error = INTERRUPTED
            return
        await session.start()
        runs = session.state.runs
        await self._guarded(
            waiter.until(lambda: runs.runner.status in ("ready", "unusable"), self._draw)
        )
        if runs.runner.status == "unusable":
            self.error = "; ".join(filter(None, (runs.runner.reason, runs.runner.advice)))
        elif runs.runner.status != "ready":
            self.error = self.error or INTERRUPTED
        self._running = False

    async def run(self, request: Callable[[Session], None]) -> None:
        """Request runs and wait until they end, unless the host was not reached.

        Args:
            request: requests them from the session of the host; may raise ``Failure``, which
                becomes the host's error.

        Raises:
            UsageError: ``request`` raised it: a name or a value is invalid.
        """
        session, waiter = self.session, self._waiter
        if session is None or waiter is None or self.error or self.signalled:
            return
        try:
            request(session)
        except Failure as failure:
            self.error = str(failure)
            return
        self._running = True
        runs = session.state.runs
        await self._guarded(waiter.until(lambda: not runs.pending(), self._draw))
        if runs.pending():
            await waiter.finish(ProgressLine())
        if runs.runner.status == "unusable":
            self.error = self.error or runs.runner.reason
        self._running = False

    async def run_one(self, request: Callable[[Session], None]) -> RunState | None:
        """Request one run, wait until it ends, and return it; ``None`` if there was none.

        Args:
            request: as for :meth:`run`.
        """
        # Their number would not do: of many equal runs, the oldest are dropped.
        earlier = {entry.request.id for entry in self.entries}
        await self.run(request)
        return next((new for new in self.entries if new.request.id not in earlier), None)

    async def time(self, name: str, device: str, texts: Mapping[str, str]) -> RunState | None:
        """Run one workload once, quickly.

        Args:
            name: the workload.
            device: torch's name of the device.
            texts: typed values by parameter.

        Returns:
            The run; ``None`` if the connection is lost or a signal has come.

        Raises:
            UsageError: a value is invalid.
        """

        def request(session: Session) -> None:
            set_parameters(session, [name], texts)
            session.run([name], [device], "quick")

        added = await self.run_one(request)
        return None if self.error else added

    def cancel(self) -> None:
        """Cancel the runs on the host."""
        if self.session is not None:
            self.session.cancel()

    async def close(self) -> None:
        """End the children on the host."""
        if self.session is not None:
            await self.session.stop()

    async def _guarded(self, work: Awaitable[bool]) -> None:
        try:
            await work
        except Failure as failure:
            self.error = str(failure)

    def _draw(self) -> None:
        for show in self._show:
            show()

    def encode(self) -> dict[str, Any]:
        """Return the host's object of ``--json``."""
        encoded: dict[str, Any] = {"host": self.host.name}
        if self.error:
            encoded["error"] = self.error
        if self.state is not None and self.entries:
            encoded.update(encode_results(self.state, self.entries))
        return encoded


def end_on_signals(runs: Sequence[HostRuns]) -> None:
    """End the runs at a signal, also those added to ``runs`` until then."""

    def note(number: signal.Signals) -> None:
        for run in runs:
            run.note_signal(number)

    handle_signals(SIGNALS, note)


@asynccontextmanager
async def connect_hosts(
    hosts: Sequence[HostAddress],
    pythons: Mapping[str, str],
    devices: Sequence[str],
    progress: ProgressLine,
    *,
    files: Sequence[str] = (),
    storing: bool = False,
) -> AsyncIterator[list[HostRuns]]:
    """Connect to all hosts at the same time, and end the children on them at the end.

    A host that is not reached has its ``error``. A signal ends the runs.

    Args:
        hosts: to connect to.
        pythons: names or paths of Pythons, by the names of their hosts.
        devices: torch's names of the devices to run on.
        progress: shows what each host does until all are connected; it is clear at the end.
        files: the workload files of the user on this machine.
        storing: store the results.

    Yields:
        The runs of each host. Runs added to the list are ended too.
    """
    lanes = [
        HostRuns(host, pythons.get(host.name), devices, files=files, storing=storing)
        for host in hosts
    ]
    end_on_signals(lanes)
    is_connecting = True

    def show() -> None:
        if is_connecting:
            doing = "   ".join(lane.progress for lane in lanes if lane.progress)
            progress.show(doing or "connecting to " + ", ".join(host.name for host in hosts))

    for lane in lanes:
        lane.on_change(show)
    show()
    try:
        await asyncio.gather(*(lane.connect() for lane in lanes))
        is_connecting = False
        yield lanes
    finally:
        is_connecting = False
        progress.clear()
        await asyncio.gather(*(lane.close() for lane in lanes))


def usable_sessions(lanes: Sequence[HostRuns]) -> dict[str, Session]:
    """Return the sessions of the hosts that can run, by name.

    Args:
        lanes: the hosts, after their attempt to connect.
    """
    return {
        lane.host.name: lane.session
        for lane in lanes
        if lane.session is not None and not lane.error
    }


def explain_same_machine(sessions: Mapping[str, Session], requested: Sequence[str]) -> str:
    """Name two hosts that are one machine or share a GPU; return an empty text if there are none.

    A machine that cannot be recognized counts as different from all others.

    Args:
        sessions: of the hosts, by name; torch has answered on each.
        requested: the devices, as typed.
    """
    known: dict[str, MachineIdentity] = {}
    owners: dict[str, str] = {}
    for name, session in sessions.items():
        identity = session.state.machine.identity
        for other, other_identity in known.items():
            if identity.is_same_system(other_identity):
                return f"{name} is the same machine as {other}"
        known[name] = identity
        for uuid, device in _find_gpus(session, requested).items():
            owner = owners.setdefault(uuid, name)
            if owner != name:
                return f"{device} of {name} is also a GPU of {owner}"
    return ""


def _find_gpus(session: Session, requested: Sequence[str]) -> Mapping[str, str]:
    """Return torch's names of the chosen GPUs by UUID; omit GPUs without one."""
    environment = session.state.machine.environment
    try:
        chosen = [device for device in choose_devices(session, requested) if device != CPU]
    except Failure:
        # The run says that this device is missing.
        return {}
    devices = environment.devices if environment is not None else ()
    return {device.uuid: device.id for device in devices if device.id in chosen and device.uuid}


# ---- options of commands that measure hosts with their torch ----


@dataclass(frozen=True, slots=True)
class MeasuredHosts(HostChoice):
    """The hosts and the devices to measure."""

    overrides: Mapping[str, Value] = field(default_factory=dict)
    json: bool = False
    devices: Sequence[str] = ("all",)


def add_measured_hosts(parser: Parser, about: str) -> None:
    """Add the options of how hosts are named and reached.

    Args:
        parser: gets them.
        about: help text of ``--host``.
    """
    parser.add_argument("--host", metavar="A,B", help=about)
    parser.add_argument("--slurm", action="store_true", help="all hosts of the Slurm allocation")
    add_connection(parser, default_python="the first that has torch")


def choose_hosts(options: MeasuredHosts) -> tuple[Sequence[HostAddress], Mapping[str, str]]:
    """Return the hosts to measure, and the Python of each that has a given one.

    Raises:
        UsageError: the options contradict each other.
    """
    pythons = dict(options.host_pythons)
    if options.names_hosts:
        return find_other_hosts(options, options.overrides).hosts, pythons
    if options.transport or options.host_pythons:
        raise UsageError("--transport and --host-python need --host or --slurm")
    return (HERE,), {HERE.name: python_to_use(options.overrides).path}
