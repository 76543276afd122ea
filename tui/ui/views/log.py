"""The log as lines: source, level in a word, text. Pure."""

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
