"""The edges of a timeline: marks above it, the events and annotations below it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import Line, Span, TextStyle, TwoColored, cell_len, fit, line, right
from tui.snapshots.model.pictures import Timeline
from tui.snapshots.views.shared_lines import find_column

GUTTER = 9
"""Width left of the columns: a size such as ``1.25 GiB`` and the wall."""
MOST_LABEL = 48
"""Cells of the longest name in the legend."""
_NAMED_CELLS = 3
"""Cells of an annotation from which its name is in it, and the least between two strokes."""
_MOST_STROKES = 2
"""Names of narrower annotations in the legend."""
MINUTE = 60
"""Seconds."""
Cell = tuple[str, TextStyle, TextStyle | None]
"""A glyph, its style, and the style behind it where two layers share the cell."""


def spans_of(cells: Sequence[Cell]) -> Line:
    spans: list[Span] = []
    for (style, upper), group in groupby(cells, key=itemgetter(1, 2)):
        words = "".join(cell[0] for cell in group)
        spans.append(Span(words, style) if upper is None else TwoColored(words, style, upper))
    return tuple(spans)


def peak_in(timeline: Timeline) -> bool:
    peak = timeline.peak_event
    return peak is not None and timeline.first <= peak <= timeline.last


def marks_line(timeline: Timeline) -> Line:
    """Draw ``X`` above each OOM and ``P`` above the peak, with words if they fit."""
    width = len(timeline.buckets)
    cells: list[Cell] = [(" ", TextStyle.PLAIN, None)] * width
    signs = [
        (place, "X", "OOM", TextStyle.BAD)
        for place, bucket in enumerate(timeline.buckets)
        if bucket.ooms
    ]
    if peak_in(timeline):
        peak = find_column(timeline, timeline.peak_event)
        assert peak is not None
        # Adjacent marks share their words: there is no room for both.
        beside = (at for at in (peak, peak + 1, peak - 1) if 0 <= at < width)
        near = next((at for at in beside if timeline.buckets[at].ooms), None)
        size = f"peak {text.size(timeline.peak)}"
        signs = [
            (place, sign, f"OOM, {size}" if place == near else words, style)
            for place, sign, words, style in signs
        ]
        if near != peak:
            signs.append((peak, "P", size if near is None else "", TextStyle.STRONG))
    for place, sign, _, style in signs:
        cells[place] = (sign, style, None)
    for place, _, words, style in signs:
        # Leave one more cell if the peak's mark stands between.
        left_of = place - 1 - len(words)
        for start in (place + 2, left_of, place + 3, left_of - 1):
            end = start + len(words)
            around = [at for at in range(start - 1, end + 1) if 0 <= at < width and at != place]
            if start >= 0 and end <= width and all(cells[at][0] == " " for at in around):
                cells[start:end] = [(letter, style, None) for letter in words]
                break
    return (Span(" " * GUTTER), *spans_of(cells))


def floor_lines(timeline: Timeline, at: int | None, low: str) -> list[Line]:
    """Draw the lower edge with its ticks and the cursor, above times or event numbers.

    Args:
        timeline: the layers.
        at: the cursor's column.
        low: the size at the edge.
    """
    width = len(timeline.buckets)
    edge = [glyphs.GLYPHS.rule] * width
    names = [" "] * width
    end = -2
    for column, words in _floor_ticks(timeline):
        start = max(0, min(width - len(words), column - len(words) // 2))
        if start > end + 1 and start + len(words) <= width:
            names[start : start + len(words)] = words
            end = start + len(words)
            edge[column] = glyphs.GLYPHS.tick
    if at is not None:
        edge[at] = "^"
    wall = f"{right(low, GUTTER - 1)}{glyphs.GLYPHS.corner}"
    return [
        line(Span(f"{wall}{''.join(edge)}", TextStyle.QUIET)),
        line(Span(f"{right('event', GUTTER - 1)} {''.join(names)}".rstrip(), TextStyle.QUIET)),
    ]


def _has_times(timeline: Timeline) -> bool:
    """Return whether all times are known and increasing."""
    times = [bucket.time_us for bucket in timeline.buckets]
    known = [time for time in times if time is not None]
    return (
        timeline.begin_us is not None
        and len(known) == len(times) > 1
        and known[0] < known[-1]
        and all(time <= other for time, other in pairwise(known))
    )


def _floor_ticks(timeline: Timeline) -> list[tuple[int, str]]:
    """Return the columns of the ticks, with the event of each and the time at which it was."""
    has_times, ticks = _has_times(timeline), []
    for tick in timeline.ticks:
        column = find_column(timeline, tick.event)
        if column is None:
            continue
        words = str(tick.event)
        if has_times and tick.time_us is not None and timeline.begin_us is not None:
            words += f" at {format_elapsed((tick.time_us - timeline.begin_us) / 1e6)}"
        ticks.append((column, words))
    return ticks


def format_elapsed(seconds: float) -> str:
    """Format a time since the first event: ``213 ms``, ``12 min 3 s``."""
    return text.seconds(seconds) if seconds < MINUTE else text.duration(seconds)


def has_annotations(timeline: Timeline) -> bool:
    return any(not band.depth for band in timeline.bands)


def _placed_bands(timeline: Timeline) -> list[tuple[str, int, int]]:
    """Return the name, the first cell and the number of cells of each outermost annotation."""
    placed = []
    for band in timeline.bands:
        first, last = find_column(timeline, band.first), find_column(timeline, band.last)
        if not band.depth and first is not None and last is not None:
            placed.append((band.name, first, last - first + 1))
    return placed


def annotation_lines(timeline: Timeline) -> list[Line]:
    """Draw the outermost annotations from their starts, a narrow one as a stroke."""
    if not has_annotations(timeline):
        return []
    cells = [" "] * len(timeline.buckets)
    for name, first, room in _placed_bands(timeline):
        if room >= _NAMED_CELLS:
            words = fit(name, room - 1)
            label = f"|{words}" if cell_len(words) == len(words) else "|"
            cells[first : first + len(label)] = list(label)
    for _, column in _strokes(timeline)[1]:
        cells[column] = "|"
    words = "".join(cells[: len(timeline.buckets)])
    return [line(" " * GUTTER, Span(words.rstrip(), TextStyle.QUIET))]


def _strokes(timeline: Timeline) -> tuple[int, list[tuple[str, int]]]:
    """Return the narrow annotations that are drawn as strokes, each by name and column.

    Where they have no room, one of so many with the most frequent name is drawn, and their number
    comes first.
    """
    narrow = [
        (name.partition("#")[0], first)
        for name, first, room in _placed_bands(timeline)
        if room < _NAMED_CELLS
    ]
    if _have_room(narrow):
        return 1, narrow
    most = Counter(name for name, _ in narrow).most_common(1)[0][0]
    alike = [(name, column) for name, column in narrow if name == most]
    steps = (factor * 10**power for power in range(len(alike)) for factor in (1, 2, 5))
    return next((step, alike[::step]) for step in steps if _have_room(alike[::step]))


def _have_room(strokes: Sequence[tuple[str, int]]) -> bool:
    columns = sorted(column for _, column in strokes)
    return all(after - before >= _NAMED_CELLS for before, after in pairwise(columns))


def stroke_parts(timeline: Timeline) -> list[Line]:
    """Name the annotations that are mere strokes, for the legend."""
    every, strokes = _strokes(timeline)
    if not strokes:
        return []
    names = list(dict.fromkeys(name for name, _ in strokes))
    shown = ", ".join(fit(name, MOST_LABEL) for name in names[:_MOST_STROKES])
    more = f" and {text.count(len(names) - _MOST_STROKES)} more" if names[_MOST_STROKES:] else ""
    lead = {1: "", 2: "every 2nd "}.get(every, f"every {every}th ")
    return [line(Span(f" |  {lead}{shown}{more}", TextStyle.QUIET))]
