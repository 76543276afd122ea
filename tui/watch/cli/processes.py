"""``watch`` over running processes: their memory over time, and injection of the agent."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Sequence

from tui.allocators.messages import ProcessFigures
from tui.core.events import EventBus, LogLine, MonitorStatus
from tui.core.text.glyphs import rows_of_text
from tui.devices.cli.sample import read_sample
from tui.devices.session.device_session import DeviceSession
from tui.devices.state.machine import MachineState
from tui.kit.command_line.output import (
    SCHEMA,
    Failure,
    fit_to_terminal,
    print_json,
    print_notice,
    print_text,
    terminal_width,
)
from tui.kit.terminal.ending import handle_signals
from tui.monitor.messages import Device, Sample
from tui.watch.cli.options import WatchOptions
from tui.watch.cli.output import (
    WHAT_IS_READ,
    WatchedProcessRow,
    encode_processes,
    encode_stored_runs,
    reasons,
    rows_of,
    stored_run_lines,
    table_lines,
    wrap,
)
from tui.watch.runs import runs
from tui.watch.runs.agents import Agents
from tui.watch.runs.injection import CannotInjectError, check_injection, inject, target_of
from tui.watch.runs.process_logs import process_logs_in, troubles_in
from tui.watch.runs.runs import StartedRun
from tui.watch.state.processes import RunProcesses

SAMPLE_S = 0.1
"""Seconds between two readings while processes are watched for a time."""
SETTLE_S = 1.0
"""Seconds that one reading waits for a process whose figures change while they are read."""
NOTHING = "no process of yours has loaded a CUDA build of torch"
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TIMEOUT_S = 5.0
"""Seconds for the main thread to reach Python code; after that, a line says why the agent waits."""
_CHECK_S = 0.05


class ProcessReport:
    """Prints the allocators of running processes, from a session of the monitor and the watch."""

    def __init__(self, options: WatchOptions) -> None:
        self._options = options
        self._processes = RunProcesses()
        """All processes since the start."""
        self._figures: ProcessFigures | None = None
        """The newest figures."""
        self._devices: tuple[Device, ...] = ()
        self._signalled: signal.Signals | None = None
        self._began = self._due = 0.0
        self._table: list[str] = []
        """The newest table that was printed."""
        self._reasons: set[str] = set()
        """The reasons for missing figures that were printed."""

    async def run(self) -> int:
        """Print until the requested time or sample is reached; returns the exit code.

        Raises:
            Failure: a child has failed.
        """
        options = self._options
        loop = asyncio.get_running_loop()
        self._complete: asyncio.Future[None] = loop.create_future()
        bus = EventBus()
        machine = MachineState(bus, processes=lambda: self._processes)
        # However seldom a row is printed, its figures of NVML are of about the same time.
        interval = 1.0 if options.lasts else None
        session = DeviceSession(bus, machine, interval)
        session.on_error(self._fail)
        bus.subscribe(Sample, self._apply_sample)
        bus.subscribe(MonitorStatus, self._apply_monitor_status)
        bus.subscribe(ProcessFigures, self._apply_figures)
        bus.subscribe(LogLine, self._apply_log_line)
        bus.publish(await read_sample())
        if options.jsonl:
            print_notice(WHAT_IS_READ)  # a stream of objects has no place for a sentence
        handle_signals(_ENDS, self._apply_signal)
        self._began = self._due = time.monotonic()
        try:
            session.watch()
            pids = () if options.pid is None else (options.pid,)
            pace = min(SAMPLE_S, options.every or SAMPLE_S)
            session.watch_processes(pace, pids, children=not options.no_children)
            await self._complete
        finally:
            await session.stop()
        return self._end()

    # ---- events ----

    def _apply_sample(self, sample: Sample) -> None:
        self._devices = sample.devices

    def _apply_monitor_status(self, status: MonitorStatus) -> None:
        if status.status == "restarting":
            self._devices = ()  # its last report may be out of date

    def _apply_figures(self, figures: ProcessFigures) -> None:
        if self._complete.done():
            return
        self._figures = figures
        now = time.monotonic()
        if self._is_complete(now - self._began):
            self._complete.set_result(None)
        elif self._options.lasts and now >= self._due and not self._options.json:
            self._print_rows()
            self._due = max(self._due + (self._options.every or 1.0), now)

    def _apply_log_line(self, entry: LogLine) -> None:
        if entry.source == "watch":
            subject = "the watch" if entry.level == "error" else "a line of the watch is"
            self._fail(Failure(f"{subject} {entry.text}"))

    def _apply_signal(self, number: signal.Signals) -> None:
        self._signalled = number
        if not self._complete.done():
            self._complete.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if not self._complete.done():
            self._complete.set_exception(error)

    # ---- output ----

    def _is_complete(self, lasted: float) -> bool:
        options = self._options
        if not options.lasts:
            # A process whose figures change while they are read is read again.
            changing = self._figures is not None and self._figures.unavailable
            return not changing or lasted >= SETTLE_S
        if options.seconds is not None and lasted >= options.seconds:
            return True
        return options.pid is not None and all(
            process.refused for process in self._processes.processes
        )

    def _rows(self) -> list[WatchedProcessRow]:
        figures = self._figures or ProcessFigures(time.time(), ())
        return rows_of(self._processes.processes, figures, self._devices)

    def _has_no_figures(self) -> bool:
        """Return whether the requested figures do not exist or may not be read."""
        if self._processes.allocators():
            return False
        known = self._processes.processes
        refused = bool(known) and all(allocator.refused for allocator in known)
        return refused or self._options.pid is not None

    def _print_rows(self) -> None:
        rows = self._rows()
        if self._options.jsonl:
            at = self._figures.at if self._figures else time.time()
            plain = {"schema": SCHEMA, "at": at, **encode_processes(rows)}
            print_text(json.dumps(plain, allow_nan=False))
        else:
            self._print_table(rows)

    def _print_table(self, rows: Sequence[WatchedProcessRow]) -> None:
        """Print the processes, and each reason for missing figures once."""
        # Of a process that does not exist, all there is to say is the reason.
        known = [row for row in rows if row.process.start is not None]
        lines = table_lines(known, terminal_width()) if rows else [NOTHING]
        if lines != self._table or any(row.figures for row in rows):
            print_text(rows_of_text(lines))
        self._table = lines
        reasons_now = [reason for reason in reasons(rows) if reason not in self._reasons]
        self._reasons.update(reasons_now)
        print_text(rows_of_text(_wrapped(reasons_now)))

    def _end(self) -> int:
        options = self._options
        if options.json:
            stored = {} if options.pid is not None else {"runs": encode_stored_runs()}
            print_json({**encode_processes(self._rows()), **stored})
        elif not options.lasts or not self._processes.allocators():
            self._print_rows()
        if not options.json and not options.jsonl:
            print_text(rows_of_text(_wrapped(self._findings())))
            if self._processes.allocators():
                print_text(rows_of_text(_wrapped([WHAT_IS_READ])))
            if options.pid is None and not options.lasts:
                print_text(fit_to_terminal(rows_of_text(stored_run_lines())))
        if self._signalled is not None:
            return 128 + int(self._signalled)
        return 1 if self._has_no_figures() else 0

    def _findings(self) -> Sequence[str]:
        return [
            f"{allocator.process.pid} {allocator.figures.device}: {finding.text} ({finding.source})"
            for allocator in self._processes.allocators()
            for finding in allocator.findings
        ]


def _wrapped(sentences: Sequence[str]) -> list[str]:
    """Wrap sentences to the terminal's width; one line each if the output is no terminal."""
    return wrap(sentences, terminal_width())


def inject_agent(pid: int, entries: int) -> None:
    """Inject the agent into a process, and print the result on stderr.

    Args:
        pid: pid of the process.
        entries: entries of torch's memory history, from then on; 0 for no history.

    Raises:
        Failure: the agent cannot be injected.
    """
    agents = Agents()
    try:
        present = [state for state in agents.states() if state.pid == pid]
    finally:
        agents.close()
    if present:
        print_notice(f"the agent is in process {pid} already; its run is {present[0].run}")
        return
    try:
        target = target_of(pid)
        check_injection(target)
        run = runs.new_run(target.command)
        try:
            run = runs.record_start(run, pid)
            inject(target, run.folder, entries)
        except CannotInjectError:
            runs.drop(run)
            raise
    except CannotInjectError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(runs.describe_folder_error(error)) from error
    _report_start(pid, run)


def _report_start(pid: int, run: StartedRun) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if troubles := troubles_in(run.folder):
            raise Failure(f"process {pid} did not accept the agent: {troubles[0]}")
        if process_logs_in(run.folder):
            print_notice(f"the agent is in process {pid}; its run is {run.folder}")
            return
        time.sleep(_CHECK_S)
    print_notice(
        f"the agent waits in process {pid}: it starts when the main thread runs Python code or "
        f"with the first CUDA call; its run is {run.folder}"
    )
