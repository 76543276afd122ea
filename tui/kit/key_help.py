"""Draw the footer of keys, and the help with all keys. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace

from tui.kit.commands.command import (
    EVERYWHERE,
    NAMES,
    PRESENT,
    Command,
    CommandRegistry,
    Situation,
    key_text,
    keys_text,
)
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    beside,
    cell_len,
    fit_line,
    left,
    line,
    paragraph,
    width,
    wrap,
)

FIRST_COMMANDS = ("open_row", "command_palette")
"""Commands that come first in a narrow footer."""
FIXED_COMMANDS = ("show_help", "quit", "present_leave")
"""Commands in every footer, however narrow: the help lists all others."""
TYPING: Line = (
    Span(" enter", TextStyle.KEY),
    Span(" keep the filter  "),
    Span("escape", TextStyle.KEY),
    Span(" clear it"),
)
KEY_CELLS = 14
TWO_COLUMNS_FROM, COLUMN_GAP = 150, 4
"""Cells from which the help of other screens has a column of its own, and between the columns."""
ANYWHERE = Situation()
ALL_SCREENS = "all screens"
GROUPED_FROM = 10
"""Number of a screen's own keys from which the help groups them."""
MOVES = (
    ("up, down", "Move in a list or scroll; also k and j, page up and down, home and end."),
    ("escape", "Leave a dialog, the filter or the zoom."),
    ("ctrl+c", "End the workbench as q does, with exit code 130; with text selected, copy it."),
)
"""Keys of widgets, which are no commands."""
MOVES_IN = {"backend": ("left, right", "Move among the switches.")}
"""Further keys of widgets, by the id of the pane that has them."""


# ---- the keys below ------------------------------------------------------------------------------


def chosen_commands(commands: Sequence[Command], cells: int) -> list[Command]:
    """Return the commands that fit, in order, always including help and quit."""
    chosen = [command for command in commands if command.id in FIXED_COMMANDS]
    room = cells - sum(_command_cells(command) for command in chosen)
    first = [command for command in commands if command.id in FIRST_COMMANDS]
    for command in (*first, *commands):
        if command not in chosen and _command_cells(command) <= room:
            chosen.append(command)
            room -= _command_cells(command)
    return [command for command in commands if command in chosen]


def _command_cells(command: Command) -> int:
    return len(_first_key(command)) + len(command.label) + 3


def _first_key(command: Command) -> str:
    return key_text(command.keys[0])


@functools.lru_cache(maxsize=16)
def footer(registry: CommandRegistry, now: Situation, cells: int) -> Line:
    """Return the footer for a situation; cached, because every redraw needs it."""
    if shows_caption(now):
        return caption_line(registry, now, cells)
    return TYPING if now.typing else footer_line(registry.in_footer(now), cells)


def shows_caption(now: Situation) -> bool:
    """Return whether a recording's caption takes the place of the keys.

    A text field and a page of the presentation need their keys.
    """
    return bool(now.caption) and not now.typing and now.tab not in PRESENT


CAPTION_KEYS = (
    ("replay_pause", "replay_faster", "replay_slower", "show_help", "quit"),
    ("replay_pause", "show_help", "quit"),
    ("replay_pause", "quit"),
)
"""Ids of the commands beside a caption: the first group that there is room for."""


def caption_line(registry: CommandRegistry, now: Situation, cells: int) -> Line:
    """Return the recording's caption across the screen, and at its right the keys.

    Where it is narrow, there are fewer keys, at last without labels; they have priority over the
    end of the caption.
    """
    caption = f" {now.caption} "
    valid = [
        [registry.by_id[name] for name in names if registry.by_id[name].now(now)]
        for names in CAPTION_KEYS
    ]
    full = [_key_spans([command.labelled(now) for command in commands]) for commands in valid]
    fitting = (keys for keys in full if cell_len(caption) + width(keys) < cells)
    keys = next(fitting, _key_spans(valid[-1], labels=False))
    # A blank after the last key keeps it off the screen's edge.
    words = Span(left(caption, cells - width(keys) - 1), TextStyle.CURSOR)
    return fit_line((words, *keys), cells)


def _key_spans(commands: Sequence[Command], *, labels: bool = True) -> Line:
    spans: list[Span] = []
    for command in commands:
        spans += [Span("  "), Span(_first_key(command), TextStyle.KEY)]
        spans += [Span(f" {command.label}")] if labels else []
    return tuple(spans)


def footer_line(commands: Sequence[Command], cells: int) -> Line:
    """Return the keys and labels of commands, as many as fit."""
    spans: list[Span] = []
    for command in chosen_commands(commands, cells):
        spans += [Span(" "), Span(_first_key(command), TextStyle.KEY), Span(f" {command.label} ")]
    return tuple(spans)


def command_at(x: int, commands: Sequence[Command], cells: int) -> Command | None:
    """Return the command at a column."""
    start = 0
    for command in chosen_commands(commands, cells):
        end = start + _command_cells(command)
        if start <= x < end:
            return command
        start = end
    return None


# ---- the help ------------------------------------------------------------------------------------


def help_lines(
    registry: CommandRegistry,
    title: str,
    about: str,
    cells: int,
    now: Situation = ANYWHERE,
    pattern: str = "",
) -> list[Line]:
    """Return the whole help: the pane's keys, what it shows, the screen's keys, the other keys.

    Args:
        registry: of all commands.
        title: title of the focused pane.
        about: meaning of its figures; empty if no pane has the focus.
        cells: width of a line.
        now: the situation on the screen; commands that change something are left out if read-only.
        pattern: words that a line must contain, in any order; empty for all lines.
    """
    words = pattern.lower().split()
    column = (cells - COLUMN_GAP) // 2 if cells >= TWO_COLUMNS_FROM else cells
    here, elsewhere = _help_sections(registry, title, about, column, now, words)
    if column < cells and here and elsewhere:
        return beside(here[:-1], elsewhere[:-1], column + COLUMN_GAP - 2)
    lines = [*here, *elsewhere][:-1]
    return lines or paragraph(f"no key matches: {pattern}", cells, TextStyle.QUIET)


def _help_sections(
    registry: CommandRegistry,
    title: str,
    about: str,
    cells: int,
    now: Situation,
    words: Sequence[str],
) -> tuple[list[Line], list[Line]]:
    """Return what matches, here and on other screens, each section with an empty line below.

    The arguments are those of :func:`help_lines`.
    """
    own: list[Line] = []
    elsewhere: list[Line] = []
    first: list[Line] = []
    for heading, commands in help_sections(registry, now, title).items():
        rows = [
            (keys_of(command), command.help_in(now.pane), command.label) for command in commands
        ]
        section = _section(heading, rows, words, cells)
        if not commands[0].offered(now):
            elsewhere += section
        elif heading == title:
            first += section
        else:
            own += section
    moves = (*MOVES, *(MOVES_IN[pane] for pane in MOVES_IN if pane == now.pane))
    rows = [(keys, help_text, "") for keys, help_text in moves]
    own += _section("lists and dialogs", rows, words, cells)
    if about and _matches(about, words):
        first += [
            line(Span(f"What {title} shows", TextStyle.HEADING)),
            *about_lines(about, cells),
            (),
        ]
    return first + own, elsewhere


def _section(
    heading: str, rows: Sequence[tuple[str, str, str]], words: Sequence[str], cells: int
) -> list[Line]:
    """Return a heading with the keys that match, and an empty line below."""
    shown = [
        (keys, about) for keys, about, label in rows if _matches(f"{keys} {label} {about}", words)
    ]
    if not shown:
        return []
    lines = [row for keys, about in shown for row in key_lines(keys, about, cells)]
    # A screen's groups follow each other: their names are enough.
    title = heading.partition(": ")[2] or f"Keys of {heading}"
    return [line(Span(title, TextStyle.HEADING)), *lines, ()]


def _matches(text: str, words: Sequence[str]) -> bool:
    low = text.lower()
    return all(word in low for word in words)


def help_sections(
    registry: CommandRegistry, now: Situation, pane: str = ""
) -> dict[str, list[Command]]:
    """Return the commands by heading: focused pane, its screen, all screens, others.

    Those of the pane are its own and the footer's, the screen's most important ones.

    Args:
        registry: of all commands.
        now: the situation on the screen.
        pane: title of the focused pane; empty if none has the focus.
    """
    known = [
        command for command in registry.commands if not (now.readonly and command.changes_state)
    ]
    sections: dict[str, list[Command]] = {}
    if pane:
        elsewhere = replace(now, pane=None)
        special = [
            command for command in known if command.valid(now) and not command.valid(elsewhere)
        ]
        main = [registry.by_id[command.id] for command in registry.in_footer(now)]
        special += [
            command
            for command in main
            if command in known and command not in special and not _is_everywhere(command)
        ]
        known = [command for command in known if command not in special]
        if special:
            sections[pane] = special
    own = [command for command in known if command.offered(now) and not _is_everywhere(command)]
    for command in own:
        grouped = len(own) > GROUPED_FROM and command.group != NAMES[now.tab]
        heading = f"{NAMES[now.tab]}: {command.group}" if grouped else NAMES[now.tab]
        sections.setdefault(heading, []).append(command)
    for command in known:
        if command.offered(now) and _is_everywhere(command):
            sections.setdefault(ALL_SCREENS, []).append(command)
    for command in known:
        if not command.offered(now):
            screen = "all others" if _is_everywhere(command) else NAMES[command.tabs[0]]
            heading = "a replay" if command.replays else screen
            sections.setdefault(heading, []).append(command)
    return sections


def _is_everywhere(command: Command) -> bool:
    return set(EVERYWHERE) <= set(command.tabs)


_SENTENCE_END = re.compile(r"(?<=[.]) (?=['A-Za-z])")
_MEANING = re.compile(r"((?=['a-z]).{1,24}?): (.+)", re.DOTALL)
"""The name of a figure or a mark, as it stands on the screen, and its meaning."""


def about_lines(about: str, cells: int) -> list[Line]:
    """Return what a pane shows: names of figures with their meanings in columns, the rest as text.

    Args:
        about: sentences, of which ``name: meaning.`` explains what has this name on the screen.
        cells: width of a line.
    """
    rows: list[Line] = []
    plain: list[str] = []
    parts = [(_MEANING.fullmatch(each), each) for each in _SENTENCE_END.split(about)]
    names = [len(found[1]) for found, _ in parts if found]
    column = max([KEY_CELLS, *names])
    for found, sentence in [*parts, (None, "")]:
        if found is None and sentence:
            plain.append(sentence)
            continue
        rows += paragraph(" ".join(plain), cells) if plain else []
        plain = []
        if found is not None:
            rows += key_lines(found[1], found[2], cells, column, TextStyle.STRONG)
    return rows


def keys_of(command: Command) -> str:
    """Return a command's keys, or, if it has none, where to find it."""
    return keys_text(command) or "palette"


def key_lines(
    keys: str,
    help_text: str,
    cells: int,
    column: int = KEY_CELLS,
    style: TextStyle = TextStyle.KEY,
) -> list[Line]:
    """Return the keys in a column, with the help beside it."""
    sentence = wrap(help_text, max(10, cells - column - 1))
    first = line(Span(left(keys, column), style), f" {sentence[0]}")
    return [first, *(line(" " * (column + 1) + row) for row in sentence[1:])]
