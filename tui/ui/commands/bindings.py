"""The registry's keys as bindings of Textual."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from tui.ui.commands.command import Command
from tui.ui.commands.registry import COMMANDS


def of_screen(tab: str) -> list[BindingType]:
    """The keys of the commands whose methods the screen of a tab has."""
    return _bindings(each for each in COMMANDS if each.target == "screen" and tab in each.tabs)


def of_app() -> list[BindingType]:
    """The keys of the commands whose methods the app has."""
    return _bindings(each for each in COMMANDS if each.target == "app")


def _bindings(commands: Iterable[Command]) -> list[BindingType]:
    return [
        Binding(
            ",".join(command.keys),
            command.action,
            command.label,
            id=command.id,
            priority=command.opens_field,
        )
        for command in commands
        if command.keys
    ]
