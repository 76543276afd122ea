"""Output of ``watch`` about processes and stored runs, as plain data and as text."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.allocators.messages import (
    Placed,
    ProcessFigures,
    TorchProcess,
    listed_in,
    place_listed,
    rows_by_pid,
)
from tui.core.text import numbers as fmt
from tui.kit.lines import plain
from tui.kit.table import REST, Column, fit_columns, heading_line, row_line, widest
from tui.monitor.messages import Device
from tui.watch.runs import runs
from tui.watch.runs.process_logs import snapshots_in
from tui.watch.runs.run_summary import describe_unseen_end, signal_name
from tui.watch.runs.runs import StartedRun
from workloads.protocol.messages import TorchMemory

WHAT_IS_READ = (
    "torch's allocator statistics, read from each process's memory; nothing runs in a process or "
    "stops it"
)
FIGURES = (
    "allocated",
    "allocated_peak",
    "reserved",
    "reserved_peak",
    "requested",
    "active",
    "inactive_split",
    "alloc_retries",
    "ooms",
)


@dataclass(frozen=True, slots=True)
class WatchedProcessRow:
    """A process, its devices, and NVML's memory of each."""

    process: TorchProcess
    figures: tuple[TorchMemory, ...]
    placed: Mapping[str, Placed]
    listed: Mapping[str, tuple[int | None, str]]
    """Memory that NVML reports for the process, by the device's id."""
    silent: Mapping[str, str]
    """Why a device has no figures now, by its name."""
    host_rss: int | None = None
    """Resident bytes of host memory."""


def rows_of(
    processes: Sequence[TorchProcess], figures: ProcessFigures, devices: Sequence[Device]
) -> list[WatchedProcessRow]:
    """Join the watch's figures with NVML's."""
    rows, by_pid = [], rows_by_pid(devices)
    for process in processes:
        own = tuple(device for device in figures.devices if device.pid == process.pid)
        silent = {
            key.partition(" ")[2]: why
            for key, why in figures.unavailable.items()
            if key.startswith(f"{process.pid} ")
        }
        listed = listed_in(process, by_pid.get(process.pid, {}))
        placed = place_listed(process, own, devices, listed)
        resident = figures.host_rss.get(str(process.pid))
        rows.append(WatchedProcessRow(process, own, placed, listed, silent, resident))
    return rows


# ---- the table ----


_LEAST_COMMAND = 16
"""Fewest cells of the command's column before another column is dropped."""

_TableRow = tuple[WatchedProcessRow, TorchMemory | None, str]
"""A process, its figures on one device (``None`` if none were read), and its host."""
_FormatCell = Callable[[_TableRow], str]


def table_lines(
    rows: Sequence[WatchedProcessRow], room: int | None = None, *, hosts: Sequence[str] = ()
) -> list[str]:
    """Return a line for each device of each process under the headings; empty without processes.

    Args:
        rows: the processes to show.
        room: cells of a line; columns that do not fit are left out. ``None`` for no limit.
        hosts: the host of each process, for a table of several hosts.
    """
    names = hosts or ("",) * len(rows)
    shown: list[_TableRow] = [
        (row, figure, host)
        for row, host in zip(rows, names, strict=True)
        for figure in row.figures or (None,)
    ]
    if not shown:
        return []
    is_ranked = any(row.process.rank is not None for row in rows)
    columns = [
        *([_column("host", lambda row: row[2], shown, left=True)] if hosts else ()),
        _column("pid", lambda row: str(row[0].process.pid), shown),
        _column("user", lambda row: row[0].process.user or fmt.NA, shown, drop_order=1, left=True),
        *([_column("rank", _format_rank, shown)] if is_ranked else ()),
        _column(
            "torch", lambda row: row[0].process.torch or fmt.NA, shown, drop_order=0, left=True
        ),
        _column("device", lambda row: row[1].device if row[1] else fmt.NA, shown, left=True),
        _column("allocated", _figure_cell(lambda figures: figures.allocated), shown),
        _column("peak", _figure_cell(lambda figures: figures.allocated_peak), shown, drop_order=3),
        _column("reserved", _figure_cell(lambda figures: figures.reserved), shown),
        _column("peak", _figure_cell(lambda figures: figures.reserved_peak), shown, drop_order=2),
        _column("process", _format_process_memory, shown),
        _column("retries", _figure_cell(lambda figures: figures.alloc_retries, fmt.count), shown),
        _column("ooms", _figure_cell(lambda figures: figures.ooms, fmt.count), shown, drop_order=4),
        _command_column(shown),
    ]
    columns[0] = replace(columns[0], gap=0)
    layout = fit_columns(columns, REST if room is None else room)
    lines = [heading_line(layout), *(row_line(layout, row) for row in shown)]
    return [plain(line).rstrip() for line in lines]


def _column(
    name: str,
    format_cell: _FormatCell,
    rows: Sequence[_TableRow],
    drop_order: int | None = None,
    *,
    left: bool = False,
) -> Column[_TableRow]:
    """Return a column as wide as its longest text."""
    cells = widest((name, *map(format_cell, rows)))
    return Column(name, cells, format_cell, "left" if left else "right", 2, drop_order)


def _command_column(rows: Sequence[_TableRow]) -> Column[_TableRow]:
    whole = widest(("command", *map(_format_command, rows)))
    return Column("command", min(whole, _LEAST_COMMAND), _format_command, "left", grows=(whole,))


def _format_command(row: _TableRow) -> str:
    return row[0].process.command or fmt.NA


def _format_rank(row: _TableRow) -> str:
    process = row[0].process
    if process.rank is None:
        return fmt.NA
    return f"{process.rank}" + (f"/{process.world_size}" if process.world_size is not None else "")


def _figure_cell(
    pick: Callable[[TorchMemory], int], format_cell: Callable[[int], str] = fmt.size
) -> _FormatCell:
    return lambda row: fmt.NA if row[1] is None else format_cell(pick(row[1]))


def _format_process_memory(row: _TableRow) -> str:
    """Return NVML's figure: for the device, or for all devices if torch is not read."""
    process, figures, _ = row
    if figures is not None:
        return fmt.size(process.placed[figures.device].process)
    known = [memory for memory, _ in process.listed.values() if memory is not None]
    return fmt.size(sum(known) if known and len(known) == len(process.listed) else None)


# ---- plain data ----


def encode_processes(rows: Sequence[WatchedProcessRow]) -> dict[str, Any]:
    """Return the object of ``--json``: bytes, and for each ``null`` a reason under its path."""
    unavailable: dict[str, str] = {}
    processes = [
        _encode_process(row, f"processes.{place}", unavailable) for place, row in enumerate(rows)
    ]
    return {"processes": processes, "unavailable": unavailable}


def _encode_process(
    row: WatchedProcessRow, path: str, unavailable: dict[str, str]
) -> dict[str, Any]:
    process = row.process
    if process.reason and not row.figures:
        unavailable[path] = process.reason
    fields: dict[str, Any] = {"pid": process.pid}
    for name in ("start", "command", "user", "rank", "torch"):
        fields[name] = getattr(process, name)
        if fields[name] is None:
            unavailable[f"{path}.{name}"] = process.unavailable.get(name) or process.reason
    fields["host_rss"] = row.host_rss
    if row.host_rss is None:
        why = process.reason or "no figures of the process were read"
        unavailable[f"{path}.host_rss"] = why
    fields["sources"] = [
        *(["nvml"] if row.listed else []),
        *(["allocator"] if row.figures else []),
    ]
    devices: list[dict[str, Any]] = []
    for figure in row.figures:
        key = f"{path}.devices.{len(devices)}"
        devices.append(_encode_device(figure, row.placed[figure.device], key, unavailable))
    for name, why in row.silent.items():
        key = f"{path}.devices.{len(devices)}"
        ordinal = int(name.partition(":")[2])
        devices.append(_encode_silent_device(ordinal, why, key, unavailable))
    if not devices:
        for identity, (memory, why) in row.listed.items():
            key = f"{path}.devices.{len(devices)}"
            devices.append(
                _encode_listed_device(identity, memory, why, process.reason, key, unavailable)
            )
    fields["devices"] = devices
    return fields


def _encode_figures(
    ordinal: int | None,
    identity: str | None,
    figures: Mapping[str, int | None],
    process_bytes: int | None,
) -> dict[str, Any]:
    first = {name: figures.get(name) for name in FIGURES[:-2]}
    counts = {name: figures.get(name) for name in FIGURES[-2:]}
    return {"ordinal": ordinal, "id": identity, **first, "process": process_bytes, **counts}


def _encode_device(
    figures: TorchMemory, placed: Placed, key: str, unavailable: dict[str, str]
) -> dict[str, Any]:
    ordinal = int(figures.device.partition(":")[2])
    if placed.id is None:
        unavailable[f"{key}.id"] = placed.why_no_id
    if placed.process is None:
        unavailable[f"{key}.process"] = placed.why_no_process
    values = {name: getattr(figures, name) for name in FIGURES}
    return _encode_figures(ordinal, placed.id, values, placed.process)


def _encode_silent_device(
    ordinal: int, why: str, key: str, unavailable: dict[str, str]
) -> dict[str, Any]:
    unavailable |= {f"{key}.{name}": why for name in (*FIGURES, "id", "process")}
    return _encode_figures(ordinal, None, {}, None)


def _encode_listed_device(
    identity: str,
    memory: int | None,
    why: str,
    reason: str,
    key: str,
    unavailable: dict[str, str],
) -> dict[str, Any]:
    unavailable |= {f"{key}.{name}": reason for name in (*FIGURES, "ordinal")}
    if memory is None:
        unavailable[f"{key}.process"] = why
    return _encode_figures(None, identity, {}, memory)


# ---- text ----


def wrap(sentences: Sequence[str], room: int | None) -> list[str]:
    """Wrap sentences to lines of so many cells; one line each if there is no limit."""
    if room is None:
        return list(sentences)
    return [
        line
        for sentence in sentences
        # A command, such as gpu-workbench, is copied as a whole.
        for line in textwrap.wrap(sentence, room, subsequent_indent="  ", break_on_hyphens=False)
    ]


def reasons(rows: Sequence[WatchedProcessRow]) -> list[str]:
    """Return a line for each reason of missing figures, with advice."""
    lines = []
    for row in rows:
        process = row.process
        lines += [f"{process.pid} {name}: {why}" for name, why in row.silent.items()]
        if process.reason:
            advice = f"; {process.advice}" if process.advice else ""
            named = str(process.pid) in process.reason
            lines.append(f"{'' if named else f'{process.pid}: '}{process.reason}{advice}")
    return lines


def stored_run_lines() -> list[str]:
    """Return a line for each stored run, newest first; an empty list if there are none.

    Runs beyond the limits are dropped first.
    """
    runs.prune()
    stored = runs.stored_runs()
    if not stored:
        return []
    heading = f"stored runs, in {runs.folder()}; gpu-workbench watch NAME shows one:"
    return [heading, *map(_stored_run_line, stored)]


def _stored_run_line(run: StartedRun) -> str:
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began))
    size = fmt.size(runs.size_of(run.folder))
    snapshots = fmt.count(len(snapshots_in(run.folder)), "snapshot")
    command = run.problem or " ".join(run.command) or "by --env"
    end = f"{_end(run)}, protected" if run.is_protected else _end(run)
    return f"  {run.folder.name}  {began}  {end}  {snapshots}  {size}  {command}"


def _end(run: StartedRun) -> str:
    if run.ended is None and run.is_running:
        return "running"
    if run.signal is not None:
        return f"ended by {signal_name(run.signal)}"
    if run.code is not None:
        return f"exit code {run.code}"
    return describe_unseen_end(run.last_sign)


def encode_stored_runs() -> list[dict[str, Any]]:
    """Return the stored runs as plain data."""
    return [
        {
            "folder": str(run.folder),
            "command": list(run.command),
            "cwd": run.cwd,
            "began": run.began,
            "ended": run.ended,
            "last_sign": run.last_sign and {"at": run.last_sign.at, "end": run.last_sign.is_end},
            "goes_on": run.is_running,
            "exit": {"code": run.code, "signal": run.signal},
            "snapshots": sorted(str(path) for path in snapshots_in(run.folder)),
            **({"problem": run.problem} if run.problem else {}),
        }
        for run in runs.stored_runs()
    ]
