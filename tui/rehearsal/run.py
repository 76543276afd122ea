"""One rehearsal: run a command to its end on simulated GPUs, and collect its measurements."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tui.core.text import numbers as fmt
from tui.kit.command_line.output import Failure
from tui.kit.terminal.ending import handle_signals
from tui.rehearsal.cards import Card
from tui.rehearsal.device import record
from tui.rehearsal.device.prepare import SimulatedDevice
from tui.rehearsal.device.record import DeviceRecord
from tui.rehearsal.device.settings import state_folder
from tui.rehearsal.printed_error import NOTHING_PRINTED, PrintedError, find_error
from tui.snapshots.cli.output import open_reader
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.model.calls import PEAK, PeakArguments
from tui.snapshots.model.results import PeakAccount
from tui.snapshots.reader.messages import Load
from tui.watch.cli.launch import read_finished_run
from tui.watch.cli.ooms import explain_ooms
from tui.watch.runs import start
from tui.watch.runs.agent_events import RehearsedEvent
from tui.watch.runs.agents import Agents
from tui.watch.runs.log_texts import last_lines
from tui.watch.runs.process_logs import ProcessLog, read_folder
from tui.watch.runs.runs import StartedRun
from tui.watch.state.processes import RunProcesses
from workloads.agent import FOREACH, REHEARSE

ENTRIES = 1_000_000
"""Entries of torch's memory history: a step of a large model has some ten thousand."""
CHECK_S = 0.1
GRACE_S = 20.0
"""Seconds that the agents have for their snapshots once the time is up, or the user interrupts."""
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables with settings of torch's allocator; the first that is set counts."""


def allocator_settings(inherited: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that sets torch's allocator, and its value, empty if it is not set."""
    name = next((variable for variable in _ALLOCATOR if variable in inherited), _ALLOCATOR[1])
    return name, inherited.get(name, "")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The request for a rehearsal."""

    command: tuple[str, ...]
    card: Card
    gpus: int = 1
    """Number of such cards in the machine."""
    steps: int = 3
    """Optimizer steps after which each process is ended; 0 for none."""
    seconds: float | None = None
    """Seconds after which all processes are ended; ``None`` for no limit."""
    expandable: bool = False
    """Switch torch's expandable segments on."""
    foreach: bool = True
    """``False``: optimizers update one tensor after another, unless the program chose otherwise."""

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the command's environment without the simulated GPU."""
        variables = {**inherited, REHEARSE: str(self.steps)}
        # These would hide the simulated devices, or select real ones.
        variables.pop("CUDA_VISIBLE_DEVICES", None)
        if not self.foreach:
            variables[FOREACH] = "0"
        if self.expandable:
            name, own = allocator_settings(inherited)
            variables[name] = ",".join(filter(None, [own, "expandable_segments:True"]))
        return variables


@dataclass(frozen=True, slots=True)
class ProcessPeak:
    """One process's memory on one device at its peak."""

    pid: int
    rank: str | None
    account: PeakAccount
    step: int | None
    """The optimizer step in which the peak was reached, from 1; ``None`` if unknown."""
    counted: int | None = None
    """The peak of requested bytes by torch's own counter, since the program last reset it."""
    recorded: bool = True
    """True if the history has any event of the device: the program can discard it."""

    @property
    def requested(self) -> int:
        """The peak of requested bytes; beyond the account's if the history is incomplete."""
        return max(self.account.live, self.counted or 0)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The measurements of one rehearsal."""

    rehearsal: Rehearsal
    run: StartedRun
    logs: tuple[ProcessLog, ...]
    records: tuple[DeviceRecord, ...]
    """One for each device."""
    peaks: tuple[ProcessPeak, ...] = ()
    ooms: tuple[tuple[ProcessLog, Explanation], ...] = ()
    """The newest OOM of each process, first OOMs that ended a process."""
    host_peak: int = 0
    """The most resident bytes of all processes together, sampled."""
    time_is_up: bool = False
    """True if the limit in seconds ended it."""
    printed: PrintedError = NOTHING_PRINTED
    """The error that its output ends with, or its last line."""
    problems: tuple[str, ...] = ()
    """Measurements that could not be made, and why."""

    @property
    def reports(self) -> tuple[RehearsedEvent, ...]:
        """The reports of the processes that measured themselves."""
        return tuple(log.rehearsed for log in self.logs if log.rehearsed is not None)


class RehearsalInterruptedError(Exception):
    """The user has interrupted the rehearsal; its processes are ended."""


async def rehearse(
    rehearsal: Rehearsal,
    device: SimulatedDevice,
    show: Callable[[str], None],
    begun: Callable[[StartedRun], None],
) -> Rehearsed:
    """Run a command to its end on simulated GPUs.

    Args:
        rehearsal: the command and the cards.
        device: the simulated GPU for the command's torch.
        show: shows one line of progress.
        begun: called with the run once its command runs.

    Raises:
        Failure: the command cannot be started.
        RehearsalInterruptedError: SIGINT or SIGTERM arrived.
    """
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=state_folder()))
    try:
        state = folder / "state"
        settings = rehearsal.card.settings(rehearsal.gpus)
        environment = rehearsal.environment(os.environ)
        environment |= device.variables(settings, state, environment)
        environment |= record.reads_variables(state)
        try:
            run, process = start.begin(rehearsal.command, ENTRIES, environment)
        except start.StartError as error:
            raise Failure(str(error)) from error
        begun(run)
        waiting = _Waiting(rehearsal, run, process, show)
        await waiting.until_the_end()
        run = read_finished_run(run, process.returncode) if process.returncode is not None else run
        records, problems = _read_records(state, rehearsal.gpus)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    contents = read_folder(run.folder)
    peaks, unread = await _read_peaks(run, contents.logs)
    explained = await explain_ooms(run, RunProcesses(), contents.logs, "none")
    return Rehearsed(
        rehearsal,
        run,
        contents.logs,
        records,
        tuple(peaks),
        tuple((item.log, item.explanation) for item in explained),
        waiting.host_peak,
        waiting.time_is_up,
        find_error(last_lines(run)),
        (*problems, *unread, *contents.skipped),
    )


class _Waiting:
    """Waits for the end of a rehearsed command; samples its host memory meanwhile."""

    def __init__(
        self,
        rehearsal: Rehearsal,
        run: StartedRun,
        process: start.Supervised,
        show: Callable[[str], None],
    ) -> None:
        self.host_peak = 0
        self.time_is_up = False
        self._rehearsal = rehearsal
        self._run = run
        self._process = process
        self._show = show
        self._interrupted = False
        self._agents = Agents()

    async def until_the_end(self) -> None:
        """Wait for the end.

        Raises:
            RehearsalInterruptedError: a signal has ended the rehearsal.
        """
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        handle_signals(signals, self._interrupt)
        began, ended_at = time.monotonic(), None
        try:
            while not self._process.is_over:
                seconds = time.monotonic() - began
                limit = self._rehearsal.seconds
                if self._interrupted:
                    self._process.kill()
                elif ended_at is None and limit is not None and seconds > limit:
                    self.time_is_up, ended_at = True, time.monotonic()
                    await asyncio.to_thread(self._request_end)
                elif ended_at is not None and time.monotonic() - ended_at > GRACE_S:
                    self._process.kill()
                self._sample_host()
                self._show_progress(seconds)
                await asyncio.sleep(CHECK_S)
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            self._agents.close()
            if not self._process.is_over:
                self._process.kill()
        if self._interrupted:
            raise RehearsalInterruptedError

    def _interrupt(self, _number: signal.Signals) -> None:
        self._interrupted = True

    def _request_end(self) -> None:
        for state in self._agents.states(str(self._run.folder)):
            self._agents.request(state.identity, "end rehearsal")

    def _show_progress(self, seconds: float) -> None:
        words = " ".join(self._run.command)
        self._show(
            f"rehearsing on {self._rehearsal.card.name} for {fmt.duration(seconds)}: {words}"
        )

    def _sample_host(self) -> None:
        resident = 0
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(self._process.pid)
            for process in (own, *own.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    resident += process.memory_info().rss
        self.host_peak = max(self.host_peak, resident)


def _read_records(state: Path, gpus: int) -> tuple[tuple[DeviceRecord, ...], tuple[str, ...]]:
    try:
        return record.read_records(state)[:gpus], ()
    except (OSError, ValueError) as error:
        return (), (f"the simulated devices' record cannot be read: {error}",)


async def _read_peaks(
    run: StartedRun, logs: Sequence[ProcessLog]
) -> tuple[list[ProcessPeak], list[str]]:
    """Return the peaks in the processes' snapshots, and why others are unknown."""
    peaks: list[ProcessPeak] = []
    problems: list[str] = []
    for log in logs:
        measured = log.rehearsed
        if measured is None:
            continue
        if measured.snapshot is None:
            problems.append(f"process {log.pid}: no snapshot: {measured.no_snapshot}")
            continue
        path = run.folder / measured.snapshot
        try:
            async with open_reader(Load(0, (str(path),))) as reader:
                loaded = await reader.loaded()
                counters = {device.device: device for device in measured.devices}
                for summary in loaded.devices:
                    account = await reader.call(PEAK, PeakArguments(summary.device))
                    if account.live:
                        step = find_step(account.time_us, measured.step_times, measured.steps)
                        counter = counters.get(summary.device)
                        counted = None if counter is None else counter.requested
                        recorded = counter is None or counter.recorded
                        peak = ProcessPeak(log.pid, log.rank, account, step, counted, recorded)
                        peaks.append(peak)
                        problems += describe_gap(peak)
        except Failure as failure:
            problems.append(f"{path} cannot be read: {failure}")
    return peaks, problems


def describe_gap(peak: ProcessPeak) -> list[str]:
    """Return a line if the recorded history does not contain the peak that torch counted."""
    gap = peak.requested - peak.account.live
    if not peak.recorded:
        return [
            f"process {peak.pid}, cuda:{peak.account.device}: the program ended torch's memory "
            "history, which discards it: the peak's line is unknown, and the terms are those of "
            f"the last snapshot, {fmt.size(gap)} below the peak"
        ]
    if not gap:
        return []
    return [
        f"process {peak.pid}, cuda:{peak.account.device}: the history lacks its true peak, "
        f"which had {fmt.size(gap)} more; the line and the terms are those of a lower one"
    ]


def find_step(time_us: int | None, step_times: Sequence[int], steps: int) -> int | None:
    """Return the step, from 1, in which a moment lies; ``None`` if unknown.

    Args:
        time_us: the moment, in microseconds since the epoch.
        step_times: the ends of the first steps.
        steps: number of all steps.
    """
    if time_us is None or not steps:
        return None
    before = sum(time < time_us for time in step_times)
    return before + 1 if before < len(step_times) or steps == len(step_times) else None
