"""The lines of the log. Pure."""

from __future__ import annotations

from collections.abc import Collection

from tui.core.events import LogLine
from tui.kit.lines import Line, Span, TextStyle, line, paragraph

LOG_STYLES = {"info": TextStyle.PLAIN, "warning": TextStyle.NOTE, "error": TextStyle.BAD}


def log_lines(entries: Collection[LogLine], cells: int) -> list[Line]:
    """Return the lines of the log, oldest first."""
    if not entries:
        return [line(Span("nothing was logged", TextStyle.QUIET))]
    return [row for entry in entries for row in entry_lines(entry, cells)]


def entry_lines(entry: LogLine, cells: int) -> list[Line]:
    """One entry; a level other than info is named."""
    label = f"{entry.source} " + ("" if entry.level == "info" else f"{entry.level}: ")
    return paragraph(entry.text, cells, LOG_STYLES[entry.level], indent="  ", label=label)
