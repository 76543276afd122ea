"""What is said of the runner above the workloads. Pure."""

from __future__ import annotations

from tui.kit.lines import Line, TextStyle, paragraph
from tui.runs.state.state import RunsState

STILL_WORKS = "Devices, memory, processes, snapshots and replay work. N tries again."


def runner_notes(state: RunsState, cells: int) -> list[Line]:
    """Lines for the top of the workloads pane; none while all is well."""
    runner = state.runner
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
    for problem in state.hello.problems if state.hello else ():
        rows += paragraph(problem, cells, TextStyle.BAD, "  ")
    if not state.catalogue and not rows:
        rows += paragraph("starting the runner, which reads the workloads", cells, TextStyle.QUIET)
    return rows
