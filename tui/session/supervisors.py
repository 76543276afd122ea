"""Keep the monitor and the runner running; what they say, and how they end, becomes events."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tui.core import reports, state_folder
from tui.core.child.launch import FOLDER, Launched, too_many_files
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import ChildSupervisor
from tui.devices import monitor
from tui.devices.monitor.messages import (
    MONITOR_EVENTS,
    MonitorEvent,
    Pace,
    Sample,
    Watch,
    WatchHost,
)
from tui.session.conditions import SampledDevice, sampled
from tui.session.silence import Seen, Silence, Who, look, reading, silence
from tui.state.events import AnyEvent, CeilingsRead, LogLine, MonitorStatus, RunnerStatus
from tui.state.store import Store
from workloads import START
from workloads.protocol import messages
from workloads.protocol.messages import Event
from workloads.protocol.results import Ceiling

SILENT_S = 5.0
"""A child that has said nothing for so long is looked at."""
KEPT_SAMPLES = 600
"""Of the monitor: ten minutes at one a second."""

VARIABLES = {
    "PYTHONFAULTHANDLER": "1",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
"""Environment variables of the runner: stacks of crashes on stderr, NVML's order of devices, no
colours."""

Apply = Callable[[AnyEvent], None]
Sent = Callable[[object], None]


def runner_command(python: str, files: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command that starts the runner in a Python that has torch.

    Args:
        python: path of the Python.
        files: of workloads that the user brings.
    """
    named = (word for file in files for word in ("--workloads", file))
    return (python, *START, "serve", *named)


class MonitorSupervisor(ChildSupervisor[MonitorEvent]):
    """Keeps a monitor running, and what conditions need of its newest samples.

    Args:
        store: to see which worker is to be watched.
        apply: takes each event.
        interval: seconds between two samples.
        sent: is called with each request that was sent.
        launched: a monitor of that interval that has been started already.
    """

    def __init__(
        self,
        store: Store,
        apply: Apply,
        interval: float,
        sent: Sent | None = None,
        launched: Launched | None = None,
    ) -> None:
        super().__init__()
        self.sampled: deque[tuple[SampledDevice, ...]] = deque(maxlen=KEPT_SAMPLES)
        """The devices of the newest samples, as far as conditions are made of them."""
        self.looked = asyncio.Event()
        """Set once there is a sample, or the first monitor has ended without one."""
        self._newest: Sample | None = None
        self._launched = launched
        self._store = store
        self._apply = apply
        self._interval = interval
        self._sent = sent
        self._host_wanted = False

    def make_child(self) -> ChildProcess[MonitorEvent]:
        launched, self._launched = self._launched, None
        return ChildProcess(
            monitor.serving(self._interval),
            MONITOR_EVENTS,
            folder=FOLDER,
            sent=self._sent,
            launched=launched,
        )

    def apply_event(self, event: MonitorEvent) -> None:
        if isinstance(event, Sample):
            self._newest = event
            self.is_useful = True
            self.sampled.append(sampled(event))
        self._apply(event)
        if isinstance(event, Sample):
            self.looked.set()
        self.watch_worker()
        self._request_host()

    def report_malformed(self, message: MalformedMessage) -> None:
        text = f"unreadable: {message.reason}: {message.line}"
        self._apply(LogLine("monitor", text, "warning"))

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        self.looked.set()
        words = f"the monitor ended: {reason}; it is restarted"
        self._apply(MonitorStatus("restarting", words))
        self._apply(LogLine("monitor", f"ended: {reason}", "error"))
        await asyncio.sleep(seconds)

    def watch_worker(self) -> None:
        """Have the monitor read the memory of the worker that lives now."""
        pid = self._store.worker_pid
        wanted = () if pid is None else (pid,)
        seen = tuple(item.pid for item in self._newest.watched) if self._newest else ()
        if self.child is not None and wanted != seen:
            self.child.send(Watch(wanted))

    def set_interval(self, seconds: float) -> None:
        """Have the monitor sample that often from now on, and after it had to be started anew."""
        self._interval = seconds
        if self.child is not None:
            self.child.send(Pace(seconds))

    def watch_host(self, wanted: bool) -> None:
        """Have the monitor list the host's processes, or no longer."""
        self._host_wanted = wanted
        self._request_host()

    def _request_host(self) -> None:
        newest = self._newest
        listed = newest is not None and newest.host_processes is not None
        if self.child is not None and self._host_wanted != listed:
            self.child.send(WatchHost(self._host_wanted))


class RunnerSupervisor(ChildSupervisor[Event]):
    """Keeps a runner running, as long as its Python can use torch.

    Args:
        store: to see what is pending.
        apply: takes each event.
        python: the Python that runs the workloads.
        files: of workloads that the user brings.
        sent: is called with each request that was sent.
        variables: environment variables of the runner beside :data:`VARIABLES`.
    """

    def __init__(
        self,
        store: Store,
        apply: Apply,
        python: str,
        files: Sequence[str] = (),
        sent: Sent | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._apply = apply
        self._python = python
        self._files = tuple(files)
        self._sent = sent
        self._variables = {**(variables or {}), **VARIABLES}
        self._retry_asked = asyncio.Event()
        self._started = 0.0
        """When it was started, on the monotonic clock."""
        self._heard = 0.0
        """When it spoke last; 0 before its first word."""
        self._worker_heard = 0.0
        self._looked: Seen | None = None
        """The process that is silent, at the look before."""

    def make_child(self) -> ChildProcess[Event]:
        self._heard = 0.0
        command = runner_command(self._python, self._files)
        return ChildProcess(command, messages.EVENTS, self._variables, sent=self._sent)

    def report_no_start(self, error: OSError) -> str:
        advice = "give --python the path of a Python that has torch"
        reason, _, remedy = (too_many_files(error) or "").partition(": ")
        if not reason:
            reason, remedy = f"{self._python}: {error.strerror}", advice
        self._apply(RunnerStatus("unusable", reason, remedy))
        return str(error)

    def send_first_requests(self) -> None:
        self._started = time.monotonic()
        known = self._known_ceilings()
        self.send(messages.KnownCeilings(known))
        # What is applied is recorded too: nothing of other hosts that share the home folder.
        here = tuple(one for one in known if one.under.get("host") == socket.gethostname())
        if here:
            self._apply(CeilingsRead(here))
        for request in self._store.pending_requests():
            self.send(request)

    def apply_event(self, event: Event) -> None:
        self._note_event(event)
        if self._store.runner.status != "unusable":
            self._take(event)

    def report_malformed(self, message: MalformedMessage) -> None:
        self._note_event(message)
        if self._store.runner.status != "unusable":
            text = f"unreadable: {message.reason}: {message.line}"
            self._apply(LogLine("runner", text, "warning"))

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        if self._store.runner.status == "unusable":
            self._fail_pending(self._store.runner.reason)
            self._retry_asked.clear()
            await self._retry_asked.wait()
            self._apply(RunnerStatus("starting"))
            return
        self._report_end(reason)
        await asyncio.sleep(seconds)
        # The reason stays on the screen until the new runner is ready.
        self._apply(replace(self._store.runner, status="starting"))

    def _note_event(self, event: Event | MalformedMessage) -> None:
        self._heard = time.monotonic()
        if not self._is_idle_beat(event):
            self._worker_heard = self._heard

    def _take(self, event: Event) -> None:
        if isinstance(event, messages.Hello) and event.version != messages.VERSION:
            event = messages.Unusable(
                f"the runner speaks protocol {event.version}, this program {messages.VERSION}",
                "install the same version of gpu-workbench in both environments",
            )
            # Nothing else that it says is to be believed.
            self.replace()
        if isinstance(event, messages.Hello) and self._store.runner.status == "starting":
            # What was said of its silence is over.
            self._apply(RunnerStatus("starting"))
        if isinstance(event, messages.Ready):
            self.is_useful = True
        self._apply(event)
        if isinstance(event, messages.CeilingMeasured):
            self._store_ceiling(event.ceiling)
        if isinstance(event, messages.WorkerEnded) and not event.expected:
            self._save_report(event.reason)

    def _known_ceilings(self) -> tuple[Ceiling, ...]:
        try:
            return state_folder.ceilings()
        except (OSError, ValueError) as error:
            self._apply(LogLine("workbench", f"no ceilings are known: {error}", "warning"))
            return ()

    def _store_ceiling(self, ceiling: Ceiling) -> None:
        try:
            state_folder.store_ceiling(ceiling)
        except OSError as error:
            text = f"the ceiling is not kept for later: {error}"
            self._apply(LogLine("workbench", text, "warning"))

    def retry(self) -> None:
        """Try again a Python whose torch could not be used."""
        self._retry_asked.set()

    def replace(self) -> None:
        """End the runner, whatever it does; it starts anew."""
        self._retry_asked.set()
        if self.child is not None and self.child.running:
            self.child.kill()

    def _is_idle_beat(self, event: Event | MalformedMessage) -> bool:
        """Return whether an event is a heartbeat and the worker does what it did before."""
        if not isinstance(event, messages.Heartbeat):
            return False
        return event.busy_with == self._store.busy_with

    async def watch_silence(self) -> None:
        """Say within a second what is known of a child that has been silent; never returns.

        The runner beats every second; its worker tells how a run goes.
        """
        silent = 0.0
        while True:
            # Not before it can have been silent for long enough.
            await asyncio.sleep(max(1.0, SILENT_S - silent))
            now, runner = time.monotonic(), self._store.runner
            who, pid, silent = self._most_silent(now)
            waited = now - self._started
            if self._reads_files() and waited > SILENT_S:
                found = reading(self._files, waited)
                self._apply(RunnerStatus("starting", found.reason, found.advice))
                continue
            if runner.status != "ready" or not self._heard:
                continue
            found = Silence()
            if silent > SILENT_S and pid is not None:
                seen = look(pid, now)
                found = silence(who, pid, silent, self._looked, seen)
                self._looked = seen
            else:
                self._looked = None
            if (found.reason, found.advice) != (runner.reason, runner.advice):
                self._apply(RunnerStatus("ready", found.reason, found.advice))

    def _reads_files(self) -> bool:
        """Return whether it has been started and may still import the user's files."""
        running = self.child is not None and self.child.running
        starting = self._store.runner.status == "starting"
        return bool(self._files) and running and starting and not self._heard

    def _most_silent(self, now: float) -> tuple[Who, int | None, float]:
        """Return the runner where it is silent itself, else the worker while it is busy."""
        silent = now - self._heard
        pid = self.child.pid if self.child is not None else None
        worker = self._store.worker_pid
        if silent > SILENT_S or self._store.busy_with is None or worker is None:
            return "runner", pid, silent
        return "worker", worker, now - self._worker_heard

    def _report_end(self, reason: str) -> None:
        text = f"the runner ended: {reason}"
        path = self._save_report(text)
        self._fail_pending(f"{text}; the next run gets a new one")
        self._apply(RunnerStatus("restarting", text, "it is being restarted", path))

    def _save_report(self, reason: str) -> str | None:
        """Save what the runner wrote to stderr; the path, or ``None`` with a line in the log."""
        environment = self._store.environment
        facts = [
            ("python", self._python),
            ("torch", environment.torch if environment else "not known"),
            ("busy with", self._store.busy_with or "nothing"),
        ]
        stderr = self.child.stderr.last() if self.child else []
        try:
            path = reports.save(reason, facts, stderr)
        except OSError as error:
            self._apply(LogLine("workbench", f"the report was not saved: {error}", "error"))
            return None
        self._apply(LogLine("workbench", f"{reason}; report: {path}", "error"))
        return str(path)

    def _fail_pending(self, reason: str) -> None:
        for request in self._store.pending_requests():
            self._apply(messages.Rejected(request.id, reason))
