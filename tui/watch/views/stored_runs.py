"""The list of stored runs, and what is known of the one under the cursor. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tui.core.text import numbers as text
from tui.core.text.commands import EXAMPLE, distinguish
from tui.core.text.glyphs import clean
from tui.devices.views.history import title_rule
from tui.kit.lines import Line, Span, TextStyle, beside, line, paragraph, verbatim
from tui.kit.table import REST, Column, Layout, fit_columns, heading_line, row_line, widest
from tui.watch.runs.failures import find_ended_ranks, first_failure, name_launcher
from tui.watch.runs.ooms import describe_outcome, describe_request
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.run_summary import (
    describe_oom_kills,
    describe_process,
    describe_run_end,
    format_command,
    name_run_end,
)
from tui.watch.runs.runs import StartedRun
from tui.watch.session.run_folder import StoredRun
from tui.watch.session.stored_ooms import StoredOom
from tui.watch.views.run import format_run_duration, oom_account_lines

NONE_STORED = "No watched run is stored. This runs a training unchanged and explains its memory:"


def none_lines(cells: int) -> list[Line]:
    """Return advice for an empty list of runs."""
    return [*paragraph(NONE_STORED, cells), (), line(Span(EXAMPLE, TextStyle.KEY))]


_ListedRun = tuple[StoredRun, float, str]
"""A run, the present Unix time, and its command, shortened beside other runs' commands."""


def _cell(format_row: Callable[[StoredRun, float], str]) -> Callable[[_ListedRun], Span]:
    return lambda row: Span(format_row(row[0], row[1]))


def _marked_cell(format_row: Callable[[StoredRun, float], str]) -> Callable[[_ListedRun], Span]:
    """Return a cell that highlights unfinished runs and runs with an OOM."""
    return lambda row: Span(format_row(row[0], row[1]), _choose_style(row[0]))


def _choose_style(stored: StoredRun) -> TextStyle:
    if stored.is_running:
        return TextStyle.GOOD
    return TextStyle.BAD if stored.ooms else TextStyle.PLAIN


def _format_duration_of(stored: StoredRun, now: float) -> str:
    return format_run_duration(stored.run, now, is_running=stored.is_running)


def _format_end_of(stored: StoredRun, _now: float) -> str:
    return describe_run_end(stored.run, is_running=stored.is_running)


def _name_end_of(stored: StoredRun, _now: float) -> str:
    note = stored.rehearsal
    if note is not None and not stored.is_running:
        return f"rehearsed: {clean(note.answer)[:_MOST_ANSWER]}" if note.answer else "rehearsed"
    return name_run_end(stored.run, is_running=stored.is_running)


def _steps(stored: StoredRun, _now: float) -> str:
    return text.count(stored.steps)


def _ooms(stored: StoredRun, _now: float) -> str:
    return text.count(stored.ooms)


def format_begin(run: StartedRun) -> str:
    """Return the local start time of a run, such as ``11-24 03:17``."""
    return time.strftime("%m-%d %H:%M", time.localtime(run.began))


_COLUMNS: tuple[Column[_ListedRun], ...] = (
    Column("began", 11, _cell(lambda stored, _now: format_begin(stored.run)), "left", gap=1),
    Column("end", 3, _marked_cell(_name_end_of), "left"),
    Column("took", 4, _cell(_format_duration_of), "left", drop_order=0, leaves=22),
    Column("steps", 6, _cell(_steps), drop_order=2, leaves=14),
    Column("OOMs", 6, _marked_cell(_ooms), drop_order=3, leaves=14),
    Column(
        "snaps", 6, _cell(lambda stored, _now: text.count(stored.snapshots)), drop_order=1, leaves=2
    ),
    Column("command", 1, lambda row: Span(row[2]), "left", grows=(REST,)),
)
"""Columns of the list of runs, from the left."""


def _fit_columns(runs: Sequence[StoredRun], cells: int, now: float) -> Layout[_ListedRun]:
    """Return the columns that fit; ends and durations are as wide as their words."""
    words = {"end": _name_end_of, "took": _format_duration_of}
    columns = [
        replace(
            column, width=widest([column.name, *(words[column.name](run, now) for run in runs)])
        )
        if column.name in words
        else column
        for column in _COLUMNS
    ]
    return fit_columns(columns, cells)


def stored_run_heading(runs: Sequence[StoredRun], cells: int, now: float) -> Line:
    """Return the column names."""
    return heading_line(_fit_columns(runs, cells, now))


def stored_run_lines(runs: Sequence[StoredRun], cells: int, now: float) -> list[Line]:
    """Return a line for each run."""
    layout = _fit_columns(runs, cells, now)
    commands = distinguish([format_command(run.run) for run in runs])
    rows = zip(runs, commands, strict=True)
    return [row_line(layout, (row, now, command)) for row, command in rows]


# ---- the run under the cursor ----

_MOST_ANSWER = 12
"""Most letters of a rehearsal's answer, which a file has: ``does not fit``."""
MOST_PROCESSES = 8
"""Most processes that are described below the list."""
BESIDE_FROM = 150
"""Cells from which the output stands beside the rest."""


def stored_run_summary(
    stored: StoredRun, oom: StoredOom | None, cells: int, height: int, now: float
) -> list[Line]:
    """Return a heading, the whole command, how the run ended, its processes and its last output.

    Args:
        stored: the run.
        oom: its OOM; ``None`` for none, or until it is explained.
        cells: width of a line.
        height: the most lines; the output stands beside the rest, or has the lines that it leaves.
        now: Unix time.
    """
    if cells >= BESIDE_FROM and stored.output:
        near = (cells - 2) // 2
        rows = _summary_lines(stored, oom, near, now)
        output = _output_lines(stored.output, cells - near - 2, height - 1)
        return beside(rows, [(), *output], near)[:height]
    rows = _summary_lines(stored, oom, cells, now)
    return [*rows, *_output_lines(stored.output, cells, height - len(rows))][:height]


def _summary_lines(stored: StoredRun, oom: StoredOom | None, cells: int, now: float) -> list[Line]:
    """Return all but the output; the arguments are those of :func:`stored_run_summary`."""
    run = stored.run
    lasted = _format_duration_of(stored, now)
    since = " for " if stored.is_running else " after "
    end = since.join(filter(None, [_format_end_of(stored, now), lasted]))
    others = len(stored.logs) - MOST_PROCESSES
    # The lines of a few processes say it, too.
    cause = first_failure(stored.logs, run.command) if others > 0 else ""
    where = f", in {clean(run.cwd)}" if run.cwd else ""
    where += f" on {clean(run.host)}" if run.host else ""
    rows: list[Line] = [
        (),
        title_rule([clean(run.folder.name)], cells),
        *paragraph(format_command(run), cells, TextStyle.STRONG),
        *paragraph(f"{end}, began {format_begin(run)}{where}", cells, TextStyle.QUIET),
    ]
    rows += [] if oom is None else _oom_lines(oom, cells)
    note = stored.rehearsal
    if note is not None and oom is None:
        without = f"rehearsed on {note.devices}, without a verdict"
        verdict = note.conclusion[0] if note.conclusion else without
        rows += paragraph(clean(verdict), cells, TextStyle.STRONG, indent="  ")
    for words in (clean(cause), describe_oom_kills(run)):
        rows += paragraph(words, cells, TextStyle.BAD) if words else []
    ended, is_over = find_ended_ranks(stored.logs), run.ended is not None
    for log in sorted(stored.logs, key=_sort_by_rank)[:MOST_PROCESSES]:
        by = name_launcher(run.command) if log in ended else ""
        rows += paragraph(clean(describe_process(log, by, is_over=is_over)), cells, indent="  ")
    if others > 0:
        rows += paragraph(f"and {text.count(others, 'more process', 'more processes')}", cells)
    return rows


def _output_lines(output: Sequence[str], cells: int, height: int) -> list[Line]:
    """Return a heading and the end of the output in this many lines; none without room."""
    drawn = [verbatim(entry, cells) for entry in output]
    room = height - 1
    if not drawn or room <= 0:
        return []
    end = [row for entry in drawn for row in entry][-room:]
    if len(drawn[-1]) > room:
        # Of a long last line, such as that of an OutOfMemoryError, the beginning says more.
        end = drawn[-1][:room]
    return [title_rule(["end of the output"], cells), *end]


def _sort_by_rank(log: ProcessLog) -> float:
    return math.inf if log.rank_number is None else log.rank_number


def _oom_lines(stored: StoredOom, cells: int) -> list[Line]:
    """Return the conclusion on an OOM, its request and its account."""
    oom, explanation = stored.oom, stored.explanation
    style = TextStyle.NOTE if oom.handled else TextStyle.BAD
    words = f"{describe_request(oom)}; {describe_outcome(oom)}"
    return [
        *paragraph(clean(explanation.line), cells, style, indent="  "),
        *paragraph(clean(words), cells),
        *oom_account_lines(explanation, cells),
    ]
