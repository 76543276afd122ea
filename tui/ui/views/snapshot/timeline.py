"""A moment of the timeline in words, and which part of the trace is shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.snapshots.model.results import Part, State, Timeline
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, flow, line
from tui.ui.views.snapshot.words import (
    SITE_HEADING,
    bulleted,
    clock_words,
    site_line,
    stack_lines,
)


def column_of(timeline: Timeline, event: int | None) -> int | None:
    """The column that holds an event; ``None`` where it is not in view."""
    for place, bucket in enumerate(timeline.buckets):
        if event is not None and bucket.first <= event <= bucket.last:
            return place
    if event is None and timeline.buckets:
        return len(timeline.buckets) - 1
    return None


def state_lines(
    state: State, events: int, begin_us: int | None, cells: int, *, part: Part | None = None
) -> list[Line]:
    """The figures at the cursor, its entry, and a stack.

    Args:
        state: at the cursor.
        events: of the whole trace.
        begin_us: time of the first event, to say how long after it this one is.
        cells: width of a line.
        part: what the layer under the cursor held then, with its stack in place of the entry's.
    """
    entry = state.entry
    rows = [] if part is None else part_lines(part, cells)
    if entry is None:
        where = "at the end" if state.event is None else "before the first event"
        rows.append(line(Span(where, TextStyle.STRONG)))
    else:
        parts = [
            line(Span(f"event {entry.event}", TextStyle.STRONG)),
            line(Span(f"of {events}", TextStyle.QUIET)),
            line(Span(f"{entry.action} {text.size(entry.size)}", TextStyle.STRONG)),
        ]
        if entry.name or entry.address is not None:
            parts.append(line(entry.name or f"{entry.address:#x}"))
        if entry.stream:
            parts.append(line(f"stream {entry.stream:#x}"))
        if entry.pool not in (None, (0, 0)):
            parts.append(line(f"private pool {entry.pool}"))
        if entry.device_free is not None:
            parts.append(line(f"device free {text.size(entry.device_free)}"))
        if entry.time_us is not None and begin_us is not None:
            parts.append(line(f"+{(entry.time_us - begin_us) / 1e6:.6f} s"))
        parts.append(line(Span(clock_words(entry.time_us), TextStyle.QUIET)))
        if entry.context:
            parts.append(line(Span(entry.context, TextStyle.QUIET)))
        rows += flow(parts, cells)
    rows += flow([_figure(name, value) for name, value in _figures(state)], cells)
    for doubt in state.doubts:
        rows += bulleted(doubt, cells, TextStyle.NOTE, "!")
    if entry is not None and part is None:
        rows += stack_lines(entry.stack, cells)
    return rows


def part_lines(part: Part, cells: int) -> list[Line]:
    """What one layer held at the cursor, what it is for as far as the file tells, and its stack."""
    held = [
        line(Span(part.label, TextStyle.STRONG)),
        line(Span(text.size(part.bytes), TextStyle.STRONG)),
        line(f"in {text.count(part.count, 'allocation')}"),
        line(f"{text.share(part.bytes / part.live if part.live else None)} of what was live"),
    ]
    rows = flow(held, cells)
    for name, told_by, size in part.categories:
        amount = "" if len(part.categories) == 1 else f"{text.size(size)} "
        rows += bulleted(f"{amount}{name}: {told_by}", cells)
    if len(part.top) > 1:
        rows.append(fit_line((Span(f"{SITE_HEADING}site", TextStyle.QUIET),), cells))
        rows += [
            site_line(top.bytes, top.share, top.count, top.label, TextStyle.PLAIN, cells)
            for top in part.top
        ]
        rows.append(line(Span("the stack of most bytes:", TextStyle.QUIET)))
    return rows + (stack_lines(part.stack, cells) if part.count else [])


def _figures(state: State) -> Sequence[tuple[str, str]]:
    figures = [
        ("live", text.size(state.live)),
        ("rounding", text.size(state.rounding)),
        ("cached", text.size(state.cached)),
        ("reserved", text.size(state.reserved)),
        ("largest free block", text.size(state.largest_free_block)),
        ("in", text.count(state.allocations, "allocation")),
    ]
    if state.pending:
        figures.insert(1, ("of it pending", text.size(state.pending)))
    if state.private_reserved:
        figures.append(("private pools", text.size(state.private_reserved)))
    return figures


def _figure(name: str, value: str) -> Line:
    return line(Span(f"{name} ", TextStyle.QUIET), Span(value))


def zoomed(timeline: Timeline, event: int | None, factor: float) -> tuple[int, int]:
    """The first and last event of a view around the cursor, longer or shorter by a factor.

    Never fewer events than columns and never beyond the trace that the caller clamps to.
    """
    shown = timeline.last - timeline.first + 1
    least = max(1, len(timeline.buckets))
    wanted = max(least if factor < 1 else 1, round(shown * factor))
    centre = timeline.last if event is None else event
    first = centre - wanted // 2
    return first, first + wanted - 1


def clamped(first: int, last: int, events: int) -> tuple[int, int]:
    """The same stretch, moved into a trace of so many events."""
    length = min(last - first + 1, events)
    first = max(0, min(first, events - length))
    return first, first + length - 1


def heading(timeline: Timeline, device: int) -> str:
    """What the pane's title says."""
    whole = f"device {device} by {timeline.stacking}"
    if not timeline.buckets:
        return f"{whole}   nothing recorded"
    return f"{whole}   events {timeline.first}{glyphs.GLYPHS.dash}{timeline.last}"
