"""The segments drawn as rows of cells, and single pieces of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.layout import Filled, Held, Layout
from tui.snapshots.model.results import Cell, CellState, MapRow, Piece

_STATES: tuple[CellState, ...] = ("allocated", "pending", "inactive", "unmapped")
_FREE = 2
"""Place of ``inactive`` in it."""


def map_rows(layout: Layout) -> tuple[MapRow, ...]:
    """One row for each segment, by address."""
    return tuple(
        MapRow(
            index=index,
            address=part.range.address,
            size=part.range.size,
            stream=part.range.stream,
            pool=part.range.pool,
            kind=part.range.kind or "unknown",
            expandable=part.range.expandable,
            allocated=sum(held.size for held in part.held if not held.pending),
            pending=sum(held.size for held in part.held if held.pending),
            free=part.free,
            largest_free=part.largest,
            blocks=len(part.held),
        )
        for index, part in enumerate(layout.filled)
    )


def cells(
    part: Filled, width: int, *, start: int | None = None, end: int | None = None
) -> tuple[Cell, ...]:
    """A stretch of addresses as so many cells of equal length.

    Args:
        part: the segment.
        width: cells; where the stretch has fewer bytes, neighbours show the same byte.
        start: address of the first byte shown; the segment's by default.
        end: one past the last byte shown; what lies outside of the segment is ``unmapped``.

    Raises:
        ValueError: no cells, or an empty stretch.
    """
    low = part.range.address if start is None else start
    high = part.range.end if end is None else end
    if width < 1 or high <= low:
        raise ValueError(f"nothing to draw: {width} cells for addresses {low:#x} to {high:#x}")
    span = high - low
    edges = [low + span * place // width for place in range(width + 1)]
    filled = [[0, 0, 0] for _ in range(width)]
    begins = [0] * width
    for address, size, state in _stretches(part):
        begin, stop = max(address, low), min(address + size, high)
        if begin >= stop:
            continue
        place = min(width - 1, (begin - low) * width // span)
        while place + 1 < width and edges[place + 1] <= begin:
            place += 1
        if state < _FREE and address > low:
            begins[place] += 1
        while place < width and edges[place] < stop:
            filled[place][state] += max(0, min(stop, edges[place + 1]) - max(begin, edges[place]))
            place += 1
    made: list[Cell] = []
    for place, sums in enumerate(filled):
        length = edges[place + 1] - edges[place]
        if length == 0 and made:
            made.append(replace(made[-1], begins=0))
            continue
        made.append(_cell(sums, length, begins[place]))
    return tuple(made)


def _stretches(part: Filled) -> list[tuple[int, int, int]]:
    """Address, size and number of the state of each piece; unordered."""
    return [(held.address, held.size, int(held.pending)) for held in part.held] + [
        (address, size, _FREE) for address, size in part.gaps
    ]


def _cell(sums: list[int], length: int, begins: int) -> Cell:
    shares = [*sums, max(0, length - sum(sums))]
    most = max(range(4), key=lambda state: (shares[state], -state))
    used = (shares[0] + shares[1]) / length if length else 0.0
    return Cell(_STATES[most], sum(share > 0 for share in shares) > 1, min(1.0, used), begins)


def pieces(part: Filled, stacks: Stacks) -> tuple[Piece, ...]:
    """The blocks in use and the gaps of a segment, by address."""
    made = [piece_of(held, stacks) for held in part.held]
    made += [
        Piece(
            address=address,
            size=size,
            requested=None,
            state="inactive",
            stack=0,
            site="",
            name=None,
        )
        for address, size in part.gaps
    ]
    return tuple(sorted(made, key=lambda piece: piece.address))


def piece_of(held: Held, stacks: Stacks, name: str | None = None) -> Piece:
    """A block in use, with the site that asked for it."""
    return Piece(
        address=held.address,
        size=held.size,
        requested=held.requested,
        state="pending" if held.pending else "allocated",
        stack=held.stack,
        site=stacks.site(held.stack).label,
        name=name,
    )


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


def begins_of(cells: Iterable[Cell]) -> str:
    """A digit for each cell: blocks that begin in it; ``9`` is nine and more."""
    return "".join(str(min(9, cell.begins)) for cell in cells)


def _digit(used: float) -> str:
    if used <= 0:
        return "0"
    return str(max(1, min(9, round(10 * used))))
