"""Does a file agree with itself? What one breaks is said, and it is shown all the same.

The rules hold for every file that torch has written as far as is known: blocks fill their segment
without a gap, sizes add up to what the segment states, nothing is allocated where something lives,
what is freed has the size that was allocated, time does not run back, and what the trace leaves
allocated is an active block at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import islice

from tui import format as fmt
from tui.snapshots.allocations import Allocations
from tui.snapshots.final import ALLOCATED, INACTIVE
from tui.snapshots.model import NEVER_TOLD, Action, Block, DeviceSnapshot, Segment, Trace

SHOWN = 3
"""Examples of each kind of fault; the others are counted."""

_FREED = -1


class _Faults:
    """What was found on one device, by kind, in the order in which the kinds were first met."""

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
        for kind, count in self._count.items():
            examples = self._examples[kind]
            more = f"; {fmt.grouped(count - len(examples))} more" if count > len(examples) else ""
            shown = "; ".join(examples)
            yield f"device {self._device}: {kind} ({fmt.grouped(count)}): {shown}{more}"


def check(device: DeviceSnapshot, table: Allocations | None = None) -> tuple[str, ...]:
    """What of one device does not agree, one line for each kind; empty where all does.

    Args:
        device: of the file.
        table: its allocations, where they are at hand: a trace that is known to be sound from there
            is not walked once more.
    """
    faults = _Faults(device.index)
    _segments(device.segments, faults)
    of_trace = () if table is not None and table.sound else _trace(device)
    return (*faults.lines(), *_times(device), *of_trace)


def _segments(segments: tuple[Segment, ...], faults: _Faults) -> None:
    end, before = 0, ""
    for segment in segments:
        name = f"{segment.address:#x}"
        if segment.address < end:
            faults.add("segments overlap", f"{name} and {before}")
        end, before = max(end, segment.address + segment.size), name
        _blocks(segment, name, faults)
        _sums(segment, name, faults)


def _blocks(segment: Segment, name: str, faults: _Faults) -> None:
    at = segment.address
    for block in segment.blocks:
        if block.address != at:
            what = "gap" if block.address > at else "overlap"
            faults.add(
                "blocks do not follow each other",
                f"{what} of {fmt.size(abs(block.address - at))} before {block.address:#x}",
            )
        if block.requested > block.size:
            faults.add(
                "blocks smaller than what was asked for",
                f"{block.address:#x} {fmt.size(block.size)} for {fmt.size(block.requested)}",
            )
        at = block.address + block.size
    total = sum(block.size for block in segment.blocks)
    if total != segment.size:
        faults.add(
            "blocks do not fill their segment",
            f"{name} {fmt.size(total)} in {fmt.size(segment.size)}",
        )


def _sums(segment: Segment, name: str, faults: _Faults) -> None:
    active = [block for block in segment.blocks if block.state != INACTIVE]
    found = {
        "allocated_size": sum(block.size for block in active if block.state == ALLOCATED),
        "active_size": sum(block.size for block in active),
        "requested_size": sum(block.requested for block in active),
    }
    for key, value in found.items():
        stated = segment.stated.get(key, value)
        if stated != value:
            faults.add(f"blocks do not add up to the {key} that their segment states", name)


def _times(device: DeviceSnapshot) -> Iterator[str]:
    times = device.trace.time_us.tolist()
    # Sorting what is sorted is the fastest way to see it.
    if times == sorted(times) or NEVER_TOLD in times:
        return
    back = sum(map(operator.gt, times, islice(times, 1, None)))
    yield f"device {device.index}: time runs back {fmt.count(back, 'time')}"


def _trace(device: DeviceSnapshot) -> Iterator[str]:
    trace = device.trace
    faults = _Faults(device.index)
    live = _walk(trace, faults)
    missing = _missing(trace)
    if missing and faults:
        # Left out on purpose: then every address looks used twice, and that says nothing.
        yield (
            f"device {device.index}: no {missing} on record (skip_actions): what was live at an "
            "event cannot be told"
        )
        return
    if not device.inexact:
        _end(live, device.segments, faults)
    yield from faults.lines()


def _missing(trace: Trace) -> str:
    if Action.ALLOC in trace.action:
        return "" if Action.FREE_COMPLETED in trace.action else "frees"
    return "allocations"


def _walk(trace: Trace, faults: _Faults) -> dict[int, int]:
    """Sizes by address after the last entry; ``_FREED`` where something was freed last."""
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


def _end(live: dict[int, int], segments: tuple[Segment, ...], faults: _Faults) -> None:
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
