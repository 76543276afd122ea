"""Why a watched process ran out of memory: what the watch knows, also where no snapshot is.

Reads a line of the program's source, which ran on this machine.
"""

from __future__ import annotations

from pathlib import Path

from tui.explain.evidence import Circumstances, Evidence, Holder, Rate
from tui.explain.explain import explain
from tui.explain.explanation import Explanation
from tui.explain.frames import main_stack, user_frame
from tui.state.watched_processes import WatchedProcesses
from tui.state.watched_run import SeenDevice, WatchedDevice
from tui.watch import runs
from tui.watch.findings import Track
from tui.watch.inventory import CodeLine, Inventory
from tui.watch.kept import Left, Oom
from tui.watch.log_texts import oom_of_snapshot, source_line, texts_of
from tui.watch.runs import Run
from workloads.protocol.frozen import frozen

FROM_OUTSIDE = "torch's figures, read from outside"


def growth_of(track: Track) -> Rate | None:
    """How fast what is allocated grows, where the figures carry the sentence that it does."""
    grows = track.growth()
    if grows is None or not any(found.key == "growth" for found in track.findings()):
        return None
    return Rate(grows.rate, grows.low, grows.high, track.growth_per, FROM_OUTSIDE)


def circumstances_of_row(row: WatchedDevice) -> Circumstances:
    """What the page of a run knows of one device, without a look at any file."""
    grows = row.growth
    told = grows is not None and any(found.key == "growth" for found in row.findings)
    rate = (
        Rate(grows.rate, grows.low, grows.high, row.growth_per, FROM_OUTSIDE)
        if grows is not None and told
        else None
    )
    return Circumstances(
        watched=True,
        recorded=row.left is not None and row.left.records,
        growth=rate,
        holders=row.holders,
        process=row.placed.process,
    )


@frozen
class KnownOfSnapshot:
    """What the folder of its run tells of an OOM's snapshot."""

    text: str
    circumstances: Circumstances


def known_of_snapshot(path: Path) -> KnownOfSnapshot | None:
    """What the run that wrote a snapshot tells of its OOM; ``None`` for a file of no kept run."""
    try:
        if path.parent.parent.resolve() != runs.folder().resolve():
            return None
        run = runs.named(path.parent.name)
    except (OSError, LookupError):
        return None
    found = oom_of_snapshot(path)
    if found is None:
        return None
    left, oom = found
    return KnownOfSnapshot(texts_of(run, oom), circumstances(run, left, oom, None))


def seen_device(processes: WatchedProcesses, left: Left, oom: Oom) -> SeenDevice | None:
    """The device that ran out, as it was seen from outside; ``None`` where it was not."""
    for process in processes.seen.values():
        if process.told.pid == left.pid:
            return process.devices.get(f"cuda:{oom.device}")
    return None


def circumstances(
    run: Run,
    left: Left,
    oom: Oom,
    seen: SeenDevice | None,
    known: tuple[Holder, ...] = (),
) -> Circumstances:
    """What the watch knows of one OOM besides its snapshot.

    Args:
        run: of the process.
        left: what its agent has left.
        oom: one of its.
        seen: the device, as it was seen from outside.
        known: all processes that NVML has listed.
    """
    inventory = oom.inventory
    stack = asking_stack(oom, inventory)
    where = user_frame(stack)
    source = "" if where is None else source_line(_absolute(where.filename, run), where.line)
    return Circumstances(
        watched=True,
        recorded=left.records,
        growth=None if seen is None else growth_of(seen.track),
        holders=() if seen is None else seen.holders,
        known=known,
        process=None if seen is None else seen.placed.process,
        source=source,
    )


def _absolute(filename: str, run: Run) -> str:
    return filename if filename.startswith("/") else f"{run.cwd}/{filename}"


def asking_stack(oom: Oom, inventory: Inventory | None) -> tuple[CodeLine, ...]:
    """The stack that asked; of a thread of torch's own the main thread's, which waits for it."""
    threads = () if inventory is None else inventory.threads
    asked = next((thread.frames for thread in threads if thread.asked), ())
    if asked or threads:
        return asked or main_stack(threads)
    path, _, line = (oom.where or "").rpartition(":")
    return (CodeLine(path, int(line), ""),) if path and line.isdecimal() else ()


def explain_without_snapshot(oom: Oom, known: Circumstances) -> Explanation:
    """Say why an allocation failed, by the numbers of the observer and the inventory alone."""
    inventory = oom.inventory
    threads = () if inventory is None else inventory.threads
    # The observer is told the device's total, or what torch was allowed of it.
    limited = oom.free >= oom.asked and oom.reserved + oom.asked > oom.limit
    others = sum(each.bytes for each in known.holders) if known.holders else None
    return explain(
        Evidence(
            device=oom.device,
            asked=oom.asked,
            needed=oom.asked,
            allocated=oom.allocated,
            rounding=None,
            reserved=oom.reserved,
            step=oom.step,
            free=oom.free,
            total=None if limited else oom.limit,
            allowed=oom.limit if limited else None,
            process=known.process,
            others=others,
            # The allocator has given back whole free segments before it fails.
            stuck=max(0, oom.reserved - oom.allocated),
            holders=known.holders,
            stack=next((each.frames for each in threads if each.asked), ())
            if threads
            else asking_stack(oom, inventory),
            threads=threads,
            thread=oom.thread,
            inventory=inventory,
            rate=known.growth,
            watched=True,
            recorded=known.recorded,
            source=known.source,
        )
    )
