"""The memory of a device over its events, drawn on a scale that never moves. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.snapshots.model.results import Bucket, State, Timeline
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit, flow, line
from tui.ui.views.snapshot.words import bulleted, clock_words, stack_lines

FLICKERING = {False: "▓", True: "="}
"""Where memory was live after some events of a column only; by whether glyphs are ASCII."""
RESERVED = {False: "░", True: "."}


def column_of(timeline: Timeline, event: int | None) -> int | None:
    """The column that holds an event; ``None`` where it is not in view."""
    for place, bucket in enumerate(timeline.buckets):
        if event is not None and bucket.first <= event <= bucket.last:
            return place
    if event is None and timeline.buckets:
        return len(timeline.buckets) - 1
    return None


def chart_lines(timeline: Timeline, rows: int, event: int | None) -> list[Line]:
    """The chart, marks under it, annotations and the cursor; three rows more than the chart's.

    Args:
        timeline: as many buckets as there are cells, or fewer.
        rows: of the chart itself.
        event: of the cursor.
    """
    at = column_of(timeline, event)
    made = [_chart_row(timeline, rows, row, at) for row in range(rows)]
    return [*made, marks_line(timeline, at), bands_line(timeline)]


def _chart_row(timeline: Timeline, rows: int, row: int, at: int | None) -> Line:
    spans: list[Span] = []
    piece, style = "", TextStyle.PLAIN
    for place, bucket in enumerate(timeline.buckets):
        glyph, this = _cell(bucket, timeline.scale, rows, row)
        if place == at and glyph == " ":
            glyph, this = glyphs.GLYPHS.wall, TextStyle.STRONG
        if this is not style and piece:
            spans.append(Span(piece, style))
            piece = ""
        style = this
        piece += glyph
    if piece:
        spans.append(Span(piece, style))
    return tuple(spans)


def _cell(bucket: Bucket, scale: int, rows: int, row: int) -> tuple[str, TextStyle]:
    """What stands in one cell; row 0 is the top."""
    ascii_only = glyphs.GLYPHS.ascii
    low = rows - 1 - row
    steps = len(glyphs.GLYPHS.vertical)

    def eighths(value: int) -> int:
        """How many eighths of a cell are filled, from below."""
        filled = value * rows * steps / scale - low * steps if scale else 0
        return max(0, min(steps, round(filled)))

    least, most = eighths(bucket.live_min), eighths(bucket.live_max)
    if most == steps:
        if least == steps:
            return glyphs.GLYPHS.vertical[-1], TextStyle.ALLOCATED
        return FLICKERING[ascii_only], TextStyle.ALLOCATED
    if most:
        return glyphs.GLYPHS.vertical[most - 1], TextStyle.ALLOCATED
    if low == 0 and bucket.live_max > 0:
        return glyphs.GLYPHS.vertical[0], TextStyle.ALLOCATED
    if eighths(bucket.reserved_max) * 2 >= steps:
        return RESERVED[ascii_only], TextStyle.CACHED
    return " ", TextStyle.PLAIN


def marks_line(timeline: Timeline, at: int | None) -> Line:
    """``X`` an OOM, ``P`` the peak, ``^`` the cursor, ``*`` the cursor on one of them."""
    marks = []
    for place, bucket in enumerate(timeline.buckets):
        mark = " "
        if timeline.peak_event is not None and bucket.first <= timeline.peak_event <= bucket.last:
            mark = "P"
        if bucket.ooms:
            mark = "X"
        if place == at:
            mark = "^" if mark == " " else "*"
        marks.append(mark)
    return line(Span("".join(marks), TextStyle.STRONG))


def bands_line(timeline: Timeline) -> Line:
    """The outermost annotations, each from where it begins; what is too narrow is a stroke."""
    cells = [" "] * len(timeline.buckets)
    for band in timeline.bands:
        if band.depth:
            continue
        first, last = column_of(timeline, band.first), column_of(timeline, band.last)
        if first is None or last is None:
            continue
        room = last - first + 1
        label = f"|{fit(band.name, room - 1)}" if room > 2 else "|"
        cells[first : first + len(label)] = list(label)
    return line(Span("".join(cells[: len(timeline.buckets)]), TextStyle.QUIET))


def legend(cells: int) -> Line:
    """What the glyphs of the chart are, as far as there is room."""
    ascii_only = glyphs.GLYPHS.ascii
    parts = [
        f"{glyphs.GLYPHS.vertical[-1]} live",
        f"{FLICKERING[ascii_only]} at times",
        f"{RESERVED[ascii_only]} reserved",
        "P peak",
        "X OOM",
        "| annotation",
        "^ cursor",
        "* both",
    ]
    shown = ""
    for part in parts:
        if len(shown) + len(part) + 2 <= cells:
            shown += f"{part}  "
    return line(Span(shown.rstrip(), TextStyle.QUIET))


def state_lines(state: State, events: int, begin_us: int | None, cells: int) -> list[Line]:
    """The figures at the cursor, its entry, and the entry's stack.

    Args:
        state: at the cursor.
        events: of the whole trace.
        begin_us: time of the first event, to say how long after it this one is.
        cells: width of a line.
    """
    entry = state.entry
    rows: list[Line] = []
    if entry is None:
        where = "at the end" if state.event is None else "before the first event"
        rows.append(line(Span(where, TextStyle.STRONG)))
    else:
        parts = [
            line(Span(f"event {text.count(entry.event)}", TextStyle.STRONG)),
            line(Span(f"of {text.count(events)}", TextStyle.QUIET)),
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
    if entry is not None:
        rows += stack_lines(entry.stack, cells)
    return rows


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
    dash = glyphs.GLYPHS.dash
    whole = f"device {device}   0 B{dash}{text.size(timeline.scale)}"
    if not timeline.buckets:
        return f"{whole}   nothing recorded"
    return f"{whole}   events {text.count(timeline.first)}{dash}{text.count(timeline.last)}"
