"""The footer line: the commands that are valid now, as many as fit. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tui.ui.commands.command import Command, Situation
from tui.ui.commands.registry import in_footer, key_text
from tui.ui.views.lines import Line, Span, Tone

KEPT = ("show_help", "quit", "demo_leave")
"""Shown however narrow the screen: the help lists all the others."""


def chosen(commands: Sequence[Command], cells: int) -> list[Command]:
    """Help and the way out, and of the others from the first on those for which there is room."""
    kept = [command for command in commands if command.id in KEPT]
    room = cells - sum(_cells(command) for command in kept)
    for command in commands:
        if command not in kept and _cells(command) <= room:
            kept.append(command)
            room -= _cells(command)
    return [command for command in commands if command in kept]


def _cells(command: Command) -> int:
    return len(_key(command)) + len(command.label) + 3


def _key(command: Command) -> str:
    return key_text(command.keys[0])


TYPING: Line = (
    Span(" enter", Tone.KEY),
    Span(" keeps the filter  "),
    Span("escape", Tone.KEY),
    Span(" drops it"),
)


@functools.lru_cache(maxsize=16)
def footer(now: Situation, cells: int) -> Line:
    """The line for a situation: few follow each other, and it is asked for at every drawing."""
    return TYPING if now.typing else footer_line(in_footer(now), cells)


def footer_line(commands: Sequence[Command], cells: int) -> Line:
    """Keys and labels."""
    spans: list[Span] = []
    for command in chosen(commands, cells):
        spans += [Span(" "), Span(_key(command), Tone.KEY), Span(f" {command.label} ")]
    return tuple(spans)


def command_at(x: int, commands: Sequence[Command], cells: int) -> Command | None:
    """The command under a column."""
    start = 0
    for command in chosen(commands, cells):
        end = start + _cells(command)
        if start <= x < end:
            return command
        start = end
    return None
