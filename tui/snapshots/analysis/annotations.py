"""Spans of time that annotations cover: ``Optimizer.step#AdamW.step``, ``ProfilerStep#3``."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from tui.snapshots.model.results import Band
from tui.snapshots.model.snapshot import NEVER_TOLD, Annotation, Trace
from workloads.protocol.frozen import frozen

NO_ANNOTATION = "no annotation"
NO_TIME = "time not recorded"


@frozen
class Span:
    """An annotation from its start to its end; microseconds since the epoch."""

    name: str
    start: int
    end: int | None
    """``None`` where it was still open when the snapshot was taken."""
    depth: int
    """How many spans were open when it began."""


def spans(annotations: tuple[Annotation, ...], device: int) -> tuple[Span, ...]:
    """Pair starts with ends on one device, by start.

    An end belongs to the latest open start of its name; an end without a start is left out.
    """
    mine = sorted(
        (note for note in annotations if note.device == device), key=lambda note: note.time_us
    )
    done: list[Span] = []
    open_spans: list[Span] = []
    for note in mine:
        if note.stage == "START":
            open_spans.append(Span(note.name, note.time_us, None, len(open_spans)))
            continue
        for place in range(len(open_spans) - 1, -1, -1):
            if open_spans[place].name == note.name:
                span = open_spans.pop(place)
                done.append(Span(span.name, span.start, note.time_us, span.depth))
                break
    return tuple(sorted(done + open_spans, key=lambda span: (span.start, span.depth)))


class Cover:
    """Tells which span covers a moment: of several the one that began last."""

    def __init__(self, found: tuple[Span, ...]) -> None:
        edges = sorted(
            {span.start for span in found} | {span.end for span in found if span.end is not None}
        )
        self._edges = edges
        self._names: list[str] = [NO_ANNOTATION]
        starts: dict[int, list[Span]] = {}
        ends: dict[int, list[Span]] = {}
        for span in found:
            starts.setdefault(span.start, []).append(span)
            if span.end is not None:
                ends.setdefault(span.end, []).append(span)
        active: list[Span] = []
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


def bands(found: tuple[Span, ...], trace: Trace, first: int, last: int) -> tuple[Band, ...]:
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
