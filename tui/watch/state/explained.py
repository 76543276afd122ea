"""Explanations of a watched process's OOM from the watch's facts, with or without a snapshot.

Reads a line of the program's source, which ran on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.allocators.findings import Finding, GrowthPer
from tui.allocators.growth import GrowthRate
from tui.devices.state.watched_processes import Allocator, WatchedProcesses
from tui.snapshots.explain.evidence import Circumstances, Evidence, Holder, Rate
from tui.snapshots.explain.explain import explain, explain_driver_oom, explain_later
from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.explain.frames import Frame, find_user_frame
from tui.snapshots.explain.inventory import Container, Inventory, Variable, find_main_stack
from tui.snapshots.explain.oom_text import (
    OomText,
    choose_process,
    compute_others,
    list_other_holders,
    parse_oom_texts,
)
from tui.snapshots.explain.source_lines import SourceLine
from tui.watch.runs.log_texts import source_line
from tui.watch.runs.ooms import FROM_EXCEPTION, Oom, rank_oom
from tui.watch.runs.process_logs import ProcessLog
from tui.watch.runs.runs import StartedRun
from tui.watch.state.processes import holders_of
from tui.watch.state.run import GpuOccupancy, WatchedDevice, find_total, full_gpu

FROM_OUTSIDE = "torch's figures, read from outside"


def growth_of(seen: Allocator) -> Rate | None:
    """Return the growth rate of allocated memory if the figures prove a growth, else ``None``."""
    track = seen.track.before_end() if seen.ended else seen.track
    return _find_rate(track.growth(), track.growth_per, track.findings())


def _find_rate(
    growth: GrowthRate | None, per: GrowthPer, findings: Sequence[Finding]
) -> Rate | None:
    if growth is None or not any(finding.key == "growth" for finding in findings):
        return None
    return Rate.of_growth(growth, per, FROM_OUTSIDE)


def circumstances_of_row(row: WatchedDevice) -> Circumstances:
    """Return the circumstances of one device that need no file."""
    gpu = row.gpu or row.full_gpu
    return Circumstances(
        watched=True,
        recorded=row.log is not None and row.log.records,
        growth=_find_rate(row.growth, row.growth_per, row.findings),
        holders=row.holders or _of_driver_oom(row),
        total=find_total(gpu, row.placed),
        process=row.placed.process,
    )


def _of_driver_oom(row: WatchedDevice) -> tuple[Holder, ...]:
    """Return the other processes on the full GPU if the driver refused one without figures."""
    ooms = () if row.log is None else row.log.ooms
    if row.full_gpu is None or not ooms or ooms[-1].request is not None:
        return ()
    return row.full_gpu.others(row.process.pid)


@dataclass(frozen=True, slots=True)
class ProcessOom:
    """An OOM and the row of the process that ran out of memory."""

    row: WatchedDevice
    oom: Oom


def newest_oom(devices: Sequence[WatchedDevice]) -> ProcessOom | None:
    """Return the newest OOM of a run, preferably one that ended the program.

    The row is that of the device that ran out, if the process has one.
    """
    candidates = [
        ProcessOom(row, row.log.ooms[-1]) for row in devices if row.log is not None and row.log.ooms
    ]
    return max(candidates, key=_rank, default=None)


def _rank(candidate: ProcessOom) -> tuple[tuple[bool, float], bool]:
    row, oom = candidate.row, candidate.oom
    return rank_oom(oom), row.device == f"cuda:{oom.device}"


def explain_row(newest: ProcessOom) -> Explanation:
    """Explain an OOM by what the watch knows of its process."""
    return explain_without_snapshot(newest.oom, circumstances_of_row(newest.row))


def find_allocator(processes: WatchedProcesses, log: ProcessLog, oom: Oom) -> Allocator | None:
    """Return the watch's record of the device that ran out, or ``None`` without one."""
    for process in processes.seen.values():
        if process.description.pid == log.pid:
            return process.devices.get(f"cuda:{oom.device}")
    return None


def circumstances(
    run: StartedRun | None,
    log: ProcessLog,
    oom: Oom,
    seen: Allocator | None,
    known: tuple[Holder, ...] = (),
    gpus: Mapping[str, GpuOccupancy] | None = None,
) -> Circumstances:
    """Return the watch's facts of one OOM besides its snapshot.

    Args:
        run: of the process; ``None`` if it ran on another machine, whose files cannot be read.
        log: the log of its agent.
        oom: an OOM of the process.
        seen: the watch's record of the device.
        known: all processes that NVML has listed.
        gpus: the machine's GPUs by NVML's id.
    """
    inventory = oom.inventory
    stack = requesting_stack(oom, inventory)
    where = find_user_frame(stack)
    gpu = _find_gpu(seen, gpus or {})
    source = ""
    if run is not None and where is not None:
        source = source_line(_make_absolute(where.filename, run), where.line)
    return Circumstances(
        watched=True,
        recorded=log.records,
        growth=None if seen is None else growth_of(seen),
        holders=_find_holders(log.pid, oom, seen, gpu),
        total=find_total(gpu, None if seen is None else seen.placed),
        known=known,
        process=None if seen is None else seen.placed.process,
        source=source,
        lines=() if run is None else _read_lines(run, inventory),
    )


MOST_LINES = 16
"""Most lines of a program that are read for one explanation."""


def _read_lines(run: StartedRun, inventory: Inventory | None) -> tuple[SourceLine, ...]:
    """Return the lines that compute or collect the largest tensors with graphs."""
    if inventory is None:
        return ()
    holders: list[Container | Variable] = [*inventory.containers, *inventory.variables]
    holders.sort(key=lambda holder: -holder.graph_nodes)
    places = [holder.adds for holder in holders if holder.adds is not None]
    return tuple(
        SourceLine(place.filename, place.line, text)
        for place in dict.fromkeys(places[:MOST_LINES])
        if (text := source_line(_make_absolute(place.filename, run), place.line))
    )


def _find_gpu(seen: Allocator | None, gpus: Mapping[str, GpuOccupancy]) -> GpuOccupancy | None:
    """Return the GPU of a device; for a device without figures, the only GPU without room."""
    if seen is not None and seen.placed.id is not None:
        return gpus.get(seen.placed.id)
    return full_gpu(gpus.values())


def _find_holders(
    pid: int, oom: Oom, seen: Allocator | None, gpu: GpuOccupancy | None
) -> tuple[Holder, ...]:
    """Return the other processes on the device that ran out.

    A process that the driver refused may have no context and no figures: NVML then lists only the
    others.
    """
    if seen is not None and seen.neighbours:
        return holders_of(seen.neighbours)
    return gpu.others(pid) if oom.request is None and gpu is not None else ()


def _make_absolute(filename: str, run: StartedRun) -> str:
    return filename if filename.startswith("/") else f"{run.cwd}/{filename}"


def requesting_stack(oom: Oom, inventory: Inventory | None) -> tuple[Frame, ...]:
    """Return the stack of the request; for a thread of torch's own, the waiting main thread's."""
    if oom.stack:
        return oom.stack
    threads = () if inventory is None else inventory.threads
    requesting = next((thread.frames for thread in threads if thread.made_request), ())
    if requesting or threads:
        return requesting or find_main_stack(threads)
    path, _, line = (oom.where or "").rpartition(":")
    return (Frame(path, int(line), ""),) if path and line.isdecimal() else ()


def explain_without_snapshot(oom: Oom, known: Circumstances) -> Explanation:
    """Explain a failed allocation by the observer's numbers and the inventory alone."""
    inventory = oom.inventory
    if oom.request is None or oom.free is None or oom.limit is None:
        stack = requesting_stack(oom, inventory)
        return explain_driver_oom(stack, oom.step, oom.thread, oom.reserved, known)
    if oom.is_examined and inventory is None:
        return explain_later(oom.step, known.total)
    threads = () if inventory is None else inventory.threads
    limited = oom.is_at_process_limit
    message = _parse_exception(oom)
    holders = known.holders or list_other_holders(message, known.known)
    others = sum(holder.bytes for holder in holders) if holders else None
    if others is None and message is not None:
        others = compute_others(message, oom.reserved, oom.free)
    return explain(
        Evidence(
            device=oom.device,
            requested=oom.request,
            needed=oom.request,
            allocated=oom.allocated,
            rounding=None if oom.requested is None else max(0, oom.allocated - oom.requested),
            reserved=oom.reserved,
            step=oom.step,
            free=oom.free,
            total=_find_total(message, known) if limited else oom.limit,
            gpu_total=known.total,
            allowed=oom.limit if limited else None,
            process=choose_process(message, known.process),
            others=others,
            # The allocator returns whole free segments before it fails.
            stuck=max(0, oom.reserved - oom.allocated),
            holders=holders,
            stack=next((thread.frames for thread in threads if thread.made_request), ())
            if threads
            else requesting_stack(oom, inventory),
            threads=threads,
            thread=oom.thread,
            inventory=inventory,
            rate=known.growth,
            text=message is not None,
            watched=True,
            recorded=known.recorded,
            source=known.source,
            lines=known.lines,
        )
    )


def _parse_exception(oom: Oom) -> OomText | None:
    """Return the content of the exception's own text; ``None`` if the program caught it."""
    texts = parse_oom_texts(oom.text) if oom.text_source == FROM_EXCEPTION else ()
    return texts[-1] if texts else None


def _find_total(message: OomText | None, known: Circumstances) -> int | None:
    """Return the total of a device of which the observer received only the process's limit."""
    return known.total if message is None or message.total is None else message.total
