"""Curves over an axis as lines of text, in braille dots and blocks or in ASCII. Pure.

Drawn here because no library fits: drawille is AGPL, uniplot and textual-plot need NumPy, and
plotext is a compiled module with one global figure that takes 0.4 s to import.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tui.core.text import glyphs
from tui.core.text.glyphs import clean
from tui.core.text.numbers import date, quantity
from tui.kit import braille
from tui.kit.braille import ACROSS, DOWN, Cell, Dot
from tui.kit.dates import DATE, date_labels
from tui.kit.lines import (
    FAINT_AREAS,
    FULL_FAINT_AREAS,
    SHADES,
    Line,
    Shaded,
    Span,
    TextStyle,
    TwoColored,
    cell_len,
    flow,
    line,
    right,
)
from tui.kit.scale import Labels, Scale, labels
from tui.kit.ticks import dot_row, place_ticks

HEIGHT = 9
"""Usual number of rows between the edges."""
LEAST_ROOM = 12
"""Least cells between the edges: fewer show no curve."""
LEAST_CELLS = 24
"""Least width in cells of a plot: below it, text is clearer."""
_SPARSE = 3
"""Cells per point from which each point has a mark."""
_MARK_EVERY = 10
_TICK_CELLS = 9
"""Cells per tick at the bottom."""
_MOST_TOGETHER = 2
"""Most names of events that stand together above the plot."""
_BESIDE = 2
"""Most cells from one event to the next one whose name stands beside its own."""
CURVE_STYLES = (
    TextStyle.ALLOCATED,
    TextStyle.OTHERS,
    TextStyle.CONTEXT,
    TextStyle.CACHED,
    TextStyle.GOOD,
    TextStyle.BAD,
)


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one quantity."""

    name: str
    """Name in the legend; empty for none."""
    points: tuple[tuple[float, float | None], ...]
    """Place and value; ``None`` or NaN leaves a gap."""
    mark: str = ""
    """Sign at the points, which distinguishes curves without color; empty for the line alone.
    An area has none."""
    style: TextStyle = TextStyle.KEY
    joined: bool = True
    """Connect the points with a line."""
    filled: bool = False
    """Draw the area below in place of the line, in front of the areas of earlier curves."""
    faint: bool = False
    """Draw the area in a darker color, and with a texture where there is none."""


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line: a limit."""

    name: str
    value: float
    start: float | None = None
    """Place where the line begins; ``None`` for the whole axis."""
    style: TextStyle = TextStyle.NOTE


@dataclass(frozen=True, slots=True)
class Event:
    """A vertical line: an event at a place of the axis."""

    name: str
    """Name of the event; empty to draw its sign alone."""
    place: float
    style: TextStyle = TextStyle.NOTE


@dataclass(frozen=True, slots=True)
class Axis:
    """The quantity along an edge of the plot."""

    name: str
    unit: str
    """Of the values; :data:`tui.kit.dates.DATE` for Unix times, at the lower edge alone."""
    scale: Scale
    last_tick: float | None = None
    """No tick stands above this value at the side; ``None`` for no such bound."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves, levels and events in one frame."""

    across: Axis
    upright: Axis
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    events: tuple[Event, ...] = ()
    title: str = ""
    note: str = ""
    """Reason in the legend why the curves have gaps."""


LEAST_HEIGHT = 4
"""Least rows of a plot."""


def mark_of(number: int) -> str:
    """Return the mark of a plot's curve by its number from 0; marks repeat after the last."""
    return glyphs.GLYPHS.marks[number % len(glyphs.GLYPHS.marks)]


def style_of(number: int) -> TextStyle:
    """Return the style of a plot's curve by its number from 0."""
    return CURVE_STYLES[number % len(CURVE_STYLES)]


def plot_lines(plot: Plot, cells: int, height: int) -> list[Line]:
    """Return the legend, the frame with its curves, and the axis below it.

    Args:
        plot: with at least one place and value.
        cells: width of a line; at least :data:`LEAST_CELLS`.
        height: rows between the edges; at least two. The plot has one row less if the legend needs
            another row for the mark of several points.
    """
    rows, more = _draw(plot, cells, height)
    return (
        rows if not more or height - more < LEAST_HEIGHT else _draw(plot, cells, height - more)[0]
    )


def fit_plot_lines(plot: Plot, cells: int, height: int, rows: int) -> list[Line]:
    """Return the plot in at most ``rows`` rows; nothing if these are too few.

    Args:
        plot: with at least one place and value.
        cells: width of a line; at least :data:`LEAST_CELLS`.
        height: rows between the edges if the plot has all that it may have around them.
        rows: the rows; those that the plot does not need around its edges make it higher.
    """
    height += rows - len(plot_lines(plot, cells, height))
    return plot_lines(plot, cells, height) if height >= LEAST_HEIGHT else []


def _draw(plot: Plot, cells: int, height: int) -> tuple[list[Line], int]:
    """Return the lines, and the rows of the legend that explain the mark of several points."""
    upright = plot.upright
    wall, scale = place_ticks(
        upright.scale, upright.unit, height, upright.last_tick, centered=_is_centered(plot)
    )
    plot = replace(plot, upright=replace(upright, scale=scale))
    gutter = min(wall.cells, cells - LEAST_ROOM - 1)
    room = cells - gutter - 1
    floor = _floor_labels(plot.across, room)
    canvas = _Canvas(plot, room, height)
    key_lines = canvas.name_levels()
    rows = _heading(plot, (wall, floor), key_lines, cells, shared=canvas.has_shared)
    more = len(rows) - len(_heading(plot, (wall, floor), key_lines, cells, shared=False))
    if plot.events:
        rows += _event_lines(plot, canvas, gutter, cells)
    texts = {canvas.tick_row(value): text for value, text in wall.ticks}
    for number in range(height):
        edge = glyphs.GLYPHS.wall_tick if number in texts else glyphs.GLYPHS.wall
        lead = Span(right(texts.get(number, ""), gutter) + edge, TextStyle.QUIET)
        rows.append((lead, *canvas.line(number)))
    return rows + _floor_lines(canvas, floor, gutter, texts.get(height, "")), more


def _is_centered(plot: Plot) -> bool:
    """Return whether rows stand for the values at their middle: an area fills them to the top."""
    return not any(curve.filled for curve in plot.curves)


def _floor_labels(across: Axis, room: int) -> Labels:
    """Return the ticks of the lower edge, which has ``room`` cells."""
    most = room // _TICK_CELLS + 1
    if across.unit == DATE:
        return date_labels(across.scale, most)
    return labels(across.scale, across.unit, most)


class _Canvas:
    """The cells between the edges, as they are filled."""

    def __init__(self, plot: Plot, room: int, height: int) -> None:
        self.plot, self.room, self.height = plot, room, height
        self.bits: dict[Cell, int] = {}
        self.styles: dict[Cell, TextStyle] = {}
        self.marks: dict[Cell, tuple[str, TextStyle]] = {}
        self.has_shared = False
        """True if points of several curves are in one cell."""
        self.events = {self.column(event.place): event.style for event in plot.events}
        """The style of the line in each column with an event."""
        self.areas = [self._fill(curve) for curve in plot.curves if curve.filled]
        for level in plot.levels:
            start = plot.across.scale.low if level.start is None else level.start
            first, y = self.dot(start, level.value)
            for column in range(first // ACROSS, room):
                cell, areas = (column, y // DOWN), self._solid(column, y // DOWN)
                # A cell has one sign: an area that fills it hides the level there, and the level
                # hides the top of an area.
                if any(steps == len(glyphs.GLYPHS.vertical) for _, steps in areas):
                    continue
                if areas:
                    self.bits.setdefault(cell, 0)
                    self.styles.setdefault(cell, level.style)
                # Draw two cells and leave one out, to distinguish the level from a curve.
                if column % 3 != 2:
                    dots = range(max(first, column * ACROSS), (column + 1) * ACROSS)
                    self._draw(((x, y) for x in dots), level.style)
        for curve in plot.curves:
            if not curve.filled:
                self._draw(self._dots(curve), curve.style)
        for curve in plot.curves:
            self._mark(curve)

    def dot(self, place: float, value: float) -> Dot:
        """Return the dot of a point; points outside the range are clipped to its edge."""
        x = self.plot.across.scale.share(place) * (self.room * ACROSS - 1)
        return round(x), min(self._dot_row(value), self.height * DOWN - 1)

    def column(self, place: float) -> int:
        return self.dot(place, self.plot.upright.scale.low)[0] // ACROSS

    def row(self, value: float) -> int:
        return self.dot(self.plot.across.scale.low, value)[1] // DOWN

    def tick_row(self, value: float) -> int:
        """Return the row of a tick: the one of points at its value, or the lower edge."""
        return self._dot_row(value) // DOWN

    def _dot_row(self, value: float) -> int:
        scale, centered = self.plot.upright.scale, _is_centered(self.plot)
        return dot_row(scale, value, self.height, centered=centered)

    def _draw(self, dots: Iterator[Dot], style: TextStyle) -> None:
        for cell, drawn in braille.bits(dots, self.room, self.height).items():
            self.bits[cell] = self.bits.get(cell, 0) | drawn
            self.styles[cell] = style

    def _fill(self, curve: Curve) -> _Area:
        """Return the area below a curve, as high in each column as its highest value there."""
        steps = self.height * len(glyphs.GLYPHS.vertical)
        tops: dict[int, int] = {}
        before: tuple[int, float] | None = None
        for place, value in curve.points:
            if value is None or not math.isfinite(value):
                before = None
                continue
            share = self.plot.upright.scale.share(value)
            x = self.dot(place, value)[0]
            start, first = before if before and curve.joined else (x, share)
            before = (x, share)
            for dot in range(start, x + 1):
                part = (dot - start) / (x - start) if x > start else 1.0
                at = first + (share - first) * part
                column = dot // ACROSS
                tops[column] = max(round(at * steps), tops.get(column, 1))
        return _Area(curve, tops)

    def _solid(self, column: int, row: int) -> list[tuple[Curve, int]]:
        """Return the areas that fill a part of a cell, with its steps; the front one first."""
        most = len(glyphs.GLYPHS.vertical)
        base = (self.height - 1 - row) * most
        return [
            (area.curve, min(most, steps))
            for area in reversed(self.areas)
            if (steps := area.tops.get(column, 0) - base) > 0
        ]

    def _dots(self, curve: Curve) -> Iterator[Dot]:
        before: Dot | None = None
        for place, value in curve.points:
            if value is None or not math.isfinite(value):
                before = None  # a gap stays one
                continue
            dot = self.dot(place, value)
            yield from braille.segment(before if before and curve.joined else dot, dot)
            before = dot

    def _mark(self, curve: Curve) -> None:
        if not curve.mark or curve.filled:
            return
        gap = 0 if len(curve.points) * _SPARSE <= self.room or not curve.joined else _MARK_EVERY
        last = -gap
        for place, value in curve.points:
            if value is None or not math.isfinite(value):
                continue
            x, y = self.dot(place, value)
            cell = (x // ACROSS, y // DOWN)
            if cell[0] - last < gap:
                continue
            last = cell[0]
            marked = self.marks.get(cell, (curve.mark, curve.style))[0]
            mark = curve.mark if marked == curve.mark else glyphs.GLYPHS.shared
            self.has_shared = self.has_shared or mark != curve.mark
            self.marks[cell] = (mark, curve.style)

    def name_levels(self) -> list[Level]:
        """Write each level's name at an end of its row; return names that would hide a curve."""
        names = []
        for level in self.plot.levels:
            row = self.row(level.value)
            # Above its line if there is a row, so that the line stays whole.
            rows = [row - 1, row + 1] if row else [row + 1]
            free = [
                (name, start, at)
                for name in map(clean, (_name_level(self.plot, level), level.name))
                for at in rows
                for start in (self.room - cell_len(name) - 1, 1)
                if at < self.height and self._is_free(start, at, cell_len(name))
                if len(name) == cell_len(name)
            ]
            if not free:
                names.append(level)
                continue
            name, start, at = free[0]
            for offset, letter in enumerate(name):
                self.marks[start + offset, at] = (letter, level.style)
        return names

    def _is_free(self, start: int, row: int, cells: int) -> bool:
        if start < 0 or start + cells > self.room:
            return False
        columns = range(start - 1, start + cells + 1)
        taken = self.bits.keys() | self.marks.keys()
        return not any(
            c in self.events or (c, row) in taken or self._solid(c, row) for c in columns
        )

    def line(self, row: int) -> Line:
        """Return one row."""
        shade = row * (SHADES - 1) // max(1, self.height - 1)
        return _merge_cells(self._cell(column, row, shade) for column in range(self.room))

    def _cell(self, column: int, row: int, shade: int) -> Span:
        """Return one cell: a mark, else a line, else an event, else the area."""
        cell = (column, row)
        if cell in self.marks:
            return Span(*self.marks[cell])
        if cell in self.bits:
            return Span(braille.character(self.bits[cell]), self.styles[cell])
        if column in self.events:
            return self._event_cell(self.events[column], self._solid(column, row), shade)
        return self._area_cell(self._solid(column, row), shade)

    def _event_cell(self, style: TextStyle, solid: Sequence[tuple[Curve, int]], shade: int) -> Span:
        """Return a cell of an event's line, in front of the area that fills the cell."""
        wall = glyphs.GLYPHS.wall
        full = [curve for curve, steps in solid if steps == len(glyphs.GLYPHS.vertical)]
        if not full:
            return Span(wall, style)
        return TwoColored(wall, style, _area_style(full[0]), shade_behind=_shade(full[0], shade))

    def _area_cell(self, solid: Sequence[tuple[Curve, int]], shade: int) -> Span:
        """Return a cell of the areas: two of them if the one behind fills the cell, else one.

        Args:
            solid: the areas with the steps that they fill, the front one first.
            shade: the shade of the row.
        """
        if not solid:
            return Span(" ")
        blocks = glyphs.GLYPHS.vertical
        (curve, steps), *others = solid
        for behind, more in others:
            if steps < more == len(blocks):
                own, ground = (_shade(each, shade) for each in (curve, behind))
                style = _area_style(behind)
                return TwoColored(blocks[steps - 1], curve.style, style, own, ground)
            if 2 * steps <= more:
                # A cell has no third color, for what is above both.
                curve, steps = behind, more
        block = blocks[steps - 1]
        if curve.faint and steps == len(blocks):
            return Span(glyphs.GLYPHS.shade, _area_style(curve))
        if curve.faint:
            return Span(block, FAINT_AREAS[curve.style])
        return Shaded(block, curve.style, shade, steps == len(blocks))


@dataclass(frozen=True, slots=True)
class _Area:
    """The area below a curve."""

    curve: Curve
    tops: dict[int, int]
    """By column: the height of the area, in steps of a cell."""


def _area_style(curve: Curve) -> TextStyle:
    """Return the style of a curve's whole cells."""
    return FULL_FAINT_AREAS[curve.style] if curve.faint else curve.style


def _shade(curve: Curve, shade: int) -> int:
    """Return the shade of a row of a curve's area; a faint one has none."""
    return 0 if curve.faint else shade


def _merge_cells(cells: Iterable[Span]) -> Line:
    """Return a row of cells with neighbors of equal style in one span; blanks join any before."""
    spans: list[Span] = []
    for cell in cells:
        before = spans[-1] if spans else None
        blank = cell.text == " " and not isinstance(before, (Shaded, TwoColored))
        if before is not None and (blank or replace(cell, text=before.text) == before):
            spans[-1] = replace(before, text=before.text + cell.text)
        else:
            spans.append(cell)
    spans[-1] = replace(spans[-1], text=spans[-1].text.rstrip())
    return tuple(span for span in spans if span.text)


def _heading(
    plot: Plot, units: tuple[Labels, Labels], levels: Sequence[Level], cells: int, *, shared: bool
) -> list[Line]:
    """Return the legend: the axes, the mark of each series, and the mark of several points."""
    wall, floor = units
    axes = Span(_name_axes(plot, wall.unit, floor.unit), TextStyle.QUIET)
    parts: list[Line] = [line(Span(clean(plot.title), TextStyle.STRONG)), line(axes)]
    parts += [
        line(Span(_sample(curve), _area_style(curve)), f" {clean(curve.name)}")
        for curve in plot.curves
        if curve.name
    ]
    if shared:
        words = f"{glyphs.GLYPHS.shared} overlap"
        parts.append(line(Span(words, TextStyle.QUIET)))
    if plot.note:
        parts.append(line(Span(plot.note, TextStyle.QUIET)))
    for level in levels:
        sample = glyphs.GLYPHS.interval.line * 2
        parts.append(line(Span(f"{sample} {_name_level(plot, level)}", level.style)))
    shown = [part for part in parts if any(span.text for span in part)]
    if plot.title:
        return flow(shown, cells, gap="   ", indent="  ")
    return [line("  ", *row) for row in flow(shown, cells - 2, gap="   ", indent="  ")]


def _name_level(plot: Plot, level: Level) -> str:
    """Return the name of a level with its value, which few ticks have."""
    return f"{level.name} {quantity(level.value, plot.upright.unit)}"


def _sample(curve: Curve) -> str:
    """Return what stands for a curve in the legend."""
    if curve.filled:
        return (glyphs.GLYPHS.shade if curve.faint else glyphs.GLYPHS.vertical[-1]) * 2
    return curve.mark or glyphs.GLYPHS.rule * 2


LOG_NOTES = {
    (True, True): "(log)",
    (True, False): "(vertical log scale)",
    (False, True): "(horizontal log scale)",
}
"""Notes by whether the vertical and the horizontal axis are logarithmic."""


def _name_axes(plot: Plot, upright: str, across: str) -> str:
    """Describe both axes: ``ms over n (log)``, ``GiB over time in s``."""
    first = " in ".join(filter(None, (clean(plot.upright.name), upright)))
    then = " in ".join(filter(None, (clean(plot.across.name), across)))
    log = (plot.upright.scale.logarithmic, plot.across.scale.logarithmic)
    # An axis without a name and a unit is described by the title alone.
    words = (first, f"over {then}" if then else "", LOG_NOTES.get(log, ""))
    return " ".join(filter(None, words))


def _event_lines(plot: Plot, canvas: _Canvas, gutter: int, cells: int) -> list[Line]:
    """Return a row with a sign above each event and the names that fit, then the others.

    Events side by side have their names together.
    """
    signs = {canvas.column(event.place): event.style for event in plot.events}
    row = [
        Span(glyphs.GLYPHS.unfolded, signs[at]) if at in signs else Span(" ")
        for at in range(canvas.room)
    ]
    others: list[Line] = []
    for group in _group_events(plot.events, canvas):
        named = tuple(dict.fromkeys(clean(event.name) for event in group))
        if len(named) > _MOST_TOGETHER:
            others += (_name_beside(event, plot.across) for event in group)
            continue
        names = ", ".join(named)
        style = next((one.style for one in group if one.style is TextStyle.BAD), group[0].style)
        first, last = (canvas.column(event.place) for event in (group[0], group[-1]))
        size = cell_len(names)
        for start in (last + 2, first - 1 - size):
            reach = range(start - 1, start + size + 1)
            inside = start >= 0 and start + size <= canvas.room and size == len(names)
            near = (at for at in reach if 0 <= at < canvas.room and not first <= at <= last)
            if inside and all(row[at].text == " " for at in near):
                row[start : start + size] = (Span(letter, style) for letter in names)
                break
        else:
            others += (_name_beside(event, plot.across) for event in group)
    top = line(" " * (gutter + 1), *_merge_cells(row))
    return [*(line("  ", *row) for row in flow(others, cells - 2, gap="   ")), top]


def _group_events(events: Iterable[Event], canvas: _Canvas) -> list[list[Event]]:
    """Return the named events in groups of neighbors, from the left."""
    groups: list[list[Event]] = []
    end = -math.inf
    for event in sorted(events, key=lambda event: event.place):
        if not clean(event.name):
            continue
        column = canvas.column(event.place)
        if column - end <= _BESIDE:
            groups[-1].append(event)
        else:
            groups.append([event])
        end = column
    return groups


def _name_beside(event: Event, across: Axis) -> Line:
    """Return the name of an event that has no room above the plot, with its place."""
    unit = across.unit
    where = date(event.place) if unit == DATE else quantity(event.place, unit)
    return line(Span(f"{glyphs.GLYPHS.unfolded} {clean(event.name)} at {where}", event.style))


def _floor_lines(canvas: _Canvas, floor: Labels, gutter: int, low: str) -> list[Line]:
    """Return the lower edge with its ticks, and below it as many of their numbers as fit.

    Args:
        canvas: the cells above.
        floor: the ticks.
        gutter: width left of the edge.
        low: number at the side of the edge itself; empty for none.
    """
    edge = [glyphs.GLYPHS.rule] * canvas.room
    names = [" "] * canvas.room
    end = -1
    for value, text in floor.ticks:
        column = canvas.column(value)
        edge[column] = glyphs.GLYPHS.tick
        start = max(0, min(canvas.room - len(text), column - len(text) // 2))
        if start > end and start + len(text) <= canvas.room:
            names[start : start + len(text)] = text
            end = start + len(text)
    lead = right(low, gutter) + glyphs.GLYPHS.corner
    return [
        line(Span(f"{lead}{''.join(edge)}", TextStyle.QUIET)),
        line(Span(f"{' ' * gutter} {''.join(names)}".rstrip(), TextStyle.QUIET)),
    ]
