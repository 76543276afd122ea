"""One device of a file: consistency checks, and figures of the peak and the largest sites.

The rules hold for all known versions of torch: blocks fill their segment without a gap, sizes add
up to the segment's stated totals, no allocation overlaps a live one, a free has its allocation's
size, times never decrease, allocations left by the trace are active blocks at the end, and live
memory never exceeds reserved memory.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import islice

from tui.core.text import numbers as fmt
from tui.core.text.commands import EXAMPLE, RECORDING
from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.device import DeviceData
from tui.snapshots.analysis.growth import describe_growth
from tui.snapshots.analysis.layout import Layout, fragmentation
from tui.snapshots.analysis.timeline import Replay, replay
from tui.snapshots.explain.evidence import Growth
from tui.snapshots.explain.explanation import Remedy
from tui.snapshots.model.results import SiteRow, Summary, lacks_history
from tui.snapshots.model.snapshot import (
    ALLOCATED,
    INACTIVE,
    NOT_RECORDED,
    Action,
    Block,
    DeviceSnapshot,
    Segment,
    Snapshot,
    Trace,
)

SHOWN = 3
"""Maximum number of examples for each kind of fault; the others are only counted."""

_FREED = -1


class _Faults:
    """The faults found on one device, grouped by kind in order of first occurrence."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._count: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def add(self, kind: str, example: str) -> None:
        self._count[kind] = self._count.get(kind, 0) + 1
        examples = self._examples.setdefault(kind, [])
        if len(examples) < SHOWN:
            examples.append(example)

    def __bool__(self) -> bool:
        return bool(self._count)

    def lines(self) -> Iterator[str]:
        for kind, times in self._count.items():
            examples = self._examples[kind]
            more = f"; {fmt.grouped(times - len(examples))} more" if times > len(examples) else ""
            shown = "; ".join(examples)
            yield f"device {self._device}: {kind} ({fmt.grouped(times)}): {shown}{more}"


def check(
    device: DeviceSnapshot, table: Allocations | None = None, replayed: Replay | None = None
) -> tuple[str, ...]:
    """Return the inconsistencies of one device, one line for each kind; empty for none.

    Args:
        device: device of the file.
        table: its allocations, if available; a trace known to be sound from the table is not
            checked again.
        replayed: replay of its trace, if available.

    Raises:
        SnapshotError: the sum of the sizes exceeds 64 bits.
    """
    faults = _Faults(device.index)
    _check_segments(device.segments, faults)
    of_trace = () if table is not None and table.sound else _check_trace(device)
    peaks = _check_peaks(device, replayed or replay(device))
    return (*faults.lines(), *_check_times(device), *of_trace, *peaks)


def _check_peaks(device: DeviceSnapshot, replayed: Replay) -> Iterator[str]:
    # A partially read file may lack the segments of live memory.
    if device.inexact or replayed.peak <= replayed.reserved_peak:
        return
    yield (
        f"device {device.index}: the trace is inconsistent: live memory peaks at "
        f"{fmt.size(replayed.peak)}, above the {fmt.size(replayed.reserved_peak)} that were "
        "reserved at most; entries are missing or wrong, so figures before the end may be wrong"
    )


def _check_segments(segments: tuple[Segment, ...], faults: _Faults) -> None:
    end, before = 0, ""
    for segment in segments:
        name = f"{segment.address:#x}"
        if segment.address < end:
            faults.add("segments overlap", f"{name} and {before}")
        end, before = max(end, segment.address + segment.size), name
        _check_blocks(segment, name, faults)
        _check_sums(segment, name, faults)


def _check_blocks(segment: Segment, name: str, faults: _Faults) -> None:
    at = segment.address
    for block in segment.blocks:
        if block.address != at:
            kind = "gap" if block.address > at else "overlap"
            faults.add(
                "blocks do not follow each other",
                f"{kind} of {fmt.size(abs(block.address - at))} before {block.address:#x}",
            )
        if block.requested > block.size:
            faults.add(
                "blocks smaller than the request",
                f"{block.address:#x} {fmt.size(block.size)} for {fmt.size(block.requested)}",
            )
        at = block.address + block.size
    total = sum(block.size for block in segment.blocks)
    if total != segment.size:
        faults.add(
            "blocks do not fill their segment",
            f"{name} {fmt.size(total)} in {fmt.size(segment.size)}",
        )


def _check_sums(segment: Segment, name: str, faults: _Faults) -> None:
    active = [block for block in segment.blocks if block.state != INACTIVE]
    sums = {
        "allocated_size": sum(block.size for block in active if block.state == ALLOCATED),
        "active_size": sum(block.size for block in active),
        "requested_size": sum(block.requested for block in active),
    }
    for key, value in sums.items():
        stated = segment.stated.get(key, value)
        if stated != value:
            faults.add(f"blocks do not add up to the {key} that their segment states", name)


def _check_times(device: DeviceSnapshot) -> Iterator[str]:
    times = device.trace.time_us.tolist()
    # Sorting a sorted list is the fastest check.
    if times == sorted(times) or NOT_RECORDED in times:
        return
    back = sum(map(operator.gt, times, islice(times, 1, None)))
    yield f"device {device.index}: time runs back {fmt.count(back, 'time')}"


def _check_trace(device: DeviceSnapshot) -> Iterator[str]:
    trace = device.trace
    faults = _Faults(device.index)
    live = _walk_trace(trace, faults)
    missing = _find_missing_actions(trace)
    if missing and faults:
        # Entries were excluded on purpose: every address then looks used twice, which is no fault.
        yield (
            f"device {device.index}: no {missing} recorded (skip_actions): the live memory at an "
            "event is unknown"
        )
        return
    if not device.inexact:
        _check_end(live, device.segments, faults)
    yield from faults.lines()


def _find_missing_actions(trace: Trace) -> str:
    if Action.ALLOC in trace.action:
        return "" if Action.FREE_COMPLETED in trace.action else "frees"
    return "allocations"


def _walk_trace(trace: Trace, faults: _Faults) -> dict[int, int]:
    """Return sizes by address after the last entry; ``_FREED`` if the last action was a free."""
    live: dict[int, int] = {}
    known = live.get
    alloc, free = int(Action.ALLOC), int(Action.FREE_COMPLETED)
    for action, address, size in zip(trace.action, trace.address, trace.size, strict=True):
        if action == alloc:
            if known(address, _FREED) != _FREED:
                faults.add("allocated where something is live", f"{address:#x}")
            live[address] = size
        elif action == free:
            was = known(address)
            if was == _FREED:
                faults.add("freed twice", f"{address:#x}")
            elif was is not None and was != size:
                faults.add(
                    "freed with another size than allocated",
                    f"{address:#x} {fmt.size(was)}, then {fmt.size(size)}",
                )
            live[address] = _FREED
    return live


def _check_end(live: dict[int, int], segments: tuple[Segment, ...], faults: _Faults) -> None:
    active: dict[int, Block] = {
        block.address: block
        for segment in segments
        for block in segment.blocks
        if block.state != INACTIVE
    }
    for address, size in live.items():
        block = active.get(address)
        if size == _FREED:
            if block is not None:
                faults.add("freed in the trace, but active at the end", f"{address:#x}")
        elif block is None:
            faults.add("allocated in the trace, but not active at the end", f"{address:#x}")
        elif block.requested != size:
            faults.add(
                "of another size at the end than allocated",
                f"{address:#x} {fmt.size(size)}, then {fmt.size(block.requested)}",
            )


UNWOUND = 0.2
"""Share of the reserved memory: with fewer live bytes, the snapshot was taken after most had been
freed."""
WORTH_TELLING = 256 << 20
"""Minimum bytes of cached memory for a remark."""
LARGE_PREDATING = 0.1
_NO_TRACE = (
    "no history was recorded; call torch.cuda.memory._record_memory_history() early, or start the"
    f" program with {RECORDING}"
)


def summary(data: DeviceData, top: tuple[SiteRow, ...], growth: Growth | None) -> Summary:
    """Summarize one device.

    Args:
        data: the device.
        top: largest sites, at the peak if there is a trace, else at the end.
        growth: site that grew until the end.
    """
    device, replayed, layout = data.device, data.replay, data.final
    blocks = [block for segment in device.segments for block in segment.blocks]
    allocated = sum(block.size for block in blocks if block.state == ALLOCATED)
    requested = sum(block.requested for block in blocks if block.state != "inactive")
    pending = sum(block.size for block in blocks if block.state not in (ALLOCATED, INACTIVE))
    private = tuple(part for part in layout.filled if part.range.private)
    default = [part.largest for part in layout.filled if not part.range.private]
    private_free = sum(part.free for part in private)
    traced = _has_history(replayed)
    peak_event = replayed.peak_event
    time_us = None if peak_event is None else device.trace.time_us[peak_event]
    return Summary(
        device=device.index,
        segments=len(device.segments),
        blocks=len(blocks),
        reserved=sum(segment.size for segment in device.segments),
        allocated=allocated,
        requested=requested,
        pending=pending,
        largest_free_block=max(default, default=0),
        private_reserved=sum(part.range.size for part in private),
        private_free=private_free,
        events=replayed.events,
        skipped=device.skipped,
        live_at_start=replayed.live_at_start if traced else None,
        live_peak=replayed.peak if traced else None,
        live_peak_event=peak_event,
        live_peak_time_us=None if time_us == NOT_RECORDED else time_us,
        live_at_end=replayed.live_at_end,
        reserved_peak=replayed.reserved_peak if traced else None,
        reserved_peak_event=replayed.reserved_peak_event,
        ooms=replayed.ooms,
        fragmentation=fragmentation(layout.filled),
        top=top,
        top_at="peak" if traced else "end",
        headline=_format_headline(replayed),
        remarks=(
            *replayed.doubts,
            *_list_remarks(replayed, requested, private_free),
            *(() if growth is None or replayed.ooms else (describe_growth(growth, "are"),)),
        ),
        advice=() if replayed.ooms else _advise(data.snapshot, layout),
        unavailable=_list_unavailable(replayed, time_us),
    )


def _has_history(replayed: Replay) -> bool:
    """Return whether allocations were recorded: OOM entries alone tell of no other moment."""
    return not lacks_history(replayed.events, len(replayed.ooms))


def _list_unavailable(replayed: Replay, time_us: int | None) -> dict[str, str]:
    if not _has_history(replayed):
        absent = (
            "live_at_start",
            "live_peak",
            "live_peak_event",
            "live_peak_time_us",
            "reserved_peak",
            "reserved_peak_event",
        )
        return dict.fromkeys(absent, _NO_TRACE)
    reasons = {}
    if replayed.peak_event is None:
        at_start = "the peak is the memory in use before the first event"
        reasons["live_peak_event"] = reasons["live_peak_time_us"] = at_start
    elif time_us == NOT_RECORDED:
        reasons["live_peak_time_us"] = "the file has no times (torch before 2.2)"
    if replayed.reserved_peak_event is None:
        reasons["reserved_peak_event"] = "the peak is the memory reserved before the first event"
    return reasons


def _format_headline(replayed: Replay) -> str:
    end, reserved = replayed.live_at_end, replayed.reserved[-1]
    now = f"{fmt.size(end)} live of {fmt.size(reserved)} reserved at the end"
    ooms = fmt.count(len(replayed.ooms), "OOM event") if replayed.ooms else "No OOM event"
    if not _has_history(replayed):
        return f"{ooms}; {now}" if replayed.ooms else f"{now}; nothing was recorded before"
    where = (
        "before the first event"
        if replayed.peak_event is None
        else f"at event {replayed.peak_event}"
    )
    return f"{ooms}; live memory peaked at {fmt.size(replayed.peak)} {where}; {now}"


def _list_remarks(replayed: Replay, requested: int, private_free: int) -> tuple[str, ...]:
    lines = []
    reserved = replayed.reserved[-1]
    if not _has_history(replayed):
        lines.append(_NO_TRACE)
    elif replayed.live_at_start > LARGE_PREDATING * replayed.peak:
        lines.append(
            f"{fmt.size(replayed.live_at_start)} was allocated before the first event, so by"
            " unknown lines; record earlier, or with a larger max_entries"
        )
    if not replayed.ooms and requested < UNWOUND * reserved and reserved >= WORTH_TELLING:
        lines.append(
            f"only {fmt.share(requested / reserved)} of the {fmt.size(reserved)} reserved is live:"
            " if this was written in an except block, the stack had unwound and freed what filled"
            f" the device; {EXAMPLE} writes it before that"
        )
    if private_free >= WORTH_TELLING:
        lines.append(
            f"{fmt.size(private_free)} is cached in private pools, which only they can use"
        )
    return tuple(lines)


def _advise(snapshot: Snapshot, layout: Layout) -> tuple[Remedy, ...]:
    """Return the advice for the end of a file in which nothing failed."""
    remedies = []
    default = [part for part in layout.filled if not part.range.private]
    whole = sum(part.range.size for part in default if not part.used)
    stuck = sum(part.free for part in default if part.used)
    if whole >= WORTH_TELLING:
        remedies.append(
            Remedy(
                "torch.cuda.empty_cache() would return memory to other processes",
                f"{fmt.size(whole)} is in segments in which nothing is live",
            )
        )
    if (
        stuck >= WORTH_TELLING
        and not snapshot.has_expandable_segments
        and not any(part.range.expandable for part in default)
    ):
        remedies.append(
            Remedy(
                f"{snapshot.torch.expandable_setting} lets the allocator merge free memory",
                f"{fmt.size(stuck)} is cached in pieces beside live blocks",
            )
        )
    return tuple(remedies)
