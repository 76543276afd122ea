"""The columns of the table of workloads, as wide as the line allows, and its lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import CPU
from tui.kit.lines import Line, Span, TextStyle, fit_line, left, right, width
from tui.runs.state.state import RunsState
from tui.runs.views.workload_table import (
    LIMIT,
    NAME,
    PEAK,
    RATE,
    SPEED_UP,
    STATE,
    Entry,
    Group,
    WorkloadRow,
    devices,
)

LEAD = 2
"""Cells for the cursor and for the glyph of a group."""
GAP = 2
NAME_CELLS = (20, 40)
"""Of a name: at least, and those that no figure is kept for."""
STATE_LEAST = 10
ROOM_FOR: tuple[tuple[str, int], ...] = (
    (NAME, 26),
    (STATE, 14),
    (NAME, 40),
    (STATE, 28),
    (NAME, 60),
    (STATE, 60),
    (NAME, 1000),
)
"""What is given room beyond the least, one after the other, and up to how many cells."""
TIME_CELLS = 8
CELLS = {SPEED_UP: 8, RATE: 12, LIMIT: 12, PEAK: 11}
"""At least; a rate and a share of a limit have as many as the longest of them takes."""
WIDEST = 18
"""That one of them can make its column."""
DROPPED_FIRST = (PEAK, RATE, LIMIT, SPEED_UP)
"""Left out in this order where there is no room; the detail pane has all of them."""


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns that fit, with their widths in cells."""

    name: int
    cells: dict[str, int]
    state: int
    hidden: tuple[str, ...]


def columns(
    names: Sequence[str],
    longest: int,
    room: int,
    shortest: int = 0,
    texts: Mapping[str, int] | None = None,
) -> TableColumns:
    """Choose columns and widths.

    Args:
        names: torch devices of the timing columns.
        longest: cells of the longest workload name with its parameters.
        room: cells of a line.
        shortest: cells of the names that figures are not left out for.
        texts: cells of the longest text in a column.
    """
    cells = {name: max(TIME_CELLS, len(name)) for name in names}
    if len(names) > 1:
        cells[SPEED_UP] = CELLS[SPEED_UP]
    cells |= {name: CELLS[name] for name in (RATE, LIMIT, PEAK)}
    for name, size in (texts or {}).items():
        if name in cells:
            cells[name] = max(cells[name], min(size, WIDEST))
    hidden: list[str] = []
    least = max(NAME_CELLS[0], min(shortest, NAME_CELLS[1]))

    def needed() -> int:
        return LEAD + least + GAP + STATE_LEAST + sum(GAP + size for size in cells.values())

    for name in DROPPED_FIRST:
        if needed() > room and name in cells:
            del cells[name]
            hidden.append(name)
    spare = room - needed()
    if spare < 0:
        return TableColumns(max(4, least + spare), cells, STATE_LEAST, tuple(hidden))
    # Of both, the name tells two runs apart by its parameters, and the state can be a sentence.
    given = {NAME: least, STATE: STATE_LEAST}
    for name, most in ROOM_FOR:
        wanted = min(most, longest) if name == NAME else most
        more = min(spare, max(0, wanted - given[name]))
        given[name] += more
        spare -= more
    return TableColumns(given[NAME], cells, given[STATE] + spare, tuple(hidden))


def columns_for(state: RunsState, found: Sequence[Entry], room: int) -> TableColumns:
    """Return the columns for these entries."""
    rows = [entry for entry in found if isinstance(entry, WorkloadRow)]
    longest = max((row.name.width for row in rows), default=0)
    shortest = max((row.least for row in rows), default=0)
    texts = {
        name: max((row.cells[name].width for row in rows if name in row.cells), default=0)
        for name in (RATE, LIMIT, *devices(state))
    }
    return columns(devices(state), longest, room, shortest, texts)


def heading(state: RunsState, chosen: TableColumns) -> Line:
    """Return the names of the columns; a device has its name of the rest of the screen."""
    gpu = state.machine.gpu_column
    labels = {gpu.torch: gpu.label} if gpu and gpu.torch else {}
    words = " " * LEAD + left("name", chosen.name)
    for name, cells in chosen.cells.items():
        words += " " * GAP + right(CPU if name == CPU else labels.get(name, name), cells)
    return (Span(words + " " * GAP + "state", TextStyle.QUIET),)


def entry_line(entry: Entry, chosen: TableColumns, *, under_cursor: bool) -> Line:
    """One line of the table."""
    mark = Span(
        left(glyphs.GLYPHS.selected, LEAD) if under_cursor else " " * LEAD, TextStyle.STRONG
    )
    if isinstance(entry, Group):
        sign = glyphs.GLYPHS.folded if entry.folded else glyphs.GLYPHS.unfolded
        size = f" ({text.count(entry.size, 'workload')})" if entry.folded else ""
        lead = left(sign, LEAD)
        return (Span(f"{lead}{entry.name}", TextStyle.STRONG), Span(size, TextStyle.QUIET))
    spans: list[Span] = [mark, Span(left(entry.name.text, chosen.name), entry.name.style)]
    filled = [name for name in chosen.cells if entry.cells.get(name, Span("")).text]
    last = list(chosen.cells).index(filled[-1]) if filled else -1
    spill = width(entry.state) > chosen.state
    for position, (name, cells) in enumerate(chosen.cells.items()):
        if spill and position > last:
            break
        cell = entry.cells.get(name, Span(""))
        spans.append(Span(" " * GAP + right(cell.text, cells), cell.style))
    spans.append(Span(" " * GAP))
    room = chosen.state + sum(
        GAP + cells for place, cells in enumerate(chosen.cells.values()) if spill and place > last
    )
    return (*spans, *fit_line(entry.state, room))
