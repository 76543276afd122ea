"""The one registry of commands: keys, footer, palette, help and docs/keys.md come from here.

A command names the action and what has its method: the screens of its tabs, or the app.
"""

from __future__ import annotations

from tui.ui.commands import program, results, snapshot, watch, workbench
from tui.ui.commands.command import Command, Situation

COMMANDS: tuple[Command, ...] = (
    *workbench.RUNS,
    *program.DEMO_PAGES,
    *workbench.BACKEND,
    *workbench.DEVICES,
    *snapshot.COMMANDS,
    *watch.COMMANDS,
    *results.COMMANDS,
    *program.REPLAY,
    *workbench.SCREEN,
    *program.PROGRAM,
)

BY_ID = {command.id: command for command in COMMANDS}

KEY_WORDS = {
    "equals_sign": "=",
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "f1": "F1",
    "plus": "+",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def key_text(key: str) -> str:
    """How a key is written for people."""
    return KEY_WORDS.get(key, key)


def keys_text(command: Command) -> str:
    """All keys of a command."""
    return ", ".join(key_text(key) for key in command.keys)


def in_footer(now: Situation) -> list[Command]:
    """The commands that the footer shows, in its order."""
    shown = [item for item in COMMANDS if item.footer is not None and item.valid(now)]
    return sorted(shown, key=lambda item: item.footer or 0)


def key_table_markdown() -> str:
    """The table of keys that docs/keys.md holds, as Markdown."""
    rows = ["| Key | What it does |", "| --- | --- |"]
    for group in dict.fromkeys(command.group for command in COMMANDS):
        rows.append(f"| **{group}** | |")
        for command in COMMANDS:
            if command.group == group:
                keys = ", ".join(f"`{key_text(key)}`" for key in command.keys) or "palette"
                rows.append(f"| {keys} | {command.help} |")
    return "\n".join(rows) + "\n"
