"""A terminal's 256 colors: the nearest one, and the number of one that is equal.

Many terminals offer 256 colors (no COLORTERM, as over most SSH links). Rich rounds each component
by itself there, which turns the dark backgrounds of most themes black and others teal.

Terminals with all colors have these 256 as well. A change of style names both colors, which takes
38 bytes in full and 21 by number, and an idle screen sends mostly changes of style.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter

Triplet = tuple[int, int, int]
STEPS = (0, 95, 135, 175, 215, 255)
"""Values of a component in xterm's color cube, whose numbers begin at 16."""
GREYS = tuple(range(8, 248, 10))
"""Xterm's grays, whose numbers begin at 232."""
TABLE: tuple[Triplet, ...] = (
    *((red, green, blue) for red in STEPS for green in STEPS for blue in STEPS),
    *((grey, grey, grey) for grey in GREYS),
)
"""Colors from number 16 on; users redefine the first sixteen."""
FIRST_FIXED = 22
"""The first number whose color is the same everywhere: base16 themes redefine those up to 21."""
NUMBERS = {color: number for number, color in enumerate(TABLE, 16) if number >= FIRST_FIXED}
"""The number of each color that has one."""


@lru_cache(maxsize=1024)
def nearest(color: Triplet) -> int:
    """Return the number of the nearest color.

    The distance is "redmean", which is cheap and close to perception: T. Riemersma,
    https://www.compuphase.com/cmetric.htm.

    Args:
        color: red, green and blue, 0 to 255.
    """
    red, green, blue = color

    def distance(place: int) -> float:
        other = TABLE[place]
        mean = (red + other[0]) / 2
        parts = (red - other[0], green - other[1], blue - other[2])
        weights = (2 + mean / 256, 4, 2 + (255 - mean) / 256)
        return sum(weight * part * part for weight, part in zip(weights, parts, strict=True))

    return 16 + min(range(len(TABLE)), key=distance)


@lru_cache(maxsize=4096)
def in_256(style: Style) -> Style:
    """Return the style in the nearest of the terminal's colors."""
    changed = Style(color=_in_256(style.color), bgcolor=_in_256(style.bgcolor))
    return style + changed


def _in_256(color: Color | None) -> Color | None:
    if color is None or color.triplet is None:
        return color
    red, green, blue = color.triplet
    return Color.from_ansi(nearest((red, green, blue)))


@lru_cache(maxsize=4096)
def by_number(style: Style) -> Style:
    """Return the style with each color by its number, where the terminal has an equal one."""
    changed = Style(color=_by_number(style.color), bgcolor=_by_number(style.bgcolor))
    return style + changed


def _by_number(color: Color | None) -> Color | None:
    if color is None or color.triplet is None:
        return color
    red, green, blue = color.triplet
    number = NUMBERS.get((red, green, blue))
    return color if number is None else Color.from_ansi(number)


class ByNumber(LineFilter):
    """Draws each color that has a number by it, which looks the same and is shorter."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """Replace the colors of a drawn line, as Textual calls it."""
        return [
            Segment(text, by_number(style) if style is not None else None, control)
            for text, style, control in segments
        ]


class Nearest256(LineFilter):
    """Draws everything in the nearest of 256 colors."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """Replace the colors of a drawn line, as Textual calls it."""
        return [
            Segment(text, in_256(style) if style is not None else None, control)
            for text, style, control in segments
        ]
