"""The table of processes: its columns, its lines, and the details below it. Pure."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tui.allocators.messages import TorchProcess
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.memory import ProcessMemory
from tui.devices.memory.model import Absent, Reading, Stale, Value, format_reading, get_value
from tui.devices.state.watched_processes import WatchedProcesses
from tui.devices.views.process_rows import ORDERS, Order, ProcessRow
from tui.kit.lines import LAYERS, Line, Span, TextStyle, cell_len, line, paragraph
from tui.kit.table import REST, Column, Layout, fit_columns, heading_line, order_at, row_line
from tui.monitor.messages import Device

JOB_MARK = {False: "▌", True: "|"}
"""A sign in the color that a job has in the bars of the GPUs; in ASCII or not."""


class _Row(NamedTuple):
    """A row with what its cells depend on."""

    row: ProcessRow
    now: float
    """Unix time, for the age."""
    color: int | None
    """Number of the job's color."""


def _percent(value: float | None) -> str:
    return "" if value is None else text.percent(value)


def _size(value: int | None) -> str:
    return "" if value is None else text.size(value)


def _drop_age(figure: Reading[int]) -> Reading[int]:
    """Remove the age, for which a column has no room; the details below the table show it."""
    return Value(figure.value) if isinstance(figure, Stale) else figure


def _format_absence(row: ProcessRow) -> str:
    return "" if row.process is None else text.NA


def _style(row: ProcessRow) -> TextStyle:
    return TextStyle.PLAIN if row.process or row.pid else TextStyle.QUIET


def _text_cell(format_value: Callable[[ProcessRow], str]) -> Callable[[_Row], Span]:
    """Return a cell in the row's style."""
    return lambda shown: Span(format_value(shown.row), _style(shown.row))


def _torch_cell(
    pick: Callable[[ProcessMemory], Reading[int]],
    format_value: Callable[[int], str] = text.size,
    cells: int | None = None,
) -> Callable[[_Row], Span]:
    """Return a cell with an allocator's figure; blank for a process without torch.

    Args:
        pick: reads the figure.
        format_value: how it is written.
        cells: a longer word on why it is not known is n/a, as other columns have the word; ``None``
            for any word.
    """

    def cell(shown: _Row) -> Span:
        row, torch = shown.row, shown.row.torch
        if torch is None:
            return Span("", _style(row))
        read = isinstance(torch.allocated, Value)
        figure = _drop_age(pick(torch))
        words = format_reading(figure, format_value)
        if isinstance(figure, Absent) and cells is not None and len(words) > cells:
            words = text.NA
        return Span(words, _style(row) if read else TextStyle.QUIET)

    return cell


def _mark_cell(shown: _Row) -> Span:
    if shown.color is None:
        return Span(" ")
    return Span(JOB_MARK[glyphs.GLYPHS.ascii], LAYERS[shown.color])


def _pid_cell(shown: _Row) -> Span:
    """Return the cell of the PID, which highlights processes of this workbench."""
    row = shown.row
    own = row.worker or (row.process is not None and row.process.ours)
    return Span(str(row.pid or ""), TextStyle.STRONG if own else _style(row))


def _memory_cell(shown: _Row) -> Span:
    return Span(text.size(shown.row.memory), TextStyle.STRONG)


def _age_cell(shown: _Row) -> Span:
    row, now = shown.row, shown.now
    if row.started_at is None:
        return Span(_format_absence(row), _style(row))
    return Span(text.old(max(0.0, now - row.started_at)), _style(row))


def _format_command(row: ProcessRow) -> str:
    why = _join_reasons(row)
    command = row.shown[0] or row.command
    return f"{_draw_branches(row.branches)}{_format_rank(row.torch_process)}{command}" + (
        f" ({why})" if why else ""
    )


def _draw_branches(branches: tuple[bool, ...]) -> str:
    """Return the lines of the tree before a command; empty for a process without a parent."""
    if not branches:
        return ""
    drawn = glyphs.GLYPHS
    *above, own = branches
    lines = [f"{drawn.wall} " if follows else "  " for follows in above]
    return f"{''.join(lines)}{drawn.branch if own else drawn.corner} "


COMMAND = "command"
_COLUMNS: tuple[Column[_Row], ...] = (
    Column("", 1, _mark_cell, gap=0),
    Column("pid", 7, _pid_cell, gap=0, order="pid"),
    Column(
        "user", 8, _text_cell(lambda row: row.user or _format_absence(row)),
        "left", gap=1, order="user",
    ),
    Column("gpu", 7, _text_cell(lambda row: row.gpu), "left", gap=1, order="gpu"),
    Column("memory", 9, _memory_cell, gap=1, order="memory"),
    Column(
        "allocated", 10, _torch_cell(lambda torch: torch.allocated),
        gap=1, drop_order=10, leaves=12, order="allocated",
    ),
    Column(
        "cached", 9, _torch_cell(lambda torch: torch.cached),
        gap=1, drop_order=7, leaves=19, order="cached",
    ),
    Column("context", 9, _torch_cell(lambda torch: torch.context), gap=1, drop_order=6, leaves=23),
    Column(
        "peak", 9, _torch_cell(lambda torch: torch.peak),
        gap=1, drop_order=5, leaves=23, order="peak",
    ),
    Column(
        "retries", 7, _torch_cell(lambda torch: torch.retries, text.count, 7),
        gap=1, drop_order=4, leaves=27,
    ),
    Column(
        "ooms", 4, _torch_cell(lambda torch: torch.ooms, text.count, 4),
        gap=1, drop_order=3, leaves=22,
    ),
    Column(
        "sm", 5, _text_cell(lambda row: _percent(row.sm_percent)),
        gap=1, drop_order=9, leaves=22, order="sm",
    ),
    Column(
        "cpu", 6, _text_cell(lambda row: _percent(row.cpu_percent)),
        gap=1, drop_order=8, leaves=17, order="cpu",
    ),
    Column(
        "host", 9, _text_cell(lambda row: _size(row.host_memory)),
        gap=1, drop_order=1, leaves=33, order="host",
    ),
    Column("kind", 9, _text_cell(lambda row: row.kind), "left", gap=1, drop_order=0, leaves=33),
    Column("age", 6, _age_cell, gap=1, drop_order=2, leaves=29, order="age"),
    Column(COMMAND, 1, _text_cell(_format_command), "left", grows=(REST,)),
)  # fmt: skip
"""All columns from the left; add a column here to show another figure of a process."""
_TORCH = {"allocated", "cached", "context", "peak", "retries", "ooms"}
"""Columns that appear only if a listed process is known to use torch."""
_GPU = _TORCH | {"gpu", "sm", "host"}
"""Columns that the list of the host's processes does not have."""
_NAMES = {"sm_percent": "sm", "cpu_percent": "cpu", "host_memory": "host"}
"""Column headings by field."""


@functools.lru_cache(maxsize=4)
def columns(cells: int, *, of_host: bool, torch: bool = False) -> Layout[_Row]:
    """Return the columns of a row of this width.

    Args:
        cells: width of a row.
        of_host: the rows are the host's processes.
        torch: a listed process is known to use torch.
    """
    out = (_GPU if of_host else set()) | (set() if torch else _TORCH)
    return fit_columns([column for column in _COLUMNS if column.name not in out], cells)


def heading(order: Order, cells: int, *, of_host: bool = False, torch: bool = False) -> Line:
    """Return the column names, with a mark on the sort column."""
    return heading_line(columns(cells, of_host=of_host, torch=torch), order)


def find_order(
    cell: int, cells: int, *, of_host: bool = False, torch: bool = False
) -> Order | None:
    """Return the sort order of the heading at a cell, or ``None`` without a heading there."""
    return order_at(columns(cells, of_host=of_host, torch=torch), cell, ORDERS)


def unread_notes(allocators: WatchedProcesses) -> list[str]:
    """Return notes on the watch and, if NVML lists no process, on unread torch processes."""
    status = allocators.status
    notes = [status.reason] if status.status == "restarting" and status.reason else []
    if allocators.listed:
        return notes
    refused = Counter(
        process.reason for process in allocators.processes if process.refused and not process.ours
    )
    advice = {process.reason: process.advice for process in reversed(allocators.processes)}
    for reason, times in refused.items():
        subject = text.count(times, "torch process is", "torch processes are")
        help_words = f"; {advice[reason]}" if advice[reason] else ""
        notes.append(f"{subject} not read: {reason}{help_words}")
    return notes


# ---- lines -------------------------------------------------------------------------------------


def process_line(
    row: ProcessRow,
    now: float,
    cells: int,
    *,
    of_host: bool = False,
    torch: bool = False,
    color: int | None = None,
) -> Line:
    """Return the line of one row, with the mark of its job's color if it has one."""
    layout = columns(cells, of_host=of_host, torch=torch)
    if layout and cell_len(_format_command(row)) > layout[-1].width:
        row = replace(row, shown=(row.shown[1], row.shown[1]))
    if row.pid is None and layout and cell_len(_format_command(row)) > layout[-1].width:
        # Unattributed memory: the explanation appears below the list under the cursor.
        row = replace(row, command=row.command.partition(":")[0])
    return row_line(layout, _Row(row, now, color))


def explain_no_rows(
    devices: Sequence[Device], pattern: str, cells: int, *, of_host: bool = False
) -> list[Line]:
    """Return the text in place of an empty list; none while the processes are not known.

    Args:
        devices: NVML's devices.
        pattern: the filter, which may have left no row.
        cells: the width.
        of_host: the list is of the host's processes.
    """
    if pattern:
        words = (
            f"No process matches {pattern}. A word matches a GPU, user or command. Escape clears"
            " the filter."
        )
    elif of_host or not devices or any(device.processes is None for device in devices):
        return []
    else:
        subject = "the GPU" if len(devices) == 1 else text.count(len(devices), "GPU")
        words = f"NVML lists no process on {subject}."
    return [line("  ", *row) for row in paragraph(words, max(1, cells - 2), TextStyle.NOTE)]


def _format_rank(process: TorchProcess | None) -> str:
    """Return the process's rank, if its launcher has set it."""
    if process is None or process.rank is None:
        return ""
    return (
        f"rank {process.rank}/{process.world_size} "
        if process.world_size
        else f"rank {process.rank} "
    )


def _join_reasons(row: ProcessRow) -> str:
    """Return the reasons for unknown identity or memory; other reasons appear below.

    A process that this program cannot see has its long reason below only.
    """
    absent = row.process.unavailable if row.process else {}
    if absent.get("command", "").startswith("no such process"):
        return "not visible"
    return "; ".join(
        dict.fromkeys(absent[name] for name in ("user", "command", "memory") if name in absent)
    )


def selected_lines(row: ProcessRow | None, cells: int) -> list[Line]:
    """Return a process's command, its torch memory, and the reasons for unknown facts."""
    if row is None:
        return []
    item = row.process
    command = item.command if item else row.command
    lines = paragraph(f"{row.pid or row.gpu}  {command or text.NA}", cells)
    lines += selected_torch_lines(row, cells)
    reasons: dict[str, list[str]] = {}
    for name, reason in (item.unavailable if item else {}).items():
        reasons.setdefault(reason, []).append(_NAMES.get(name, name))
    for reason, names in reasons.items():
        lines += paragraph(f"{', '.join(names)} n/a: {reason}", cells, TextStyle.QUIET)
    return lines


def selected_torch_lines(row: ProcessRow, cells: int) -> list[Line]:
    """Return the lines about a process's torch memory, or why it is unknown."""
    torch = row.torch
    if torch is None:
        return []
    subject = describe_torch(row.torch_process)
    if isinstance(torch.allocated, Absent):
        advice = f"; {torch.advice}" if torch.advice else ""
        return paragraph(f"{subject}: {torch.allocated.reason}{advice}", cells, TextStyle.NOTE)
    figures = [
        f"{name} {format_reading(size, format_value)}"
        for name, size, format_value in (
            ("allocated", torch.allocated, text.size),
            ("cached", torch.cached, text.size),
            ("context", torch.context, text.size),
            ("peak with cuBLAS", torch.peak, text.size),
            ("alloc retries", torch.retries, text.count),
            ("OOMs", torch.ooms, text.count),
        )
        if not (isinstance(size, Absent) and not size.short)
        and not (name in ("alloc retries", "OOMs") and get_value(size) == 0)
    ]
    return paragraph(f"{subject}: {', '.join(figures)}", cells)


def describe_torch(process: TorchProcess | None) -> str:
    """Return the known ones of a process's torch version, rank and launcher."""
    if process is None:
        return "torch"
    words = [f"torch {process.torch}" if process.torch else "torch"]
    if process.rank is not None:
        words.append(_format_rank(process).strip())
    if process.local_rank is not None:
        words.append(f"local rank {process.local_rank}")
    if process.launcher:
        words.append(f"by {process.launcher}")
    return ", ".join(words)
