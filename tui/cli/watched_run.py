"""A command under the watch without a screen: its output, its samples, and what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence

from tui.child.process import ChildProcess
from tui.cli.errors import Failure
from tui.cli.streams import pass_through, say
from tui.cli.watch_output import Row
from tui.monitor import serving as monitor_serving
from tui.monitor.messages import MONITOR_EVENTS, MonitorEvent, Sample
from tui.session.watching import Folder, Looked, Sampler
from tui.state.watched_processes import WatchedProcesses
from tui.state.watched_run import SeenProcess
from tui.watch import FOLDER, runs
from tui.watch.findings import Track
from tui.watch.kept import Left
from tui.watch.messages import Placed, Seen, pids_of
from tui.watch.runs import Run
from workloads.protocol.frozen import frozen

DEVICES_S = 1.0
LOOK_S = 0.05
"""Between two looks at whether the command has written something, or ended."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


@frozen
class Outcome:
    """What a run was, from its first sample to its last."""

    run: Run
    processes: WatchedProcesses
    why_no_samples: str = ""

    @property
    def rows(self) -> list[Row]:
        """The last that was known of each process that was seen from outside."""
        seen = self.processes.seen.values()
        return [_row(each) for each in seen if each.told.start is not None or each.devices]

    @property
    def left(self) -> list[Left]:
        """What the agents have left, and for those that were killed the last that was heard."""
        return self.processes.completed_left()

    @property
    def tracks(self) -> list[tuple[int, str, Track]]:
        """Pid and device of each device that was seen, and what was seen of it."""
        return [
            (process.told.pid, name, device.track)
            for process in self.processes.seen.values()
            for name, device in process.devices.items()
        ]


def begin(command: Sequence[str], entries: int | None) -> tuple[Run, subprocess.Popen[bytes]]:
    """Start a command under the watch.

    Args:
        command: program and arguments.
        entries: of torch's memory history; ``None`` for no history.

    Raises:
        Failure: it cannot be started.
    """
    try:
        return runs.begin(command, entries)
    except runs.StartError as error:
        raise Failure(str(error)) from error


class RunWithoutScreen:
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
        self._processes = WatchedProcesses()

    async def work(self) -> Outcome:
        """Run it to its end.

        Raises:
            Failure: it cannot be started.
        """
        run, process = begin(self._command, self._entries)
        if not self._shows_output:
            say(f"its output is in {run.log}")
        loop = asyncio.get_running_loop()
        for number in _PASSED_ON:
            loop.add_signal_handler(number, _pass_on, process, number)
        sampler = Sampler(run, self._take, starter=True)
        monitor: ChildProcess[MonitorEvent] = ChildProcess(
            monitor_serving(DEVICES_S), MONITOR_EVENTS, folder=FOLDER
        )
        tasks = [
            asyncio.create_task(sampler.work()),
            asyncio.create_task(self._follow(monitor, sampler)),
        ]
        try:
            code = await self._until_it_ends(process, run)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await monitor.stop()
        run = runs.ended(run, code)
        looked = Folder(run.folder).look(time.time(), ())
        self._processes.take_left(looked.left, looked.troubles)
        why = sampler.why_no_samples or sampler.file.problem
        for each in ended:
            if isinstance(each, Exception):
                why = f"samples cannot be taken: {type(each).__name__}: {each}"
        return Outcome(run, self._processes, why)

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

    def _take(self, event: Seen | Looked) -> None:
        if not isinstance(event, Looked):
            self._processes.take(event)

    async def _follow(self, monitor: ChildProcess[MonitorEvent], sampler: Sampler) -> None:
        try:
            await monitor.start()
        except OSError:
            return  # each row then says that NVML does not place it
        async for event in monitor.events():
            if isinstance(event, Sample):
                placed = self._processes.take_devices(event.devices, event.at)
                if placed is not None:
                    sampler.keep(placed)
                sampler.set_listed(pids_of(event.devices))


def _row(process: SeenProcess) -> Row:
    placed: dict[str, Placed] = {name: each.placed for name, each in process.devices.items()}
    return Row(process.told, process.figures, placed, process.listed, process.silent)


def _pass_on(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """What would end this program is for the command, which has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
