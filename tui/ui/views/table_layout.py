"""Where the table's cells stand at a given width, and which columns are left out when it is narrow.

The states of runs that go on or went wrong are longer than those that ended well, so a state takes
the empty cells to its left.
"""

from __future__ import annotations

from collections.abc import Sequence

from tui.state.pairing import CPU
from tui.state.store import Store
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, Tone, fit_line, left, right, width
from tui.ui.views.workload_table import LIMIT, PEAK, RATE, SPEED_UP, Entry, Group, Row, devices
from workloads.protocol.frozen import frozen

LEAD = 2
"""Cells for the cursor and for the glyph of a group."""
GAP = 2
NAME_CELLS = (20, 40)
STATE_CELLS = (10, 28)
TIME_CELLS = 8
CELLS = {SPEED_UP: 8, RATE: 16, LIMIT: 12, PEAK: 11}
DROPPED_FIRST = (PEAK, RATE, LIMIT, SPEED_UP)
"""Left out in this order where there is no room; the detail pane has all of them."""


@frozen
class Columns:
    """The columns that fit, with their widths in cells."""

    name: int
    cells: dict[str, int]
    state: int
    hidden: tuple[str, ...]


def columns(names: Sequence[str], longest: int, room: int, shortest: int = 0) -> Columns:
    """Choose columns and widths.

    Args:
        names: torch devices of the timing columns.
        longest: cells of the longest workload name with its parameters.
        room: cells of a line.
        shortest: cells of the names that figures are not left out for.
    """
    cells = {name: max(TIME_CELLS, len(name)) for name in names}
    if len(names) > 1:
        cells[SPEED_UP] = CELLS[SPEED_UP]
    cells |= {name: CELLS[name] for name in (RATE, LIMIT, PEAK)}
    hidden: list[str] = []
    least = max(NAME_CELLS[0], min(shortest, NAME_CELLS[1]))

    def needed() -> int:
        return LEAD + least + GAP + STATE_CELLS[0] + sum(GAP + size for size in cells.values())

    for name in DROPPED_FIRST:
        if needed() > room and name in cells:
            del cells[name]
            hidden.append(name)
    spare = room - needed()
    if spare < 0:
        return Columns(max(4, least + spare), cells, STATE_CELLS[0], tuple(hidden))
    # The name comes first: its parameters tell two runs apart.
    more = min(spare, max(0, min(longest, NAME_CELLS[1]) - least))
    return Columns(least + more, cells, STATE_CELLS[0] + spare - more, tuple(hidden))


def columns_for(store: Store, found: Sequence[Entry], room: int) -> Columns:
    """The columns for these entries."""
    rows = [entry for entry in found if isinstance(entry, Row)]
    longest = max((row.name.width for row in rows), default=0)
    shortest = max((row.least for row in rows), default=0)
    return columns(devices(store), longest, room, shortest)


def heading(store: Store, chosen: Columns) -> Line:
    """The names of the columns; a device is called what it is called elsewhere on the screen."""
    gpu = store.gpu_column
    labels = {gpu.torch: gpu.label} if gpu and gpu.torch else {}
    words = " " * LEAD + left("name", chosen.name)
    for name, cells in chosen.cells.items():
        words += " " * GAP + right(CPU if name == CPU else labels.get(name, name), cells)
    return (Span(words + " " * GAP + "state", Tone.QUIET),)


def entry_line(entry: Entry, chosen: Columns, *, under_cursor: bool) -> Line:
    """One line of the table."""
    mark = Span(left(glyphs.GLYPHS.selected, LEAD) if under_cursor else " " * LEAD, Tone.STRONG)
    if isinstance(entry, Group):
        sign = glyphs.GLYPHS.folded if entry.folded else glyphs.GLYPHS.unfolded
        size = f" ({text.count(entry.size, 'workload')})" if entry.folded else ""
        lead = left(sign, LEAD)
        return (Span(f"{lead}{entry.name}", Tone.STRONG), Span(size, Tone.QUIET))
    spans: list[Span] = [mark, Span(left(entry.name.text, chosen.name), entry.name.tone)]
    filled = [name for name in chosen.cells if entry.cells.get(name, Span("")).text]
    last = list(chosen.cells).index(filled[-1]) if filled else -1
    spill = width(entry.state) > chosen.state
    for position, (name, cells) in enumerate(chosen.cells.items()):
        if spill and position > last:
            break
        cell = entry.cells.get(name, Span(""))
        spans.append(Span(" " * GAP + right(cell.text, cells), cell.tone))
    spans.append(Span(" " * GAP))
    room = chosen.state + sum(
        GAP + cells for place, cells in enumerate(chosen.cells.values()) if spill and place > last
    )
    return (*spans, *fit_line(entry.state, room))
