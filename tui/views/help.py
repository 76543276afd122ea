"""The help as lines: what the focused pane shows, then all keys. Pure."""

from __future__ import annotations

from tui.commands.command import Command
from tui.commands.registry import COMMANDS, keys_text
from tui.views.lines import Line, Span, Tone, left, line, paragraph, wrap

KEY_CELLS = 12
MOVES = (
    ("up, down", "Move in a list or scroll; also k and j, page up and down, home and end."),
    ("left, right", "Move among the backend's switches."),
    ("enter", "Edit the parameters of a workload, fold a group, switch a flag."),
    ("escape", "Leave a dialog, the filter or the zoom."),
    ("ctrl+c", "End the workbench with exit code 130; with text selected, copy it."),
)
"""Keys that belong to a kind of widget and not to a command."""


def help_lines(title: str, about: str, cells: int, *, readonly: bool = False) -> list[Line]:
    """All of the help.

    Args:
        title: of the focused pane.
        about: what its figures mean; empty where no pane has the focus.
        cells: width of a line.
        readonly: leave out what is not offered then.
    """
    rows: list[Line] = []
    if about:
        rows += [line(Span(title, Tone.STRONG)), *paragraph(about, cells), ()]
    for group in dict.fromkeys(command.group for command in COMMANDS):
        rows.append(line(Span(group, Tone.STRONG)))
        for command in COMMANDS:
            if command.group == group and not (readonly and command.asks):
                rows += key_lines(keys_of(command), command.help, cells)
        rows.append(())
    rows.append(line(Span("Keys of lists and dialogs", Tone.STRONG)))
    for keys, help_text in MOVES:
        rows += key_lines(keys, help_text, cells)
    return rows


def keys_of(command: Command) -> str:
    """Its keys, or where it is found without one."""
    return keys_text(command) or "palette"


def key_lines(keys: str, help_text: str, cells: int) -> list[Line]:
    """Keys in a column, the sentence beside it."""
    sentence = wrap(help_text, max(10, cells - KEY_CELLS - 1))
    first = line(Span(left(keys, KEY_CELLS), Tone.KEY), f" {sentence[0]}")
    return [first, *(line(" " * (KEY_CELLS + 1) + row) for row in sentence[1:])]
