"""The colours of a theme on a terminal that has few: of 256 the nearest, of 16 its own.

Rich rounds each part of a colour by itself where a terminal says no more than 256 (no COLORTERM,
as over most SSH links): the dark backgrounds of most themes become black, others teal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as AnyColor
from textual.filter import ANSIToTruecolor, LineFilter

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


@lru_cache(maxsize=1024)
def nearest(colour: Triplet) -> int:
    """Number of the colour that looks nearest.

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
    """The style with colours that the terminal has."""
    changed = Style(color=_in_256(style.color), bgcolor=_in_256(style.bgcolor))
    return style + changed


def _in_256(colour: Color | None) -> Color | None:
    if colour is None or colour.triplet is None:
        return colour
    red, green, blue = colour.triplet
    return Color.from_ansi(nearest((red, green, blue)))


class Nearest256(LineFilter):
    """Has everything drawn in the nearest of 256 colours."""

    def apply(self, segments: list[Segment], background: AnyColor) -> list[Segment]:  # noqa: ARG002
        """Called by Textual for each line that is drawn."""
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

    def apply(self, segments: list[Segment], background: AnyColor) -> list[Segment]:  # noqa: ARG002
        """Called by Textual for each line that is drawn."""
        # The characters of a border have the colours of two surfaces, and mean neither.
        return [
            Segment(
                text,
                without_theme(style, self._dark, text.isascii()) if style is not None else None,
                control,
            )
            for text, style, control in segments
        ]


DEFAULT = Color.parse("default")


@lru_cache(maxsize=4096)
def without_theme(style: Style, dark: bool, turns: bool) -> Style:
    """The style with the terminal's own colours alone.

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
    """What a theme with colours of its own is drawn through.

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
