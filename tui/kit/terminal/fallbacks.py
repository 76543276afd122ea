"""What stands in for what a terminal may lack: the colours of a theme, a clipboard.

Rich rounds each part of a colour by itself where a terminal says no more than 256 (no COLORTERM,
as over most SSH links): the dark backgrounds of most themes become black, others teal. Here it is
of 256 the nearest, of 16 the terminal's own. What is copied is kept in a file too: no terminal says
whether it took it (OSC 52).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import ANSIToTruecolor, LineFilter

from tui.core import reports

if TYPE_CHECKING:
    from textual.app import App

Triplet = tuple[int, int, int]
STEPS = (0, 95, 135, 175, 215, 255)
"""Of each part of a colour in xterm's cube, whose numbers begin at 16."""
GREYS = tuple(range(8, 248, 10))
"""Xterm's greys, whose numbers begin at 232."""
TABLE: tuple[Triplet, ...] = (
    *((red, green, blue) for red in STEPS for green in STEPS for blue in STEPS),
    *((grey, grey, grey) for grey in GREYS),
)
"""From number 16 on: those before it are the terminal's own and may be anything."""
DEFAULT = Color.parse("default")
"""The terminal's own."""
COPIED = "copied.txt"
"""The file in the state folder."""


# ---- colours -------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def nearest(colour: Triplet) -> int:
    """Return the number of the nearest colour.

    By the distance that is cheap and near to what the eye sees: "redmean", T. Riemersma,
    https://www.compuphase.com/cmetric.htm.

    Args:
        colour: red, green and blue, 0 to 255.
    """
    red, green, blue = colour

    def distance(place: int) -> float:
        other = TABLE[place]
        mean = (red + other[0]) / 2
        parts = (red - other[0], green - other[1], blue - other[2])
        weights = (2 + mean / 256, 4, 2 + (255 - mean) / 256)
        return sum(weight * part * part for weight, part in zip(weights, parts, strict=True))

    return 16 + min(range(len(TABLE)), key=distance)


@lru_cache(maxsize=4096)
def in_256(style: Style) -> Style:
    """Return the style with colours that the terminal has."""
    changed = Style(color=_in_256(style.color), bgcolor=_in_256(style.bgcolor))
    return style + changed


def _in_256(colour: Color | None) -> Color | None:
    if colour is None or colour.triplet is None:
        return colour
    red, green, blue = colour.triplet
    return Color.from_ansi(nearest((red, green, blue)))


class Nearest256(LineFilter):
    """Has everything drawn in the nearest of 256 colours."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """Replace colours, as Textual calls it for each drawn line."""
        return [
            Segment(text, in_256(style) if style is not None else None, control)
            for text, style, control in segments
        ]


class OwnSixteen(LineFilter):
    """Leaves a theme's colours out, on a terminal that has sixteen: they are its user's.

    What is drawn the other way round, as an option under a cursor, is reversed.

    Args:
        dark: the theme is light on dark.
    """

    def __init__(self, *, dark: bool) -> None:
        super().__init__()
        self._dark = dark

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """Replace colours, as Textual calls it for each drawn line."""
        # The characters of a border have the colours of two surfaces, and mean neither.
        return [
            Segment(
                text,
                without_theme(style, self._dark, text.isascii()) if style is not None else None,
                control,
            )
            for text, style, control in segments
        ]


@lru_cache(maxsize=4096)
def without_theme(style: Style, dark: bool, turns: bool) -> Style:
    """Return the style with the terminal's own colours alone.

    Args:
        style: as the theme has it.
        dark: the theme is light on dark.
        turns: it is reversed where the theme draws it the other way round.
    """
    front = style.color.triplet if style.color else None
    back = style.bgcolor.triplet if style.bgcolor else None
    # How faint the terminal's faint is nobody knows.
    changed = Style(
        color=DEFAULT if front is not None else None,
        bgcolor=DEFAULT if back is not None else None,
        dim=False,
    )
    turned = front is not None and back is not None and (sum(front) > sum(back)) != dark
    return style + changed + Style(reverse=True) if turned and turns else style + changed


def filters(system: str | None, given: Sequence[LineFilter], *, dark: bool) -> list[LineFilter]:
    """Return the filters for a theme with colours of its own.

    Args:
        system: of colours, as Rich names what the terminal has.
        given: the framework's filters.
        dark: the theme is light on dark.
    """
    if system == "256":
        return [*given, Nearest256()]
    if system == "standard":
        # The first of the framework's makes the sixteen colours those of a palette.
        kept = [each for each in given if not isinstance(each, ANSIToTruecolor)]
        return [*kept, OwnSixteen(dark=dark)]
    return list(given)


# ---- a clipboard ---------------------------------------------------------------------------------


def store_copy(text: str) -> Path:
    """Write what was copied, in place of what was copied before.

    Args:
        text: that was sent to the terminal.

    Returns:
        The file, in the state folder; its owner alone can read it.

    Raises:
        OSError: it cannot be written.
    """
    path = reports.folder() / COPIED
    reports.write_private(path, (text.rstrip("\n") + "\n").encode("utf-8", errors="replace"))
    return path


def copy(app: App[Any], what: str, text: str) -> None:
    """Send text to the terminal's clipboard, keep it in a file, and say so.

    Args:
        app: whose terminal it is.
        what: names the text in the message.
        text: all of it.
    """
    app.copy_to_clipboard(text)
    app.notify(copy_message(what, text), markup=False)


def copy_message(what: str, text: str) -> str:
    """Keep the text, and say in a sentence where all of it went."""
    try:
        where = f"and written to {shorten_path(store_copy(text))}"
    except OSError as error:
        where = f"and not written to a file: {error.strerror or error}"
    return f"{what}: sent to the terminal (OSC 52), which may refuse it, {where}"


def shorten_path(path: Path) -> str:
    """Return a path with the home folder as a tilde."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
