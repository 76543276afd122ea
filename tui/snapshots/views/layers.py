"""A device's live bytes over its events: colored layers, on axes with round values. Pure.

Each column shows the moment of its most live bytes, so no peak is lost between two columns. Each
layer has a letter as well as a color, the largest layer the first of both, wherever it is stacked;
without colors, the letter fills the layer's area.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise, takewhile

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.braille import DOWN
from tui.kit.lines import (
    FULL_LAYERS,
    Line,
    Span,
    TextStyle,
    fit,
    flow,
    line,
    right,
)
from tui.kit.scale import Scale, labels
from tui.kit.ticks import dot_row
from tui.snapshots.model.pictures import NO_CATEGORY, REST, Bucket, Layer, LayerSize, Timeline
from tui.snapshots.views.shared_lines import find_column
from tui.snapshots.views.site_bars import layer_area, layer_letter, on_layer
from tui.snapshots.views.timeline_edges import (
    GUTTER,
    MOST_LABEL,
    Cell,
    annotation_lines,
    floor_lines,
    has_annotations,
    marks_line,
    peak_in,
    spans_of,
    stroke_parts,
)

_FRAME_ROWS = 4
"""Chart rows besides the columns: the marks, the floor, its labels, and the annotations."""
_TICK_ROWS = 3
_LETTER_CELLS = 5
"""Minimum width, in adjacent cells, at which a layer shows its letter."""
_WIDE = 100
"""Legend width in cells from which the legend explains the purpose of each layer."""
_LEAST_CACHED, _LEAST_RUN = 1 / 16, 5
"""Share of the scale by which reserved exceeds live memory, and the columns in a row, from which
the line of reserved memory is drawn: shorter pieces look like dirt."""


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
    return max(1, height - _FRAME_ROWS + (not has_annotations(timeline)))


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
    _draw_reserved(timeline, grid)
    _draw_uprights(timeline, grid, at, chosen)
    scale = Scale(0, max(1, timeline.scale))
    wall = labels(scale, "byte", max(2, rows // _TICK_ROWS))
    ticks = {
        dot_row(scale, value, rows) // DOWN: f"{words} {wall.unit}" if value else words
        for value, words in reversed(wall.ticks)
    }
    lines = [marks_line(timeline)]
    for row, cells in enumerate(grid):
        words = ticks.get(row, "")
        edge = glyphs.GLYPHS.wall_tick if row in ticks else glyphs.GLYPHS.wall
        lead = Span(right(words, GUTTER - 1) + edge, TextStyle.QUIET)
        drawn = [_cell_drawn(timeline, cell, letters=letters) for cell in cells]
        lines.append((lead, *spans_of(drawn)))
    return [*lines, *floor_lines(timeline, at, ticks[rows]), *annotation_lines(timeline)]


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
    return filled + [(_NONE, " ")] * empty


def _reserved_runs(timeline: Timeline) -> list[range]:
    """Return the stretches of columns in which reserved memory has a line above live memory."""
    least = max(1, timeline.scale) * _LEAST_CACHED
    apart = [bucket.reserved_max - bucket.live_max >= least for bucket in timeline.buckets]
    runs = []
    for is_apart, group in groupby(range(len(apart)), apart.__getitem__):
        columns = list(group)
        if is_apart and len(columns) >= _LEAST_RUN:
            runs.append(range(columns[0], columns[-1] + 1))
    return runs


def _draw_reserved(timeline: Timeline, grid: list[list[_Filled]]) -> None:
    """Draw reserved memory as a line with steps, behind the areas."""
    rows, scale = len(grid), max(1, timeline.scale)

    def draw(row: int, column: int, glyph: str) -> None:
        if grid[row][column][0] == _NONE:
            grid[row][column] = (_RESERVED, glyph)

    end_low, start_high, end_high, start_low = tuple(glyphs.GLYPHS.steps)
    for run in _reserved_runs(timeline):
        before: int | None = None
        for column in run:
            level = rows - math.ceil(timeline.buckets[column].reserved_max * rows / scale)
            if before is None or before == level:
                draw(level, column, glyphs.GLYPHS.rule)
            else:
                rises = level < before
                draw(before, column, end_low if rises else end_high)
                draw(level, column, start_high if rises else start_low)
                for row in range(min(before, level) + 1, max(before, level)):
                    draw(row, column, glyphs.GLYPHS.wall)
            before = level


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
    timeline: Timeline, grid: list[list[_Filled]], at: int | None, chosen: str | None
) -> None:
    """Draw the lines of the peak, each OOM and the cursor; only the cursor's crosses the areas.

    Args:
        timeline: the layers.
        grid: the cells.
        at: the cursor's column.
        chosen: the key of the layer under the cursor, whose letter stands in the cursor's line.
    """
    lines = [(find_column(timeline, timeline.peak_event), _PEAK)] if peak_in(timeline) else []
    lines += [(place, _OOM) for place, bucket in enumerate(timeline.buckets) if bucket.ooms]
    for column, kind in lines:
        for cells in grid:
            if column is not None and cells[column][0] in (_NONE, _RESERVED, _PEAK):
                cells[column] = (kind, glyphs.GLYPHS.wall)
    if at is None:
        return
    keys = [layer.key for layer in timeline.layers]
    own = [
        row for row, cells in enumerate(grid) if cells[at][0] >= 0 and keys[cells[at][0]] == chosen
    ]
    for row, cells in enumerate(grid):
        number, glyph = cells[at]
        if _ABOVE in glyph:  # the larger of the two is behind the line
            eighths, _, upper = glyph.partition(_ABOVE)
            number = number if 2 * int(eighths) >= len(glyphs.GLYPHS.vertical) else int(upper)
        if own and row == own[len(own) // 2]:
            cells[at] = (number, get_letter(timeline, number))
        elif number < 0 or glyph in glyphs.GLYPHS.vertical[: len(glyphs.GLYPHS.vertical) // 2]:
            cells[at] = (_CURSOR, glyphs.GLYPHS.wall)
        else:  # an area that has at least half of a cell is behind the line
            cells[at] = (number, glyphs.GLYPHS.wall)


def least_drawn(timeline: Timeline, rows: int) -> int:
    """Return the bytes from which a layer can be seen in a picture with a number of rows."""
    return max(1, timeline.scale // (2 * max(1, rows) * len(glyphs.GLYPHS.vertical)))


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment under the cursor, whose figures the legend has."""

    words: str
    """Such as ``at the OOM (event 22030)``; empty if they stand above."""
    sizes: Sequence[LayerSize]

    def size_of(self, layer: Layer) -> int:
        """Return the live bytes of a layer; a layer that is not listed holds nothing."""
        return next((each.bytes for each in self.sizes if each.key == layer.key), 0)


def legend_lines(
    timeline: Timeline,
    cells: int,
    moment: Moment | None,
    chosen: str | None = None,
    *,
    letters: bool,
    least: int = 1,
    purposes: bool = True,
) -> list[Line]:
    """Draw each layer, the largest first, with its size at one moment and its purpose.

    Args:
        timeline: the layers.
        cells: width of a line.
        moment: the moment; ``None`` until its figures are known.
        chosen: the key of the layer under the cursor.
        letters: layers are filled with their letters: for displays without colors.
        least: bytes below which a layer is left out.
        purposes: say the purpose of each layer where there is room.
    """
    narrow = cells < _WIDE
    room = max(12, cells // 2 - 16 if narrow else MOST_LABEL)
    parts: list[Line] = []
    if moment is not None and moment.words:
        parts.append(line(Span(f" {moment.words}:", TextStyle.QUIET)))
    in_order = sorted(
        enumerate(timeline.layers), key=lambda item: (item[1].key == REST, item[1].rank)
    )
    for number, layer in in_order:
        if max(layer.bytes, default=0) < least:
            continue
        style = TextStyle.STRONG if letters else _on_area(timeline, number)
        name = TextStyle.CURSOR if layer.key == chosen else TextStyle.PLAIN
        purpose = _name_purpose(timeline, layer) if purposes and not narrow else ""
        size = glyphs.GLYPHS.ellipsis if moment is None else text.size(moment.size_of(layer))
        parts.append(
            line(
                Span(f" {get_letter(timeline, number)} ", style),
                Span(f" {fit(layer.label, room)}", name),
                Span(f" {size}{purpose}", TextStyle.QUIET),
            )
        )
    if _reserved_runs(timeline):
        rule = glyphs.GLYPHS.rule
        parts.append(line(Span(f" {rule}  reserved", TextStyle.QUIET)))
    parts += stroke_parts(timeline)
    return flow(parts, cells, gap="  ")


def _name_purpose(timeline: Timeline, layer: Layer) -> str:
    """Return the category for the legend, unless the layers are categories themselves."""
    unknown = not layer.categories or layer.categories[0] == NO_CATEGORY
    if timeline.stacking == "category" or unknown:
        return ""
    if len(layer.categories) > 1:
        return f", {layer.categories[0]} and others"
    return f", {layer.categories[0]}"
