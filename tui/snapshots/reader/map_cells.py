"""Cells of the segment map as text: thousands of them go over the pipe at each move of a cursor."""

from __future__ import annotations

from collections.abc import Iterable

from tui.snapshots.model.results import Cell, CellState

LETTERS: dict[CellState, str] = {
    "allocated": "a",
    "pending": "p",
    "inactive": "i",
    "unmapped": "u",
}
"""For each state the letter that stands for it."""


def states_of(cells: Iterable[Cell]) -> str:
    """A letter for each cell."""
    return "".join(LETTERS[cell.state] for cell in cells)


def used_of(cells: Iterable[Cell]) -> str:
    """A digit for each cell: tenths in use; only what is not used at all is 0."""
    return "".join(_digit(cell.used) for cell in cells)


def _digit(used: float) -> str:
    if used <= 0:
        return "0"
    return str(max(1, min(9, round(10 * used))))
