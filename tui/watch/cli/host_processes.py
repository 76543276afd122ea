"""``gpu-workbench watch --host``: torch processes of other hosts, once or for a time."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Sequence

from tui.allocators.messages import (
    AgentLogPart,
    ProcessFigures,
    pids_of,
)
from tui.core.text.glyphs import rows_of_text
from tui.devices.host_plan import find_other_hosts
from tui.devices.state.same_machine import SeenHost
from tui.devices.state.watched_processes import WatchedProcesses
from tui.hosts.address import HostAddress
from tui.hosts.events import HostEvent, HostLost, HostSample
from tui.hosts.monitor import HostMonitor
from tui.hosts.process_watch import HostWatch, HostWatchEvent
from tui.hosts.watching import ANSWER_WITHIN_S
from tui.kit.command_line.output import SCHEMA, print_json, print_notice, print_text, terminal_width
from tui.kit.command_line.progress import ProgressLine
from tui.kit.terminal.ending import SIGNALS, handle_signals
from tui.watch.cli.host_output import HostReading, encode_host, encode_hosts, hosts_text, ooms_text
from tui.watch.cli.jobs import RankSteps
from tui.watch.cli.options import WatchOptions
from tui.watch.cli.output import WHAT_IS_READ, wrap
from tui.watch.state.host_ooms import HostOom, HostOomLogs

SAMPLE_S = 0.5
"""Seconds between two readings: each crosses the link."""
SETTLE_S = 1.5
"""Seconds that one reading waits for processes whose figures change while they are read."""


class WatchedHost:
    """The torch processes of one host, from a monitor and a watch there.

    Args:
        host: its address.
        python: name or path of a Python there; ``None`` for ``python3``.
        options: the processes to watch, and how often.
        changed: called after each event.
    """

    def __init__(
        self,
        host: HostAddress,
        python: str | None,
        options: WatchOptions,
        changed: Callable[[WatchedHost], None],
    ) -> None:
        self.host = host
        self._changed = changed
        self._processes = WatchedProcesses()
        self._oom_logs = HostOomLogs()
        self._ooms: tuple[HostOom, ...] = ()
        self._figures: ProcessFigures | None = None
        self._began = time.monotonic()
        self._figures_since = 0.0
        """Monotonic time of the first figures."""
        self._sample: HostSample | None = None
        self._sampled = asyncio.Event()
        self._errors: dict[str, str] = {}
        """Why a child there is lost, by its name."""
        pids = () if options.pid is None else (options.pid,)
        pace = min(SAMPLE_S, options.every or SAMPLE_S)
        self._monitor = HostMonitor(
            host, self._apply_monitor_event, max(1.0, pace), python or "python3"
        )
        self._watch = HostWatch(
            host, self._apply_watch_event, pace, python, pids, children=not options.no_children
        )

    async def run(self) -> None:
        """Keep both children running; never returns."""
        await asyncio.gather(self._monitor.watch(), self._run_watch())

    async def _run_watch(self) -> None:
        # The watch also reads the processes that NVML lists.
        await self._sampled.wait()
        await self._watch.watch()

    async def close(self) -> None:
        """End both children."""
        await asyncio.gather(self._monitor.close(), self._watch.close())

    def _apply_monitor_event(self, event: HostEvent) -> None:
        if isinstance(event, HostLost):
            self._errors["monitor"] = event.reason
        else:
            self._errors.pop("monitor", None)
            self._sample = event
            self._processes.apply_sample(event.sample)
            self._watch.set_listed(pids_of(event.sample.devices))
            # While NVML starts, a sample has no devices.
            if event.sample.nvml_silent_s is None:
                self._sampled.set()
        self._changed(self)

    def _apply_watch_event(self, event: HostWatchEvent) -> None:
        if isinstance(event, HostLost):
            self._errors["watch"] = event.reason
            self._figures = None
        elif isinstance(event, AgentLogPart):
            self._oom_logs.apply(event)
            devices = self._sample.sample.devices if self._sample is not None else ()
            self._ooms = self._oom_logs.explain(self._processes, devices)
        else:
            self._errors.pop("watch", None)
            self._processes.apply(event)
            if isinstance(event, ProcessFigures):
                if self._figures is None:
                    self._figures_since = time.monotonic()
                self._figures = event
        self._changed(self)

    @property
    def settled(self) -> bool:
        """True if one reading is complete, or none is to be expected soon."""
        if self._errors:
            return True
        if self._figures is None:
            return False
        # A process whose figures change while they are read is read again.
        lasted = time.monotonic() - self._figures_since
        return not self._figures.unavailable or lasted >= SETTLE_S

    @property
    def is_refused(self) -> bool:
        """True if all its processes are refused, at least one."""
        known = self._processes.processes
        return bool(known) and all(allocator.refused for allocator in known)

    @property
    def has_no_figures(self) -> bool:
        """True if none of its processes has ever been read, because all are refused."""
        return self.is_refused and not self._processes.allocators()

    @property
    def error(self) -> str:
        """Return why the host is not read now; empty if it is."""
        return next(iter(self._errors.values()), "")

    @property
    def reading(self) -> HostReading:
        """Return the readings of the host."""
        seen = SeenHost.of_sample(self.host.name, self._sample.sample if self._sample else None)
        lasted_s = time.monotonic() - self._began
        waiting = "" if self._figures else f"no answer within {lasted_s:.0f} s"
        findings = tuple(
            (allocator.process.pid, allocator.figures.device, finding.key, finding.text)
            for allocator in self._processes.allocators()
            if not allocator.ended
            for finding in allocator.findings
        )
        return HostReading(
            self.host.name,
            self._processes.processes,
            self._figures,
            tuple(seen.devices),
            seen.identity,
            self.error or waiting,
            findings,
            {
                process.description.pid: RankSteps(process.steps, process.stalled_s)
                for process in self._processes.seen.values()
                if process.steps is not None and not process.gone
            },
            self._ooms,
        )


class HostProcessReport:
    """Prints the torch processes of several hosts.

    Args:
        options: the hosts, the processes to watch, for how long, and the output format.
    """

    def __init__(self, options: WatchOptions) -> None:
        self._options = options
        self._hosts: tuple[WatchedHost, ...] = ()
        self._due: dict[str, float] = {}
        """Monotonic time of the next line of each host."""
        self._unprinted: set[str] = set()
        """Hosts with a change since their last line."""
        self._has_printed = False
        self._signalled: signal.Signals | None = None

    async def run(self) -> int:
        """Print until the requested time, or once; return the exit code.

        Returns:
            1 if a host was not reached or the requested processes may not be read.

        Raises:
            UsageError: the options name no hosts.
        """
        options = self._options
        plan = find_other_hosts(options, options.overrides)
        self._changed = asyncio.Event()
        self._hosts = tuple(
            WatchedHost(host, plan.pythons.get(host.name), options, self._note_change)
            for host in plan.hosts
        )
        handle_signals(SIGNALS, self._apply_signal)
        progress = ProgressLine()
        progress.show("connecting to " + ", ".join(host.name for host in plan.hosts))
        if options.jsonl:
            print_notice(WHAT_IS_READ)
        tasks = [asyncio.create_task(host.run()) for host in self._hosts]
        ending = asyncio.create_task(self._print_until_end(progress))
        try:
            done, _ = await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            readings = [host.reading for host in self._hosts]
        finally:
            progress.clear()
            for task in (*tasks, ending):
                task.cancel()
            await asyncio.gather(*tasks, ending, return_exceptions=True)
            await asyncio.gather(*(host.close() for host in self._hosts))
        return self._end(readings)

    def _note_change(self, host: WatchedHost) -> None:
        self._changed.set()
        options, now, name = self._options, time.monotonic(), host.host.name
        if not (options.jsonl and host.settled):
            return
        if now < self._due.get(name, 0.0):
            self._unprinted.add(name)
            return
        interval = options.every or 1.0
        self._due[name] = max(self._due.get(name, now) + interval, now)
        self._print_line(host.reading)

    def _print_line(self, reading: HostReading) -> None:
        self._unprinted.discard(reading.host)
        print_text(json.dumps({"schema": SCHEMA, **encode_host(reading)}, allow_nan=False))

    def _apply_signal(self, number: signal.Signals) -> None:
        self._signalled = number
        self._changed.set()

    async def _print_until_end(self, progress: ProgressLine) -> None:
        await self._settle()
        progress.clear()
        if self._options.lasts:
            await self._follow()

    async def _settle(self) -> None:
        """Wait until each host has been read once, or is not reached."""
        until = time.monotonic() + ANSWER_WITHIN_S
        while not (self._signalled or all(host.settled for host in self._hosts)):
            await self._wait(until)
            if time.monotonic() >= until:
                return

    async def _follow(self) -> None:
        """Print at the requested interval until the end; the time counts from now."""
        options, began = self._options, time.monotonic()
        interval = options.every or 1.0
        prints = not (options.jsonl or options.json)
        due = began
        while not self._signalled:
            lasted = time.monotonic() - began
            if options.seconds is not None and lasted >= options.seconds:
                return
            if options.pid is not None and all(host.is_refused for host in self._hosts):
                return
            if time.monotonic() >= due:
                if prints:
                    self._print_text([host.reading for host in self._hosts])
                due = max(due + interval, time.monotonic())
            ends = [due] + ([began + options.seconds] if options.seconds is not None else [])
            await self._wait(min(ends))

    async def _wait(self, until: float) -> None:
        """Wait for the next event, at the latest until a monotonic time."""
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), max(0.0, until - time.monotonic()))
        except asyncio.TimeoutError:
            return

    def _print_text(self, readings: Sequence[HostReading]) -> None:
        separator = [""] if self._has_printed else []
        self._has_printed = True
        print_text(rows_of_text([*separator, *hosts_text(readings, terminal_width())]))

    def _end(self, readings: Sequence[HostReading]) -> int:
        if self._options.json:
            print_json(encode_hosts(readings))
        elif self._options.jsonl:
            # A process may have ended, with an OOM, before its next line was due.
            for reading in readings:
                if reading.host in self._unprinted:
                    self._print_line(reading)
        else:
            if not self._has_printed:
                self._print_text(readings)
            print_text(rows_of_text(ooms_text(readings, terminal_width())))
            print_text(rows_of_text(["", *wrap([WHAT_IS_READ], terminal_width())]))
        if self._signalled is not None:
            return 128 + int(self._signalled)
        lost = any(host.reading.error for host in self._hosts)
        return 1 if lost or all(host.has_no_figures for host in self._hosts) else 0
