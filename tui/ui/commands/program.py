"""The commands of the program itself, of the demo and of a replay."""

from __future__ import annotations

from tui.ui.commands.command import DEMO, EVERYWHERE, WORKBENCH, Command

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
