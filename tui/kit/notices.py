"""What is said beside the figures: what is wrong with the monitor and the runner, the log. Pure."""

from __future__ import annotations

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.monitor.messages import Sample
from tui.devices.state.history import stale_after
from tui.kit.lines import Line, Span, TextStyle, fit, line, paragraph, wrap
from tui.state.events import LogLine, MonitorStatus
from tui.state.store import Store

WAITING = "waiting for the monitor"
STILL_WORKS = "Devices, memory, processes, snapshots and replay work. N tries again."
LOG_STYLES = {"info": TextStyle.PLAIN, "warning": TextStyle.NOTE, "error": TextStyle.BAD}


def notice(sample: Sample | None, monitor: MonitorStatus, now: float) -> str:
    """One line on what is wrong with looking itself; empty where nothing is."""
    if monitor.status in ("ended", "unusable", "restarting"):
        state = "is restarting" if monitor.status == "restarting" else "has ended"
        return f"the monitor {state}" + (f": {monitor.reason}" if monitor.reason else "")
    if sample is None:
        return WAITING
    if now - sample.at > stale_after(sample):
        return f"the monitor has sent nothing for {text.old(now - sample.at)}"
    if sample.driver.error:
        return sample.driver.error
    if sample.nvml_silent_s is not None:
        return f"NVML has not answered for {text.old(sample.nvml_silent_s)}"
    if sample.problems:
        return f"monitor: {sample.problems[0]}"
    if not sample.devices:
        return "the driver lists no GPU"
    return ""


def notice_lines(
    sample: Sample | None, monitor: MonitorStatus, now: float, width: int, rows: int = 1
) -> list[Line]:
    """Return the notice, cut at the end of the last row; empty where there is none.

    Args:
        sample: the newest.
        monitor: how it is.
        now: Unix time.
        width: cells of a row.
        rows: that it may take, at least one.
    """
    message = notice(sample, monitor, now)
    if not message:
        return []
    if message == WAITING:
        return [(Span(fit(message, width), TextStyle.QUIET),)]
    words = f"{glyphs.GLYPHS.warning} {message}"
    found = wrap(words, width, indent="  ")
    if len(found) > rows:
        start = "  " if rows > 1 else ""
        rest = start + " ".join(row.strip() for row in found[rows - 1 :])
        found = [*found[: rows - 1], fit(rest, width)]
    return [(Span(row, TextStyle.BAD),) for row in found]


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


def log_lines(store: Store, cells: int) -> list[Line]:
    """Return the lines of the log, oldest first."""
    if not store.log:
        return [line(Span("nothing was logged", TextStyle.QUIET))]
    return [row for entry in store.log for row in entry_lines(entry, cells)]


def entry_lines(entry: LogLine, cells: int) -> list[Line]:
    """One entry; a level other than info is named."""
    label = f"{entry.source} " + ("" if entry.level == "info" else f"{entry.level}: ")
    return paragraph(entry.text, cells, LOG_STYLES[entry.level], indent="  ", label=label)
