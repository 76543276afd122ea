"""The memory of one device over its events, in as many columns as there is room for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from tui.snapshots.analysis.replay import Replay
from tui.snapshots.model.results import Band, Bucket, Layer, Stacking, Timeline
from tui.snapshots.model.snapshot import NEVER_TOLD, Annotation, Trace
from workloads.protocol.frozen import frozen

NO_ANNOTATION = "no annotation"
NO_TIME = "time not recorded"


@frozen
class AnnotationSpan:
    """An annotation from its start to its end; microseconds since the epoch."""

    name: str
    start: int
    end: int | None
    """``None`` where it was still open when the snapshot was taken."""
    depth: int
    """How many spans were open when it began."""


def spans(annotations: tuple[Annotation, ...], device: int) -> tuple[AnnotationSpan, ...]:
    """Pair starts with ends on one device, by start.

    An end belongs to the latest open start of its name; an end without a start is left out.
    """
    mine = sorted(
        (note for note in annotations if note.device == device), key=lambda note: note.time_us
    )
    done: list[AnnotationSpan] = []
    open_spans: list[AnnotationSpan] = []
    for note in mine:
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
    """Tells which span covers a moment: of several the one that began last."""

    def __init__(self, found: tuple[AnnotationSpan, ...]) -> None:
        edges = sorted(
            {span.start for span in found} | {span.end for span in found if span.end is not None}
        )
        self._edges = edges
        self._names: list[str] = [NO_ANNOTATION]
        starts: dict[int, list[AnnotationSpan]] = {}
        ends: dict[int, list[AnnotationSpan]] = {}
        for span in found:
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
        """The name of the span that covers a time, or :data:`NO_ANNOTATION`."""
        if time_us == NEVER_TOLD:
            return NO_TIME
        return self._names[bisect_right(self._edges, time_us)]


def bands(
    found: tuple[AnnotationSpan, ...], trace: Trace, first: int, last: int
) -> tuple[Band, ...]:
    """The spans as stretches of events ``first`` to ``last``; empty where there are no times."""
    if not len(trace) or trace.time_us[0] == NEVER_TOLD:
        return ()
    made = []
    for span in found:
        begin = bisect_left(trace.time_us, span.start)
        end = len(trace) - 1 if span.end is None else bisect_right(trace.time_us, span.end) - 1
        if begin <= end and begin <= last and end >= first:
            made.append(Band(span.name, max(begin, first), min(end, last), span.depth))
    return tuple(made)


LayersAt = Callable[[Sequence[int], Sequence[int]], tuple[Layer, ...]]
"""Gives the layers at ascending events, with the live bytes after each."""


def timeline(
    replayed: Replay,
    trace: Trace,
    found: tuple[AnnotationSpan, ...],
    layers_at: LayersAt,
    width: int,
    *,
    stacking: Stacking = "site",
    first: int = 0,
    last: int | None = None,
) -> Timeline:
    """Cut events ``first`` to ``last`` (inclusive, the whole trace by default) into buckets.

    Args:
        replayed: of the same device as ``trace``.
        trace: for the times.
        found: the annotations of the device.
        layers_at: gives what the live bytes consist of.
        width: buckets at most; fewer where there are fewer events, so that none is empty.
        stacking: what the layers are.
        first: clamped to the trace, as is ``last``.
        last: inclusive.

    Raises:
        ValueError: ``width`` is below 1.
    """
    events = replayed.events
    end = events - 1 if last is None else min(last, events - 1)
    begin = max(0, min(first, end))
    cut = buckets(replayed, trace, width, begin, end)
    return Timeline(
        device=replayed.device,
        first=begin,
        last=end,
        scale=max(replayed.peak, replayed.reserved_peak),
        buckets=cut,
        begin_us=trace.time_us[0] if len(trace) and trace.time_us[0] != NEVER_TOLD else None,
        live_at_first=replayed.live_at(begin - 1),
        peak_event=replayed.peak_event if events else None,
        peak=replayed.peak,
        ooms=tuple(event for event in replayed.ooms if begin <= event <= end),
        bands=bands(found, trace, begin, end),
        stacking=stacking,
        layers=layers_at([one.moment for one in cut], [one.live_max for one in cut]),
    )


def buckets(
    replayed: Replay, trace: Trace, width: int, first: int, last: int
) -> tuple[Bucket, ...]:
    """Events cut into stretches of nearly equal length; none where there are no events.

    Raises:
        ValueError: ``width`` is below 1.
    """
    if width < 1:
        raise ValueError(f"a timeline needs at least one column, not {width}")
    shown = last - first + 1
    if shown < 1:
        return ()
    count = min(width, shown)
    edges = [first + shown * place // count for place in range(count + 1)]
    return tuple(_bucket(replayed, trace, low, high - 1) for low, high in pairwise(edges))


def _bucket(replayed: Replay, trace: Trace, first: int, last: int) -> Bucket:
    live = replayed.live[first + 1 : last + 2]
    most = max(live)
    time_us = trace.time_us[first]
    return Bucket(
        first=first,
        last=last,
        time_us=None if time_us == NEVER_TOLD else time_us,
        live_min=min(live),
        live_max=most,
        moment=first + live.index(most),
        reserved_max=max(replayed.reserved[first + 1 : last + 2]),
        ooms=bisect_left(replayed.ooms, last + 1) - bisect_left(replayed.ooms, first),
        segment_events=bisect_left(replayed.segment_events, last + 1)
        - bisect_left(replayed.segment_events, first),
    )
