"""Supervises the runner, and turns its messages and its end into events."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from tui.core import reports, state_folder
from tui.core.child.launch import too_many_files
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.runner import VARIABLES, runner_command
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import LogLine, Publish, RequestSent, RunnerStatus
from tui.runs.session.silence import (
    SILENT_S,
    ProcessActivity,
    SilenceMessage,
    SilentChild,
    describe_file_import,
    describe_silence,
)
from tui.runs.state.events import CeilingsRead
from tui.runs.state.state import RunsState
from workloads.protocol import messages
from workloads.protocol.keep_alive import EVERY_S
from workloads.protocol.messages import Event
from workloads.protocol.results import Ceiling

if TYPE_CHECKING:
    from tui.hosts.children import HostConnection


class RunnerSupervisor(ChildSupervisor[Event]):
    """Keeps a runner running, as long as its Python can use torch.

    Args:
        runs: state with the pending requests.
        publish: receives each event.
        python: the Python that runs the workloads on this machine.
        files: the workload files of the user.
        variables: environment variables of the runner, in addition to :data:`VARIABLES`.
        connection: the host that it runs on, and its Python; ``None`` for this machine.
    """

    def __init__(
        self,
        runs: RunsState,
        publish: Publish,
        python: str = "",
        files: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        super().__init__()
        self._runs = runs
        self._publish = publish
        self._python = python
        self._files = tuple(files)
        self._variables = {**(variables or {}), **VARIABLES}
        self._connection = connection
        self._watch = connection.create_connection_watch(self._files) if connection else None
        self._retry_requested = asyncio.Event()
        self._is_replaced = False
        """The present runner is killed because the user wants a new one."""
        self._started = 0.0
        """Monotonic time of the runner's start."""
        self._heard = 0.0
        """Monotonic time of its last message; 0 before the first."""
        self._worker_heard = 0.0
        self._last_activity: ProcessActivity | None = None
        """The silent process at the previous inspection."""

    def make_child(self) -> ChildProcess[Event]:
        self._heard, self._is_replaced = 0.0, False
        if self._connection is not None:
            self._watch = self._connection.create_connection_watch(self._files)
            return self._connection.runner_child(
                self._variables, lambda _request: None, self._files
            )
        command = runner_command(self._python, self._files)
        return ChildProcess(
            command,
            messages.EVENTS,
            self._variables,
            sent=lambda request: self._publish(RequestSent("runner", request)),
        )

    def report_no_start(self, error: OSError) -> str:
        if self._connection is not None:
            program = self._connection.host.prefix[0]
            text = f"{program} cannot be started: {error.strerror or error}"
            self._publish(RunnerStatus("unusable", text))
            return text
        advice = "give --python the path of a Python that has torch"
        reason, _, remedy = (too_many_files(error) or "").partition(": ")
        if not reason:
            reason, remedy = f"{self._python}: {error.strerror}", advice
        self._publish(RunnerStatus("unusable", reason, remedy))
        return str(error)

    def send_first_requests(self) -> None:
        self._started = time.monotonic()
        known = self._known_ceilings()
        self.send(messages.KnownCeilings(known))
        # Applied events are recorded too, so omit those of other machines.
        name = self._find_host_name()
        measured_there = tuple(
            result for result in known if name and result.under.get("host") == name
        )
        if measured_there:
            self._publish(CeilingsRead(measured_there))
        for request in self._runs.pending_requests():
            self.send(request)

    def _find_host_name(self) -> str:
        """Return the host name of the runner's machine; empty if unknown."""
        if self._connection is None:
            return socket.gethostname()
        sample = self._runs.machine.sample
        return sample.host.name if sample is not None else ""

    def apply_event(self, event: Event) -> None:
        self._note_event(event)
        if self._watch is not None:
            self._watch.note_event(ready=isinstance(event, messages.Ready))
        if self._runs.runner.status != "unusable":
            self._deliver(event)

    def report_malformed(self, message: MalformedMessage) -> None:
        if self._watch is not None and not self._watch.greeted:
            self._watch.note_banner(message.line or message.reason)
            return
        self._note_event(message)
        if self._runs.runner.status != "unusable":
            text = f"unreadable: {message.reason}: {message.line}"
            self._publish(LogLine("runner", text, "warning"))

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        is_unusable = self._runs.runner.status == "unusable"
        if self._watch is not None and not is_unusable and not self._is_replaced:
            errors = self.child.stderr.last() if self.child else []
            self._publish(RunnerStatus("unusable", self._watch.explain_end(reason, errors)))
        if self._runs.runner.status == "unusable":
            self._fail_pending(self._runs.runner.reason)
            self._retry_requested.clear()
            await self._retry_requested.wait()
            self._publish(RunnerStatus("starting"))
            return
        if self._is_replaced:
            self._report_replacement()
        else:
            self._report_end(reason)
        await asyncio.sleep(seconds)
        # The screen shows the reason until the new runner is ready.
        self._publish(replace(self._runs.runner, status="starting"))

    def _note_event(self, event: Event | MalformedMessage) -> None:
        self._heard = time.monotonic()
        # A heartbeat with the same activity says nothing new about the worker.
        if not isinstance(event, messages.Heartbeat) or event.busy_with != self._runs.busy_with:
            self._worker_heard = self._heard

    def _deliver(self, event: Event) -> None:
        if isinstance(event, messages.Hello) and event.version != messages.VERSION:
            event = messages.Unusable(
                f"the runner speaks protocol {event.version}, this program {messages.VERSION}",
                "install the same version of gpu-workbench in both environments",
            )
            # Trust no further message of it.
            self.replace()
        if isinstance(event, messages.Unusable) and self._connection is not None:
            option = f"--host-python {self._connection.host.name}=PATH"
            event = replace(event, advice=event.advice.replace("--python PATH", option))
        if isinstance(event, messages.Hello) and self._runs.runner.status == "starting":
            # The message on its silence is out of date.
            self._publish(RunnerStatus("starting"))
        if isinstance(event, messages.Ready):
            self.is_useful = True
        self._publish(event)
        if isinstance(event, messages.CeilingMeasured):
            self._store_ceiling(event.ceiling)
        if isinstance(event, messages.WorkerEnded) and not event.expected:
            self._save_report(event.reason)

    def _known_ceilings(self) -> tuple[Ceiling, ...]:
        try:
            return state_folder.ceilings()
        except (OSError, ValueError) as error:
            self._publish(LogLine("workbench", f"no ceilings are known: {error}", "warning"))
            return ()

    def _store_ceiling(self, ceiling: Ceiling) -> None:
        try:
            state_folder.store_ceiling(ceiling)
        except OSError as error:
            text = f"the ceiling is not stored for later: {error}"
            self._publish(LogLine("workbench", text, "warning"))

    def retry(self) -> None:
        """Retry a Python whose torch was unusable."""
        self._retry_requested.set()

    def replace(self) -> None:
        """Kill the runner in any state, and start a new one."""
        self._is_replaced = True
        self._retry_requested.set()
        if self.child is not None and (self.child.running or self.child.is_open):
            self.child.abandon()

    async def watch(self) -> None:
        """Watch for the silence of the runner; never returns."""
        await (self._watch_silence() if self._connection is None else self._watch_connection())

    async def _watch_connection(self) -> None:
        """End a connection to a host that has gone silent; never returns."""
        while True:
            await asyncio.sleep(EVERY_S)
            # Open although its ssh has ended: a stuck shared connection holds its pipes.
            if self._connection is None or self._watch is None or self.child is None:
                continue
            if self.child.is_open and self._watch.give_up_if_silent():
                # Another child on the shared connection would hang as well.
                self._connection = self._connection.unshared()
                self.child.abandon()

    async def _watch_silence(self) -> None:
        """Report the state of a silent child within a second; never return.

        The runner sends a heartbeat every second; its worker reports the progress of runs.
        """
        silent = 0.0
        while True:
            # Wait until it can have been silent for long enough.
            await asyncio.sleep(max(1.0, SILENT_S - silent))
            now, runner = time.monotonic(), self._runs.runner
            name, pid, silent = self._find_silent(now)
            waited = now - self._started
            if self._reads_files() and waited > SILENT_S:
                description = describe_file_import(self._files, waited)
                self._publish(RunnerStatus("starting", description.reason, description.advice))
                continue
            if runner.status != "ready" or not self._heard:
                continue
            description = SilenceMessage()
            if silent > SILENT_S and pid is not None:
                activity = inspect_process(pid, now)
                workload = self._name_running() if name == "worker" else ""
                description = describe_silence(
                    name, pid, silent, self._last_activity, activity, workload
                )
                self._last_activity = activity
            else:
                self._last_activity = None
            if (description.reason, description.advice) != (runner.reason, runner.advice):
                self._publish(RunnerStatus("ready", description.reason, description.advice))

    def _name_running(self) -> str:
        """Return the workload that the worker runs; empty if unknown."""
        busy = self._runs.busy_with or ""
        entry = self._runs.book.get(busy) or self._runs.comparisons.get(busy)
        return entry.request.workload if entry is not None else ""

    def _reads_files(self) -> bool:
        """Return whether the runner has started and may still be importing the user's files."""
        running = self.child is not None and self.child.running
        starting = self._runs.runner.status == "starting"
        return bool(self._files) and running and starting and not self._heard

    def _find_silent(self, now: float) -> tuple[SilentChild, int | None, float]:
        """Return the runner if it is silent, else the busy worker."""
        silent = now - self._heard
        pid = self.child.pid if self.child is not None else None
        worker = self._runs.machine.worker_pid
        if silent > SILENT_S or self._runs.busy_with is None or worker is None:
            return "runner", pid, silent
        return "worker", worker, now - self._worker_heard

    def _report_replacement(self) -> None:
        """Report an end that the user asked for: no error, and nothing to look into."""
        text = "a new runner was requested"
        self._publish(LogLine("workbench", f"{text}: it replaces the old one"))
        self._fail_pending(f"{text}; the next run gets it")
        self._publish(RunnerStatus("restarting", text, "it is being started"))

    def _report_end(self, reason: str) -> None:
        text = f"the runner ended: {reason}"
        path = self._save_report(text)
        self._fail_pending(f"{text}; the next run gets a new one")
        self._publish(RunnerStatus("restarting", text, "it is being restarted", path))

    def _save_report(self, reason: str) -> str | None:
        """Save the runner's stderr; return the path, or log the failure and return ``None``."""
        environment, hello = self._runs.machine.environment, self._runs.hello
        on_host = self._connection is not None
        facts = [
            ("python", (hello.executable if hello else "not known") if on_host else self._python),
            ("torch", environment.torch if environment else "not known"),
            ("busy with", self._runs.busy_with or "nothing"),
        ]
        stderr = self.child.stderr.last() if self.child else []
        try:
            path = reports.save(reason, facts, stderr)
        except OSError as error:
            self._publish(LogLine("workbench", f"the report was not saved: {error}", "error"))
            return None
        self._publish(LogLine("workbench", f"{reason}; report: {path}", "error"))
        return str(path)

    def _fail_pending(self, reason: str) -> None:
        for request in self._runs.pending_requests():
            self._publish(messages.Rejected(request.id, reason))


def inspect_process(pid: int, at: float) -> ProcessActivity | None:
    """Return the present state of a process; ``None`` if it does not exist or access is denied.

    Args:
        pid: number of the process.
        at: the present moment, for :attr:`ProcessActivity.at`.
    """
    letters = {
        psutil.STATUS_RUNNING: "R",
        psutil.STATUS_SLEEPING: "S",
        psutil.STATUS_DISK_SLEEP: "D",
        psutil.STATUS_STOPPED: "T",
        psutil.STATUS_TRACING_STOP: "t",
        psutil.STATUS_ZOMBIE: "Z",
        psutil.STATUS_IDLE: "I",
    }
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times, state = process.cpu_times(), process.status()
        # Only the message on a process that sleeps names one.
        child = _find_running_child(process) if state == psutil.STATUS_SLEEPING else ""
    except psutil.Error:
        return None
    return ProcessActivity(letters.get(state, state), times.user + times.system, at, child)


def _find_running_child(process: psutil.Process) -> str:
    """Return the name and pid of a process that a process has started and that runs, if any.

    Raises:
        psutil.Error: the process has ended.
    """
    for child in process.children(recursive=True):
        with suppress(psutil.Error):  # it may end meanwhile
            if child.status() == psutil.STATUS_RUNNING:
                return f"{child.name()} (pid {child.pid})"
    return ""
