"""The program itself."""

from __future__ import annotations

from tui.ui.commands.command import DEMO, EVERYWHERE, Command

COMMANDS = (
    Command(
        "change_theme",
        ("T",),
        "theme",
        "Choose how it looks; the choice is remembered.",
        "Program",
        EVERYWHERE,
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
        "End the runner, whatever it does, and start a new one, which reads --workloads anew.",
        "Program",
        EVERYWHERE,
        asks=True,
        target="app",
    ),
    Command(
        "show_help",
        ("question_mark", "f1"),
        "help",
        "Explain the focused pane and list all keys.",
        "Program",
        (*EVERYWHERE, *DEMO),
        footer=18,
        target="app",
    ),
    Command(
        "command_palette",
        ("colon",),
        "palette",
        "Find a command by name.",
        "Program",
        EVERYWHERE,
        target="app",
    ),
    Command(
        "quit",
        ("q", "ctrl+q"),
        "quit",
        "End the workbench and its runner.",
        "Program",
        EVERYWHERE,
        footer=19,
        target="app",
    ),
)
