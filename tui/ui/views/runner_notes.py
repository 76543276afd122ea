"""What keeps the runner from running things, in words that say what to do. Pure."""

from __future__ import annotations

from tui.state.store import Store
from tui.ui.views.lines import Line, Tone, paragraph


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
