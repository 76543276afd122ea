"""Play a recording: these are offered nowhere else."""

from __future__ import annotations

from tui.ui.commands.command import EVERYWHERE, Command

COMMANDS = (
    Command(
        "replay_pause",
        ("P",),
        "pause",
        "In a replay, pause or go on; at the end, begin anew.",
        "Replay",
        EVERYWHERE,
        replays=True,
        footer=-3,
        target="app",
    ),
    Command(
        "replay_faster",
        ("right_square_bracket",),
        "faster",
        "In a replay, go on twice as fast.",
        "Replay",
        EVERYWHERE,
        replays=True,
        footer=-2,
        target="app",
    ),
    Command(
        "replay_slower",
        ("left_square_bracket",),
        "slower",
        "In a replay, go on half as fast.",
        "Replay",
        EVERYWHERE,
        replays=True,
        footer=-1,
        target="app",
    ),
)
