"""The columns of the workload table, fitted to the line's width, and its lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import CPU
from tui.kit.lines import Line, Span, TextStyle, cell_len, fit, fit_line, left, plain, width
from tui.kit.table import REST, Column, Layout, PlacedColumn, fit_columns, row_line
from tui.runs.state.state import RunsState
from tui.runs.views.workload_table import (
    LIMIT,
    NAME,
    NOT_RUN,
    PEAK,
    RATE,
    SPEED_UP,
    STATE,
    Entry,
    Group,
    WorkloadRow,
    list_devices,
)
from workloads.protocol.groups import FIRST_STEPS, format_heading

_Shown = tuple[WorkloadRow, bool]
"""A workload, and true if it is under the cursor."""

LEAD = 2
"""Cells for the cursor and the glyph of a group."""
NAME_CELLS = (20, 40)
"""Least cells of a name, and the cells that it gets before any figure is dropped."""
NAME_GROWS = (26, 40, 60, 1000)
ALONE_GROWS = (30,)
"""Of a name without figures, whose title stands near it."""
STATE_LEAST, STATE_GROWS = 10, (14, 28, 60, REST)
"""Names and states grow in turns: a name distinguishes two runs by its parameters, and a state
can be a sentence."""
TIME_CELLS = 8
CELLS = {SPEED_UP: 8, RATE: 12, LIMIT: 12, PEAK: 11}
"""Least cells; columns of rates and of shares of a limit are as wide as their longest entry."""
WIDEST = 18
"""Most cells of such a column."""
DROPPED_FIRST = (PEAK, RATE, LIMIT, SPEED_UP)
"""Columns in the order in which a narrow table drops them; the detail pane shows all columns."""


def choose_columns(
    labels: Mapping[str, str],
    longest: int,
    room: int,
    shortest: int = 0,
    texts: Mapping[str, int] | None = None,
    *,
    started: bool = True,
) -> Layout[_Shown]:
    """Choose columns and widths.

    Args:
        labels: headings of the timing columns, by torch device.
        longest: cells of the longest workload name with its parameters.
        room: cells of a line.
        shortest: cells of the names that no figure is dropped for.
        texts: cells of the longest text in each column.
        started: something was run; before, columns other than the times would be empty.
    """
    cells = {name: max(TIME_CELLS, len(name)) for name in labels} | CELLS
    for name, size in (texts or {}).items():
        cells[name] = max(cells[name], min(size, WIDEST))
    figures = list(labels)
    if started:
        figures += [*([SPEED_UP] if len(labels) > 1 else []), RATE, LIMIT, PEAK]
    least = max(NAME_CELLS[0], min(shortest, NAME_CELLS[1]))
    widths = NAME_GROWS if started else ALONE_GROWS
    grows = tuple(min(most, longest) for most in widths)
    cursor, strong = glyphs.GLYPHS.selected, TextStyle.STRONG
    return fit_columns(
        [
            Column("", LEAD, lambda shown: Span(cursor if shown[1] else "", strong), "left", gap=0),
            Column(NAME, least, _choose_name, "left", gap=0, grows=grows),
            *(_make_figure_column(name, labels.get(name, name), cells[name]) for name in figures),
            Column(STATE, STATE_LEAST, lambda shown: shown[0].state, "left", grows=STATE_GROWS),
        ],
        room,
    )


def _choose_name(shown: _Shown) -> Span:
    """Return the name; only the row under the cursor has all parameters."""
    row, under_cursor = shown
    if row.dimmed and not under_cursor:
        return Span(row.name.text if row.brief is None else row.brief.text, TextStyle.QUIET)
    return row.name if under_cursor or row.brief is None else row.brief


def _make_figure_column(name: str, label: str, cells: int) -> Column[_Shown]:
    worth = DROPPED_FIRST.index(name) if name in DROPPED_FIRST else None
    return Column(label, cells, lambda shown: shown[0].cells.get(name, ""), drop_order=worth)


def fit_workload_columns(state: RunsState, entries: Sequence[Entry], room: int) -> Layout[_Shown]:
    """Return the columns for these entries; devices have the names used on the whole screen."""
    rows = [entry for entry in entries if isinstance(entry, WorkloadRow)]
    longest = max((row.name.width for row in rows), default=0)
    shortest = max((row.least for row in rows), default=0)
    texts = {
        name: max((row.cells[name].width for row in rows if name in row.cells), default=0)
        for name in (RATE, LIMIT, *list_devices(state))
    }
    gpu = state.machine.gpu_column
    known = {CPU: CPU, gpu.torch: gpu.label} if gpu and gpu.torch else {}
    labels = {name: known.get(name, name) for name in list_devices(state)}
    return choose_columns(labels, longest, room, shortest, texts, started=state.started)


def list_hidden_columns(state: RunsState, layout: Layout[_Shown]) -> tuple[str, ...]:
    """Return the names of the hidden columns, in the order in which they were dropped."""
    if not state.started:
        return ()
    shown = {placed.column.name for placed in layout}
    compares = len(list_devices(state)) > 1
    return tuple(
        name for name in DROPPED_FIRST if name not in shown and (compares or name != SPEED_UP)
    )


def _widen_name(layout: Layout[_Shown], shown: _Shown) -> Layout[_Shown]:
    """Return the columns of a row whose name has the blank cells before the first figure."""
    at = next((at for at, placed in enumerate(layout) if placed.column.name == NAME), None)
    if at is None or at + 1 >= len(layout):
        return layout
    name, figure = layout[at : at + 2]
    text = _format_figure(figure, shown)
    if not text:
        return layout  # a long state may need its cells
    spare = figure.width - cell_len(text)
    name = replace(name, width=name.width + spare)
    figure = replace(figure, start=figure.start + spare, width=figure.width - spare)
    return (*layout[:at], name, figure, *layout[at + 2 :])


LESSON = ", gpu-workbench learn"
"""Follows the heading of the folded first steps."""
GPU_ONLY, CPU_ONLY = "GPU only", "CPU only"
"""Follow the title of a workload that does not run on one of the table's devices."""


def draw_entry(
    entry: Entry,
    layout: Layout[_Shown],
    *,
    under_cursor: bool,
) -> Line:
    """Return a line of the table.

    A state that is too long for its column takes the cells of figures that the row lacks, and has
    fewer words where that is too little. The title of a workload without a run takes the place of
    its figures.

    Args:
        entry: a group or a workload.
        layout: the columns.
        under_cursor: the entry is under the cursor.
    """
    if isinstance(entry, Group):
        return _draw_heading(entry, layout[-1].end if layout else 0)
    if not layout:
        return ()
    is_titled = bool(entry.title) and entry.state == NOT_RUN
    if not is_titled:  # titles begin below each other
        layout = _widen_name(layout, (entry, under_cursor))
    room = next((placed.width for placed in layout if placed.column.name == NAME), 0)
    entry = replace(entry, name=cut_parameters(entry.name, room))
    shown = (entry, under_cursor)
    *others, state = layout
    if is_titled:
        lacking = [name for name, cell in entry.cells.items() if cell.text == text.NA]
        only = "" if not lacking else GPU_ONLY if CPU in lacking else CPU_ONLY
        words = f"{entry.title}  {only}".rstrip()
        while others and _format_figure(others[-1], shown) in ("", text.NA):
            start = others.pop().start
            state = replace(state, start=start, width=state.end - start)
        title = Span(fit(words, state.width), TextStyle.QUIET)
        return row_line((*others, state), (replace(entry, state=(title,)), under_cursor))
    if width(entry.state) > state.width or entry.running:
        others, state = _extend_state(others, state, shown)
    forms = (entry.state, *entry.shorter)
    form = next((form for form in forms if width(form) <= state.width), forms[-1])
    if form is not entry.state:
        shown = (replace(entry, state=form), under_cursor)
    return row_line((*others, state), shown)


def _extend_state(
    others: Sequence[PlacedColumn[_Shown]], state: PlacedColumn[_Shown], shown: _Shown
) -> tuple[list[PlacedColumn[_Shown]], PlacedColumn[_Shown]]:
    """Return the columns with the state in the cells of figures that only a run that ended has.

    It begins at the same cell in each such row.
    """
    shown_figures = [placed.column.name for placed in others]
    names = (RATE, LIMIT, PEAK) if RATE in shown_figures else (SPEED_UP, LIMIT, PEAK)
    lacking = [placed for placed in others if placed.column.name in names]
    if not lacking or any(_format_figure(placed, shown) for placed in lacking):
        return list(others), state
    start = lacking[0].start
    kept = [placed for placed in others if placed.column.name not in names]
    return kept, replace(state, start=start, width=state.end - start)


def has_figures(entries: Sequence[Entry]) -> bool:
    """Return whether a row has a figure, or waits for one: columns without any have no heading."""
    rows = [entry for entry in entries if isinstance(entry, WorkloadRow)]
    blank = ("", text.NA)
    return any(cell.text not in blank for row in rows for cell in row.cells.values()) or any(
        row.state != NOT_RUN for row in rows
    )


def cut_parameters(name: Span, cells: int) -> Span:
    """Return a name with as many whole parameters as fit, and a mark where some are left out.

    Args:
        name: of a workload, with its parameters.
        cells: width of the column.
    """
    if name.width <= cells:
        return name
    words, mark = name.text.split(" "), f" {glyphs.GLYPHS.ellipsis}"
    while len(words) > 1 and cell_len(" ".join(words) + mark) > cells:
        words.pop()
    shortened = " ".join(words)
    return Span(shortened + mark if cell_len(shortened + mark) <= cells else shortened, name.style)


def _draw_heading(group: Group, room: int) -> Line:
    """Return a group's heading; where its question does not fit, the key alone."""
    sign = glyphs.GLYPHS.folded if group.folded else glyphs.GLYPHS.unfolded
    size = f" ({text.count(group.size, 'workload')})" if group.folded else ""
    heading = format_heading(group.name)
    if size and group.name == FIRST_STEPS and LEAD + len(heading + size + LESSON) <= room:
        size += LESSON
    if LEAD + len(heading) + len(size) > room:
        heading = group.name
    words = (Span(f"{left(sign, LEAD)}{heading}", TextStyle.HEADING), Span(size, TextStyle.QUIET))
    return fit_line(words, room)


def _format_figure(placed: PlacedColumn[_Shown], shown: _Shown) -> str | None:
    """Return a row's text in a column of figures; ``None`` for another column."""
    return plain(row_line((placed,), shown)).strip() if placed.column.align == "right" else None
