"""A registry of commands: the source of footer, palette, help and docs/keys.md.

A command names its action, and whether the screens of its tabs or the app have its method.
"""

from __future__ import annotations

from collections.abc import Sequence

from tui.kit.commands.command import Command, Situation

KEY_WORDS = {
    "equals_sign": "=",
    "slash": "/",
    "question_mark": "?",
    "colon": ":",
    "f1": "F1",
    "number_sign": "#",
    "delete": "delete",
    "enter": "enter",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "plus": "+",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def key_text(key: str) -> str:
    """Return a key's name as shown to users."""
    return KEY_WORDS.get(key, key)


def keys_text(command: Command) -> str:
    """Return all keys of a command as shown to users."""
    return ", ".join(key_text(key) for key in command.keys)


class CommandRegistry:
    """Commands in the order in which help and documentation list them.

    Args:
        commands: commands of all features, each id once.
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = tuple(commands)
        self.by_id = {command.id: command for command in self.commands}

    def in_footer(self, now: Situation) -> list[Command]:
        """Return the commands that the footer shows, in its order."""
        shown = [
            item.labelled(now)
            for item in self.commands
            if item.footer is not None and item.valid(now)
        ]
        return sorted((item for item in shown if item.label), key=lambda item: item.footer or 0)

    def key_table_markdown(self) -> str:
        """Return the table of keys for docs/keys.md, as Markdown."""
        rows = ["| Key | What it does |", "| --- | --- |"]
        for group in dict.fromkeys(command.group for command in self.commands):
            rows.append(f"| **{group}** | |")
            for command in self.commands:
                if command.group == group:
                    keys = ", ".join(f"`{key_text(key)}`" for key in command.keys) or "palette"
                    rows.append(f"| {keys} | {command.help} |")
        return "\n".join(rows) + "\n"
