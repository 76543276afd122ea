"""A workload's tables as lines: aligned where they fit, else a row at a time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tui.core.text import glyphs
from tui.core.text.glyphs import clean
from tui.core.text.numbers import quantity
from tui.kit.lines import (
    SIGNS,
    Line,
    Span,
    TextStyle,
    cell_len,
    flow,
    left,
    line,
    paragraph,
    right,
    wrap,
)
from workloads.protocol.results import Table

GAP = 2
INDENT = 2
NARROWEST = 12
"""Least cells of a column whose texts are wrapped."""


def table_lines(table: Table, unavailable: Mapping[str, str], cells: int) -> list[Line]:
    """Return the whole table without cutting a cell; without columns, only the title.

    Args:
        table: to show.
        unavailable: reasons by dotted path; the table's reasons are added below it.
        cells: width of a line.
    """
    title = format_title(table.title or table.name, unreliable=table.unreliable)
    rows = paragraph(title, cells, TextStyle.NOTE if table.unreliable else TextStyle.STRONG)
    if not table.columns:
        pass
    elif not table.rows:
        rows += [line(" " * INDENT, Span("no rows yet", TextStyle.QUIET))]
    else:
        texts = [
            [
                clean(quantity(cell, column.unit))
                for cell, column in zip(row, table.columns, strict=True)
            ]
            for row in table.rows
        ]
        rows += _aligned(table, texts, cells) or _row_by_row(table, texts, cells)
    return rows + reason_lines(f"tables.{table.name}", unavailable, cells)


def format_title(title: str, *, unreliable: bool) -> str:
    """Return the title of a table or a chart; a warning says why one is unreliable."""
    return f"{glyphs.GLYPHS.warning} {title} (unreliable)" if unreliable else title


def reason_lines(path: str, unavailable: Mapping[str, str], cells: int) -> list[Line]:
    """Return why values of a table or a chart are missing, one paragraph per reason.

    Args:
        path: path of the table or the chart; includes reasons of paths below it.
        unavailable: reasons by dotted path.
        cells: width of a line.
    """
    names: dict[str, list[str]] = {}
    for key, reason in unavailable.items():
        if key == path or key.startswith(f"{path}."):
            names.setdefault(reason, []).append(key[len(path) + 1 :].replace("_", " "))
    rows: list[Line] = []
    for reason, paths in names.items():
        words = f"{', '.join(filter(None, paths)) or 'where'} n/a: {reason}"
        rows += [
            line(" " * INDENT, *row) for row in paragraph(words, cells - INDENT, TextStyle.QUIET)
        ]
    return rows


# ---- side by side ------------------------------------------------------------------------------


def _aligned(table: Table, texts: list[list[str]], cells: int) -> list[Line]:
    """Return the table in columns, or nothing if it does not fit."""
    numeric = [_is_numeric(table, index) for index in range(len(table.columns))]
    names = [clean(column.name) for column in table.columns]
    widths = _widths(names, texts, numeric, cells - INDENT)
    if widths is None:
        return []
    headings = [wrap(name, width) for name, width in zip(names, widths, strict=True)]
    height = max(map(len, headings))
    rows: list[Line] = []
    for level in range(height):
        # Headings of one line are on the lowest line, above their cells.
        parts = [["", *heading][max(0, level - height + len(heading) + 1)] for heading in headings]
        rows.append(_row(parts, widths, numeric, TextStyle.QUIET))
    for cells_of_row in texts:
        wrapped = [
            [text] if number else wrap(text, width)
            for text, width, number in zip(cells_of_row, widths, numeric, strict=True)
        ]
        for level in range(max(map(len, wrapped))):
            parts = [column[level] if level < len(column) else "" for column in wrapped]
            rows.append(_row(parts, widths, numeric, TextStyle.PLAIN))
    return rows


def _is_numeric(table: Table, index: int) -> bool:
    return any(isinstance(row[index], (int, float)) for row in table.rows) and not any(
        isinstance(row[index], str) for row in table.rows
    )


def _widths(
    names: list[str], texts: list[list[str]], numeric: list[bool], room: int
) -> list[int] | None:
    """Return the width of each column: wrap headings if necessary, then texts."""
    room -= GAP * (len(names) - 1)
    content = [max(cell_len(row[index]) for row in texts) for index in range(len(names))]
    whole = [max(pair) for pair in zip(content, map(cell_len, names), strict=True)]
    if sum(whole) <= room:
        return whole
    words = [max((cell_len(word) for word in name.split()), default=0) for name in names]
    narrow = [max(pair) for pair in zip(content, words, strict=True)]
    if sum(narrow) <= room:
        return narrow
    unbroken = [_longest(str.split, texts, index) for index in range(len(names))]
    between_signs = [_longest(_PART.findall, texts, index) for index in range(len(names))]
    # Break a word only where the columns do not fit otherwise, and at a sign in it if possible.
    for kept in (unbroken, between_signs, [0] * len(names)):
        least = [
            width if number else max(word, min(width, max(NARROWEST, whole_word)))
            for width, word, whole_word, number in zip(narrow, words, kept, numeric, strict=True)
        ]
        if sum(least) <= room:
            break
    else:
        return None
    spare = room - sum(least)
    # The columns share the remaining cells: first for whole words, the nearest to them first, then
    # the longest texts first.
    words_whole = [min(pair) for pair in zip(narrow, unbroken, strict=True)]
    order = sorted(range(len(names)), key=lambda index: least[index] - narrow[index])
    nearest = sorted(order, key=lambda index: words_whole[index] - least[index])
    for wanted, indexes in ((words_whole, nearest), (narrow, order)):
        for index in indexes:
            more = min(spare, max(0, wanted[index] - least[index]))
            least[index] += more
            spare -= more
    return least


_PART = re.compile(rf"[^\s{re.escape(SIGNS)}]*[{re.escape(SIGNS)}]+|[^\s{re.escape(SIGNS)}]+")
"""A part of a word that ends with a sign, or with the word."""


def _longest(split: Callable[[str], list[str]], texts: list[list[str]], index: int) -> int:
    """Return the cells of the longest part of a column's texts."""
    return max((cell_len(part) for row in texts for part in split(row[index])), default=0)


def _row(parts: list[str], widths: list[int], numeric: list[bool], style: TextStyle) -> Line:
    fields = [
        right(part, width) if number else left(part, width)
        for part, width, number in zip(parts, widths, numeric, strict=True)
    ]
    return (Span(" " * INDENT + (" " * GAP).join(fields).rstrip(), style),)


# ---- one row at a time -------------------------------------------------------------------------


def _row_by_row(table: Table, texts: list[list[str]], cells: int) -> list[Line]:
    """Return each row as its first cell, and the other cells below it by name."""
    rows: list[Line] = []
    names = [clean(column.name) for column in table.columns]
    for first, *others in texts:
        rows += [line("  ", *row) for row in paragraph(first, cells - INDENT, TextStyle.KEY)]
        named = [
            line(Span(f"{name} ", TextStyle.QUIET), value)
            for name, value in zip(names[1:], others, strict=True)
            if value
        ]
        rows += [line("    ", *row) for row in flow(named, max(1, cells - 4), gap="   ")]
    return rows
