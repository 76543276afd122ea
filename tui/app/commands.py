"""The registry of all commands: the source of footer, palette, help and docs/keys.md."""

from __future__ import annotations

from tui.devices.commands import DEVICES
from tui.kit.commands.command import DEMO, EVERYWHERE, TABS, Command
from tui.kit.commands.registry import CommandRegistry
from tui.kit.commands.shared import SHARED
from tui.recordings.commands import REPLAY_COMMANDS
from tui.results.commands import RESULTS_COMMANDS
from tui.runs.commands import BACKEND, DEMO_PAGES, PANES, RUNS
from tui.snapshots.commands import SNAPSHOT_COMMANDS
from tui.watch.commands import WATCH_COMMANDS

PROGRAM = (
    Command(
        "change_theme",
        ("T",),
        "theme",
        "Choose a color theme: the screen shows the one under the cursor, enter saves it.",
        group="Program",
        tabs=EVERYWHERE,
        target="app",
    ),
    Command(
        "save_screen",
        ("S",),
        "save screen",
        "Save the screen as an SVG picture and as an HTML page in the state folder.",
        group="Program",
        tabs=EVERYWHERE,
        now=lambda now: not now.typing,
        target="app",
    ),
    Command(
        "refresh_faster",
        ("plus",),
        "faster",
        "Sample the devices more often, and save the setting.",
        "Program",
        meaning="more detail",
        now=lambda now: not now.replay,
        target="app",
    ),
    Command(
        "refresh_slower",
        ("minus",),
        "slower",
        "Sample the devices less often, for a slow link, and save the setting.",
        "Program",
        meaning="less detail",
        now=lambda now: not now.replay,
        target="app",
    ),
    Command(
        "restart_runner",
        ("N",),
        "new runner",
        "End the runner and its runs, and start a new one, which reloads the --workloads files.",
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
        ("colon", "ctrl+p"),
        "commands",
        "Find a command by name.",
        group="Program",
        tabs=EVERYWHERE,
        footer=18,
        target="app",
    ),
    Command(
        "quit",
        ("q", "ctrl+q"),
        "quit",
        "End the workbench and its runner, after confirmation if runs are active; watched runs "
        "continue.",
        group="Program",
        meaning="leave",
        tabs=EVERYWHERE,
        footer=20,
        target="app",
    ),
)


TAB_COMMANDS = tuple(
    Command(
        f"tab_{tab.id}",
        (tab.key,),
        tab.title,
        tab.help,
        group="Screen",
        tabs=EVERYWHERE,
        target="app",
        opens=tab.id,
    )
    for tab in TABS
)


REGISTRY = CommandRegistry(
    (
        *RUNS,
        *DEMO_PAGES,
        *BACKEND,
        *DEVICES,
        *SNAPSHOT_COMMANDS,
        *WATCH_COMMANDS,
        *RESULTS_COMMANDS,
        *REPLAY_COMMANDS,
        *PANES,
        *SHARED,
        *TAB_COMMANDS,
        *PROGRAM,
    )
)
