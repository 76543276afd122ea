"""The commands of a replay."""

from __future__ import annotations

from tui.kit.commands.command import EVERYWHERE, Command

REPLAY_COMMANDS = (
    Command(
        "replay_pause",
        ("P",),
        "pause",
        "Pause or resume the replay; at its end, start again.",
        group="Replay",
        tabs=EVERYWHERE,
        replays=True,
        footer=-3,
        label_at_end="again",
        target="app",
    ),
    Command(
        "replay_faster",
        ("right_square_bracket",),
        "faster",
        "Play twice as fast.",
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
        "Play half as fast.",
        group="Replay",
        tabs=EVERYWHERE,
        replays=True,
        footer=-1,
        target="app",
    ),
)
