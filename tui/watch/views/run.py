"""A watched run in words: state, OOMs, growth and snapshots. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tui.allocators.findings import TOO_SHORT, Finding, describe_full, format_rate
from tui.allocators.growth import GrowthRate
from tui.allocators.messages import CPU_BUILD
from tui.core.text import numbers as text
from tui.core.text.commands import shorten_command
from tui.core.text.glyphs import clean
from tui.devices.state.resident_memory import HOST, HOST_GROWTH
from tui.devices.views.process_memory import finding_lines
from tui.kit.lines import Line, TextStyle, cell_len, fit, paragraph
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.model.facts import format_used
from tui.snapshots.views import overview
from tui.watch.runs.ooms import Oom, describe_outcome, describe_request
from tui.watch.runs.run_summary import describe_run_end, format_command
from tui.watch.runs.runs import StartedRun
from tui.watch.state.explained import ProcessOom, explain_row, newest_oom
from tui.watch.state.processes import REHEARSED
from tui.watch.state.run import WatchedDevice, WatchedRun, find_total
from tui.watch.views.memory_plot import plots_host_memory
from tui.watch.views.processes import ended_by_oom, shows_whole_state

NO_CUDA = "It used no CUDA while it was watched."
NO_CUDA_YET = (
    "With its first CUDA call, a plot of torch's memory, its growth per step and an account of the "
    "GPU appear here. An OOM is explained by the line that requested the memory."
)
MOST_ROWS = 3
"""The most rows of an OOM's account on the page of its run; the verdict shows all."""


def format_run_duration(run: StartedRun, now: float, *, is_running: bool) -> str:
    """Return the present or total duration of a run; empty if its end is unknown."""
    until = now if run.ended is None and is_running else run.ended
    if until is None and run.last_sign is not None and run.last_sign.is_end:
        until = run.last_sign.at
    return "" if until is None else text.duration(max(0.0, until - run.began))


def is_on(state: WatchedRun) -> bool:
    """Return whether the run is running and followed live."""
    return state.run.ended is None and not state.over and not state.replayed


def describe_running_run(run: StartedRun) -> str:
    """Return the message about a run that the user leaves running."""
    return (
        f"{format_command(run)} is still running; it is stored in {clean(str(run.folder))}. "
        f"gpu-workbench watch {clean(run.folder.name)} shows it again."
    )


LEAST_COMMAND = 16
"""Cells of a title that a run's command keeps beside the number of its ended processes."""


def format_run_title(state: WatchedRun, now: float, cells: int) -> str:
    """Return the title of the table; the command is shortened to make room for the run's state."""
    is_running = is_on(state)
    end = describe_run_end(state.run, is_running=is_running)
    lasted = format_run_duration(state.run, now, is_running=is_running)
    command = shorten_command(format_command(state.run))
    ended = _count_ended(state.devices) if is_running else ""
    for words in (f"{end}, {ended}" if ended else end, end):
        how = "   ".join(filter(None, [words, lasted]))
        room = max(0, cells - cell_len(how) - len("Run") - 6)
        if room >= LEAST_COMMAND:
            break
    return fit(f"Run   {fit(command, room)}   {how}", max(1, cells))


def _count_ended(devices: Sequence[WatchedDevice]) -> str:
    """Return how many of several processes have ended; empty if none has."""
    ended = {(row.process.pid, row.process.start): bool(row.ended) for row in devices}
    many = len(ended) > 1 and any(ended.values())
    return f"{sum(ended.values())} of {len(ended)} processes ended" if many else ""


# ---- OOMs ----


def describe_oom(newest: ProcessOom, selected: WatchedDevice | None, cells: int) -> str:
    """Describe an OOM: process, request, outcome, and the key that opens its snapshot.

    The line above it, the explanation's, has the step and the place. The process's row of ``cells``
    says how the process ended if it is wide enough.
    """
    oom, process = newest.oom, newest.row.process
    who = f"{process.pid}" + (f", rank {process.rank}" if process.rank is not None else "")
    words = f"{who}: {describe_request(oom)}"
    row = newest.row
    is_in_row = shows_whole_state(row, cells)
    if not (oom.is_examined or (ended_by_oom(row) and is_in_row)):
        words += f"; {clean(describe_outcome(oom))}"
    if row.ended and not (ended_by_oom(row) or is_in_row):
        words += f", {clean(row.ended)}"
    if oom.snapshot is None:
        return f"{words}. No snapshot: {clean(oom.why_no_snapshot)}"
    if selected is not None and selected.process.pid == process.pid:
        return f"{words}. o opens the verdict"
    return f"{words}. Select {process.pid} and press o for the verdict"


def oom_account_lines(explanation: Explanation, cells: int) -> list[Line]:
    """Return the largest rows of an OOM's account."""
    shown = explanation.account[:MOST_ROWS]
    bar = overview.bar_cells(shown, cells)
    return [overview.account_line(row, cells, bar) for row in shown]


def banner_lines(
    state: WatchedRun, selected: WatchedDevice | None, cells: int, row_cells: int | None = None
) -> list[Line]:
    """Return the lines to read before any figure: OOMs, missing figures, a freeze, remarks.

    Args:
        state: the run.
        selected: the row under the cursor.
        cells: width of a line.
        row_cells: width of a row of the table, which says how the process ended if that fits;
            ``cells`` if ``None``.
    """
    lines: list[Line] = []
    account: list[Line] = []
    oom = newest_oom(state.devices)
    if oom is not None:
        style = TextStyle.NOTE if oom.oom.handled else TextStyle.BAD
        explanation = explain_row(oom)
        lines += paragraph(explanation.line, cells, style, indent="  ")
        if explanation.refusal:
            used = format_used(explanation)
            lines += paragraph(used, cells, TextStyle.STRONG, indent="  ")
        account = oom_account_lines(explanation, cells)
    lines += rehearsal_lines(state, cells)
    if state.frozen_at is not None:
        words = f"frozen at {text.clock(state.frozen_at)}; the run continues, z follows it again"
        lines += paragraph(words, cells, TextStyle.NOTE, indent="  ")
    if state.why_no_samples:
        words = f"no new figures: {state.why_no_samples}"
        lines += paragraph(words, cells, TextStyle.NOTE, indent="  ")
    for note in state.notes:
        lines += paragraph(note, cells, TextStyle.NOTE, indent="  ")
    if not state.devices:
        lines += paragraph(_no_process(state), cells)
    if oom is not None:  # last, because a small screen shows only the first lines
        style = TextStyle.NOTE if oom.oom.handled else TextStyle.PLAIN
        words = describe_oom(oom, selected, cells if row_cells is None else row_cells)
        lines += paragraph(words, cells, style, indent="  ")
    return lines + account


_ANSWER_STYLES = {"fits": TextStyle.GOOD, "does not fit": TextStyle.BAD, "failed": TextStyle.BAD}


def rehearsal_lines(state: WatchedRun, cells: int) -> list[Line]:
    """Return on which simulated devices a rehearsal runs, and its verdict; empty for another run.

    Args:
        state: the run.
        cells: width of a line.
    """
    note = state.rehearsal
    if note is None:
        return []
    where = f"rehearsed on {clean(note.devices)}: kernels compute nothing, times are invented"
    if not note.answer:
        if is_on(state):
            words = where
        elif note.is_in_progress:
            words = f"{where}; reading its snapshots for the verdict"
        else:
            words = f"{where}; it was interrupted before its verdict"
        return paragraph(words, cells, TextStyle.NOTE, indent="  ")
    first, *others = note.conclusion or (note.answer,)
    style = _ANSWER_STYLES.get(note.answer, TextStyle.NOTE)
    lines = paragraph(clean(first), cells, style, indent="  ")
    for words in others:
        lines += paragraph(clean(words), cells, TextStyle.PLAIN, indent="  ")
    return lines


def _no_process(state: WatchedRun) -> str:
    if not is_on(state) and state.run.code:
        return "The command failed: its output below says why. No process was seen to use CUDA."
    if not is_on(state):
        return "No process used CUDA while it was watched. The output is below."
    return "No process has loaded torch yet. The output is below."


def has_figures(state: WatchedRun) -> bool:
    """Return whether an allocator has figures, a plot or an OOM to show."""
    return any(row.figures or row.points or row.at_oom for row in state.devices)


def has_memory(state: WatchedRun) -> bool:
    """Return whether there is memory to show, of an allocator or of the host."""
    return has_figures(state) or any(map(plots_host_memory, state.devices))


def host_lines(row: WatchedDevice, cells: int) -> list[Line]:
    """Return the lines about the host memory of a process that has used no CUDA.

    Args:
        row: the process under the cursor.
        cells: width of a line.
    """
    lines = finding_lines([_project(finding, row) for finding in row.findings], cells)
    if not lines and plots_host_memory(row):
        lines += paragraph(format_host_growth(row), cells, TextStyle.PLAIN, indent="  ")
    if row.process.reason == CPU_BUILD:
        return lines
    words = NO_CUDA if row.ended else NO_CUDA_YET
    if row.process.reason == REHEARSED:
        words = f"{REHEARSED[0].upper()}{REHEARSED[1:]}: `o` opens its peak snapshot."
    return lines + paragraph(words, cells, TextStyle.QUIET)


# ---- growth ----


def format_growth(row: WatchedDevice) -> str:
    """Return the growth of allocated memory with its interval, or the reason it is unknown."""
    why = row.why_no_growth or "not known yet"
    return _describe_growth("allocated", row.growth, row.growth_per, why, ended=bool(row.ended))


def format_host_growth(row: WatchedDevice) -> str:
    """Return the growth of host memory with its interval, or the reason it is unknown."""
    ended = bool(row.ended)
    return _describe_growth("host memory", row.host_growth, "s", TOO_SHORT, ended=ended)


def _describe_growth(
    subject: str, growth: GrowthRate | None, per: str, why: str, *, ended: bool
) -> str:
    if growth is None:
        return f"growth of {subject}: {why}"
    if growth.low > 0 and not growth.steady:
        return f"{subject} grew, but not steadily: {format_rate(growth, per)}"
    if growth.low > 0:
        return f"{subject} {'grew' if ended else 'grows'} {format_rate(growth, per)}"
    if growth.high < 0:
        falls = GrowthRate(-growth.rate, -growth.high, -growth.low)
        return f"{subject} {'fell' if ended else 'falls'} {format_rate(falls, per)}"
    if growth.low == growth.high == 0:
        verb = "did not grow" if ended else "does not grow"
        return f"{subject} {verb}: {format_rate(growth, per)}"
    verb = "may have grown, fallen or stayed" if ended else "may grow, fall or stay"
    return f"{subject} {verb}: {format_rate(growth, per)}"


def summarize_memory(row: WatchedDevice) -> str:
    """Return a device's peaks until the last reading, and its growth unless a finding states it.

    It is the conclusion on a process that ended without an OOM.
    """
    figures = row.figures
    if figures is None:
        why = row.process.reason or "not read before the process ended"
        return f"peak {text.NA}: {why}"
    total = find_total(row.gpu, row.placed)
    most = text.size(figures.allocated_peak)
    if total is not None:
        most = text.size_pair(figures.allocated_peak, total, " of ")
    peaks = f"peak {most} allocated, {text.size(figures.reserved_peak)} reserved"
    if not _states_growth(row):
        return peaks
    if row.growth is not None and row.growth.low == row.growth.high == 0:
        return f"{peaks}, no growth{_format_span(row.growth, row.growth_per)}"
    return f"{peaks}; {format_growth(row)}"


def _format_span(growth: GrowthRate, per: str) -> str:
    """Return over how many steps or seconds a growth was measured; empty if unknown."""
    if not growth.span:
        return ""
    span = int(growth.span)
    return f" in {text.count(span, 'step') if per == 'step' else text.duration(span)}"


def _states_growth(row: WatchedDevice) -> bool:
    """Return whether the growth needs words of its own."""
    # An OOM's conclusion says what grew; a missing figure beside it would seem to contradict.
    is_explained = row.growth is None and row.ended and row.at_oom is not None
    is_found = any(finding.key in ("growth", "rise", "plateau") for finding in row.findings)
    return not is_explained and not is_found


def _project(finding: Finding, row: WatchedDevice) -> Finding:
    """Add to a growth when it fills the memory of a running process, if that can be foreseen."""
    if row.ended:
        return finding
    if finding.key == HOST_GROWTH:
        when = describe_full(finding, row.host_available, what=HOST)
    else:
        when = describe_full(finding, None if row.gpu is None else row.gpu.free, row.steps_per_s)
    return replace(finding, text=f"{finding.text}; {when}") if when else finding


def trend_lines(row: WatchedDevice, cells: int) -> list[Line]:
    """Return the findings over time: a leak with its rate, then growth, then the rest.

    Of a process that has ended without an OOM, the peaks stand before its growth.
    """
    lines = finding_lines([_project(finding, row) for finding in row.findings], cells)
    if row.ended and row.at_oom is None:
        return lines + paragraph(summarize_memory(row), cells, TextStyle.PLAIN, indent="  ")
    if _states_growth(row):
        lines += paragraph(format_growth(row), cells, TextStyle.PLAIN, indent="  ")
    return lines


# ---- snapshots ----


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """A snapshot of a process."""

    path: Path
    at: float
    step: int | None
    oom: Oom | None
    """The OOM at which the snapshot was taken."""


def has_snapshots(row: WatchedDevice) -> bool:
    """Return whether a row's process has left a snapshot; asked with every key."""
    ooms = row.log.ooms if row.log else ()
    return any(oom.snapshot for oom in ooms) or any(mark.snapshot for mark in row.marks)


def snapshots_of(row: WatchedDevice) -> list[ProcessSnapshot]:
    """Return the existing snapshots of a row's process, oldest first."""
    ooms = {oom.snapshot: oom for oom in (row.log.ooms if row.log else ()) if oom.snapshot}
    snapshots: dict[Path, ProcessSnapshot] = {
        path: ProcessSnapshot(path, oom.at, oom.step, oom) for path, oom in ooms.items()
    }
    for mark in row.marks:
        if mark.snapshot is not None and mark.snapshot not in snapshots:
            snapshots[mark.snapshot] = ProcessSnapshot(mark.snapshot, mark.at, mark.step, None)
    return sorted(snapshots.values(), key=lambda snapshot: snapshot.at)


def describe_snapshot(snapshot: ProcessSnapshot) -> str:
    """Describe a snapshot, for example ``step 120   14:03:25   OOM   4711-2.pickle``."""
    step = "step n/a" if snapshot.step is None else f"step {text.count(snapshot.step)}"
    cause = "OOM" if snapshot.oom else "requested"
    return f"{step:<14} {text.clock(snapshot.at)}  {cause:<10} {clean(snapshot.path.name)}"


def describe_missing_snapshot(row: WatchedDevice | None) -> str:
    """Explain why a process has no snapshot, and how to get one."""
    if row is None:
        return "no process has left a snapshot"
    words = f"{row.process.pid} has left no snapshot"
    ooms = row.log.ooms if row.log is not None else ()
    if ooms:
        return f"{words}: {ooms[-1].why_no_snapshot}"
    return f"{words}: M takes one at its next step; an OOM leaves one by itself"
