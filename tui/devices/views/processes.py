"""The table of processes: its columns and lines, and what stands below it on a process. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.allocators.messages import TorchProcess
from tui.devices.memory import ProcessMemory
from tui.devices.memory.model import Absent, Reading, Stale, Value, reading_text
from tui.devices.state.allocators import Allocators
from tui.devices.views.process_rows import Order, ProcessRow
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    fit_line,
    left,
    paragraph,
    right,
)


@dataclass(frozen=True, slots=True)
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


def _torch_column(
    name: str,
    cells: int,
    order: Order | None,
    from_cells: int,
    pick: Callable[[ProcessMemory], Reading[int]],
    say: Callable[[int], str] = text.size,
) -> Column:
    """Return a figure of an allocator; blank where torch is not in the process."""

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
    _torch_column("allocated", 10, "allocated", 60, lambda torch: torch.allocated),
    _torch_column("cached", 9, "cached", 90, lambda torch: torch.cached),
    _torch_column("context", 9, None, 104, lambda torch: torch.context),
    _torch_column("peak", 9, "peak", 114, lambda torch: torch.peak),
    _torch_column("retries", 7, None, 126, lambda torch: torch.retries, text.count),
    _torch_column("ooms", 4, None, 126, lambda torch: torch.ooms, text.count),
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
_NAMES = {"sm_percent": "sm", "cpu_percent": "cpu", "host_memory": "host"}
"""Fields by the heading of their column."""


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
    """Return a column's text in its cells, with the blank before it."""
    place = right if column.numeric else left
    return f" {place(words, column.cells)}"


def heading(order: Order, cells: int, *, of_host: bool = False, torch: bool = False) -> Line:
    """Return the columns' names; the one that the rows are sorted by is marked."""
    spans: list[Span] = []
    for column in columns(cells, of_host=of_host, torch=torch):
        sorts = column.order == order
        word = column.name + (glyphs.GLYPHS.unfolded if sorts else "")
        spans.append(Span(placed(column, word), TextStyle.KEY if sorts else TextStyle.QUIET))
    return fit_line((*spans, Span(f"  {COMMAND}", TextStyle.QUIET)), cells)


def order_at(cell: int, cells: int, *, of_host: bool = False, torch: bool = False) -> Order | None:
    """Return the order that the heading in a cell sorts by; ``None`` for none."""
    end = 0
    for column in columns(cells, of_host=of_host, torch=torch):
        end += column.cells + 1
        if cell < end:
            return column.order
    return None


def unread_notes(allocators: Allocators) -> list[str]:
    """How the watch is, and where NVML lists nobody, which torch processes are not read and why."""
    status = allocators.status
    notes = [status.reason] if status.status == "restarting" and status.reason else []
    if allocators.listed:
        return notes
    refused = Counter(
        each.reason for each in allocators.processes if each.refused and not each.ours
    )
    advice = {each.reason: each.advice for each in reversed(allocators.processes)}
    for reason, times in refused.items():
        who = text.count(times, "torch process is", "torch processes are")
        help_words = f"; {advice[reason]}" if advice[reason] else ""
        notes.append(f"{who} not read: {reason}{help_words}")
    return notes


# ---- lines -------------------------------------------------------------------------------------


def process_line(
    row: ProcessRow, now: float, cells: int, *, of_host: bool = False, torch: bool = False
) -> Line:
    """One row; what belongs to this workbench is named as that."""
    item = row.process
    ours = row.worker or (item is not None and item.ours)
    style = TextStyle.PLAIN if item or row.pid else TextStyle.QUIET
    spans: list[Span] = []
    for column in columns(cells, of_host=of_host, torch=torch):
        own = style
        if column.of_torch and row.torch and not isinstance(row.torch.allocated, Value):
            own = TextStyle.QUIET
        if (column.name == "pid" and ours) or column.name == "memory":
            own = TextStyle.STRONG
        spans.append(Span(placed(column, column.say(row, now)), own))
    indent = "  " * (row.depth - 1) + f"{glyphs.GLYPHS.corner} " if row.depth else ""
    why = _why_unknown(row)
    words = f"  {indent}{_rank(row.told)}{row.command}" + (f" ({why})" if why else "")
    if row.pid is None and len(words) + sum(span.width for span in spans) > cells:
        # Nobody's memory: what that is stands below the list, with the cursor on it.
        words = words.partition(":")[0]
    return fit_line((*spans, Span(words, style)), cells)


def _rank(told: TorchProcess | None) -> str:
    """Which of several processes it is, where its launcher has told it."""
    if told is None or told.rank is None:
        return ""
    return f"rank {told.rank}/{told.world_size} " if told.world_size else f"rank {told.rank} "


def _why_unknown(row: ProcessRow) -> str:
    """Why it is not known who it is, or what it holds; the reasons of the rest stand below."""
    absent = row.process.unavailable if row.process else {}
    return "; ".join(
        dict.fromkeys(absent[name] for name in ("user", "command", "memory") if name in absent)
    )


def selected_lines(row: ProcessRow | None, cells: int) -> list[Line]:
    """Return the command of a process, its torch memory, and reasons for what is not known."""
    if row is None:
        return []
    item = row.process
    command = item.command if item else row.command
    lines = paragraph(f"{row.pid or row.gpu}  {command or text.NA}", cells)
    lines += _torch_lines(row, cells)
    reasons: dict[str, list[str]] = {}
    for name, reason in (item.unavailable if item else {}).items():
        reasons.setdefault(reason, []).append(_NAMES.get(name, name))
    for reason, names in reasons.items():
        lines += paragraph(f"{', '.join(names)} n/a: {reason}", cells, TextStyle.QUIET)
    return lines


def _torch_lines(row: ProcessRow, cells: int) -> list[Line]:
    torch = row.torch
    if torch is None:
        return []
    who = torch_words(row.told)
    if isinstance(torch.allocated, Absent):
        advice = f"; {torch.advice}" if torch.advice else ""
        return paragraph(f"{who}: {torch.allocated.reason}{advice}", cells, TextStyle.NOTE)
    figures = [
        f"{name} {reading_text(size, say)}"
        for name, size, say in (
            ("allocated", torch.allocated, text.size),
            ("cached", torch.cached, text.size),
            ("context", torch.context, text.size),
            ("peak allocated", torch.peak, text.size),
            ("alloc retries", torch.retries, text.count),
            ("out of memory", torch.ooms, text.count),
        )
        if not (isinstance(size, Absent) and not size.short)
    ]
    return paragraph(f"{who}: {', '.join(figures)}", cells)


def torch_words(told: TorchProcess | None) -> str:
    """Version of torch, rank and launcher of a process, as far as they are known."""
    if told is None:
        return "torch"
    words = [f"torch {told.torch}" if told.torch else "torch"]
    if told.rank is not None:
        words.append(_rank(told).strip())
    if told.local_rank is not None:
        words.append(f"local rank {told.local_rank}")
    if told.launcher:
        words.append(f"by {told.launcher}")
    return ", ".join(words)
