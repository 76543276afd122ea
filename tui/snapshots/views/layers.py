"""A device's live bytes over its events: colored layers, on axes with round values. Pure.

Each column shows the moment of its most live bytes, so no peak is lost between two columns. Each
layer has a letter as well as a color, the largest layer the first of both, wherever it is stacked;
without colors, the letter fills the layer's area.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise, takewhile
from operator import itemgetter

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.braille import DOWN
from tui.kit.lines import (
    FULL_LAYERS,
    Line,
    Span,
    TextStyle,
    TwoColored,
    cell_len,
    fit,
    flow,
    line,
    right,
)
from tui.kit.scale import Scale, labels
from tui.kit.ticks import dot_row
from tui.snapshots.model.pictures import NO_CATEGORY, REST, Bucket, Layer, Timeline
from tui.snapshots.views.shared_lines import find_column
from tui.snapshots.views.site_bars import layer_area, layer_letter, on_layer

GUTTER = 9
"""Width left of the columns: a size such as ``1.25 GiB`` and the wall."""
BY_EVENT = "by event"
"""Name of the lower edge with times; it fits into the gutter."""
_FRAME_ROWS = 4
"""Chart rows besides the columns: the marks, the floor, its labels, and the annotations."""
_TICK_ROWS, _TICK_CELLS = 3, 12
_LETTER_CELLS = 5
"""Minimum width, in adjacent cells, at which a layer shows its letter."""
_WIDE = 100
"""Legend width in cells from which the legend explains the purpose of each layer."""
_MOST_LABEL = 48
_NAMED_CELLS = 3
"""Cells of an annotation from which its name is in it."""
_MOST_STROKES = 2
"""Names of narrower annotations in the legend."""
Cell = tuple[str, TextStyle, TextStyle | None]
"""A glyph, its style, and the style behind it where two layers share the cell."""


def _rank(timeline: Timeline, number: int) -> int | None:
    layer = timeline.layers[number]
    return None if layer.key == REST else layer.rank


def get_letter(timeline: Timeline, number: int) -> str:
    """Return a layer's letter in the chart and in the legend."""
    return layer_letter(_rank(timeline, number))


def _area(timeline: Timeline, number: int) -> TextStyle:
    """Return a layer's color."""
    return layer_area(_rank(timeline, number))


def _on_area(timeline: Timeline, number: int) -> TextStyle:
    return on_layer(_rank(timeline, number))


def rows_of(timeline: Timeline, height: int) -> int:
    """Return the number of rows left for the columns in a chart of a given height."""
    return max(1, height - _FRAME_ROWS + (not _outermost(timeline)))


def chart_lines(
    timeline: Timeline,
    height: int,
    event: int | None,
    chosen: str | None = None,
    *,
    letters: bool = False,
) -> list[Line]:
    """Draw the chart in its frame.

    Args:
        timeline: at most as many buckets as cells right of the gutter.
        height: total number of rows, at least five.
        event: event under the cursor.
        chosen: the key of the layer under the cursor.
        letters: fill a layer with its letter: for displays without colors.
    """
    rows = rows_of(timeline, height)
    at = find_column(timeline, event)
    grid = _grid(timeline, rows, letters=letters)
    if not letters:
        _write_letters(timeline, grid)
    _draw_uprights(timeline, grid, at, chosen, is_lettered=letters or glyphs.GLYPHS.ascii)
    scale = Scale(0, max(1, timeline.scale))
    wall = labels(scale, "byte", max(2, rows // _TICK_ROWS))
    ticks = {
        dot_row(scale, value, rows) // DOWN: f"{words} {wall.unit}" if value else words
        for value, words in reversed(wall.ticks)
    }
    lines = [_marks_line(timeline)]
    for row, cells in enumerate(grid):
        words = ticks.get(row, "")
        edge = glyphs.GLYPHS.wall_tick if row in ticks else glyphs.GLYPHS.wall
        lead = Span(right(words, GUTTER - 1) + edge, TextStyle.QUIET)
        drawn = [_cell_drawn(timeline, cell, letters=letters) for cell in cells]
        lines.append((lead, *_spans(drawn)))
    return [*lines, *_floor_lines(timeline, at, ticks[rows]), *_annotation_lines(timeline)]


_Filled = tuple[int, str]
"""A layer's number and a glyph, :data:`_FULL`, or eighths and the number of the layer above them;
negative numbers are not layers."""
_FULL = "full"
_ABOVE = " below "
"""Separates the eighths of the lower layer from the number of the upper one."""
_NEARLY_FULL = 7
"""Eighths from which a cell is filled, so that it can show a boundary."""
_NONE, _RESERVED, _OOM, _PEAK, _CURSOR = -1, -2, -3, -4, -5
_PLAIN = {
    _NONE: TextStyle.PLAIN,
    _RESERVED: TextStyle.QUIET,
    _OOM: TextStyle.BAD,
    _PEAK: TextStyle.QUIET,
    _CURSOR: TextStyle.STRONG,
}


def _cell_drawn(timeline: Timeline, cell: _Filled, *, letters: bool) -> Cell:
    number, glyph = cell
    if number < 0 or letters:
        return glyph, _PLAIN[min(number, _NONE)], None
    if _ABOVE in glyph:
        eighths, _, upper = glyph.partition(_ABOVE)
        steps = glyphs.GLYPHS.vertical
        return steps[int(eighths) - 1], _area(timeline, number), _area(timeline, int(upper))
    if glyph in glyphs.GLYPHS.vertical[:-1] and not glyphs.GLYPHS.ascii:
        return glyph, _area(timeline, number), None
    if glyph != _FULL:
        return glyph, _on_area(timeline, number), None
    layer = timeline.layers[number]
    if layer.key == REST:
        return " ", TextStyle.FULL_LAYER_REST, None
    return glyphs.GLYPHS.vertical[-1], FULL_LAYERS[layer.rank % len(FULL_LAYERS)], None


def _grid(timeline: Timeline, rows: int, *, letters: bool) -> list[list[_Filled]]:
    """Return the cells as rows from the top."""
    letters = letters or glyphs.GLYPHS.ascii
    columns = [
        _column(timeline, number, bucket, rows, letters=letters)
        for number, bucket in enumerate(timeline.buckets)
    ]
    return [[column[rows - 1 - row] for column in columns] for row in range(rows)]


def _column(
    timeline: Timeline, place: int, bucket: Bucket, rows: int, *, letters: bool
) -> list[_Filled]:
    """Fill one column from the bottom up.

    A cell shows the layer at the middle of its filled part. With colors, a full cell with a
    boundary shows two, to an eighth of a cell: a block has a color and one behind it.
    """
    steps = len(glyphs.GLYPHS.vertical)
    scale = max(1, timeline.scale)
    tops = list(accumulate(layer.bytes[place] for layer in timeline.layers))
    edges = [round(top * rows * steps / scale) for top in tops]
    live = bucket.live_max * rows * steps / scale
    filled: list[_Filled] = []
    for low in range(rows):
        eighths = max(0, min(steps, round(live - low * steps)))
        if low == 0 and bucket.live_max > 0:
            eighths = max(1, eighths)
        if not eighths:
            break
        first = low * steps
        if not letters and eighths >= _NEARLY_FULL:
            filled.append(_full_cell(edges, first, steps))
            continue
        middle = bisect_right(tops, (first + eighths / 2) / steps / rows * scale)
        number = min(middle, len(tops) - 1)
        glyph = get_letter(timeline, number) if letters else glyphs.GLYPHS.vertical[eighths - 1]
        filled.append((number, glyph))
    empty = rows - len(filled)
    filled += [(_NONE, " ")] * empty
    reserved = min(rows - 1, round(bucket.reserved_max * rows / scale) - 1)
    if reserved >= 0 and filled[reserved][0] == _NONE:
        filled[reserved] = (_RESERVED, glyphs.GLYPHS.rule)
    return filled


def _full_cell(edges: Sequence[int], first: int, steps: int) -> _Filled:
    """Fill one cell with its layer, or with the two that take most of it.

    Args:
        edges: upper edges of the layers in eighths of a cell.
        first: lower edge of the cell.
        steps: parts of a cell.
    """
    last = len(edges) - 1
    lowest = min(bisect_right(edges, first), last)
    highest = min(bisect_left(edges, first + steps), last)
    if lowest == highest:
        return lowest, _FULL
    bounds = [first, *edges[lowest:highest], first + steps]
    sizes = [after - before for before, after in pairwise(bounds)]
    largest = sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True)[:2]
    lower, upper = sorted(largest)
    if not sizes[upper]:
        return lowest + lower, _FULL
    return lowest + lower, f"{bounds[upper] - first}{_ABOVE}{lowest + upper}"


def layer_at(timeline: Timeline, height: int, x: int, y: int) -> str | None:
    """Return the key of the layer in one cell of the chart, or ``None`` if there is none."""
    rows = rows_of(timeline, height)
    column, row = x - GUTTER, y - 1
    if not (0 <= column < len(timeline.buckets) and 0 <= row < rows):
        return None
    cells = _column(timeline, column, timeline.buckets[column], rows, letters=False)
    number = cells[rows - 1 - row][0]  # where there are two, the lower one
    return timeline.layers[number].key if number >= 0 else None


def next_layer(timeline: Timeline, event: int | None, chosen: str | None, by: int) -> str | None:
    """Return the next layer above or below the chosen one with bytes in the cursor's column.

    Return ``None`` below the lowest and above the highest layer.
    """
    at = find_column(timeline, event)
    keys = [layer.key for layer in timeline.layers if at is not None and layer.bytes[at]]
    ring: list[str | None] = [None, *keys]
    place = ring.index(chosen) if chosen in ring else 0
    return ring[(place + by) % len(ring)]


def _write_letters(timeline: Timeline, grid: list[list[_Filled]]) -> None:
    """Write each layer's letter once, where its area has most room on all sides."""
    if glyphs.GLYPHS.ascii:
        return
    most: dict[int, tuple[int, int, int]] = {}
    for row, cells in enumerate(grid):
        column = 0
        for cell, run in groupby(cells):
            length = sum(1 for _ in run)
            middle = column + length // 2
            column += length
            if cell[0] < 0 or cell[1] != _FULL or length < _LETTER_CELLS:
                continue
            # A cell is twice as high as wide.
            room = min(length, 4 * _rows_around(grid, row, middle) + 2)
            if room > most.get(cell[0], (0,))[0]:
                most[cell[0]] = (room, row, middle)
    for number, (_, row, column) in most.items():
        if timeline.layers[number].key != REST:
            grid[row][column] = (number, get_letter(timeline, number))


def _rows_around(grid: list[list[_Filled]], row: int, column: int) -> int:
    """Return how many rows above and below have the same content in a column, the fewer of both."""
    key = grid[row][column]

    def same(rows: Iterable[int]) -> int:
        return sum(1 for _ in takewhile(lambda at: grid[at][column] == key, rows))

    return min(same(range(row - 1, -1, -1)), same(range(row + 1, len(grid))))


def _draw_uprights(
    timeline: Timeline,
    grid: list[list[_Filled]],
    at: int | None,
    chosen: str | None,
    *,
    is_lettered: bool,
) -> None:
    """Draw the lines of the peak, each OOM and the cursor; only the cursor's crosses the areas.

    Args:
        timeline: the layers.
        grid: the cells.
        at: the cursor's column.
        chosen: the key of the layer under the cursor.
        is_lettered: letters fill the layers, so that no cell shows a part of its height.
    """
    lines = [(find_column(timeline, timeline.peak_event), _PEAK)] if _peak_in(timeline) else []
    lines += [(place, _OOM) for place, bucket in enumerate(timeline.buckets) if bucket.ooms]
    for column, kind in lines:
        for cells in grid:
            if column is not None and cells[column][0] in (_NONE, _RESERVED, _PEAK):
                cells[column] = (kind, glyphs.GLYPHS.wall)
    if at is None:
        return
    for cells in grid:
        number, glyph = cells[at]
        if number < 0:
            cells[at] = (_CURSOR, glyphs.GLYPHS.wall)
        elif glyph != _FULL and not is_lettered:
            continue  # a cell of an edge has no room for a line without a change of its height
        elif timeline.layers[number].key == chosen:
            cells[at] = (number, get_letter(timeline, number))
        else:
            cells[at] = (number, glyphs.GLYPHS.wall)


def _spans(cells: Sequence[Cell]) -> Line:
    spans: list[Span] = []
    for (style, upper), group in groupby(cells, key=itemgetter(1, 2)):
        words = "".join(cell[0] for cell in group)
        spans.append(Span(words, style) if upper is None else TwoColored(words, style, upper))
    return tuple(spans)


# ---- the frame ---------------------------------------------------------------------------------


def _peak_in(timeline: Timeline) -> bool:
    peak = timeline.peak_event
    return peak is not None and timeline.first <= peak <= timeline.last


def _marks_line(timeline: Timeline) -> Line:
    """Draw ``X`` above each OOM and ``P`` above the peak, with words if they fit."""
    width = len(timeline.buckets)
    cells: list[Cell] = [(" ", TextStyle.PLAIN, None)] * width
    signs = [
        (place, "X", "OOM", TextStyle.BAD)
        for place, bucket in enumerate(timeline.buckets)
        if bucket.ooms
    ]
    if _peak_in(timeline):
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
    return (Span(" " * GUTTER), *_spans(cells))


def _floor_lines(timeline: Timeline, at: int | None, low: str) -> list[Line]:
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
    for column, words in _floor_ticks(timeline, max(2, width // _TICK_CELLS)):
        start = max(0, min(width - len(words), column - len(words) // 2))
        if start > end + 1 and start + len(words) <= width:
            names[start : start + len(words)] = words
            end = start + len(words)
            edge[column] = glyphs.GLYPHS.tick
    if at is not None:
        edge[at] = "^"
    # Columns are events where the numbers are times, too, which explains their uneven steps.
    lead = BY_EVENT if _has_times(timeline) else "event"
    wall = f"{right(low, GUTTER - 1)}{glyphs.GLYPHS.corner}"
    return [
        line(Span(f"{wall}{''.join(edge)}", TextStyle.QUIET)),
        line(Span(f"{right(lead, GUTTER - 1)} {''.join(names)}".rstrip(), TextStyle.QUIET)),
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


def _floor_ticks(timeline: Timeline, most: int) -> list[tuple[int, str]]:
    """Choose columns for ticks, with their labels.

    Columns hold equal numbers of events, so equal time steps differ in width.
    """
    if not timeline.buckets:
        return []
    begin = timeline.begin_us
    if begin is not None and _has_times(timeline):
        times = [((bucket.time_us or begin) - begin) / 1e6 for bucket in timeline.buckets]
        placed = labels(Scale(times[0], times[-1]), "s", most)
        return [
            (max(0, bisect_right(times, value) - 1), f"{words} {placed.unit}")
            for value, words in placed.ticks
        ]
    firsts = [bucket.first for bucket in timeline.buckets]
    ticks = Scale(timeline.first, max(timeline.last, timeline.first)).ticks(most)
    whole = [int(value) for value in ticks if float(value).is_integer()]
    return [(max(0, bisect_right(firsts, value) - 1), str(value)) for value in whole]


def _outermost(timeline: Timeline) -> bool:
    return any(not band.depth for band in timeline.bands)


def _placed_bands(timeline: Timeline) -> list[tuple[str, int, int]]:
    """Return the name, the first cell and the number of cells of each outermost annotation."""
    placed = []
    for band in timeline.bands:
        first, last = find_column(timeline, band.first), find_column(timeline, band.last)
        if not band.depth and first is not None and last is not None:
            placed.append((band.name, first, last - first + 1))
    return placed


def _annotation_lines(timeline: Timeline) -> list[Line]:
    """Draw the outermost annotations from their starts, a narrow one as a stroke."""
    if not _outermost(timeline):
        return []
    cells = [" "] * len(timeline.buckets)
    for name, first, room in _placed_bands(timeline):
        words = fit(name, room - 1) if room >= _NAMED_CELLS else ""
        label = f"|{words}" if cell_len(words) == len(words) else "|"
        cells[first : first + len(label)] = list(label)
    words = "".join(cells[: len(timeline.buckets)])
    return [line(" " * GUTTER, Span(words.rstrip(), TextStyle.QUIET))]


def _stroke_parts(timeline: Timeline) -> list[Line]:
    """Name the annotations that are mere strokes, for the legend."""
    narrow = (name for name, _, room in _placed_bands(timeline) if room < _NAMED_CELLS)
    names = list(dict.fromkeys(name.partition("#")[0] for name in narrow))
    if not names:
        return []
    shown = ", ".join(fit(name, _MOST_LABEL) for name in names[:_MOST_STROKES])
    more = f" and {text.count(len(names) - _MOST_STROKES)} more" if names[_MOST_STROKES:] else ""
    return [line(Span(f" |  {shown}{more}", TextStyle.QUIET))]


def least_drawn(timeline: Timeline, rows: int) -> int:
    """Return the bytes from which a layer can be seen in a picture with a number of rows."""
    return max(1, timeline.scale // (2 * max(1, rows) * len(glyphs.GLYPHS.vertical)))


def legend_lines(
    timeline: Timeline,
    cells: int,
    chosen: str | None = None,
    *,
    letters: bool,
    least: int = 1,
    purposes: bool = True,
) -> list[Line]:
    """Draw each layer, the largest first, with its maximum in view and its purpose.

    Args:
        timeline: the layers.
        cells: width of a line.
        chosen: the key of the layer under the cursor.
        letters: layers are filled with their letters: for displays without colors.
        least: bytes below which a layer is left out.
        purposes: say the purpose of each layer where there is room.
    """
    narrow = cells < _WIDE
    room = max(12, cells // 2 - 16 if narrow else _MOST_LABEL)
    parts: list[Line] = []
    in_order = sorted(
        enumerate(timeline.layers), key=lambda item: (item[1].key == REST, item[1].rank)
    )
    for number, layer in in_order:
        if max(layer.bytes, default=0) < least:
            continue
        style = TextStyle.STRONG if letters else _on_area(timeline, number)
        name = TextStyle.CURSOR if layer.key == chosen else TextStyle.PLAIN
        purpose = _name_purpose(timeline, layer) if purposes and not narrow else ""
        parts.append(
            line(
                Span(f" {get_letter(timeline, number)} ", style),
                Span(f" {fit(layer.label, room)}", name),
                Span(f" {text.size(max(layer.bytes))}{purpose}", TextStyle.QUIET),
            )
        )
    rule = glyphs.GLYPHS.rule
    parts.append(line(Span(f" {rule} ", TextStyle.QUIET), Span(" reserved", TextStyle.QUIET)))
    parts += _stroke_parts(timeline)
    return flow(parts, cells, gap="  ")


def _name_purpose(timeline: Timeline, layer: Layer) -> str:
    """Return the category for the legend, unless the layers are categories themselves."""
    has_categories = layer.categories and layer.categories != (NO_CATEGORY,)
    if timeline.stacking == "category" or not has_categories:
        return ""
    if len(layer.categories) > 1:
        return f", {layer.categories[0]} and others"
    return f", {layer.categories[0]}"
