"""The registry of all commands: the source of footer, palette, help and docs/keys.md."""

from __future__ import annotations

from tui.devices.commands import DEVICES
from tui.kit.commands.command import EVERYWHERE, PRESENT, TABS, Command, CommandRegistry
from tui.kit.commands.shared import SHARED
from tui.recordings.commands import REPLAY_COMMANDS
from tui.results.commands import RESULTS_COMMANDS
from tui.runs.commands import BACKEND, PANES, PRESENT_PAGES, RUNS
from tui.snapshots.commands import SNAPSHOT_COMMANDS
from tui.watch.commands import WATCH_COMMANDS

_NO_SAMPLES = "a recording has its own samples"
PROGRAM = (
    Command(
        "change_theme",
        ("T",),
        "theme",
        "Choose a theme.",
        group="Program",
        tabs=EVERYWHERE,
        target="app",
    ),
    Command(
        "save_screen",
        ("S",),
        "save screen",
        "Save the screen as SVG and HTML in the state folder.",
        group="Program",
        tabs=EVERYWHERE,
        now=lambda now: not now.typing,
        target="app",
    ),
    Command(
        "refresh_faster",
        ("plus",),
        "faster",
        "Sample the devices more often.",
        "Program",
        meaning="more detail",
        now=lambda now: not now.replay,
        otherwise=_NO_SAMPLES,
        target="app",
    ),
    Command(
        "refresh_slower",
        ("minus",),
        "slower",
        "Sample the devices less often, for a slow link.",
        "Program",
        meaning="less detail",
        now=lambda now: not now.replay,
        otherwise=_NO_SAMPLES,
        target="app",
    ),
    Command(
        "restart_runner",
        ("N",),
        "new runner",
        "Start a new runner; it reads --workloads files again.",
        group="Program",
        tabs=EVERYWHERE,
        changes_state=True,
        target="app",
    ),
    Command(
        "show_help",
        ("question_mark", "f1"),
        "help",
        "List all keys and explain the focused pane.",
        group="Program",
        tabs=(*EVERYWHERE, *PRESENT),
        footer=19,
        target="app",
    ),
    Command(
        "command_palette",
        ("colon",),
        "commands",
        "Find a command by name.",
        group="Program",
        tabs=EVERYWHERE,
        opens_field=True,
        footer=18,
        target="app",
    ),
    Command(
        "find_command",
        ("ctrl+p",),
        "commands",
        "Find a command by name, also while you type into a field.",
        group="Program",
        tabs=EVERYWHERE,
        opens_field=True,
        target="app",
    ),
    Command(
        "quit",
        ("q", "ctrl+q"),
        "quit",
        "End the workbench; watched runs continue.",
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
        *PRESENT_PAGES,
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
