"""Live and reserved bytes after every event, counted backwards from the end, and in columns.

The blocks of the file are the state at the end; undoing a free adds its bytes, undoing an alloc
subtracts them. Memory allocated before the recording, or before the oldest entry kept in a ring
buffer, therefore counts from the first event on.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, count, pairwise
from operator import mul

from tui.snapshots.model.pictures import Band, Bucket, EventTick
from tui.snapshots.model.snapshot import (
    NOT_RECORDED,
    Action,
    Annotation,
    DeviceSnapshot,
    SnapshotError,
    Trace,
)

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


@dataclass(frozen=True, slots=True)
class Replay:
    """Live and reserved bytes on one device over its trace of ``n`` events."""

    device: int
    live: array[int]
    """``q``, n + 1 items: before the first event, then after each; requested bytes, including
    pending ones."""
    reserved: array[int]
    """``q``, n + 1 items, as for :attr:`live`."""
    peak: int
    """Maximum number of live bytes."""
    peak_event: int | None
    """The event that first reached the peak; ``None`` if memory already peaked before the first
    event."""
    reserved_peak: int
    reserved_peak_event: int | None
    ooms: tuple[int, ...]
    segment_events: array[int]
    """``I``: indices of the segment events, ascending."""
    doubts: tuple[str, ...]
    """Reasons why the columns may be inexact, one line each; empty if they are exact."""

    @property
    def events(self) -> int:
        """Number of entries in the trace."""
        return len(self.live) - 1

    @property
    def peak_moment(self) -> int | None:
        """The event of the peak, -1 if before the first, or ``None`` without a trace."""
        if not self.events:
            return None
        return -1 if self.peak_event is None else self.peak_event

    @property
    def live_at_start(self) -> int:
        """Live bytes before the first event."""
        return self.live[0]

    @property
    def live_at_end(self) -> int:
        """Live bytes after the last event: the sum over the blocks."""
        return self.live[-1]

    def live_at(self, event: int) -> int:
        """Return the requested bytes live after an event; -1 is before the first."""
        return self.live[event + 1]

    def reserved_at(self, event: int) -> int:
        """Return the reserved bytes after an event; -1 is before the first."""
        return self.reserved[event + 1]


def replay(device: DeviceSnapshot) -> Replay:
    """Count live and reserved bytes over the trace; linear, some 0.2 s for a million entries.

    Raises:
        SnapshotError: the sum of the sizes exceeds 64 bits.
    """
    trace = device.trace
    events = array("I", (match.start() for match in _SEGMENT_EVENTS.finditer(trace.action)))
    live = _live_before(trace, final_live(device))
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
        ooms=tuple(match.start() for match in _OOMS.finditer(trace.action)),
        segment_events=events,
        doubts=_doubts(device, least, least_reserved),
    )


def final_live(device: DeviceSnapshot) -> int:
    """Return the requested bytes at the end, of all blocks except inactive ones."""
    return sum(
        block.requested
        for segment in device.segments
        for block in segment.blocks
        if block.state != "inactive"
    )


def _live_before(trace: Trace, end: int) -> list[int]:
    """Return the live bytes before each event, and after the last, when ``end`` bytes are live."""
    sign = array("b", trace.action.translate(_LIVE))
    steps = list(map(mul, sign, trace.size))
    return list(accumulate(steps, initial=end - sum(steps)))


def _reserved(trace: Trace, events: array[int], end: int) -> list[int]:
    """Return the bytes before the first event that changes them, then after each."""
    signs = [(-1 if sign > 1 else sign) for sign in _RESERVED]
    steps = [signs[trace.action[event]] * trace.size[event] for event in events]
    return list(accumulate(steps, initial=end - sum(steps)))


def _spread(values: list[int], events: array[int], count: int) -> array[int]:
    """Expand values that change at few events to a column of ``count`` + 1 items.

    Args:
        values: value before the first of these events, then after each.
        events: indices of these events, ascending.
        count: total number of events.
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


NO_ANNOTATION = "no annotation"
NO_TIME = "time not recorded"


@dataclass(frozen=True, slots=True)
class AnnotationSpan:
    """An annotation from its start to its end; microseconds since the epoch."""

    name: str
    start: int
    end: int | None
    """End time; ``None`` if the annotation was still open when the snapshot was taken."""
    depth: int
    """Number of spans that were open when it began."""


def spans(annotations: tuple[Annotation, ...], device: int) -> tuple[AnnotationSpan, ...]:
    """Pair starts with ends on one device, sorted by start.

    An end belongs to the latest open start of its name; an end without a start is left out.
    """
    own = sorted(
        (note for note in annotations if note.device == device), key=lambda note: note.time_us
    )
    done: list[AnnotationSpan] = []
    open_spans: list[AnnotationSpan] = []
    for note in own:
        if note.stage == "START":
            open_spans.append(AnnotationSpan(note.name, note.time_us, None, len(open_spans)))
            continue
        for place in range(len(open_spans) - 1, -1, -1):
            if open_spans[place].name == note.name:
                span = open_spans.pop(place)
                done.append(AnnotationSpan(span.name, span.start, note.time_us, span.depth))
                break
    return tuple(sorted(done + open_spans, key=lambda span: (span.start, span.depth)))


class Cover:
    """Finds the span that covers a moment; among several, the one that began last."""

    def __init__(self, annotations: tuple[AnnotationSpan, ...]) -> None:
        edges = sorted(
            {span.start for span in annotations}
            | {span.end for span in annotations if span.end is not None}
        )
        self._edges = edges
        self._names: list[str] = [NO_ANNOTATION]
        starts: dict[int, list[AnnotationSpan]] = {}
        ends: dict[int, list[AnnotationSpan]] = {}
        for span in annotations:
            starts.setdefault(span.start, []).append(span)
            if span.end is not None:
                ends.setdefault(span.end, []).append(span)
        active: list[AnnotationSpan] = []
        for edge in edges:
            active += starts.get(edge, [])
            for span in ends.get(edge, []):
                active.remove(span)
            self._names.append(active[-1].name if active else NO_ANNOTATION)

    def at(self, time_us: int) -> str:
        """Return the name of the span that covers a time, or :data:`NO_ANNOTATION`."""
        if time_us == NOT_RECORDED:
            return NO_TIME
        return self._names[bisect_right(self._edges, time_us)]


def bands(
    annotations: tuple[AnnotationSpan, ...], trace: Trace, first: int, last: int
) -> tuple[Band, ...]:
    """Return the spans as stretches of events ``first`` to ``last``; empty without times."""
    if not len(trace) or trace.time_us[0] == NOT_RECORDED:
        return ()
    drawn = []
    for span in annotations:
        begin = bisect_left(trace.time_us, span.start)
        end = len(trace) - 1 if span.end is None else bisect_right(trace.time_us, span.end) - 1
        if begin <= end and begin <= last and end >= first:
            drawn.append(Band(span.name, max(begin, first), min(end, last), span.depth))
    return tuple(drawn)


TICK_CELLS = 20
"""Columns of a timeline between two ticks, at least: a tick has an event and its time."""


def ticks(trace: Trace, width: int, first: int, last: int) -> tuple[EventTick, ...]:
    """Return events ``first`` to ``last`` with round numbers, as many as have room.

    Args:
        trace: the trace.
        width: number of columns.
        first: the first event shown.
        last: the last event shown, inclusive; lower than ``first`` if there are no events.
    """
    most = max(2, width // TICK_CELLS)
    steps = (factor * 10**power for power in count() for factor in (1, 2, 5))
    step = next(step for step in steps if last // step - (first - 1) // step <= most)
    return tuple(
        EventTick(event, None if trace.time_us[event] == NOT_RECORDED else trace.time_us[event])
        for event in range(-(-first // step) * step, last + 1, step)
    )


def buckets(
    replayed: Replay, trace: Trace, width: int, first: int, last: int
) -> tuple[Bucket, ...]:
    """Divide events into ranges of nearly equal length; return none if there are no events.

    Raises:
        ValueError: ``width`` is below 1.
    """
    if width < 1:
        raise ValueError(f"a timeline needs at least one column, not {width}")
    shown = last - first + 1
    if shown < 1:
        return ()
    edges = bucket_edges(first, shown, width)
    return tuple(_bucket(replayed, trace, low, high - 1) for low, high in pairwise(edges))


def bucket_edges(first: int, events: int, width: int) -> list[int]:
    """Return the first event of each range of nearly equal length, and one past the last event.

    Args:
        first: the first event of all.
        events: number of events.
        width: maximum number of ranges, at least 1; fewer if there are fewer events.
    """
    count = max(1, min(width, events))
    return [first + events * place // count for place in range(count + 1)] if events else []


def _bucket(replayed: Replay, trace: Trace, first: int, last: int) -> Bucket:
    live = replayed.live[first + 1 : last + 2]
    most = max(live)
    time_us = trace.time_us[first]
    return Bucket(
        first=first,
        last=last,
        time_us=None if time_us == NOT_RECORDED else time_us,
        live_max=most,
        moment=first + live.index(most),
        reserved_max=max(replayed.reserved[first + 1 : last + 2]),
        ooms=bisect_left(replayed.ooms, last + 1) - bisect_left(replayed.ooms, first),
    )
