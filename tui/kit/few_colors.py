"""Terminals with 256 colors: the nearest ones, and shorter output for exact ones. Pure."""

from __future__ import annotations

import functools

from rich.color import Color, ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter

Triplet = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
STEPS = (0, 95, 135, 175, 215, 255)
"""Values of a component in xterm's color cube, whose numbers begin at 16."""
GREYS = tuple(range(8, 248, 10))
"""Xterm's grays, whose numbers begin at 232."""
TABLE: tuple[Triplet, ...] = (
    *((red, green, blue) for red in STEPS for green in STEPS for blue in STEPS),
    *((grey, grey, grey) for grey in GREYS),
)
"""Colors from number 16 on; users redefine the first sixteen."""


@functools.lru_cache(maxsize=1024)
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


_NUMBERS = {color: 16 + place for place, color in enumerate(TABLE)}


def with_numbers(style: Style) -> Style:
    """Return the style with numbers in place of colors that have one, in half as many bytes."""
    return style + Style(color=_find_number(style.color), bgcolor=_find_number(style.bgcolor))


def _find_number(color: Color | None) -> Color | None:
    number = None if color is None or color.triplet is None else _NUMBERS.get(color.triplet)
    if color is None or number is None:
        return color
    # With the triplet, Textual's filters know the color too.
    return Color(color.name, ColorType.EIGHT_BIT, number, color.triplet)


@functools.lru_cache(maxsize=4096)
def in_256(style: Style) -> Style:
    """Return the style in the nearest of the terminal's colors."""
    changed = Style(color=_in_256(style.color), bgcolor=_in_256(style.bgcolor))
    return style + changed


def _in_256(color: Color | None) -> Color | None:
    if color is None or color.triplet is None:
        return color
    red, green, blue = color.triplet
    return Color.from_ansi(nearest((red, green, blue)))


class Nearest256(LineFilter):
    """Draws everything in the nearest of a terminal's 256 colors.

    Many terminals offer 256 colors (no COLORTERM, as over most SSH links). Rich rounds each
    component by itself there, which turns the dark backgrounds of most themes black and others
    teal.
    """

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """Replace the colors of a drawn line, as Textual calls it."""
        return [
            Segment(text, in_256(style) if style is not None else None, control)
            for text, style, control in segments
        ]
