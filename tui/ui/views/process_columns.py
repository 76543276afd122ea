"""The columns of the table of processes: which of them there are at a width, and what each says."""

from __future__ import annotations

from collections.abc import Callable

from tui.memory import OtherProcess
from tui.state.reading import Reading, Stale, Value, reading_text
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, left, right
from tui.ui.views.process_rows import Order, ProcessRow
from workloads.protocol.frozen import frozen


@frozen
class Column:
    """One column of the table; another figure of a process is another of these."""

    name: str
    cells: int
    order: Order | None
    """What a click on its heading sorts by."""
    from_cells: int
    """Width of a row from which it is there."""
    say: Callable[[ProcessRow, float], str]
    """The row's text, at a Unix time."""
    numeric: bool = True
    beside_torch: int | None = None
    """Width from which it is there beside what torch's allocators hold; as ``from_cells`` unless
    given."""
    of_torch: bool = False
    """It is there where torch processes are known alone."""
    of_host: bool = True
    """It is there for the processes of the host too."""


def _percent(value: float | None) -> str:
    return "" if value is None else text.percent(value)


def _size(value: int | None) -> str:
    return "" if value is None else text.size(value)


def _age(row: ProcessRow, now: float) -> str:
    return _na(row) if row.started_at is None else text.old(max(0.0, now - row.started_at))


def _of_torch(
    name: str,
    cells: int,
    order: Order | None,
    from_cells: int,
    pick: Callable[[OtherProcess], Reading[int]],
    say: Callable[[int], str] = text.size,
) -> Column:
    """A figure of an allocator; blank where torch is not in the process."""

    def told(row: ProcessRow, _now: float) -> str:
        return reading_text(_young(pick(row.torch)), say) if row.torch else ""

    return Column(name, cells, order, from_cells, told, of_torch=True, of_host=False)


def _young(figure: Reading[int]) -> Reading[int]:
    """Without its age, for which a column has no room; the row below tells it."""
    return Value(figure.value) if isinstance(figure, Stale) else figure


def _na(row: ProcessRow) -> str:
    return "" if row.process is None else text.NA


COLUMNS: tuple[Column, ...] = (
    Column("pid", 7, "pid", 0, lambda row, _now: str(row.pid or "")),
    Column("user", 8, "user", 0, lambda row, _now: row.user or _na(row), numeric=False),
    Column("gpu", 7, "gpu", 0, lambda row, _now: row.gpu, numeric=False, of_host=False),
    Column("memory", 9, "memory", 0, lambda row, _now: text.size(row.memory)),
    _of_torch("allocated", 10, "allocated", 60, lambda torch: torch.allocated),
    _of_torch("cached", 9, "cached", 90, lambda torch: torch.cached),
    _of_torch("context", 9, None, 104, lambda torch: torch.context),
    _of_torch("peak", 9, "peak", 114, lambda torch: torch.peak),
    _of_torch("retries", 7, None, 126, lambda torch: torch.retries, text.count),
    _of_torch("ooms", 4, None, 126, lambda torch: torch.ooms, text.count),
    Column("sm", 5, "sm", 66, lambda row, _now: _percent(row.sm_percent), of_host=False),
    Column("cpu", 6, "cpu", 72, lambda row, _now: _percent(row.cpu_percent)),
    Column(
        "host",
        9,
        "host",
        100,
        lambda row, _now: _size(row.host_memory),
        beside_torch=150,
        of_host=False,
    ),
    Column("kind", 9, None, 110, lambda row, _now: row.kind, numeric=False, beside_torch=170),
    Column("age", 6, "age", 86, _age, beside_torch=140),
)
"""From the left; what follows them is the command."""
COMMAND = "command"


def columns(cells: int, *, of_host: bool, torch: bool = False) -> list[Column]:
    """Those that a row of that width has.

    Args:
        cells: width of a row.
        of_host: for the host's processes.
        torch: whether any of them is known to use torch.
    """
    found = []
    for column in COLUMNS:
        least = column.from_cells
        if torch and column.beside_torch is not None:
            least = column.beside_torch
        if cells >= least and (column.of_host or not of_host) and (torch or not column.of_torch):
            found.append(column)
    return found


def placed(column: Column, words: str) -> str:
    """A column's text in its cells, with the blank before it."""
    place = right if column.numeric else left
    return f" {place(words, column.cells)}"


def heading(order: Order, cells: int, *, of_host: bool = False, torch: bool = False) -> Line:
    """The columns' names; the one that the rows are sorted by is marked."""
    spans: list[Span] = []
    for column in columns(cells, of_host=of_host, torch=torch):
        sorts = column.order == order
        word = column.name + (glyphs.GLYPHS.unfolded if sorts else "")
        spans.append(Span(placed(column, word), TextStyle.KEY if sorts else TextStyle.QUIET))
    return fit_line((*spans, Span(f"  {COMMAND}", TextStyle.QUIET)), cells)


def order_at(cell: int, cells: int, *, of_host: bool = False, torch: bool = False) -> Order | None:
    """What the heading in a cell sorts by; ``None`` where it sorts by nothing."""
    end = 0
    for column in columns(cells, of_host=of_host, torch=torch):
        end += column.cells + 1
        if cell < end:
            return column.order
    return None
