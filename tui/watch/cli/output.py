"""Output of ``watch`` about processes and stored runs, as plain data and as text."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from tui.monitor.messages import Device
from tui.watch.runs import runs
from tui.watch.runs.process_logs import snapshots_in
from tui.watch.runs.run_end import describe_unseen_end
from tui.watch.runs.run_summary import signal_name
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


# ---- plain data ----


def as_plain(rows: Sequence[WatchedProcessRow]) -> dict[str, Any]:
    """Return the object of ``--json``: bytes, and for each ``null`` a reason under its path."""
    unavailable: dict[str, str] = {}
    processes = [_process(row, unavailable) for row in rows]
    return {"processes": processes, "unavailable": unavailable}


def _process(row: WatchedProcessRow, unavailable: dict[str, str]) -> dict[str, Any]:
    process, path = row.process, f"processes.{row.process.pid}"
    if process.reason:
        unavailable[path] = process.reason
    plain: dict[str, Any] = {"pid": process.pid}
    for name in ("start", "command", "user", "rank", "torch"):
        plain[name] = getattr(process, name)
        if plain[name] is None:
            unavailable[f"{path}.{name}"] = process.unavailable.get(name) or process.reason
    plain["host_rss"] = row.host_rss
    if row.host_rss is None:
        why = process.reason or "no figures of the process were read"
        unavailable[f"{path}.host_rss"] = why
    plain["sources"] = [
        *(["nvml"] if row.listed else []),
        *(["allocator"] if row.figures else []),
    ]
    devices = [
        _device(figure, row.placed[figure.device], path, unavailable) for figure in row.figures
    ]
    devices += [
        _silent(int(name.partition(":")[2]), why, path, unavailable)
        for name, why in row.silent.items()
    ]
    if not devices:
        devices = [
            _of_nvml(identity, memory, why, process.reason, path, unavailable)
            for identity, (memory, why) in row.listed.items()
        ]
    plain["devices"] = devices
    return plain


def _plain_device(
    ordinal: int | None,
    identity: str | None,
    figures: Mapping[str, int | None],
    process_bytes: int | None,
) -> dict[str, Any]:
    first = {name: figures.get(name) for name in FIGURES[:-2]}
    counts = {name: figures.get(name) for name in FIGURES[-2:]}
    return {"ordinal": ordinal, "id": identity, **first, "process": process_bytes, **counts}


def _device(
    figures: TorchMemory, placed: Placed, path: str, unavailable: dict[str, str]
) -> dict[str, Any]:
    ordinal = int(figures.device.partition(":")[2])
    key = f"{path}.devices.{ordinal}"
    if placed.id is None:
        unavailable[f"{key}.id"] = placed.why_no_id
    if placed.process is None:
        unavailable[f"{key}.process"] = placed.why_no_process
    values = {name: getattr(figures, name) for name in FIGURES}
    return _plain_device(ordinal, placed.id, values, placed.process)


def _silent(ordinal: int, why: str, path: str, unavailable: dict[str, str]) -> dict[str, Any]:
    key = f"{path}.devices.{ordinal}"
    unavailable |= {f"{key}.{name}": why for name in (*FIGURES, "id", "process")}
    return _plain_device(ordinal, None, {}, None)


def _of_nvml(
    identity: str,
    memory: int | None,
    why: str,
    reason: str,
    path: str,
    unavailable: dict[str, str],
) -> dict[str, Any]:
    key = f"{path}.devices.{identity}"
    unavailable |= {f"{key}.{name}": reason for name in (*FIGURES, "ordinal")}
    if memory is None:
        unavailable[f"{key}.process"] = why
    return _plain_device(None, identity, {}, memory)


# ---- text ----


def wrap(sentences: Sequence[str], room: int | None) -> list[str]:
    """Wrap sentences to lines of so many cells; one line each if there is no limit."""
    if room is None:
        return list(sentences)
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, room, subsequent_indent="  ")
    ]


def reasons(rows: Sequence[WatchedProcessRow]) -> list[str]:
    """Return a line for each reason of missing figures, with advice."""
    return [line for row in rows for line in _why_not(row)]


def _why_not(row: WatchedProcessRow) -> list[str]:
    process = row.process
    reasons = [f"{process.pid} {name}: {why}" for name, why in row.silent.items()]
    if process.reason:
        advice = f"; {process.advice}" if process.advice else ""
        reasons.append(f"{process.pid}: {process.reason}{advice}")
    return reasons


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


def stored_runs_as_plain() -> list[dict[str, Any]]:
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
