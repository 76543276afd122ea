"""``run --host``: the same runs on several hosts, each in its own torch, stored here."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tui.core.text import numbers as fmt
from tui.core.text.glyphs import rows_of_text
from tui.hosts.address import HostAddress, HostError, parse_hosts
from tui.hosts.children import HostConnection
from tui.hosts.monitor import with_shared_connection
from tui.hosts.watching import slurm_hosts
from tui.kit.command_line.output import Failure, UsageError, print_json, print_text, say
from tui.kit.command_line.progress import ProgressLine
from tui.kit.terminal.ending import SIGNALS
from tui.results.store.recorder import ResultRecorder
from tui.runs.cli.headless import (
    INTERVAL_S,
    Waiter,
    choose_devices,
    choose_workloads,
    set_parameters,
)
from tui.runs.cli.rounds import format_current_run
from tui.runs.session.session import Session
from tui.runs.state.runs import RunState
from tui.runs.state.state import RunsState
from tui.runs.views.result_text import encode_results, format_run, format_sweeps

if TYPE_CHECKING:
    from tui.runs.cli.run import RunOptions


def find_run_hosts(options: RunOptions) -> tuple[HostAddress, ...]:
    """Return the hosts to run on.

    Raises:
        UsageError: a name is invalid, or another option does not go with hosts.
    """
    refused = {
        "--runs": options.runs is not None,
        "--against": bool(options.against),
        "--interleave": bool(options.interleave),
        "--workloads": bool(options.files),
    }
    for option, is_given in refused.items():
        if is_given:
            raise UsageError(f"{option} is for runs on this machine: leave it out with --host")
    if "python" in options.given:
        raise UsageError("--python is for this machine: with --host, use --host-python HOST=PATH")
    try:
        named = parse_hosts(options.host, options.transport) if options.host else ()
        hosts = (*(slurm_hosts() if options.slurm else ()), *named)
    except HostError as error:
        raise UsageError(f"{error}") from error
    names = [host.name for host in hosts]
    for name in (*names, *(host for host, _ in options.host_pythons)):
        if names.count(name) != 1:
            wrong = "is given twice" if names.count(name) else "is not among the hosts"
            raise UsageError(f"{name} {wrong}")
    return hosts


async def run_on_hosts(options: RunOptions, hosts: Sequence[HostAddress]) -> int:
    """Run everything on each host, and print the results.

    Args:
        options: the options of the command.
        hosts: all are connected to at once; they run one after another unless
            ``options.together``.

    Returns:
        The exit code: 1 if a host was not reached or a run failed.

    Raises:
        UsageError: no host knows a name or accepts a value.
    """
    pythons = dict(options.host_pythons)
    progress = ProgressLine()
    runs = [HostRuns(options, host, pythons.get(host.name)) for host in hosts]
    end_on_signals(runs)

    def show() -> None:
        progress.show("   ".join(each.progress for each in runs if each.progress))

    for each in runs:
        each.on_change(show)
    try:
        await asyncio.gather(*(each.connect() for each in runs))
        if options.together:
            await asyncio.gather(*(each.run() for each in runs))
        else:
            for each in runs:
                await each.run()
    finally:
        await asyncio.gather(*(each.close() for each in runs))
        progress.clear()
    for problem in dict.fromkeys(problem for each in runs for problem in each.problems):
        say(problem)
    if options.json:
        print_json({"hosts": [each.encode() for each in runs]}, "run")
    else:
        print_text(format_hosts(runs), "run.txt")
    return runs[0].exit_code(1 if any(each.failed for each in runs) else 0)


class HostRuns:
    """The runs on one host; whatever happens there stays there.

    Args:
        options: the options of the command.
        host: the host.
        python: name or path of its Python; ``None`` to find one with torch.
    """

    def __init__(self, options: RunOptions, host: HostAddress, python: str | None) -> None:
        self.host = host
        self.error = ""
        """Why nothing ran, or nothing more."""
        self._options = options
        self._python = python
        self._recorder = ResultRecorder() if options.store else None
        self._session: Session | None = None
        self._waiter: Waiter | None = None
        self._signalled: signal.Signals | None = None
        self._show: list[Any] = []
        self._running = False

    @property
    def state(self) -> RunsState | None:
        """The state of the runs; ``None`` before the connection."""
        return self._session.state.runs if self._session is not None else None

    @property
    def session(self) -> Session | None:
        """The session; ``None`` before the connection."""
        return self._session

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
        """Reasons why results were not stored."""
        return self._recorder.problems if self._recorder else ()

    @property
    def failed(self) -> bool:
        """True if the host was not reached or a run failed."""
        ended = [entry.result for entry in self.entries]
        return bool(self.error) or any(each and each.status == "failed" for each in ended)

    @property
    def progress(self) -> str:
        """What the host does; empty while it does nothing."""
        if self._session is None or self.error or (self._waiter and not self._running):
            return ""
        runs = self._session.state.runs
        doing = format_current_run(runs) if self._running else f"runner: {runs.runner.status}"
        return f"{self.host.name}: {doing}"

    def on_change(self, show: Any) -> None:
        """Call a function when the progress changes."""
        self._show.append(show)

    def note_signal(self, number: signal.Signals) -> None:
        """End the runs, keeping what is measured."""
        self._signalled = number
        if self._waiter is not None:
            self._waiter.note_signal(number)

    def exit_code(self, otherwise: int) -> int:
        """Return the exit code of the signal that ended the command, else ``otherwise``."""
        return otherwise if self._signalled is None else 128 + int(self._signalled)

    async def connect(self) -> None:
        """Start the children on the host and wait until torch is imported there."""
        host = await with_shared_connection(self.host)
        cpu_only = set(self._options.devices) == {"cpu"}
        session = Session(
            # The monitor samples the clocks of GPUs, but would disturb timings of the CPU.
            interval=None if cpu_only else INTERVAL_S,
            attachments=[self._recorder] if self._recorder else [],
            readonly=True,
            connection=HostConnection(host, self._python),
        )
        self._session = session
        self._running = True
        waiter = self._waiter = Waiter(session, signals=False)
        if self._signalled is not None:
            return
        await session.start()
        runs = session.state.runs
        await self._guarded(
            waiter.until(lambda: runs.runner.status in ("ready", "unusable"), self._draw)
        )
        if runs.runner.status == "unusable":
            reason = "; ".join(filter(None, (runs.runner.reason, runs.runner.advice)))
            self.error = reason.replace("--python PATH", f"--host-python {host.name}=PATH")
        self._running = False

    async def run(self) -> None:
        """Run everything, unless the host was not reached.

        Raises:
            UsageError: a name or a value is invalid.
        """
        session, waiter = self._session, self._waiter
        if session is None or waiter is None or self.error or self._signalled is not None:
            return
        options, runs = self._options, session.state.runs
        names = choose_workloads(runs, options.names, options.groups, everything=options.everything)
        set_parameters(session, names, dict(options.parameters), sweeps=True)
        try:
            devices = choose_devices(session, options.devices)
        except Failure as failure:
            self.error = str(failure)
            return
        self._running = True
        session.run(names, devices, options.budget)
        await self._guarded(waiter.until(lambda: not runs.pending(), self._draw))
        if runs.pending():
            await waiter.finish(ProgressLine())
        self._running = False

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
        session, waiter = self._session, self._waiter
        if session is None or waiter is None or self.error:
            return None
        runs = session.state.runs
        set_parameters(session, [name], texts)
        session.run([name], [device], "quick")
        await self._guarded(waiter.until(lambda: not runs.pending(), self._draw))
        if runs.runner.status == "unusable":
            self.error = runs.runner.reason
        if runs.pending() or self.error:
            return None
        return list(runs.book.values())[-1]

    async def close(self) -> None:
        """End the children on the host."""
        if self._session is not None:
            await self._session.stop()

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
        found: dict[str, Any] = {"host": self.host.name}
        if self.error:
            found["error"] = self.error
        if self.state is not None and self.entries:
            found.update(encode_results(self.state, self.entries))
        return found


def format_hosts(runs: Sequence[HostRuns]) -> str:
    """Return how many runs ended well, then each host with its results."""
    ended = [entry.result for each in runs for entry in each.entries]
    well = sum(1 for result in ended if result is not None and result.status == "ok")
    useless = sum(1 for each in runs if each.error)
    first = f"{well} of {fmt.count(len(ended), 'run')} ended well" if ended else "nothing ran"
    if useless:
        first += f"; {fmt.count(useless, 'host')} of {len(runs)} cannot run"
    text = rows_of_text([first])
    for each in runs:
        text += rows_of_text(["", f"{each.host.name}  {each.error}".rstrip()])
        if each.state is not None:
            text += "".join(format_run(each.state, entry) for entry in each.entries)
            text += format_sweeps(each.state, each.entries)
    return text


def end_on_signals(runs: Sequence[HostRuns]) -> None:
    """End the runs on all hosts at a signal."""

    def note(number: signal.Signals) -> None:
        for each in runs:
            each.note_signal(number)

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, note, number)
