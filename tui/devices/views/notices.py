"""What is said where the devices cannot be read. Pure."""

from __future__ import annotations

from tui.core.events import MonitorStatus
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.monitor.messages import Sample
from tui.devices.state.history import stale_after
from tui.kit.lines import Line, Span, TextStyle, fit, wrap

WAITING = "waiting for the monitor"


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
