"""The sixteen colours of truecolor themes, readable on each background that such a theme has.

Chosen by WCAG 2.2's contrast ratio: at least 4.5:1 on the backgrounds of Textual's own themes.
"""

from __future__ import annotations

from rich.terminal_theme import TerminalTheme

Triplet = tuple[int, int, int]


def _theme(background: Triplet, foreground: Triplet, eight: list[Triplet]) -> TerminalTheme:
    """Bright colours are the same: what is bold is told by its weight."""
    return TerminalTheme(background, foreground, eight, eight)


ON_DARK = _theme(
    (18, 18, 18),
    (224, 224, 224),
    [
        (18, 18, 18),
        (255, 150, 150),
        (126, 231, 135),
        (255, 216, 102),
        (148, 190, 255),
        (232, 165, 242),
        (111, 215, 232),
        (224, 224, 224),
    ],
)
ON_LIGHT = _theme(
    (224, 224, 224),
    (31, 31, 31),
    [
        (31, 31, 31),
        (160, 0, 25),
        (0, 95, 0),
        (115, 70, 0),
        (0, 64, 176),
        (139, 0, 139),
        (0, 90, 102),
        (90, 90, 90),
    ],
)
