"""Tables: columns that fit a width, a heading to sort by, and a line for each row. Pure.

Describe a table as columns, fit them to the width once for all rows, then render the heading and
the rows. The last column is not padded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from tui.core.text import glyphs
from tui.kit.lines import Line, Span, TextStyle, cell_len, fit_line
from tui.kit.lines import width as cells_of

Row = TypeVar("Row")
SortOrder = TypeVar("SortOrder", bound=str)
CellText = str | Span | Line
"""Text of a row in a column; a string is plain."""

REST = sys.maxsize
"""Width limit of a column that takes all remaining cells."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of a table, which shows one figure of each row."""

    name: str
    """The heading."""
    width: int
    """Least width in cells."""
    render: Callable[[Row], CellText] = lambda _row: ""
    """Returns the row's text; blank if a list draws its rows itself."""
    align: Literal["left", "right"] = "right"
    gap: int = 2
    """Blank cells before the column."""
    drop_order: int | None = None
    """Columns with the lowest value are dropped first if the table is too wide; ``None`` for a
    column that stays."""
    leaves: int = 0
    """Cells that must remain for the growing columns beside this column and those that are dropped
    later; otherwise this column is dropped."""
    grows: tuple[int, ...] = ()
    """Widths to which the column grows if there is room, in turns: in each turn the columns grow
    from the left."""
    order: str | None = None
    """Name of the sort order that a click on the heading chooses."""


@dataclass(frozen=True, slots=True)
class PlacedColumn(Generic[Row]):
    """A shown column with its position."""

    column: Column[Row]
    start: int
    """First cell of its text."""
    width: int
    """Cells of its text."""

    @property
    def end(self) -> int:
        """First cell after the column."""
        return self.start + self.width


Layout = tuple[PlacedColumn[Row], ...]
"""The columns that fit, from the left."""


def widest(texts: Iterable[str], most: int = REST) -> int:
    """Return the width of the longest text, at most ``most``; 0 without texts."""
    return min(max(map(cell_len, texts), default=0), most)


# ---- columns that fit ----------------------------------------------------------------------------


def fit_columns(columns: Sequence[Column[Row]], room: int) -> Layout[Row]:
    """Drop columns until the rest fits, then let columns grow into the remaining cells.

    If the columns that stay are too wide, the widest growing columns shrink, then the columns from
    the right: the layout is never wider than the room.

    Args:
        columns: all columns, from the left.
        room: cells of a line.
    """
    shown = _shown(columns, room)
    widths = {index: columns[index].width for index in shown}
    spare = room - sum(columns[index].gap + cells for index, cells in widths.items())
    for turn in range(max((len(columns[index].grows) for index in shown), default=0)):
        for index in shown:
            grows = columns[index].grows
            if turn < len(grows):
                more = max(0, min(spare, grows[turn] - widths[index]))
                widths[index] += more
                spare -= more
    while spare < 0 and widths:
        growing = [index for index in widths if columns[index].grows and widths[index] > 1]
        index = max(growing, key=widths.__getitem__) if growing else max(widths)
        if widths[index]:
            widths[index] -= 1
            spare += 1
        else:
            del widths[index]
            spare += columns[index].gap
    return _placed(columns, widths)


def _shown(columns: Sequence[Column[Row]], room: int) -> list[int]:
    """Return the indices of the columns that fit; columns are dropped by ``drop_order``."""
    shown = [index for index, column in enumerate(columns) if column.drop_order is None]
    others = [index for index, column in enumerate(columns) if column.drop_order is not None]
    for candidate in sorted(others, key=lambda index: columns[index].drop_order or 0, reverse=True):
        more = sorted([*shown, candidate])
        spare = room - sum(columns[index].gap + columns[index].width for index in more)
        flexible = spare + sum(columns[index].width for index in more if columns[index].grows)
        if spare < 0 or flexible < columns[candidate].leaves:
            break
        shown = more
    return shown


def _placed(columns: Sequence[Column[Row]], widths: dict[int, int]) -> Layout[Row]:
    placed: list[PlacedColumn[Row]] = []
    end = 0
    for index, cells in sorted(widths.items()):
        start = end + columns[index].gap
        placed.append(PlacedColumn(columns[index], start, cells))
        end = start + cells
    return tuple(placed)


# ---- lines ---------------------------------------------------------------------------------------


def heading_line(layout: Layout[Row], order: str | None = None) -> Line:
    """Return the columns' names; the first column that sorts by ``order`` is marked."""
    pieces: list[_Piece] = []
    marked = False
    for placed in layout:
        sorts = order is not None and placed.column.order == order and not marked
        marked = marked or sorts
        name = placed.column.name + (glyphs.GLYPHS.sorts if sorts else "")
        style = TextStyle.KEY if sorts else TextStyle.QUIET
        pieces += _cell_pieces(Span(name, style), placed, fills=placed is not layout[-1])
    return _join_pieces(pieces)


def order_at(layout: Layout[Row], cell: int, orders: Sequence[SortOrder]) -> SortOrder | None:
    """Return the sort order of the heading at a cell; ``None`` if it has none.

    Args:
        layout: the columns.
        cell: from the left.
        orders: all sort orders of the table.
    """
    name = next((placed.column.order for placed in layout if cell < placed.end), None)
    return next((order for order in orders if order == name), None)


def row_line(layout: Layout[Row], row: Row) -> Line:
    """Return the line of a row, with long texts cut to their columns."""
    pieces: list[_Piece] = []
    for placed in layout:
        cell = placed.column.render(row)
        pieces += _cell_pieces(cell, placed, fills=placed is not layout[-1])
    return _join_pieces(pieces)


_Piece = tuple[TextStyle, str]


def _cell_pieces(cell: CellText, placed: PlacedColumn[Row], *, fills: bool) -> list[_Piece]:
    """Return a cell with the blanks before it and, if it fills its column, after it."""
    parts = (Span(cell),) if isinstance(cell, str) else (cell,) if isinstance(cell, Span) else cell
    cells = cells_of(parts)
    if cells > placed.width:
        parts = fit_line(parts, placed.width)
        cells = cells_of(parts)
    right = placed.column.align == "right"
    blank = " " * (placed.width - cells)
    before = " " * placed.column.gap + (blank if right else "")
    if not parts:
        return [(TextStyle.PLAIN, before + (blank if fills and not right else ""))]
    pieces = [(parts[0].style, before), *((part.style, part.text) for part in parts)]
    return [*pieces, (parts[-1].style, blank)] if fills and not right else pieces


def _join_pieces(pieces: Sequence[_Piece]) -> Line:
    """Merge adjacent pieces of equal style into one span, which draws faster."""
    joined: list[tuple[TextStyle, list[str]]] = []
    for style, text in pieces:
        if joined and joined[-1][0] is style:
            joined[-1][1].append(text)
        elif text:
            joined.append((style, [text]))
    return tuple(Span("".join(texts), style) for style, texts in joined)


# ---- order ---------------------------------------------------------------------------------------


def largest_first(rows: Iterable[Row], value: Callable[[Row], float | None]) -> list[Row]:
    """Sort by a figure from the highest down; rows without one come last, in their order."""

    def sort_key(row: Row) -> tuple[bool, float]:
        number = value(row)
        return number is None, -(number or 0.0)

    return sorted(rows, key=sort_key)
