"""Decide whether a screen has room for a frame around each pane. Pure."""

from __future__ import annotations

FRAMED_CELLS, FRAMED_ROWS = 110, 30
"""Least cells and rows of a screen with frames."""
FRAME = 1
"""Row below a framed pane, and cell at each of its sides; its title is in the row above."""


def is_framed(cells: int, rows: int) -> bool:
    """Return whether each pane of a screen of this size has a frame."""
    return cells >= FRAMED_CELLS and rows >= FRAMED_ROWS


def inner_cells(width: int, *, framed: bool) -> int:
    """Return the cells inside a pane that is ``width`` cells wide."""
    return width - 2 * FRAME if framed else width
