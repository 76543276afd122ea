"""What is said beside the figures: the log, and what keeps the runner from running things. Pure."""

from __future__ import annotations

from tui.state.events import LogLine
from tui.state.store import Store
from tui.ui.views.lines import Line, Span, Tone, line, paragraph

TONES = {"info": Tone.PLAIN, "warning": Tone.NOTE, "error": Tone.BAD}


def log_lines(store: Store, cells: int) -> list[Line]:
    """Oldest first."""
    if not store.log:
        return [line(Span("nothing was logged", Tone.QUIET))]
    return [row for entry in store.log for row in entry_lines(entry, cells)]


def entry_lines(entry: LogLine, cells: int) -> list[Line]:
    """One entry; a level other than info is named."""
    label = f"{entry.source} " + ("" if entry.level == "info" else f"{entry.level}: ")
    return paragraph(entry.text, cells, TONES[entry.level], indent="  ", label=label)


def runner_notes(store: Store, cells: int) -> list[Line]:
    """Lines for the top of the workloads pane; none while all is well."""
    runner = store.runner
    rows: list[Line] = []
    if runner.status == "unusable":
        rows += paragraph(f"Nothing can be run: {runner.reason}", cells, Tone.BAD, "  ")
    elif runner.reason:
        rows += paragraph(runner.reason, cells, Tone.NOTE, "  ")
    if runner.advice:
        rows += paragraph(runner.advice, cells, Tone.PLAIN, "  ")
    if runner.report:
        rows += paragraph(f"Report: {runner.report}", cells, Tone.QUIET, "  ")
    for problem in store.hello.problems if store.hello else ():
        rows += paragraph(problem, cells, Tone.BAD, "  ")
    if not store.catalogue and not rows:
        rows += paragraph("starting the runner, which knows the workloads", cells, Tone.QUIET)
    return rows
