"""A table of torch's processes as text: one line for each device of each process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tui.core.text import numbers as fmt
from tui.kit.lines import plain
from tui.kit.table import REST, Column, fit_columns, heading_line, row_line, widest
from tui.watch.cli.output import WatchedProcessRow
from workloads.protocol.messages import TorchMemory

_LEAST_COMMAND = 16
"""Fewest cells of the command's column before another column is dropped."""

_Row = tuple[WatchedProcessRow, TorchMemory | None, str]
"""A process, its figures on one device (``None`` if none were read), and its host."""
_Say = Callable[[_Row], str]


def table(
    rows: Sequence[WatchedProcessRow], room: int | None = None, *, hosts: Sequence[str] = ()
) -> list[str]:
    """Return a line for each device of each process under the headings; empty without processes.

    Args:
        rows: the processes to show.
        room: cells of a line; columns that do not fit are left out. ``None`` for no limit.
        hosts: the host of each process, for a table of several hosts.
    """
    names = hosts or ("",) * len(rows)
    shown: list[_Row] = [
        (row, figure, host)
        for row, host in zip(rows, names, strict=True)
        for figure in row.figures or (None,)
    ]
    if not shown:
        return []
    columns = [
        *([_column("host", lambda row: row[2], shown, left=True)] if hosts else ()),
        _column("pid", lambda row: str(row[0].process.pid), shown),
        _column("user", lambda row: row[0].process.user or fmt.NA, shown, drop_order=1, left=True),
        _column("rank", _rank, shown),
        _column(
            "torch", lambda row: row[0].process.torch or fmt.NA, shown, drop_order=0, left=True
        ),
        _column("device", lambda row: row[1].device if row[1] else fmt.NA, shown, left=True),
        _column("allocated", _figure(lambda figures: figures.allocated), shown),
        _column("peak", _figure(lambda figures: figures.allocated_peak), shown, drop_order=3),
        _column("reserved", _figure(lambda figures: figures.reserved), shown),
        _column("peak", _figure(lambda figures: figures.reserved_peak), shown, drop_order=2),
        _column("process", _process, shown),
        _column("retries", _figure(lambda figures: figures.alloc_retries, fmt.count), shown),
        _column("ooms", _figure(lambda figures: figures.ooms, fmt.count), shown, drop_order=4),
        _command_column(shown),
    ]
    columns[0] = replace(columns[0], gap=0)
    layout = fit_columns(columns, REST if room is None else room)
    lines = [heading_line(layout), *(row_line(layout, row) for row in shown)]
    return [plain(line).rstrip() for line in lines]


def _column(
    name: str, say: _Say, rows: Sequence[_Row], drop_order: int | None = None, *, left: bool = False
) -> Column[_Row]:
    """Return a column as wide as its longest text."""
    cells = widest((name, *map(say, rows)))
    return Column(name, cells, say, "left" if left else "right", 2, drop_order)


def _command_column(rows: Sequence[_Row]) -> Column[_Row]:
    whole = widest(("command", *map(_command, rows)))
    return Column("command", min(whole, _LEAST_COMMAND), _command, "left", grows=(whole,))


def _command(row: _Row) -> str:
    return row[0].process.command or fmt.NA


def _torch(row: _Row) -> str:
    return row[0].process.torch or fmt.NA


def _rank(row: _Row) -> str:
    process = row[0].process
    if process.rank is None:
        return fmt.NA
    return f"{process.rank}" + (f"/{process.world_size}" if process.world_size is not None else "")


def _figure(pick: Callable[[TorchMemory], int], say: Callable[[int], str] = fmt.size) -> _Say:
    return lambda row: fmt.NA if row[1] is None else say(pick(row[1]))


def _process(row: _Row) -> str:
    """Return NVML's figure: for the device, or for all devices if torch is not read."""
    process, figures, _ = row
    if figures is not None:
        return fmt.size(process.placed[figures.device].process)
    known = [memory for memory, _ in process.listed.values() if memory is not None]
    return fmt.size(sum(known) if known and len(known) == len(process.listed) else None)
