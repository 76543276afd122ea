"""``gpu-workbench replay`` and ``demo``: play a recording on the screens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tui.kit.command_line.options import Subcommand, add_screen
from tui.kit.command_line.output import Failure, UsageError
from tui.recordings import DEMO, DEMO_SNAPSHOT, FOLDER
from tui.recordings.lines import RecordingError, RecordingSummary, scan_recording

if TYPE_CHECKING:
    from tui.core.settings import Value
    from tui.kit.command_line.options import Parser


class Play(Protocol):
    """Plays a recording on the screens, and returns the exit code."""

    def __call__(
        self,
        summary: RecordingSummary,
        overrides: Mapping[str, Value],
        *,
        speed: float,
        loop: bool,
        snapshot: Path | None,
    ) -> int:
        """Play a recording.

        Args:
            summary: the recording.
            overrides: settings of the workbench.
            speed: multiple of real time; infinity never waits.
            loop: start again at the end.
            snapshot: the file that the snapshot tab had open.

        Raises:
            UsageError: there is no terminal that can position text, or a setting is unknown.
        """


def without_screen(*_arguments: object, **_options: object) -> int:
    """Refuse to play a recording.

    Raises:
        UsageError: always.
    """
    raise UsageError("there is no screen to play a recording on")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The recording to play, and its speed."""

    overrides: Mapping[str, Value] = field(default_factory=dict)
    names: Sequence[str] = ()
    """The name of the one file; the demo has none."""
    speed: float = 1.0
    """Multiple of real time; infinity never waits."""
    loop: bool = False
    play: Play = without_screen
    """Plays the recording on the screens."""


def add_options(parser: Parser) -> None:
    """Add the options for the recording, its speed, and the appearance of the screen."""
    parser.add_argument("names", nargs=1, metavar="FILE", help="a recording")
    add_playback(parser)


def add_playback(parser: Parser) -> None:
    """Add the options for the speed, and the appearance of the screen."""
    add_screen(parser)
    parser.add_argument(
        "--speed", type=parse_speed, metavar="X", help="playback speed, such as 2, or max"
    )
    parser.add_argument("--loop", action="store_true", help="start again at the end")


def parse_speed(text: str) -> float:
    """Parse a speed: ``2``, ``0.5`` or ``max``, which is infinite.

    Raises:
        UsageError: the text is none of them.
    """
    try:
        value = math.inf if text == "max" else float(text)
    except ValueError:
        value = math.nan
    if not value > 0 or (math.isinf(value) and text != "max"):
        raise UsageError(f"--speed {text}: give a number above 0, such as 2 or 0.5, or max")
    return value


def replay(options: ReplayOptions) -> int:
    """Play a recording on the terminal; return the exit code.

    Raises:
        UsageError: there is no terminal that can position text.
        Failure: the file is no recording.
    """
    return _play(Path(options.names[0]), options)


def play_demo(options: ReplayOptions) -> int:
    """Play the recording that comes with the program; return the exit code.

    Raises:
        UsageError: there is no terminal that can position text.
    """
    return _play(FOLDER / DEMO, options, FOLDER / DEMO_SNAPSHOT)


def _play(path: Path, options: ReplayOptions, snapshot: Path | None = None) -> int:
    try:
        summary = scan_recording(path)
    except RecordingError as error:
        raise Failure(str(error)) from error
    return options.play(
        summary, options.overrides, speed=options.speed, loop=options.loop, snapshot=snapshot
    )


SUBCOMMAND = Subcommand(ReplayOptions, add_options, replay)
DEMO_SUBCOMMAND = Subcommand(ReplayOptions, add_playback, play_demo)
