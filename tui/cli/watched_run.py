"""A command under the watch without a screen: its output, its samples, and what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tui.child.process import ChildProcess
from tui.cli.errors import Failure
from tui.cli.streams import pass_through, say
from tui.cli.watch_output import Row, rows_of
from tui.monitor import serving as monitor_serving
from tui.monitor.messages import MONITOR_EVENTS, Device, MonitorEvent, Sample
from tui.text import numbers as text
from tui.watch import FOLDER, launch, runs, serving
from tui.watch.agents import Agents
from tui.watch.findings import Track
from tui.watch.messages import (
    WATCH_EVENTS,
    ListedProcesses,
    ProcessFigures,
    TorchProcess,
    TorchProcesses,
    WatchEvent,
)
from tui.watch.pairing import pids_of
from tui.watch.runs import Run
from workloads.protocol import wire
from workloads.protocol.frozen import frozen

SAMPLE_S = 0.5
DEVICES_S = 1.0
ASK_S = 0.5
"""Between two questions to the agents."""
LOOK_S = 0.05
"""Between two looks at whether the command has written something, or ended."""
SPARSER = 2000
"""A sample is written down where the last is older than the run's age by this: thousands a day."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)
Identity = tuple[int, float | None]
"""A pid and when it started."""


@frozen
class Outcome:
    """What a run was, from its first sample to its last."""

    run: Run
    rows: tuple[Row, ...]
    """The last that was known of each process."""
    tracks: dict[tuple[Identity, str], Track]
    """By process and device."""
    steps: dict[str, int]
    """The last that was heard of each agent, by its identity."""
    why_no_samples: str = ""


class WatchedRun:
    """Starts a command, samples it from outside, and shows its output."""

    def __init__(self, command: Sequence[str], entries: int | None, *, shows_output: bool) -> None:
        """Start nothing yet.

        Args:
            command: program and arguments.
            entries: of torch's memory history; ``None`` for no history.
            shows_output: on standard output, as it comes.
        """
        self._command = tuple(command)
        self._entries = entries
        self._shows_output = shows_output
        self._processes: tuple[TorchProcess, ...] = ()
        self._devices: tuple[Device, ...] = ()
        self._figures: ProcessFigures | None = None
        self._rows: dict[Identity, Row] = {}
        self._tracks: dict[tuple[Identity, str], Track] = {}
        self._written = 0.0
        self._why_no_samples = ""
        self._steps: dict[str, int] = {}

    async def work(self) -> Outcome:
        """Run it to its end.

        Raises:
            Failure: it cannot be started.
        """
        try:
            run = runs.begin(self._command)
        except OSError as error:
            raise Failure(f"no folder for the run: {error}") from error
        try:
            process = launch.start(self._command, run.folder, self._entries)
        except OSError as error:
            runs.drop(run)
            raise Failure(f"{self._command[0]}: {error.strerror}") from error
        run = runs.started(run, process.pid)
        if not self._shows_output:
            say(f"its output is in {run.log}")
        loop = asyncio.get_running_loop()
        for number in _PASSED_ON:
            loop.add_signal_handler(number, _pass_on, process, number)
        watch: ChildProcess[WatchEvent] = ChildProcess(
            serving(SAMPLE_S, (process.pid,)), WATCH_EVENTS, folder=FOLDER
        )
        monitor: ChildProcess[MonitorEvent] = ChildProcess(
            monitor_serving(DEVICES_S), MONITOR_EVENTS, folder=FOLDER
        )
        tasks = [
            asyncio.create_task(self._sample(watch, run)),
            asyncio.create_task(self._follow(monitor, watch)),
            asyncio.create_task(self._listen(run)),
        ]
        try:
            code = await self._until_it_ends(process, run)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await watch.stop()
            await monitor.stop()
        run = replace(
            run,
            ended=time.time(),
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
        )
        runs.save(run)
        rows = tuple(self._rows.values())
        return Outcome(run, rows, self._tracks, self._steps, self._why_no_samples)

    async def _until_it_ends(self, process: subprocess.Popen[bytes], run: Run) -> int:
        with run.log.open("rb", buffering=0) as log:
            while True:
                code = process.poll()
                self._show(log.read())
                if code is not None:
                    return code
                await asyncio.sleep(LOOK_S)

    def _show(self, output: bytes) -> None:
        """The user's own output of the user's own command: as it is, to the byte."""
        if not (output and self._shows_output):
            return
        error = pass_through(output)
        if error is not None:
            self._shows_output = False
            say(f"its output cannot be shown: {error.strerror}; it goes on, into its log")

    async def _sample(self, watch: ChildProcess[WatchEvent], run: Run) -> None:
        """Take what the watch says; a run goes on without it."""
        try:
            await watch.start()
            with (run.folder / "samples.jsonl").open("ab") as file:
                async for event in watch.events():
                    if isinstance(event, TorchProcesses):
                        self._processes = event.processes
                    elif isinstance(event, ProcessFigures):
                        self._take(event)
                        self._write(file, event, run)
            self._why_no_samples = f"the watch ended: {await watch.ended()}"
        except OSError as error:
            self._why_no_samples = f"samples cannot be taken: {error}"

    def _take(self, figures: ProcessFigures) -> None:
        self._figures = figures
        starts = {each.pid: each.start for each in self._processes}
        for each in figures.devices:
            track = self._tracks.setdefault(
                ((each.pid, starts.get(each.pid)), each.device), Track()
            )
            track.add(each)
        for row in rows_of(self._processes, figures, self._devices):
            key = row.process.pid, row.process.start
            if row.figures or key not in self._rows:
                self._rows[key] = row

    def _write(self, file: Any, figures: ProcessFigures, run: Run) -> None:
        now = time.time()
        if figures.devices and now - self._written >= (now - run.began) / SPARSER:
            self._written = now
            file.write(wire.encode(figures))
            file.flush()

    async def _listen(self, run: Run) -> None:
        """Ask the agents; to be connected lets this program's children read their processes."""
        agents = Agents()
        try:
            while True:
                # An agent answers when its process lets it have the interpreter.
                for state in await asyncio.to_thread(agents.states):
                    if state.run == str(run.folder):
                        self._steps[state.identity] = state.steps
                await asyncio.sleep(ASK_S)
        finally:
            agents.close()

    async def _follow(
        self, monitor: ChildProcess[MonitorEvent], watch: ChildProcess[WatchEvent]
    ) -> None:
        try:
            await monitor.start()
        except OSError:
            return  # each row then says that NVML does not place it
        async for event in monitor.events():
            if isinstance(event, Sample):
                self._devices = event.devices
                if watch.running:
                    watch.send(ListedProcesses(pids_of(event.devices)))
        self._devices = ()


def _pass_on(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """What would end this program is for the command, which has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def end_in_words(run: Run) -> str:
    """How it ended, how long it took, and where it is kept."""
    lasted = text.duration((run.ended or run.began) - run.began)
    if run.signal is not None:
        how = f"was ended by {signal.Signals(run.signal).name}"
    else:
        how = f"ended with exit code {run.code}"
    return f"{' '.join(run.command[:2])} {how} after {lasted}; kept in {run.folder}"
