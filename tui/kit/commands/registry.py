"""The one registry of commands, those of the program, the demo and a replay first.

Keys, footer, palette, help and docs/keys.md come from here. A command names the action and what has
its method: the screens of its tabs, or the app.
"""

from __future__ import annotations

from importlib import import_module

from tui.kit.commands import tab_commands
from tui.kit.commands import workbench_commands as workbench
from tui.kit.commands.command import DEMO, EVERYWHERE, WORKBENCH, Command, Situation

PROGRAM = (
    Command(
        "change_theme",
        ("T",),
        "theme",
        "Choose how it looks; the choice is remembered.",
        group="Program",
        tabs=EVERYWHERE,
        target="app",
    ),
    Command(
        "refresh_faster",
        ("plus",),
        "faster",
        "Sample the devices more often; the choice is remembered.",
        "Program",
        now=lambda now: not now.replay,
        target="app",
    ),
    Command(
        "refresh_slower",
        ("minus",),
        "slower",
        "Sample the devices less often, which costs less of a slow link; the choice is remembered.",
        "Program",
        now=lambda now: not now.replay,
        target="app",
    ),
    Command(
        "restart_runner",
        ("N",),
        "new runner",
        "End the runner, whatever it does, and start a new one, which reads --workloads again.",
        group="Program",
        tabs=EVERYWHERE,
        asks=True,
        target="app",
    ),
    Command(
        "show_help",
        ("question_mark", "f1"),
        "help",
        "List all keys and explain the focused pane.",
        group="Program",
        tabs=(*EVERYWHERE, *DEMO),
        footer=19,
        target="app",
    ),
    Command(
        "command_palette",
        ("colon",),
        "palette",
        "Find a command by name.",
        group="Program",
        tabs=EVERYWHERE,
        target="app",
    ),
    Command(
        "quit",
        ("q", "ctrl+q"),
        "quit",
        "End the workbench and its runner; where runs go on, after asking; a run under the watch "
        "goes on by itself.",
        group="Program",
        tabs=EVERYWHERE,
        footer=20,
        target="app",
    ),
)


DEMO_PAGES = (
    Command(
        "demo",
        ("D",),
        "demo",
        "Step through the selected workload's group, a page and a quick run for each.",
        group="Demo",
        tabs=WORKBENCH,
        now=lambda now: now.has_workloads,
        footer=17,
    ),
    Command(
        "demo_next",
        ("n", "right"),
        "next",
        "Turn to the next page.",
        group="Demo",
        tabs=DEMO,
        footer=3,
    ),
    Command(
        "demo_previous",
        ("p", "left"),
        "previous",
        "Turn back to the page before.",
        group="Demo",
        tabs=DEMO,
        footer=4,
    ),
    Command(
        "demo_leave",
        ("q", "escape"),
        "end",
        "Leave the demo.",
        group="Demo",
        tabs=DEMO,
        footer=20,
    ),
)


REPLAY = (
    Command(
        "replay_pause",
        ("P",),
        "pause",
        "In a replay, pause or continue; at the end, start again.",
        group="Replay",
        tabs=EVERYWHERE,
        replays=True,
        footer=-3,
        target="app",
    ),
    Command(
        "replay_faster",
        ("right_square_bracket",),
        "faster",
        "In a replay, go on twice as fast.",
        group="Replay",
        tabs=EVERYWHERE,
        replays=True,
        footer=-2,
        target="app",
    ),
    Command(
        "replay_slower",
        ("left_square_bracket",),
        "slower",
        "In a replay, go on half as fast.",
        group="Replay",
        tabs=EVERYWHERE,
        replays=True,
        footer=-1,
        target="app",
    ),
)


def _collected(module: str) -> tuple[Command, ...]:
    """Return the commands that a feature declares beside their actions.

    By its name: the blocks of screens stand below all features, which import them.
    """
    found: tuple[Command, ...] = import_module(module).COMMANDS
    return found


COMMANDS: tuple[Command, ...] = (
    *workbench.RUNS,
    *DEMO_PAGES,
    *workbench.BACKEND,
    *workbench.DEVICES,
    *_collected("tui.snapshots.commands"),
    *tab_commands.WATCH_COMMANDS,
    *tab_commands.RESULTS_COMMANDS,
    *REPLAY,
    *workbench.SCREEN,
    *PROGRAM,
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
    """Return the commands that the footer shows, in its order."""
    shown = [item for item in COMMANDS if item.footer is not None and item.valid(now)]
    return sorted(shown, key=lambda item: item.footer or 0)


def key_table_markdown() -> str:
    """Return the table of keys that docs/keys.md holds, as Markdown."""
    rows = ["| Key | What it does |", "| --- | --- |"]
    for group in dict.fromkeys(command.group for command in COMMANDS):
        rows.append(f"| **{group}** | |")
        for command in COMMANDS:
            if command.group == group:
                keys = ", ".join(f"`{key_text(key)}`" for key in command.keys) or "palette"
                rows.append(f"| {keys} | {command.help} |")
    return "\n".join(rows) + "\n"
