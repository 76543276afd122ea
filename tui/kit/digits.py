"""A figure in large digits of half blocks, three rows high. Pure.

Drawn here because Textual's ``Digits`` has hairlines, no unit and one color.
"""

from __future__ import annotations

from tui.core.text import glyphs

ROWS = 3
_GAP = "  "
_SHAPES: dict[str, tuple[str, str, str]] = {
    "0": ("██▀▀██", "██  ██", "██▄▄██"),
    "1": ("▀▀██  ", "  ██  ", "▄▄██▄▄"),
    "2": ("▀▀▀▀██", "██▀▀▀▀", "██▄▄▄▄"),
    "3": ("▀▀▀▀██", " ▀▀▀██", "▄▄▄▄██"),
    "4": ("██  ██", "▀▀▀▀██", "    ██"),
    "5": ("██▀▀▀▀", "▀▀▀▀██", "▄▄▄▄██"),
    "6": ("██▀▀▀▀", "██▀▀██", "██▄▄██"),
    "7": ("▀▀▀▀██", "    ██", "    ██"),
    "8": ("██▀▀██", "██▀▀██", "██▄▄██"),
    "9": ("██▀▀██", "▀▀▀▀██", "▄▄▄▄██"),
    ".": ("  ", "  ", "▄▄"),
    " ": ("", "", ""),
    "%": ("██ ▄█▀", "  ▄█▀ ", "▄█▀ ██"),
    "x": ("      ", "▀█▄▄█▀", "▄█▀▀█▄"),
    "m": ("        ", "██▀██▀██", "██ ██ ██"),
    "n": ("      ", "██▀▀██", "██  ██"),
    "s": ("      ", "▄█▀▀▀▀", "▄▄▄▄█▀"),
    "µ": ("       ", "██  ██ ", "██▄▄██▄"),
}


def draw_large(words: str) -> tuple[str, ...]:
    """Return a figure in large digits, one text for each row, all of one width.

    Args:
        words: digits with a point, and a unit: ``1.91x``, ``345 µs``, ``74%``.

    Returns:
        The rows; none in ASCII, which has no half blocks, or if a character has no large form.
    """
    if glyphs.GLYPHS.ascii or not words or not {*words} <= _SHAPES.keys():
        return ()
    return tuple(_GAP.join(_SHAPES[character][row] for character in words) for row in range(ROWS))
