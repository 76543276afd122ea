"""Notes on the runner above the workloads, and the lines of the log. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tui.core.events import LogEntry
from tui.core.text import numbers as text
from tui.kit.commands.command import TABS
from tui.kit.lines import Line, Span, TextStyle, cell_len, flow, line, paragraph
from tui.runs.state.state import RunsState

_TAB_KEYS = {tab.id: tab.key for tab in TABS}
FIRST_START = (
    ("r", " runs a workload"),
    (_TAB_KEYS["snapshot"], " offers an example OOM"),
    (_TAB_KEYS["watch"], " watches a script"),
    ("?", " lists keys"),
)
"""Keys for a first start, in one line of 80 cells; narrower screens leave out the last."""
DEMO = (_TAB_KEYS["results"], " offers a GPU demo")
"""In place of the key for scripts without a GPU: the tab is empty at a first start, and empty tabs
offer the demo."""
STILL_WORKS = "Devices, memory, processes, snapshots and replay work. N tries again."
TRIES_AGAIN = "The next run there tries again. What works there: gpu-workbench doctor --host {host}"
NOT_STARTED = "r runs a workload on {host}: the first one starts torch there"
NOT_STARTED_READONLY = "--readonly: nothing is run on {host}"
NOT_STARTED_IN_RECORDING = "nothing has been run on {host} so far"
LOG_STYLES = {"info": TextStyle.PLAIN, "warning": TextStyle.NOTE, "error": TextStyle.BAD}


def choose_not_started(*, replay: bool, readonly: bool) -> str:
    """Return the note about a ``{host}`` without runs."""
    if replay:
        return NOT_STARTED_IN_RECORDING
    return NOT_STARTED_READONLY if readonly else NOT_STARTED


def runner_notes(
    state: RunsState,
    cells: int,
    *,
    first_start: bool = False,
    offers_demo: bool = False,
    not_started: str = NOT_STARTED,
) -> list[Line]:
    """Return the lines for the top of the workloads pane; none if there is nothing to say.

    Args:
        state: the runner and its runs.
        cells: width of a line.
        first_start: nothing was ever measured here: say which keys to press first.
        offers_demo: empty tabs offer to play the demo.
        not_started: note about a ``{host}`` without runs.
    """
    runner = state.runner
    rows: list[Line] = []
    if runner.status == "not started":
        words = not_started.format(host=state.machine.host)
        return paragraph(words, cells, TextStyle.QUIET, "  ")
    if runner.status == "unusable":
        rows += paragraph(f"Nothing can be run: {runner.reason}", cells, TextStyle.BAD, "  ")
    elif runner.reason:
        rows += paragraph(runner.reason, cells, TextStyle.NOTE, "  ")
    # A command that is copied must not be wrapped.
    whole = cell_len(runner.advice) <= cells
    for words in [runner.advice] if whole else runner.advice.split("; "):
        rows += paragraph(words, cells, TextStyle.PLAIN, "  ") if words else []
    hosts = state.machine.hosts
    retries = hosts.here or not hosts  # with --no-here there is nothing to try again
    if runner.status == "unusable" and retries:
        host = state.machine.host
        still = TRIES_AGAIN.format(host=host) if host else STILL_WORKS
        rows += paragraph(still, cells, TextStyle.QUIET, "  ")
    if runner.report:
        rows += paragraph(f"Report: {runner.report}", cells, TextStyle.QUIET, "  ")
    for problem in state.hello.problems if state.hello else ():
        rows += paragraph(problem, cells, TextStyle.BAD, "  ")
    if first_start and not rows and state.catalogue and not state.book:
        without_gpu = state.machine.sample is not None and state.machine.gpu_column is None
        keys = [
            DEMO if without_gpu and offers_demo and key == _TAB_KEYS["watch"] else (key, words)
            for key, words in FIRST_START
        ]
        parts = [line(Span(key, TextStyle.KEY), words) for key, words in keys]
        rows += flow(parts, cells, gap=", ")[:1]
    if not state.catalogue and not rows:
        rows += paragraph("starting the runner, which loads the workloads", cells, TextStyle.QUIET)
    return rows


def log_lines(entries: Collection[LogEntry], cells: int) -> list[Line]:
    """Format the log, oldest line first, each with its time and its level unless that is info."""
    if not entries:
        return [line(Span("nothing was logged", TextStyle.QUIET))]
    rows: list[Line] = []
    for entry in entries:
        said = entry.line
        level = "" if said.level == "info" else f"{said.level}: "
        label = f"{text.clock(entry.at)} {said.source} {level}"
        rows += paragraph(said.text, cells, LOG_STYLES[said.level], indent="  ", label=label)
    return rows
