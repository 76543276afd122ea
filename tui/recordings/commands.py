"""The commands of a replay."""

from __future__ import annotations

from functools import partial

from tui.kit.commands.command import EVERYWHERE, Command, Situation


def _is_playing(now: Situation) -> bool:
    return not now.replay_ended


_ENDED = "the recording has ended: P plays it again"

_command = partial(Command, group="Replay", tabs=EVERYWHERE, replays=True, target="app")
REPLAY_COMMANDS = (
    _command(
        "replay_pause",
        ("P",),
        "pause",
        "Pause or resume the replay; at its end, start again.",
        footer=-3,
        label_at_end="again",
    ),
    _command(
        "replay_faster",
        ("right_square_bracket",),
        "faster",
        "Play twice as fast.",
        now=_is_playing,
        otherwise=_ENDED,
        footer=-2,
    ),
    _command(
        "replay_slower",
        ("left_square_bracket",),
        "slower",
        "Play half as fast.",
        now=_is_playing,
        otherwise=_ENDED,
        footer=-1,
    ),
)
