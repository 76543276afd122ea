"""Answer the keys that would do nothing: why, and where they have an effect. Pure."""

from __future__ import annotations

from tui.kit.commands.command import PRESENT, TABS, Command, CommandRegistry, Situation, key_text

NOTHING_RUNS = "this is a recording: nothing runs or changes"
READ_ONLY = "read only: nothing runs or changes"
MOVES = ("enter", "escape", "left", "right", "up", "down", "tab", "shift+tab")
"""Keys without an answer: at the end of a list, a user does not expect one."""


def explain_silent_key(registry: CommandRegistry, now: Situation, key: str) -> str:
    """Return why a key does nothing, and what to do; empty if it does something or is unknown.

    Args:
        registry: of all commands.
        now: the situation on the screen.
        key: Textual's name of the key.
    """
    if now.typing or key in MOVES:
        return ""
    known = [command for command in registry.commands if key in command.keys]
    if any(command.valid(now) for command in known):
        return ""
    for command in known:
        if now.tab in command.tabs and (now.replay or not command.replays):
            return f"{key_text(key)} {command.labelled(now).label}: {_explain(command, now)}"
    elsewhere = [command for command in known if command.tabs != PRESENT and not command.replays]
    if not elsewhere:
        return ""
    if now.tab in PRESENT:
        return f"{key_text(key)} does nothing on this page: q ends it"
    places = {tab for command in elsewhere for tab in command.tabs}
    tabs = [tab for tab in TABS if tab.id in places]
    labels = {command.label for command in elsewhere}
    label = labels.pop() if len(labels) == 1 else elsewhere[0].meaning or elsewhere[0].label
    keys = " and ".join(filter(None, (", ".join(tab.key for tab in tabs[:-1]), tabs[-1].key)))
    place = f"tab {keys}, {tabs[0].title}" if len(tabs) == 1 else f"tabs {keys}"
    return f"{key_text(key)} {label}: a key of {place}"


def _explain(command: Command, now: Situation) -> str:
    """Return why a command of this screen is not valid now."""
    if command.changes_state and now.readonly:
        return NOTHING_RUNS if now.replay else READ_ONLY
    return command.otherwise
