"""What is said beside the figures: what keeps the runner from running things, the log. Pure."""

from __future__ import annotations

from tui.state.events import LogLine
from tui.state.store import Store
from tui.ui.views.lines import Line, Span, TextStyle, line, paragraph

STILL_WORKS = "Devices, memory, processes, snapshots and replay work. N tries again."
LOG_STYLES = {"info": TextStyle.PLAIN, "warning": TextStyle.NOTE, "error": TextStyle.BAD}


def log_lines(store: Store, cells: int) -> list[Line]:
    """The lines of the log, oldest first."""
    if not store.log:
        return [line(Span("nothing was logged", TextStyle.QUIET))]
    return [row for entry in store.log for row in entry_lines(entry, cells)]


def entry_lines(entry: LogLine, cells: int) -> list[Line]:
    """One entry; a level other than info is named."""
    label = f"{entry.source} " + ("" if entry.level == "info" else f"{entry.level}: ")
    return paragraph(entry.text, cells, LOG_STYLES[entry.level], indent="  ", label=label)


def runner_notes(store: Store, cells: int) -> list[Line]:
    """Lines for the top of the workloads pane; none while all is well."""
    runner = store.runner
    rows: list[Line] = []
    if runner.status == "unusable":
        rows += paragraph(f"Nothing can be run: {runner.reason}", cells, TextStyle.BAD, "  ")
    elif runner.reason:
        rows += paragraph(runner.reason, cells, TextStyle.NOTE, "  ")
    if runner.advice:
        rows += paragraph(runner.advice, cells, TextStyle.PLAIN, "  ")
    if runner.status == "unusable":
        rows += paragraph(STILL_WORKS, cells, TextStyle.QUIET, "  ")
    if runner.report:
        rows += paragraph(f"Report: {runner.report}", cells, TextStyle.QUIET, "  ")
    for problem in store.hello.problems if store.hello else ():
        rows += paragraph(problem, cells, TextStyle.BAD, "  ")
    if not store.catalogue and not rows:
        rows += paragraph("starting the runner, which reads the workloads", cells, TextStyle.QUIET)
    return rows
