"""A command run under the watch without a screen: its output, its samples, its result."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tui.allocators.findings import NEVER_KNOWN, SHORTEST_GROWTH_S, Track
from tui.allocators.messages import Placed, Seen
from tui.core.events import EventBus
from tui.core.text import numbers as text
from tui.devices.session.device_session import DeviceSession
from tui.devices.state.machine import MachineState
from tui.devices.state.watched_processes import TorchProcessState
from tui.kit.command_line.alarm import CommandAlarm
from tui.kit.command_line.output import Failure, print_notice
from tui.kit.terminal.ending import handle_signals
from tui.monitor.messages import Sample
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.model.facts import advice_markdown
from tui.watch.cli.ooms import (
    MOST_VERDICTS,
    ExplainedOom,
    encode_oom,
    explain_ooms,
    explanation_lines,
    oom_lines,
)
from tui.watch.cli.output import WatchedProcessRow, encode_processes
from tui.watch.runs import runs, samples, start
from tui.watch.runs.failures import first_failure, judge_by_exit_code
from tui.watch.runs.process_logs import ProcessLog, joined
from tui.watch.runs.rehearsals import read_note
from tui.watch.runs.run_summary import describe_finished_run, describe_oom_kills, describe_process
from tui.watch.runs.runs import StartedRun
from tui.watch.session.followed_run import VISIBLE_S
from tui.watch.session.run_folder import RunFolder, RunReading
from tui.watch.session.sampler import SAMPLE_S, Sampler
from tui.watch.state.alarms import GrowthWarnings, WatchAlarms, watched_facts
from tui.watch.state.processes import RunProcesses
from tui.watch.views.run import summarize_memory

DEVICES_S = 1.0
"""Seconds between two samples of the devices."""
CHECK_S = 0.05
"""Seconds between two checks for new output or the end of the command."""
_PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGWINCH,
)
_LEAVING = (signal.SIGHUP, signal.SIGQUIT)
"""Signals that end this program but not the run."""
_CHUNK = 64 << 10


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of a run, from its first sample to its last."""

    run: StartedRun
    processes: RunProcesses
    why_no_samples: str = ""
    troubles: tuple[str, ...] = ()
    """Why some processes have no agent."""
    skipped: tuple[str, ...] = ()
    """Files in the run's folder that could not be read, one line each."""

    @property
    def rows(self) -> list[WatchedProcessRow]:
        """The last figures of each process that was sampled from outside."""
        seen = self.processes.seen.values()
        return [
            _row(process)
            for process in seen
            if process.description.start is not None or process.devices
        ]

    @property
    def logs(self) -> list[ProcessLog]:
        """The agents' logs and, for killed processes, the last answers of their agents."""
        return judge_by_exit_code(self.run, self.processes.completed_logs())

    @property
    def tracks(self) -> list[tuple[int, str, Track]]:
        """Pid, device name and track of each sampled device, until its process ended."""
        return [
            (process.description.pid, name, device.track.before_end())
            for process in self.processes.seen.values()
            for name, device in process.devices.items()
        ]


class LeftRunningError(Exception):
    """A signal ends this program while the run is still running.

    Args:
        run: the run.
        number: number of the signal.
    """

    def __init__(self, run: StartedRun, number: signal.Signals) -> None:
        super().__init__(run.folder.name)
        self.run, self.number = run, number


class RunWithoutScreen:
    """Starts a command, samples it from outside, and shows its output."""

    def __init__(
        self,
        command: Sequence[str],
        entries: int | None,
        *,
        shows_output: bool,
        alarm: CommandAlarm,
        on_oom: str | None = None,
    ) -> None:
        """Store the command, without starting it.

        Args:
            command: program and arguments.
            entries: entries of torch's memory history; ``None`` for no history.
            shows_output: pass its output on to standard output and standard error as it arrives.
            alarm: rings at an OOM and at the end of a long run.
            on_oom: a shell command to start at the first OOM.
        """
        self._alarm = alarm
        self._watch_alarms = WatchAlarms(time.time)
        self._growth_warnings = GrowthWarnings()
        self._command = tuple(command)
        self._entries = entries
        self._shows_output = shows_output
        self._on_oom = on_oom
        self._leaving: signal.Signals | None = None
        self._processes = RunProcesses()

    async def run(self) -> RunOutcome:
        """Run the command to its end.

        Raises:
            Failure: the command cannot be started.
            LeftRunningError: SIGHUP or SIGQUIT arrived; the run is still running.
        """
        try:
            run, process = start.begin(
                self._command,
                self._entries,
                passes_streams=self._shows_output,
                on_oom=self._on_oom,
            )
        except start.StartError as error:
            raise Failure(str(error), error.code) from error
        if not self._shows_output:
            print_notice(f"its output is in {run.log}")
        self._note_alarm(run, ())
        handle_signals(_PASSED_ON, process.send)
        handle_signals(_LEAVING, self._leave)
        bus = EventBus()
        session = DeviceSession(bus, MachineState(bus), DEVICES_S)
        sampler = Sampler(run, partial(self._apply_event, run), session.shared_watch, starter=True)
        bus.subscribe(Sample, partial(self._apply_sample, sampler))
        # As on the screen, until a growth is known by its duration: it needs many readings before.
        sampler.set_pace(VISIBLE_S)
        loop = asyncio.get_running_loop()
        slowing = loop.call_later(SHORTEST_GROWTH_S, sampler.set_pace, SAMPLE_S)
        session.watch()
        sampling = asyncio.create_task(sampler.run())
        try:
            await self._wait_for_end(process, run)
        finally:
            slowing.cancel()
            sampling.cancel()
            (ended,) = await asyncio.gather(sampling, return_exceptions=True)
            await session.stop()
        if process.returncode is None:
            print_notice(NO_CODE)
            run = replace(runs.read_again(run), ended=time.time())
        else:
            run = read_finished_run(run, process.returncode)
        reading = RunFolder(run.folder).read(time.time(), ())
        self._note_alarm(run, reading.logs)
        self._processes.apply_logs(reading.logs, reading.troubles)
        why = sampler.why_no_samples or sampler.file.problem
        if isinstance(ended, Exception):
            why = f"samples cannot be taken: {type(ended).__name__}: {ended}"
        return RunOutcome(run, self._processes, why, reading.troubles, reading.skipped)

    async def _wait_for_end(self, process: start.Supervised, run: StartedRun) -> None:
        """Wait for the command to end and for all of its output to be shown."""
        shown = [
            asyncio.create_task(_pass_through(file, number))
            for number, file in enumerate(process.outputs, start=1)
        ]
        reported = False
        while not (process.has_ended and all(task.done() for task in shown)):
            if process.log_problem and not reported:
                reported = True
                why = process.log_problem
                print_notice(f"its output cannot be stored: {why}; the run continues without it")
            if self._leaving is not None:
                raise LeftRunningError(run, self._leaving)
            await asyncio.sleep(CHECK_S)

    def _leave(self, number: signal.Signals) -> None:
        self._leaving = number

    def _apply_event(self, run: StartedRun, event: Seen | RunReading) -> None:
        if isinstance(event, RunReading):
            self._note_alarm(run, event.logs)
        else:
            self._processes.apply(event)

    def _note_alarm(self, run: StartedRun, logs: Sequence[ProcessLog]) -> None:
        facts = watched_facts(run, logs, is_over=run.ended is not None)
        self._alarm.ring(self._watch_alarms.compare(facts))

    def _apply_sample(self, sampler: Sampler, sample: Sample) -> None:
        placed = self._processes.apply_sample(sample)
        if placed is not None:
            sampler.store(placed)
        for warning in self._growth_warnings.find_new(self._processes):
            print_notice(warning)


def _row(process: TorchProcessState) -> WatchedProcessRow:
    """Return the last figures of a process; a device without any has the reason instead."""
    placed: dict[str, Placed] = {name: device.placed for name, device in process.devices.items()}
    # The last reading may have found a device in change; its figures before that stay the last.
    never_read = {name: why for name, why in process.silent.items() if name not in process.devices}
    return WatchedProcessRow(
        process.description,
        process.figures,
        placed,
        process.listed,
        never_read,
        process.host.resident,
    )


NO_GPU_USED = "no Python process used a GPU"
NO_CODE = "its exit code is not known: the process that waits for it was killed"


def read_finished_run(run: StartedRun, code: int) -> StartedRun:
    """Read a run again, with the end of its command, encoded as ``Popen.returncode``."""
    finished = runs.read_again(run)
    return replace(runs.with_exit_status(finished, code), ended=finished.ended or time.time())


async def _pass_through(file: int, to: int) -> None:
    """Copy the output of the user's command byte for byte.

    Runs in a thread that nothing waits for: the reader may be slow, or stopped.
    """
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def copy() -> None:
        try:
            while data := os.read(file, _CHUNK):
                while data:
                    data = data[os.write(to, data) :]
        except OSError as error:
            if to == 1:
                why = error.strerror or str(error)
                print_notice(f"its output cannot be shown: {why}; the log still gets it")
        finally:
            os.close(file)
            with contextlib.suppress(RuntimeError):  # the program ended meanwhile
                loop.call_soon_threadsafe(finish)

    threading.Thread(target=copy, daemon=True).start()
    await done


def read_stored_run(run: StartedRun) -> RunOutcome:
    """Return the outcome of a stored run from the files in its folder."""
    processes = RunProcesses()
    processes.simulated = read_note(run.folder) is not None
    why = ""
    try:
        samples.read(run, processes.apply)
    except OSError as error:
        processes, why = RunProcesses(), f"its samples cannot be read: {error.strerror or error}"
    reading = RunFolder(run.folder).read(time.time(), ())
    processes.apply_logs(reading.logs, reading.troubles)
    return RunOutcome(run, processes, why, reading.troubles, reading.skipped)


# ---- text ----


async def format_text(outcome: RunOutcome) -> list[str]:
    """Return the lines that follow the run's own output: why it ran out, then the figures."""
    explained = await explain_ooms(outcome.run, outcome.processes, outcome.logs, "text")
    lines = ["", *_rehearsed(outcome.run)]
    for finding in explained[:MOST_VERDICTS]:
        lines += [*_explained_lines(finding), ""]
    for finding in explained[MOST_VERDICTS:]:
        where = f" ({finding.oom.snapshot})" if finding.oom.snapshot else ""
        lines.append(f"{finding.log.pid}: {finding.explanation.line}{where}")
    return [*lines, *_figure_lines(outcome)]


def _explained_lines(finding: ExplainedOom) -> list[str]:
    """Return the cause of an OOM, its account and remedies, then the numbers of its observer."""
    cells = max(80, min(160, shutil.get_terminal_size((80, 24)).columns))
    body = finding.lines or explanation_lines(finding.explanation, cells)
    # The traceback of a program that ended shows the text, and the account has its figures.
    is_text_shown = bool(finding.lines) and finding.oom.handled is False
    figures = oom_lines(finding.log, finding.oom, text=not is_text_shown)
    return [finding.explanation.line, "", *body, "", *figures]


def _figure_lines(outcome: RunOutcome) -> list[str]:
    """Return the end of a run, then the steps, peaks and growth of each process."""
    logs, run = outcome.logs, outcome.run
    failed, killed = first_failure(logs, run.command), describe_oom_kills(run)
    lines = [words for words in (failed, describe_finished_run(run), killed) if words]
    for log in logs:
        lines.append(describe_process(log, is_over=True))
        lines += [f"  {words}" for words in _describe_memory(outcome, log)]
        lines += [f"  the agent could not {trouble}" for trouble in log.troubles]
    lines += [f"no agent in process {trouble}" for trouble in outcome.troubles]
    lines += outcome.skipped
    lines += [
        f"{pid} {device}: {finding.text} ({finding.source})"
        for pid, device, track in outcome.tracks
        for finding in track.findings(ended=True)
    ]
    lines += [
        f"{process.description.pid}: {grows.text} ({grows.source})"
        for process in outcome.processes.seen.values()
        if (grows := process.host.trend(ended=True).finding) is not None
    ]
    if not logs:
        lines += [NO_GPU_USED, *_host_peak_lines(outcome.processes)]
    return lines


def _rehearsed(run: StartedRun) -> tuple[str, ...]:
    """Return the verdict of a rehearsal; nothing for another run."""
    note = read_note(run.folder)
    return () if note is None else note.conclusion


def _describe_memory(outcome: RunOutcome, log: ProcessLog) -> list[str]:
    """Return the peaks and the growth of each device of a process, in the words of its page."""
    if log.replaced:
        return []  # the figures are those of its last program
    return [
        f"{row.device}: {summarize_memory(row)}"
        for row in outcome.processes.devices(over=True)
        if row.process.pid == log.pid and row.device
    ]


def _host_peak_lines(processes: RunProcesses) -> list[str]:
    """Return the highest host memory of any process; none without a reading."""
    peaks = [
        (process.host.peak, process.description.pid)
        for process in processes.seen.values()
        if process.host.peak is not None
    ]
    if not peaks:
        return []
    peak, pid = max(peaks)
    return [f"process {pid} used up to {text.size(peak)} of host memory (RSS)"]


async def format_markdown(outcome: RunOutcome) -> list[str]:
    """Return Markdown for an issue: the newest OOM that ended a process, and its report."""
    logs, run = outcome.logs, outcome.run
    explained = await explain_ooms(run, outcome.processes, logs, "markdown")
    lines = [f"**{finding.explanation.line}**" for finding in explained[:1]]
    lines += ["", f"`{' '.join(run.command)}`", "", describe_finished_run(run)]
    lines += filter(None, [describe_oom_kills(run), first_failure(logs, run.command)])
    for words in _rehearsed(run):
        lines += ["", words]
    lines.append("")
    for log in logs:
        lines.append(f"- {describe_process(log, is_over=True)}")
        lines += [f"  - {words}" for words in _describe_memory(outcome, log)]
    for finding in explained[:1]:
        lines += ["", *oom_lines(finding.log, finding.oom), "", *finding.lines]
        if not finding.lines:
            lines += advice_markdown(finding.explanation.advice)
    if outcome.skipped:
        lines += ["", *(f"- {reason}" for reason in outcome.skipped)]
    return lines


# ---- plain data ----


async def build_explained_report(outcome: RunOutcome) -> dict[str, Any]:
    """Return :func:`build_report` with the explanation of the newest OOM of each process."""
    explained = await explain_ooms(outcome.run, outcome.processes, outcome.logs, "none")
    explanations = {
        (finding.log.pid, finding.oom.number): finding.explanation for finding in explained
    }
    return build_report(outcome, explanations)


def build_report(
    outcome: RunOutcome, explanations: Mapping[tuple[int, int], Explanation] | None = None
) -> dict[str, Any]:
    """Return the fields of ``watch --json``, with the command, its end, its steps and its OOMs.

    Args:
        outcome: result of the run.
        explanations: the explanations, by pid and number of the OOM.
    """
    run = outcome.run
    sampled = encode_processes(outcome.rows)
    unavailable: dict[str, str] = sampled["unavailable"]
    processes: list[dict[str, Any]] = sampled["processes"]
    programs: dict[int, list[ProcessLog]] = {}
    for log in outcome.logs:
        programs.setdefault(log.pid, []).append(log)
    joined_logs = {pid: joined(program) for pid, program in programs.items()}
    sampled_pids = {process["pid"] for process in processes}
    for pid, log in joined_logs.items():
        if pid not in sampled_pids:
            path = f"processes.{len(processes)}"
            processes.append(_build_unsampled_process(log, path, outcome, unavailable))
    for index, process in enumerate(processes):
        pid, path = process["pid"], f"processes.{index}"
        _add_log(process, path, joined_logs.get(pid), unavailable, explanations or {})
        process["growth"] = _growth(pid, path, outcome, unavailable)
    if run.code is None:
        unavailable["exit.code"] = "it was ended by a signal"
    if run.oom_kills is None:
        unavailable["host_oom_kills"] = "no cgroup of the run counts the kernel's OOM killer"
    failed = first_failure(outcome.logs, run.command)
    if not failed:
        ranks = sum(log.rank is not None for log in outcome.logs)
        why = "no rank was ended by an OOM" if ranks > 1 else "the run has fewer than two ranks"
        unavailable["first_failure"] = why
    if run.signal is None:
        unavailable["exit.signal"] = "no signal has ended it"
    return {
        **sampled,
        "command": list(run.command),
        "folder": str(run.folder),
        "exit": {"code": run.code, "signal": run.signal},
        "skipped": list(outcome.skipped),
        "host_oom_kills": run.oom_kills,
        "first_failure": failed or None,
        "unavailable": unavailable,
    }


def _build_unsampled_process(
    log: ProcessLog, path: str, outcome: RunOutcome, unavailable: dict[str, str]
) -> dict[str, Any]:
    why = outcome.why_no_samples or "it ended before it was seen"
    unavailable |= {path: why, f"{path}.user": why, f"{path}.command": why, f"{path}.start": why}
    unavailable[f"{path}.host_rss"] = why
    if log.rank_number is None:
        unavailable[f"{path}.rank"] = "no launcher set it in the environment"
    named = {"pid": log.pid, "start": None, "command": None, "user": None}
    plain: dict[str, Any] = {"host_rss": None, "sources": [], "devices": []}
    return {**named, "rank": log.rank_number, "torch": log.torch, **plain}


def _add_log(
    process: dict[str, Any],
    path: str,
    log: ProcessLog | None,
    unavailable: dict[str, str],
    explanations: Mapping[tuple[int, int], Explanation],
) -> None:
    if log is None:
        process |= {"steps": None, "ooms": None}
        why = "no agent: it has not used CUDA, or its environment was not passed on"
        unavailable |= {f"{path}.steps": why, f"{path}.ooms": why}
        return
    process["sources"].append("agent")
    process["steps"] = log.steps
    if log.steps is None:
        unavailable[f"{path}.steps"] = "it was killed, or left by os._exit"
    process["ooms"] = []
    for number, oom in enumerate(log.ooms):
        plain, absent = encode_oom(oom, explanations.get((log.pid, oom.number)))
        process["ooms"].append(plain)
        unavailable |= {f"{path}.ooms.{number}.{name}": why for name, why in absent.items()}


def _growth(
    pid: int, path: str, outcome: RunOutcome, unavailable: dict[str, str]
) -> dict[str, dict[str, float | str]] | None:
    """Return bytes per step or per second with the bounds of the 95% interval, by device."""
    growth: dict[str, dict[str, float | str]] = {}
    for of, device, track in outcome.tracks:
        if of != pid:
            continue
        grows, per = track.growth(), track.growth_per
        if grows is None:
            risen = [each for each in track.findings(ended=True) if each.growth is not None]
            grows, per = (risen[0].growth, risen[0].per) if risen else (None, per)
        if grows is not None:
            rates = {"rate": grows.rate, "low": grows.low, "high": grows.high}
            growth[device] = {**rates, "per": per}
    if not growth:
        unavailable[f"{path}.growth"] = NEVER_KNOWN
    return growth or None
