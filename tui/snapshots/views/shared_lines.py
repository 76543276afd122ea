"""Snapshot text shared by all views: moments, stacks, sites, the timeline. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.commands import RECORDING
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    fit,
    fit_line,
    flow,
    line,
    paragraph,
    width,
    wrap,
)
from tui.snapshots.commands import VIEWS, SnapshotView
from tui.snapshots.explain.frames import Frame, base_name, classify_frame, format_frame
from tui.snapshots.model.calls import Need
from tui.snapshots.model.pictures import Timeline
from tui.snapshots.model.results import FrameKind, Part, SiteRow, State, Summary
from tui.snapshots.session.snapshot_reader import Refused, SnapshotStore
from tui.snapshots.session.snapshot_session import Focus, SnapshotSession

FRAME_STYLES: dict[FrameKind | None, TextStyle] = {
    "user": TextStyle.PLAIN,
    "framework": TextStyle.QUIET,
    "interpreter": TextStyle.QUIET,
    "native": TextStyle.QUIET,
    None: TextStyle.QUIET,
}
UTC = " UTC"
"""Zone of a time."""
PLACE = re.compile(r"([^\s/\\(]+):\d+")
"""A file and a line in words about code."""
LEAST_NAME = 5
"""Cells of a file's name that is cut in its middle."""
SITE_FIGURES = 24
"""Width of a site's figures, including the gap after them."""


def format_moment(focus: Focus, summary: Summary) -> str:
    """Format a moment: ``at the peak (event 11205)``, with no separators in the event's number."""
    event = focus.event
    if event is None:
        return "at the end"
    if event < 0:
        return "before the first event"
    number = f"event {event}"
    if event in summary.ooms:
        return f"at the OOM ({number})"
    if event == summary.live_peak_event:
        return f"at the peak ({number})"
    return f"at {number} of {summary.events}"


def format_clock(time_us: int | None) -> str:
    """Format a time in UTC: ``2025-11-16 20:03:47 UTC``, as the file has no time zone."""
    if time_us is None:
        return "time not recorded"
    try:
        moment = datetime.datetime.fromtimestamp(time_us / 1e6, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"time {time_us} {glyphs.GLYPHS.micro}s"
    return f"{moment:%Y-%m-%d %H:%M:%S}{UTC}"


def fit_place(words: str, cells: int) -> str:
    """Cut words, if they are too long, so that the line that they name is left.

    What follows the line is cut first, then what precedes it, and at last the middle of the
    file's name.
    """
    place = PLACE.search(words)
    if place is None or cell_len(words) <= cells:
        return fit(words, cells)
    mark = glyphs.GLYPHS.ellipsis
    head, name = words[: place.end()], place[1]
    if cell_len(head) + len(mark) <= cells:
        return fit(words, cells)
    if cell_len(head) <= cells:
        return head
    if cell_len(place[0]) <= cells:
        return place[0]
    kept = len(name) - (cell_len(place[0]) + len(mark) - cells)
    if kept < LEAST_NAME:
        return fit(words, cells)
    end = kept // 2
    short = f"{name[: kept - end]}{mark}{name[len(name) - end :]}"
    return fit(short + place[0][len(name) :], cells)


def waiting_mark(store: SnapshotStore, need: Need[Any, Any]) -> str:
    """Return an ellipsis until the exact answer arrives."""
    return "" if store.find_answer(need) is not None else f" {glyphs.GLYPHS.ellipsis}"


def refused_lines(answer: Refused, cells: int) -> list[Line]:
    """Draw the reason for a refused request."""
    return paragraph(answer.reason, cells, TextStyle.NOTE)


def stack_lines(
    frames: Sequence[Frame],
    cells: int,
    most: int | None = None,
    *,
    whole: bool = False,
    lead: Callable[[Frame | None], str] = lambda _: "",
) -> list[Line]:
    """Draw a stack, innermost first; mark user frames, and combine repeated and C++ frames.

    Args:
        frames: the stack.
        cells: width of a line.
        most: the most lines of Python frames; ``None`` for no limit.
        whole: draw each frame of a library, else only the innermost of a stack: the others are
            counted behind the frame that they called.
        lead: returns the words before a line, as many cells for each frame and for ``None``, a line
            without a frame.
    """
    cells -= cell_len(lead(None))
    python = [frame for frame in frames if classify_frame(frame) != "native"]
    # A stack without a frame of the user's own has nothing else to show.
    whole = whole or all(classify_frame(frame) != "user" for frame in python)
    rows: list[_StackRow] = []
    for own, run in groupby(python, lambda frame: classify_frame(frame) == "user"):
        drawn = [(frame, len(list(group))) for frame, group in groupby(run)]
        if not whole and not own:
            kept = [] if rows else drawn[:1]
            rows += [_StackRow(frame, times, own) for frame, times in kept]
            rows[-1].folded += sum(times for _, times in drawn[len(kept) :])
        else:
            rows += [_StackRow(frame, times, own) for frame, times in drawn]
    shown = rows if most is None or len(rows) <= most else rows[: most - 1]
    lines = [line(Span(lead(row.frame), TextStyle.QUIET), *row.draw(cells)) for row in shown]
    rest = sum(row.times + row.folded for row in rows[len(shown) :])
    native = len(frames) - len(python)
    notes = [f"and {text.count(rest, 'more frame')}"] if rest else []
    notes += [f"and {text.count(native, 'C++ frame')}"] if native else []
    if not lines and not notes:
        notes.append("no stack recorded")
    return lines + [line(Span(f"{lead(None)}   {note}", TextStyle.QUIET)) for note in notes]


NO_STACKS = (
    "The file has no history of the memory, so nothing says which lines allocated this. "
    f"`{RECORDING}` records them."
)
NAMED_BY_VERDICT = " W: the verdict names what it knows of it."


@dataclass(slots=True)
class _StackRow:
    """One line of a stack."""

    frame: Frame
    times: int
    own: bool
    """The frame is the user's."""
    folded: int = 0
    """Frames of libraries that called it, which have no line."""

    def draw(self, cells: int) -> Line:
        """Draw a frame: a user's with its folder, if it fits."""
        label = f" {glyphs.GLYPHS.selected if self.own else ' '} {format_frame(self.frame)}"
        label += f"  ({self.times} times)" if self.times > 1 else ""
        folded = f"  +{text.count(self.folded, 'library frame')}" if self.folded else ""
        style = TextStyle.PLAIN if self.own else TextStyle.QUIET
        parts = [Span(fit(label, max(cells - len(folded), cells // 2)), style)]
        folder = self.frame.filename[: -len(base_name(self.frame.filename))]
        if self.own and folder and cells - len(label) - len(folded) - 2 >= len(folder):
            parts.append(Span(f"  {folder}", TextStyle.QUIET))
        return fit_line(line(*parts, Span(folded, TextStyle.QUIET)), cells)


def bulleted(
    text: str, cells: int, style: TextStyle = TextStyle.PLAIN, mark: str = "-"
) -> list[Line]:
    """Draw a paragraph after a mark."""
    rows = wrap(text, max(10, cells - 3))
    first = (Span(f" {mark} ", style), Span(rows[0], style))
    return [first, *indented(rows[1:], 3, style)]


def indented(rows: Sequence[str], indent: int, style: TextStyle = TextStyle.PLAIN) -> list[Line]:
    """Indent lines by a number of spaces."""
    return [(Span(" " * indent + row, style),) for row in rows]


def labelled_figure(name: str, value: str) -> Line:
    """Draw a figure after its name."""
    return line(Span(f"{name} ", TextStyle.QUIET), Span(value))


def site_heading(name: str, cells: int) -> Line:
    """Draw the heading over sites: shares of live bytes, counts of allocations."""
    words = f"{'bytes':>9} {'%':>4} {'count':>7}  {name}"
    return fit_line((Span(words, TextStyle.QUIET),), cells)


def site_line(site: SiteRow, label: Line, cells: int) -> Line:
    """Draw bytes, share, count and label: the columns of every list of sites."""
    figures = f"{text.size(site.bytes):>9} {text.share(site.share):>4} {text.count(site.count):>7}"
    return fit_line((Span(f"{figures}  "), *label), cells)


# ---- the views -----------------------------------------------------------------------------------


def bar_line(session: SnapshotSession, cells: int) -> Line:
    """Draw the titles of the views, then the file name if there is room."""
    shown = views_line(session) if session.ready else ()
    store = session.main.store
    words = ""
    if store.status == "failed" and session.ready:
        words = f"! {store.reason}"
    elif store.paths:
        words = base_name(store.paths[0])
        if session.focus is not None and store.loaded is not None and len(store.loaded.devices) > 1:
            words = f"device {session.focus.device} of {len(store.loaded.devices)}  {words}"
    style = TextStyle.BAD if words.startswith("!") else TextStyle.QUIET
    return (*shown, Span("  "), Span(fit(words, cells - width(shown) - 2), style))


def _view_label(view: SnapshotView) -> str:
    return f" {view.key} {view.title} "


def views_line(session: SnapshotSession) -> Line:
    """Draw the titles of the views, with the open one marked."""
    return tuple(
        Span(
            _view_label(view),
            TextStyle.CURSOR if view.id == session.view else TextStyle.QUIET,
        )
        for view in VIEWS
    )


def view_at(x: int) -> str | None:
    """Return the id of the view whose title covers a column."""
    start = 0
    for view in VIEWS:
        end = start + len(_view_label(view))
        if start <= x < end:
            return view.id
        start = end
    return None


# ---- the timeline --------------------------------------------------------------------------------


def find_column(timeline: Timeline, event: int | None) -> int | None:
    """Return the column of an event (the last if it is ``None``), or ``None`` if out of view."""
    for place, bucket in enumerate(timeline.buckets):
        if event is not None and bucket.first <= event <= bucket.last:
            return place
    if event is None and timeline.buckets:
        return len(timeline.buckets) - 1
    return None


def state_lines(
    state: State, events: int, begin_us: int | None, cells: int, *, part: Part | None = None
) -> list[Line]:
    """Draw the figures at the cursor, its entry and a stack.

    Args:
        state: the state at the cursor.
        events: number of events in the whole trace.
        begin_us: time of the first event, for the elapsed time.
        cells: width of a line.
        part: content of the layer under the cursor; its stack replaces the entry's.
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
        parts.append(line(Span(format_clock(entry.time_us), TextStyle.QUIET)))
        if entry.context:
            parts.append(line(Span(entry.context, TextStyle.QUIET)))
        rows += flow(parts, cells)
    rows += flow([labelled_figure(name, value) for name, value in _state_figures(state)], cells)
    for doubt in state.doubts:
        rows += bulleted(doubt, cells, TextStyle.NOTE, "!")
    if entry is not None and part is None:
        rows += stack_lines(entry.stack, cells)
    return rows


def part_lines(part: Part, cells: int) -> list[Line]:
    """Draw the content of one layer at the cursor, its known purposes and its stack."""
    lines = [
        line(Span(part.label, TextStyle.STRONG)),
        line(Span(text.size(part.bytes), TextStyle.STRONG)),
        line(f"in {text.count(part.count, 'allocation')}"),
        line(f"{text.share(part.bytes / part.live if part.live else None)} of what was live"),
    ]
    rows = flow(lines, cells)
    for name, basis, size in part.categories:
        amount = "" if len(part.categories) == 1 else f"{text.size(size)} "
        rows += bulleted(f"{amount}{name}: {basis}", cells)
    if len(part.top) > 1:
        rows.append(site_heading("site", cells))
        rows += [site_line(top, line(top.label), cells) for top in part.top]
        rows.append(line(Span("the stack of most bytes:", TextStyle.QUIET)))
    return rows + (stack_lines(part.stack, cells) if part.count else [])


def _state_figures(state: State) -> Sequence[tuple[str, str]]:
    figures = [
        ("live", text.size(state.live)),
        ("rounding", text.size(state.rounding)),
        ("cached", text.size(state.cached)),
        ("reserved", text.size(state.reserved)),
        ("largest free block", text.size(state.largest_free_block)),
        ("live allocations", text.count(state.allocations)),
    ]
    if state.pending:
        figures.insert(1, ("of it pending", text.size(state.pending)))
    if state.private_reserved:
        figures.append(("private pools", text.size(state.private_reserved)))
    return figures


def zoom_range(timeline: Timeline, event: int | None, factor: float) -> tuple[int, int]:
    """Return the first and last event of a view around the cursor, scaled by a factor.

    The range never has fewer events than columns. The caller clamps it to the trace.
    """
    shown = timeline.last - timeline.first + 1
    least = max(1, len(timeline.buckets))
    width = max(least if factor < 1 else 1, round(shown * factor))
    centre = timeline.last if event is None else event
    first = centre - width // 2
    return first, first + width - 1


def clamp_range(first: int, last: int, events: int) -> tuple[int, int]:
    """Shift and shorten an event range to fit into a trace with a given number of events."""
    length = min(last - first + 1, events)
    first = max(0, min(first, events - length))
    return first, first + length - 1


def timeline_heading(timeline: Timeline, device: int) -> str:
    """Return the title of the pane."""
    whole = f"device {device} by {timeline.stacking}"
    if not timeline.buckets:
        return f"{whole}   nothing recorded"
    return f"{whole}   events {timeline.first}{glyphs.GLYPHS.dash}{timeline.last}"
