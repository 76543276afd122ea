"""Live and reserved bytes after every event, counted from the final state backwards.

The blocks of the file are the state at the end; a free that is undone adds its bytes, an alloc that
is undone takes them away. So memory that was allocated before the recording began, or before the
oldest entry that a ring buffer kept, is counted from the first event on.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from itertools import accumulate
from operator import mul

from tui.snapshots.model.snapshot import Action, DeviceSnapshot, SnapshotError, Trace
from workloads.protocol.frozen import frozen

_SEGMENT_EVENTS = re.compile(
    b"[%c-%c]" % (Action.SEGMENT_ALLOC, Action.SEGMENT_UNMAP),
)
_MOST = 1 << 63
_OOMS = re.compile(b"[%c]" % Action.OOM)


def _signs(gains: Iterable[Action], loses: Iterable[Action]) -> bytes:
    table = bytearray(256)
    for action in gains:
        table[action] = 1
    for action in loses:
        table[action] = 255  # -1 when read as a signed byte
    return bytes(table)


_LIVE = _signs((Action.ALLOC,), (Action.FREE_COMPLETED,))
_RESERVED = _signs(
    (Action.SEGMENT_ALLOC, Action.SEGMENT_MAP), (Action.SEGMENT_FREE, Action.SEGMENT_UNMAP)
)


@frozen
class Replay:
    """What was live and reserved on one device over its trace of ``n`` events."""

    device: int
    live: array[int]
    """``q``, n + 1 items: before the first event, then after each; requested bytes, pending ones
    included."""
    reserved: array[int]
    """``q``, n + 1 items, as :attr:`live`."""
    peak: int
    """The most that was live."""
    peak_event: int | None
    """After which it was first reached; ``None``: already before the first event."""
    reserved_peak: int
    reserved_peak_event: int | None
    ooms: tuple[int, ...]
    segment_events: array[int]
    """``I``: the numbers of the segment events, ascending."""
    doubts: tuple[str, ...]
    """Why the columns may be off, one line each; empty where they are exact."""

    @property
    def events(self) -> int:
        """How many entries the trace has."""
        return len(self.live) - 1

    @property
    def live_at_start(self) -> int:
        """Bytes that were live before the first event."""
        return self.live[0]

    @property
    def live_at_end(self) -> int:
        """Bytes that were live after the last event: the sum over the blocks."""
        return self.live[-1]

    def live_at(self, event: int) -> int:
        """Requested bytes that were live after an event; -1 stands before the first."""
        return self.live[event + 1]

    def reserved_at(self, event: int) -> int:
        """Reserved bytes after an event; -1 stands before the first."""
        return self.reserved[event + 1]


def replay(device: DeviceSnapshot) -> Replay:
    """Count live and reserved bytes over the trace; linear, some 0.2 s for a million entries.

    Raises:
        SnapshotError: the sizes add up to what no 64 bits hold.
    """
    trace = device.trace
    events = array("I", (found.start() for found in _SEGMENT_EVENTS.finditer(trace.action)))
    live = _backwards(trace, _LIVE, final_live(device))
    steps = _reserved(trace, events, sum(segment.size for segment in device.segments))
    peak, reserved_peak = max(live), max(steps)
    least, least_reserved = min(live), min(steps)
    if max(peak, reserved_peak) >= _MOST or min(least, least_reserved) < -_MOST:
        raise SnapshotError(
            f"device {device.index}: its sizes add up to 8 EiB and more, which no device has:"
            " damaged"
        )
    reserved_first = steps.index(reserved_peak)
    return Replay(
        device=device.index,
        live=array("q", live),
        reserved=_spread(steps, events, len(trace)),
        peak=peak,
        peak_event=live.index(peak) - 1 if live[0] != peak else None,
        reserved_peak=reserved_peak,
        reserved_peak_event=events[reserved_first - 1] if reserved_first else None,
        ooms=tuple(found.start() for found in _OOMS.finditer(trace.action)),
        segment_events=events,
        doubts=_doubts(device, least, least_reserved),
    )


def final_live(device: DeviceSnapshot) -> int:
    """Requested bytes at the end: of every block that is not inactive."""
    return sum(
        block.requested
        for segment in device.segments
        for block in segment.blocks
        if block.state != "inactive"
    )


def _backwards(trace: Trace, signs: bytes, end: int) -> list[int]:
    """The column that ends with ``end`` and changes by sign times size at each event."""
    sign = array("b", trace.action.translate(signs))
    steps = list(map(mul, sign, trace.size))
    return list(accumulate(steps, initial=end - sum(steps)))


def _reserved(trace: Trace, events: array[int], end: int) -> list[int]:
    """Bytes before the first event that changes them, then after each."""
    signs = [(-1 if sign > 1 else sign) for sign in _RESERVED]
    steps = [signs[trace.action[event]] * trace.size[event] for event in events]
    return list(accumulate(steps, initial=end - sum(steps)))


def _spread(values: list[int], events: array[int], count: int) -> array[int]:
    """A column of ``count`` + 1 items of what changes at few events.

    Args:
        values: before the first of them, then after each.
        events: their numbers, ascending.
        count: of all events.
    """
    column = array("q")
    for value, event in zip(values, (*events, count), strict=True):
        column.extend(array("q", [value]) * (event + 1 - len(column)))
    return column


def _doubts(device: DeviceSnapshot, least_live: int, least_reserved: int) -> tuple[str, ...]:
    doubts = []
    if device.inexact:
        doubts.append(device.inexact)
    if least_live < 0:
        doubts.append(
            "live bytes fall below zero: the trace lacks frees, or its sizes do not fit its blocks"
        )
    if least_reserved < 0:
        doubts.append("reserved bytes fall below zero: the trace lacks segment events")
    return tuple(doubts)
