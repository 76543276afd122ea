"""What of some lines must be drawn again: the cells that differ, row by row. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.ui.views.lines import Line
from workloads.protocol.frozen import frozen


@frozen
class Change:
    """Cells of one row that differ: from ``start`` up to, not including, ``end``."""

    row: int
    start: int
    end: int


def changes(old: Sequence[Line], new: Sequence[Line], cells: int) -> list[Change]:
    """The rows that differ and where.

    Args:
        old: the lines that are on the screen.
        new: the lines that are to be.
        cells: width of a line.
    """
    found = []
    for row in range(max(len(old), len(new))):
        before = old[row] if row < len(old) else ()
        after = new[row] if row < len(new) else ()
        if before == after:
            continue
        start, end = _differing(before, after, cells)
        if start < end:
            found.append(Change(row, start, end))
    return found


def _differing(before: Line, after: Line, cells: int) -> tuple[int, int]:
    if any(span.width != len(span.text) for span in (*before, *after)):
        # Some character takes other than one cell, so that columns cannot be counted.
        return 0, cells
    old = [(character, span.tone) for span in before for character in span.text]
    new = [(character, span.tone) for span in after for character in span.text]
    shared = min(len(old), len(new))
    start = next((at for at in range(shared) if old[at] != new[at]), shared)
    if max(len(old), len(new)) > cells:
        # Where the line is cut, its last cell is an ellipsis.
        return min(start, cells - 1), cells
    if len(old) != len(new):
        return start, max(len(old), len(new))
    end = next((at for at in range(len(old), start, -1) if old[at - 1] != new[at - 1]), start)
    return start, end
