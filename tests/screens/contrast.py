"""WCAG 2.2's contrast ratio of drawn text, in the palettes of real terminals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.color import Color, ColorType
from rich.style import Style
from textual.app import App

from tests.screens.helpers import screen_strips

LEAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of ordinary size."""
LEAST_BELOW = 2.5
"""Of what lies below a dialog and waits: it is dimmed."""
FAINT = 0.5
"""Least share of a faint color that terminals draw: xterm.js a half, xterm two thirds."""
Triplet = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Palette:
    """A terminal's colors: the default pair, and the sixteen."""

    foreground: Triplet
    background: Triplet
    sixteen: tuple[Triplet, ...]


def _sixteen(text: str) -> tuple[Triplet, ...]:
    return tuple(_triplet(word) for word in text.split())


def _triplet(text: str) -> Triplet:
    number = int(text, 16)
    return number >> 16, number >> 8 & 255, number & 255


XTERM = _sixteen(
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
    "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
"""Colors from xterm's XTerm-col.ad."""
LINUX = _sixteen(
    "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
    "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
)
"""VGA's colors, from Linux's drivers/tty/vt/vt.c."""
CODE_DARK = _sixteen(
    "000000 cd3131 0dbc79 e5e510 2472c8 bc3fbc 11a8cd e5e5e5 "
    "666666 f14c4c 23d18b f5f543 3b8eea d670d6 29b8db e5e5e5"
)
CODE_LIGHT = _sixteen(
    "000000 cd3131 00bc00 949800 0451a5 bc05bc 0598bc 555555 "
    "666666 cd3131 14ce14 b5ba00 0451a5 bc05bc 0598bc a5a5a5"
)
"""Colors from VS Code's terminalColorRegistry.ts."""
WHITE, BLACK = (255, 255, 255), (0, 0, 0)
DARK = {
    "xterm": Palette((229, 229, 229), BLACK, XTERM),
    "linux": Palette((170, 170, 170), BLACK, LINUX),
    "vscode": Palette((204, 204, 204), (31, 31, 31), CODE_DARK),
}
LIGHT = {
    "xterm": Palette(BLACK, WHITE, XTERM),
    "linux": Palette(BLACK, WHITE, LINUX),
    "vscode": Palette((59, 59, 59), WHITE, CODE_LIGHT),
}


def _linear(channel: int) -> float:
    share = channel / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(color: Triplet) -> float:
    """Return the relative luminance by WCAG 2.2."""
    red, green, blue = (_linear(channel) for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ratio(one: Triplet, other: Triplet) -> float:
    """Return the contrast of two colors: 1 for equal ones, 21 for black on white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _shown(color: Color | None, palette: Palette, default: Triplet) -> Triplet:
    if color is None or color.type is ColorType.DEFAULT:
        return default
    if color.type is ColorType.STANDARD:
        assert color.number is not None
        return palette.sixteen[color.number]
    return tuple(color.get_truecolor())  # type: ignore[return-value]


def contrast(style: Style, palette: Palette) -> float:
    """Return the contrast of text in a style, in a terminal with these colors."""
    front = _shown(style.color, palette, palette.foreground)
    back = _shown(style.bgcolor, palette, palette.background)
    if style.reverse:
        front, back = back, front
    if style.dim:
        mixed = (round(FAINT * a + (1 - FAINT) * b) for a, b in zip(front, back, strict=True))
        front = tuple(mixed)  # type: ignore[assignment]
    return ratio(front, back)


def texts(app: App[Any]) -> Iterator[tuple[str, Style, float]]:
    """Yield the screen's text with its style and least contrast; bars and rules are not text."""
    top = app.screen
    dims = top.is_modal and top.styles.background.a > 0
    boxes = [box.region for box in top.query(".dialog, KeysBar, CommandPalette > Vertical")]
    for row, strip in enumerate(screen_strips(app)):
        column = 0
        for segment in strip:
            # A segment is of one screen: the dialog's styles differ from those below it.
            inside = not dims or any(box.contains(column, row) for box in boxes)
            column += segment.cell_length
            if any(character.isalnum() for character in segment.text):
                yield segment.text, segment.style or Style(), LEAST if inside else LEAST_BELOW
