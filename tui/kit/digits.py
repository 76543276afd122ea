"""A figure in large digits of half blocks, three rows high or a multiple of it. Pure.

Drawn here because Textual's ``Digits`` has hairlines, no unit and one color.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tui.core.text import glyphs

ROWS = 3
_GAP = "  "
_BLOCKS = {("█", "█"): "█", ("█", " "): "▀", (" ", "█"): "▄", (" ", " "): " "}
"""By the upper and the lower half of a cell, filled or not, its character."""
_UPPER = str.maketrans("▀▄", "█ ")
_LOWER = str.maketrans("▀▄", " █")
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
    "–": ("      ", "▀▀▀▀▀▀", "      "),
    " ": ("", "", ""),
    "%": ("██ ▄█▀", "  ▄█▀ ", "▄█▀ ██"),
    "x": ("      ", "▀█▄▄█▀", "▄█▀▀█▄"),
    "m": ("        ", "██▀██▀██", "██ ██ ██"),
    "n": ("      ", "██▀▀██", "██  ██"),
    "s": ("      ", "▄█▀▀▀▀", "▄▄▄▄█▀"),
    "µ": ("       ", "██  ██ ", "██▀▀▀▀▀"),
}


class DigitSize(NamedTuple):
    """How many times as wide and as high the digits are."""

    across: int = 1
    down: int = 1


NATURAL = DigitSize()


def draw_large(words: str, size: DigitSize = NATURAL) -> tuple[str, ...]:
    """Return a figure in large digits, one text for each row, all of one width.

    A unit has about half their size on their base line, or usual letters beside the smallest.

    Args:
        words: digits with a point, and a unit: ``1.91x``, ``345 µs``, ``74%``.
        size: size of the digits, which are ``ROWS * size.down`` rows high.

    Returns:
        The rows; none in ASCII, which has no half blocks, or if a character has no large form.
    """
    if glyphs.GLYPHS.ascii or not words or not {*words} <= _SHAPES.keys():
        return ()
    digits, _, unit = words.partition(" ")
    large = _enlarge(_join_shapes(digits), size)
    if not unit:
        return large
    smaller = DigitSize(max(1, size.across // 2), size.down // 2)
    small = _enlarge(_join_shapes(unit), smaller) if smaller.down else (unit,)
    above = (" " * len(small[0]),) * (len(large) - len(small))
    gap = _GAP * size.across
    return tuple(gap.join(pair) for pair in zip(large, above + small, strict=True))


def _join_shapes(words: str) -> list[str]:
    """Return the characters beside each other in the smallest size."""
    return [_GAP.join(_SHAPES[character][row] for character in words) for row in range(ROWS)]


def _enlarge(rows: Sequence[str], size: DigitSize) -> tuple[str, ...]:
    """Return rows of half blocks, enlarged."""
    halves = [
        "".join(cell * size.across for cell in row.translate(half))
        for row in rows
        for half in (_UPPER, _LOWER)
        for _ in range(size.down)
    ]
    return tuple(
        "".join(_BLOCKS[pair] for pair in zip(upper, lower, strict=True))
        for upper, lower in zip(halves[::2], halves[1::2], strict=True)
    )
