"""Output of ``watch --host``: the torch processes of each host, and the ranks of each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tui.allocators.messages import ProcessFigures, TorchProcess
from tui.core.text.numbers import count
from tui.devices.state.same_machine import (
    Overlap,
    SeenHost,
    find_overlaps,
    find_repeated,
    format_hosts,
)
from tui.monitor.messages import Device
from tui.watch.cli.jobs import NO_STEPS, HostProcessRow, RanksOfJob, RankSteps, find_jobs, job_lines
from tui.watch.cli.ooms import MOST_VERDICTS, encode_oom, explanation_lines, oom_lines
from tui.watch.cli.output import encode_processes, reasons, rows_of, table_lines, wrap
from tui.watch.state.host_ooms import EXAMINED, HostOom
from workloads.protocol.machine_identity import UNKNOWN, MachineIdentity
from workloads.protocol.wire import to_plain

USUAL_CELLS = 100
"""Cells of an account where the output is no terminal."""
NOTHING = "no process that can be seen there has loaded a CUDA build of torch"


@dataclass(frozen=True, slots=True)
class HostReading:
    """The readings of one host."""

    host: str
    processes: tuple[TorchProcess, ...] = ()
    figures: ProcessFigures | None = None
    """The newest; ``None`` before the first."""
    devices: tuple[Device, ...] = ()
    identity: MachineIdentity = UNKNOWN
    """What tells its machine from others."""
    error: str = ""
    """Why the host is not read now; empty if it is."""
    findings: tuple[tuple[int, str, str, str], ...] = ()
    """Pid, device, key and text of each finding."""
    steps: Mapping[int, RankSteps] = field(default_factory=dict)
    """By pid, of the processes that have an agent."""
    ooms: tuple[HostOom, ...] = ()
    """Why processes there have run out of memory, the newest first."""

    @property
    def seen(self) -> SeenHost:
        """Return what the monitor reports of the host's machine."""
        return SeenHost(self.host, self.identity, self.devices)

    @property
    def rows(self) -> tuple[HostProcessRow, ...]:
        """Return its processes with their figures; none without a connection."""
        if self.error or self.figures is None:
            return ()
        rows = rows_of(self.processes, self.figures, self.devices)
        grows = {pid: text for pid, _, key, text in self.findings if key == "growth"}
        return tuple(
            HostProcessRow(
                self.host,
                row,
                grows.get(row.process.pid, ""),
                self.steps.get(row.process.pid, NO_STEPS),
            )
            for row in rows
        )


def hosts_text(readings: Sequence[HostReading], room: int | None = None) -> list[str]:
    """Return the processes of all hosts as lines: the answer, each host, each job over hosts.

    Args:
        readings: in the order of the hosts.
        room: cells of a line; ``None`` for no limit.
    """
    lines = wrap([_headline(readings)], room)
    overlaps = find_overlaps([reading.seen for reading in readings])
    for reading in readings:
        lines += ["", *_host_lines(reading, overlaps.get(reading.host), room)]
    for job in find_jobs(distinct_rows(readings)):
        if len(job.hosts) < 2:
            continue
        rows = [row.row for row in job.rows]
        hosts = [row.host for row in job.rows]
        lines += ["", *wrap(job_lines(job), room), *table_lines(rows, room, hosts=hosts)]
    return lines


def ooms_text(readings: Sequence[HostReading], room: int | None = None) -> list[str]:
    """Return the whole explanation of each OOM: the request, the owners of the memory, advice.

    Args:
        readings: in the order of the hosts.
        room: cells of a line; ``None`` for no limit.
    """
    lines: list[str] = []
    for reading in readings:
        for oom in reading.ooms[:MOST_VERDICTS]:
            lines += ["", *wrap([f"{reading.host}: {oom.line}"], room), ""]
            lines += wrap(oom_lines(oom.log, oom.oom), room)
            if oom.explanation is not None:
                lines += ["", *explanation_lines(oom.explanation, room or USUAL_CELLS)]
    return lines


def distinct_rows(readings: Sequence[HostReading]) -> list[HostProcessRow]:
    """Return the processes of all hosts, each once: two hosts may be one machine."""
    repeated = find_repeated([(reading.seen, reading.processes) for reading in readings])
    rows = [row for reading in readings for row in reading.rows]
    return [row for row in rows if (row.host, row.row.process.pid) not in repeated]


def _headline(readings: Sequence[HostReading]) -> str:
    rows = distinct_rows(readings)
    reached = [reading for reading in readings if not reading.error]
    headline = count(len(rows), "torch process", "torch processes") if rows else "no torch process"
    if not reached:
        return "no host was reached"
    words = [f"{headline} on {format_hosts([reading.seen for reading in reached])}"]
    failed = sum(len(reading.ooms) for reading in readings)
    if failed:
        words.append(f"{failed} ran out of memory")
    lost = [reading.host for reading in readings if reading.error]
    if lost:
        words.append(f"{', '.join(lost)} not reached")
    return "; ".join(words)


def _host_lines(reading: HostReading, overlap: Overlap | None, room: int | None) -> list[str]:
    ooms = [oom.line for oom in reading.ooms]
    if reading.error:
        return wrap([f"{reading.host}  not reached: {reading.error}", *ooms], room)
    rows = [row.row for row in reading.rows]
    findings = [f"{pid} {device}: {text}" for pid, device, _, text in reading.findings]
    return [
        f"{reading.host}  {overlap.describe()}" if overlap is not None else reading.host,
        *wrap(ooms, room),
        *(table_lines(rows, room) or [NOTHING]),
        *wrap([*reasons(rows), *findings], room),
    ]


def encode_hosts(readings: Sequence[HostReading]) -> dict[str, Any]:
    """Return the object of ``--json``: the hosts, and every job with its ranks."""
    return {
        "hosts": [encode_host(reading) for reading in readings],
        "jobs": [_encode_job(job) for job in find_jobs(distinct_rows(readings))],
    }


def encode_host(reading: HostReading) -> dict[str, Any]:
    """Return the object of one host, also a line of ``--jsonl``; ``error`` if it is not read."""
    if reading.error:
        return {"host": reading.host, "error": reading.error}
    at = reading.figures.at if reading.figures is not None else None
    plain = encode_processes([row.row for row in reading.rows])
    ooms = [_encode_oom(oom) for oom in reading.ooms]
    return {"host": reading.host, "at": at, **plain, "ooms": ooms}


def _encode_oom(host_oom: HostOom) -> dict[str, Any]:
    fields, absent = encode_oom(host_oom.oom, host_oom.explanation)
    if host_oom.explanation is None:
        absent["explanation"] = EXAMINED
    return {"pid": host_oom.log.pid, "rank": host_oom.log.rank, **fields, "unavailable": absent}


def _encode_job(job: RanksOfJob) -> dict[str, Any]:
    return {
        **to_plain(job.job),
        "world_size": job.world_size,
        "missing": list(job.missing),
        "ranks": [
            {
                "rank": row.row.process.rank,
                "host": row.host,
                "pid": row.row.process.pid,
                "step": row.steps.count,
                "stalled_s": row.steps.stalled_s,
            }
            for row in job.rows
        ],
    }
