"""Draw dots as braille characters, two columns and four rows in a cell. Pure.

A dot is ``(x, y)`` with x from the left and y from the top, both from 0. In ASCII, a cell becomes
the character most similar to its dots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tui.core.text import glyphs

ACROSS, DOWN = 2, 4
"""Columns and rows of dots in a cell."""
Dot = tuple[int, int]
Cell = tuple[int, int]
"""Column and row, from the left and from the top."""

_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of each row's two dots in the Unicode block that starts at U+2800."""
_LEFT, _RIGHT = (sum(pair[side] for pair in _BITS) for side in (0, 1))
_DENSE = 6
"""Dots from which ASCII draws a filled cell."""


def bits(dots: Iterable[Dot], columns: int, rows: int) -> dict[Cell, int]:
    """Return the bits of each cell that has dots; ignore dots outside.

    Args:
        dots: in any order; repeated dots are allowed.
        columns: width in cells.
        rows: height in cells.
    """
    patterns: dict[Cell, int] = {}
    for x, y in dots:
        column, row = x // ACROSS, y // DOWN
        if 0 <= column < columns and 0 <= row < rows:
            patterns[column, row] = patterns.get((column, row), 0) | _BITS[y % DOWN][x % ACROSS]
    return patterns


def list_dots(drawn: str) -> list[Dot]:
    """Return the dots of one character within its cell; none if it is not a braille pattern."""
    cell = ord(drawn) - 0x2800
    if not 0 < cell < 0x100:
        return []
    return [(x, y) for y, pair in enumerate(_BITS) for x, bit in enumerate(pair) if cell & bit]


def character(cell: int) -> str:
    """Return a cell's dots as one character; without any, a blank."""
    if not cell:
        return " "
    return _ascii(cell) if glyphs.GLYPHS.ascii else chr(0x2800 + cell)


def _ascii(cell: int) -> str:
    if cell.bit_count() >= _DENSE:
        return "#"
    lit = [row for row, pair in enumerate(_BITS) if cell & sum(pair)]
    if lit[-1] - lit[0] >= 2:
        left = [row for row, pair in enumerate(_BITS) if cell & pair[0]]
        right = [row for row, pair in enumerate(_BITS) if cell & pair[1]]
        if left and right and left[0] != right[0]:
            return "/" if left[0] > right[0] else "\\"
        return "|"
    return "'" if lit[-1] <= 1 else "." if lit[0] >= 2 else "-"


def braille(dots: Iterable[Dot], columns: int, rows: int) -> list[str]:
    """Return the dots as ``rows`` lines of ``columns`` cells each."""
    cells = bits(dots, columns, rows)
    return [
        "".join(character(cells.get((column, row), 0)) for column in range(columns))
        for row in range(rows)
    ]


def segment(start: Dot, end: Dot) -> Iterator[Dot]:
    """Yield the dots of a line without gaps, both ends included."""
    (x0, y0), (x1, y1) = start, end
    steps = max(abs(x1 - x0), abs(y1 - y0))
    if not steps:
        yield start
        return
    for step in range(steps + 1):
        yield x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps)


def filled(shares: Sequence[float | None], rows: int) -> Iterator[Dot]:
    """Yield a column of dots for each share of the height; a cell shows two values.

    Args:
        shares: 0.0 to 1.0; values above zero get at least one dot, ``None`` gets none.
        rows: height in cells.
    """
    high = rows * DOWN
    for x, share in enumerate(shares):
        if share is not None and share > 0:
            for y in range(max(1, min(high, round(share * high)))):
                yield x, high - 1 - y
