"""A workload's table of variants: no ratio without a difference, and what its ratios are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tui.kit.lines import Line, TextStyle, line, paragraph
from tui.kit.tables import table_lines
from workloads.protocol.results import RATIO_COLUMNS, Cell, Table

VERDICT = "verdict"
NOTE = "Timed in turns, apart from the time above. Ratios are medians over pairs, not quotients."
UNCLEAR = "unclear: no clear difference, so no ratio."
_INDENT = 2


def finding_table_lines(
    tables: Sequence[Table], unavailable: Mapping[str, str], cells: int
) -> list[Line]:
    """Return the tables of a result, and below the last of variants one note on their ratios.

    Args:
        tables: the tables of one result.
        unavailable: reasons by dotted path.
        cells: width of a line.
    """
    rows: list[Line] = []
    compared = [table for table in tables if _has_verdicts(table)]
    unclear = any("unclear" in row for table in compared for row in table.rows)
    for table in tables:
        rows += [(), *table_lines(hide_unclear_ratios(table), unavailable, cells)]
        if compared and table is compared[-1]:
            note = f"{NOTE} {UNCLEAR}" if unclear else NOTE
            text = paragraph(note, max(1, cells - _INDENT), TextStyle.QUIET)
            rows += [line(" " * _INDENT, *row) for row in text]
    return rows


def hide_unclear_ratios(table: Table) -> Table:
    """Return the table without the ratios of rows whose verdict is unclear."""
    ratios = _list_ratios(table)
    if not ratios:
        return table
    verdict = [column.name for column in table.columns].index(VERDICT)

    def hide(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
        if row[verdict] != "unclear":
            return row
        return tuple(None if place in ratios else cell for place, cell in enumerate(row))

    return replace(table, rows=tuple(map(hide, table.rows)))


def _has_verdicts(table: Table) -> bool:
    """Return whether a ratio was found: none is while a check has failed."""
    if not _list_ratios(table):
        return False
    verdict = [column.name for column in table.columns].index(VERDICT)
    return any(row[verdict] for row in table.rows)


def _list_ratios(table: Table) -> list[int]:
    """Return the places of the columns with ratios; none without a verdict beside them."""
    names = [column.name for column in table.columns]
    return [place for place, name in enumerate(names) if name in RATIO_COLUMNS and VERDICT in names]
