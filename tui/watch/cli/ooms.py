"""The OOMs of processes for commands: explained, as lines, and as fields of ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tui.allocators.findings import at_step
from tui.kit.command_line.output import Failure, print_notice
from tui.kit.lines import plain
from tui.snapshots.analysis.report import explanation_report
from tui.snapshots.cli.output import open_reader, snapshot_text, verdict_text
from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.model.calls import REPORT, VERDICT, ReportArguments, VerdictArguments
from tui.snapshots.model.results import AGAINST_OOM
from tui.snapshots.reader.messages import Load
from tui.snapshots.views.overview import account_lines, advice_lines
from tui.watch.runs.log_texts import texts_of
from tui.watch.runs.ooms import (
    BY_DRIVER,
    Oom,
    describe_live_memory,
    describe_outcome,
    describe_request,
)
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun
from tui.watch.state.explained import circumstances, explain_without_snapshot, find_allocator
from tui.watch.state.processes import RunProcesses

MOST_VERDICTS = 3
"""Most processes with a printed verdict: ranks usually run out for the same reason."""
TOP = 10
Form = Literal["text", "markdown", "none"]


@dataclass(frozen=True, slots=True)
class ExplainedOom:
    """The newest OOM of one process with its explanation."""

    log: ProcessLog
    oom: Oom
    explanation: Explanation
    lines: tuple[str, ...] = ()
    """The reader's explanation of the snapshot."""


def newest_ooms(logs: Sequence[ProcessLog]) -> list[tuple[ProcessLog, Oom]]:
    """Return the newest OOM of each process, first OOMs that ended or may have ended a process."""
    ooms = [(log, log.ooms[-1]) for log in logs if log.ooms]
    return sorted(ooms, key=lambda pair: (pair[1].handled is True, pair[1].at))


async def explain_ooms(
    run: StartedRun, processes: RunProcesses, logs: Sequence[ProcessLog], form: Form
) -> list[ExplainedOom]:
    """Return the newest OOM of each process with its explanation, first OOMs that ended a process.

    Args:
        run: the run, which has ended.
        processes: the processes that were sampled.
        logs: the logs that the agents wrote.
        form: format of the lines of the first few OOMs; ``none`` for no lines.
    """
    explained = []
    for number, (log, oom) in enumerate(newest_ooms(logs)):
        seen = find_allocator(processes, log, oom)
        known = circumstances(run, log, oom, seen, processes.listed_holders, processes.gpus)
        reading: tuple[Explanation | None, tuple[str, ...]] = (None, ())
        if oom.snapshot is not None and number < MOST_VERDICTS:
            reading = await _read_explanation(
                oom.snapshot, oom.device, texts_of(run, oom), known, form
            )
        explanation, lines = reading
        explained.append(
            ExplainedOom(log, oom, explanation or explain_without_snapshot(oom, known), lines)
        )
    return explained


async def _read_explanation(
    snapshot: Path, device: int, oom_text: str, known: Circumstances, form: Form
) -> tuple[Explanation | None, tuple[str, ...]]:
    """Return the reader's explanation of a snapshot and its lines; none if it cannot be read."""
    try:
        load = Load(0, (str(snapshot),), oom_text=oom_text, top=TOP, circumstances=known)
        async with open_reader(load) as reader:
            loaded = await reader.loaded()
            summary = next((found for found in loaded.devices if found.device == device), None)
            verdict = None
            if summary is not None and summary.ooms:
                arguments = VerdictArguments(device, summary.ooms[-1], TOP)
                verdict = await reader.call(VERDICT, arguments)
            if form == "none":
                report = ""
            elif form == "markdown":
                report = await reader.call(REPORT, ReportArguments("markdown", top=TOP))
            elif verdict is not None and summary is not None:
                report = verdict_text(verdict, summary, loaded.files)
            else:
                report = await snapshot_text(
                    reader, loaded, event=None, top=TOP, at_peak=False, compares=False
                )
            explanation = None if verdict is None else verdict.explanation
            return explanation, tuple(report.strip("\n").splitlines())
    except Failure as failure:
        print_notice(str(failure))
        return None, ()


NOT_NEWEST = "only the newest OOM of each process is explained; gpu-workbench snapshot reads others"
_OOM = (
    *("at", "step", "device", "request", "free", "handled", "text", "text_source"),
    *("allocated", "requested", "reserved"),
)
_KEYS = {"request": "asked"}
"""JSON keys that differ from their field's name."""
_WHY_UNKNOWN = {
    "request": BY_DRIVER,
    "free": BY_DRIVER,
    "requested": "its torch does not count it",
}
MOST_ADVICE = 3
"""Largest number of remedies that a report prints for one OOM."""


def explanation_lines(explanation: Explanation, cells: int) -> list[str]:
    """Return the account of the used memory and the first remedies."""
    advice = explanation.advice[:MOST_ADVICE]
    _blank, *rows = account_lines(explanation, cells) + advice_lines(advice, cells, AGAINST_OOM)
    return [plain(row).rstrip() for row in rows]


def oom_lines(log: ProcessLog, oom: Oom, *, text: bool = True) -> list[str]:
    """Return one OOM's numbers from the observer, its snapshot, and the exception's text.

    Args:
        log: the log of its process.
        oom: the OOM.
        text: include the exception's text with its source.
    """
    rank = "" if log.rank is None else f", rank {log.rank}"
    where = f" at {oom.where}" if oom.where else ""
    lines = [
        f"OOM {oom.number} of {log.oom_count} in process {log.pid}{rank}, {at_step(oom.step)}: "
        f"{describe_request(oom)}{where}, {describe_live_memory(oom)}; {describe_outcome(oom)}"
    ]
    if text:
        lines += [oom.text, f"  (text: {oom.text_source})"]
    if oom.snapshot is not None:
        lines.append(f"snapshot: {oom.snapshot}")
    else:
        lines.append(f"no snapshot: {oom.why_no_snapshot}")
    return lines


def encode_oom(oom: Oom, explanation: Explanation | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of an OOM, and the reasons for absent ones.

    Args:
        oom: the OOM.
        explanation: its explanation; ``None`` if it is not the newest of its process.
    """
    absent = {
        _KEYS.get(name, name): why
        for name, why in _WHY_UNKNOWN.items()
        if getattr(oom, name) is None
    }
    if oom.handled is None:
        absent["handled"] = oom.why_not_known
    if oom.snapshot is None:
        absent["snapshot"] = oom.why_no_snapshot
    if explanation is None:
        absent["explanation"] = NOT_NEWEST
    else:
        absent |= {f"explanation.{name}": why for name, why in explanation.unavailable.items()}
    fields = {
        **{_KEYS.get(name, name): getattr(oom, name) for name in _OOM},
        "snapshot": None if oom.snapshot is None else str(oom.snapshot),
        "explanation": None if explanation is None else explanation_report(explanation),
    }
    return fields, absent
