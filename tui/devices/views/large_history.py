"""One figure of a device over the last minutes, as a filled area of several rows. Pure.

A cell of the picture has one reading at first. Later it stands for some seconds: its solid part
reaches the mean of their readings, its shaded part the highest. So a device that idles between
bursts looks different from one that is half busy all the time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import MemoryPoint
from tui.devices.views.history import (
    NO_READING,
    PlottedFigure,
    RecentReadings,
    count_before,
    draw_ground,
    explain_gap,
    explain_no_scale,
    format_span,
    format_value,
    plotted_figures,
    split_into_columns,
)
from tui.kit.lines import (
    FULL_REACHES,
    REACHES,
    SHADES,
    Line,
    Shaded,
    Span,
    TextStyle,
    fit_line,
    left,
    right,
)
from tui.monitor.messages import Sample

FOR_GPUS = 4
"""The most GPUs for which one figure is drawn large; with more, three figures have a row each."""
LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes per second that one PCIe lane carries one way, by generation, after its line coding: 8b/10b
up to the second, 128b/130b up to the fifth, flits of 242 of 256 bytes from the sixth."""
LEAST_ROWS, MOST_ROWS = 6, 10
"""Least rows of the picture, and its rows on a screen with empty rows."""
CRAMPED_ROWS = 2
"""Least rows of the picture where the other panes leave it no more."""
MOST_STACKED_ROWS = 20
"""Rows of each of several pictures below each other, where rows would stay empty."""
SCALE = 9
"""Cells in front of a picture, for the ends of its scale."""
EVERY = "all"
"""What ``h`` draws after the last figure, where there are many GPUs."""
SHADED_FROM = 0.1
"""Distance of mean and highest from which the shade between them is explained."""
HIGHEST = "highest "
"""Before the highest reading in a heading."""
NEXT_KEY = "h"
"""Draws the next figure."""
GAP = "  "
"""Separates the parts of a heading."""
LOW_ROWS = 3
"""Rows of a picture that is almost empty."""
HEADROOM = 1.03
"""Times the highest reading that the scale of the memory reaches at least: memory that is not full
never fills the picture."""
FEW = 4
"""There are few readings until they fill one ``FEW``-th of a picture."""
LEAST_SHARE = 64
"""The scale of the memory ends at a ``LEAST_SHARE``-th of the total at least, so that an idle GPU
looks idle."""
ZOOMED = "zoomed"
"""Said of a picture whose scale ends below the device's total."""
MEMORY = "used"
"""Name of the figure whose scale may end just above its highest reading."""
SETTLED = 3
"""Samples after which a figure without a reading counts as unsupported by the driver."""


class Readings(NamedTuple):
    """The readings of one cell's seconds, as shares of the scale."""

    mean: float
    highest: float


def list_figures(
    view: DeviceView, sample: Sample | None, format_size: text.SizeFormat = text.size_short
) -> list[PlottedFigure]:
    """Return the figures that can be drawn: load, memory, power, temperature and PCIe traffic.

    The scale of the temperature ends at the slowdown threshold, if the driver names it.
    """
    listed = plotted_figures(view, sample, format_size)
    if view.key != CPU:
        top = view.nvml.slowdown_c if view.nvml else None
        known = 100.0 if top is None else top
        words = text.temperature(known)
        listed.append(PlottedFigure("temperature", "temp", known, words, TextStyle.OTHERS))
        listed.append(_plot_traffic(view))
    return listed


def _plot_traffic(view: DeviceView) -> PlottedFigure:
    """Return the plot of the PCIe traffic, up to the link's capacity in one direction."""
    pcie = view.nvml.pcie if view.nvml else None
    generation = (pcie.max_generation or pcie.generation) if pcie else None
    width = (pcie.max_width or pcie.width) if pcie else None
    lane = LANE_BYTES_PER_S.get(generation) if generation is not None else None
    most = None if lane is None or width is None else lane * width
    words = text.NA if most is None else f"{round(most / 1e9)} GB/s"
    return PlottedFigure("traffic", "PCIe", most, words, TextStyle.CACHED)


def list_read_figures(view: DeviceView, recent: RecentReadings) -> list[PlottedFigure]:
    """Return the figures to draw, without those that the driver does not support.

    Args:
        view: the device.
        recent: its readings.
    """
    known = list_figures(view, recent.sample)
    if len(recent.points) < SETTLED:
        return known
    return [
        figure
        for figure in known
        if figure.full is not None
        and any(getattr(point, figure.name) is not None for point in recent.points)
    ] or known[:1]


def choose_figure(
    view: DeviceView,
    sample: Sample | None,
    name: str,
    format_size: text.SizeFormat = text.size_short,
) -> PlottedFigure:
    """Return the figure of a name; the load if the device has no such figure."""
    known = list_figures(view, sample, format_size)
    return next((figure for figure in known if figure.name == name), known[0])


def round_up(size: float) -> int:
    """Return the next power of two, or the next one and a half times a power of two.

    Args:
        size: bytes, above zero.
    """
    top = 1 << max(0, int(size) - 1).bit_length()
    return top * 3 // 4 if top >= 4 and size <= top * 3 // 4 else top


def _list_values(
    figure: PlottedFigure, recent: RecentReadings, span_s: float
) -> list[float | None]:
    """Return the readings of a figure in the last seconds."""
    since = recent.end - span_s
    return [getattr(point, figure.name) for point in recent.points if point.at >= since]


def choose_scale(
    figure: PlottedFigure, recent: RecentReadings, columns: int, format_size: text.SizeFormat
) -> PlottedFigure:
    """Return the figure of the memory with a scale that ends just above its highest reading.

    Args:
        figure: the figure, whose scale ends at the total.
        recent: the readings.
        columns: of the picture; earlier readings do not count.
        format_size: how the pane writes sizes.
    """
    total = figure.full
    drawn = _list_values(figure, recent, recent.column_s(columns) * columns)
    known = [value for value in drawn if value is not None]
    if not total or not known:
        return figure
    top = round_up(max(HEADROOM * max(known), total / LEAST_SHARE))
    if top >= total:
        return figure
    return figure._replace(full=float(top), full_text=format_size(top))


def fitting_rows(view: DeviceView, recent: RecentReadings, cells: int, available: int) -> int:
    """Return the rows of the picture of the memory with its heading; 0 without room.

    A picture that would be almost empty is lower: of an idle device, or of the first seconds.

    Args:
        view: the device.
        recent: its readings.
        cells: width of a line.
        available: the most rows.
    """
    rows = large_rows(available)
    figure = choose_figure(view, recent.sample, MEMORY)
    columns = max(0, cells - SCALE)
    flat = is_flat(choose_scale(figure, recent, columns, text.size_short), recent, columns)
    return min(rows, LEAST_ROWS + 1) if flat else rows


def is_flat(figure: PlottedFigure, recent: RecentReadings, cells: int) -> bool:
    """Return whether a picture would be almost empty: of an idle device, or of few readings.

    Args:
        figure: the figure, with the scale of the picture.
        recent: the readings of the device.
        cells: width of the picture.
    """
    top = figure.full
    values = [
        value for point in recent.points if (value := getattr(point, figure.name)) is not None
    ]
    if not top or FEW * len(values) < cells:
        return True
    highest: float = max(values)
    return highest * LEAST_ROWS < top


def next_figure(
    view: DeviceView, sample: Sample | None, name: str, *, few: bool, drawn: str | None = None
) -> str:
    """Return the name of the next figure to draw large.

    Args:
        view: the device.
        sample: the monitor's newest.
        name: the present figure; empty for the first, or while each figure has a row.
        few: there are so few GPUs that one figure is always large; else all follow the last.
        drawn: name of a figure to skip, which another pane draws; ``None`` for none.
    """
    names = [figure.name for figure in list_figures(view, sample)]
    options = names if few else ["", *names]
    index = options.index(name) if name in options else 0
    following = [*options[index + 1 :], *options[: index + 1]]
    return next((option for option in following if option != drawn), name)


def collect_readings(
    points: Sequence[MemoryPoint], figure: PlottedFigure, cells: int, seconds: float, until: float
) -> list[Readings | None]:
    """Return the mean and the highest value of each cell, or ``None`` without a reading.

    Cells begin at whole multiples of their seconds, so that the picture stands still until one is
    full.

    Args:
        points: oldest first.
        figure: the figure of the points, and its scale.
        cells: number of cells.
        seconds: duration of a cell.
        until: Unix time within the last cell.
    """
    if not figure.full:
        return [None] * cells
    first = math.floor(until / seconds) + 1 - cells
    readings: list[Readings | None] = []
    for cell in split_into_columns(points, seconds, first, cells):
        values = [getattr(point, figure.name) for point in cell]
        shares = [min(1.0, max(0.0, v / figure.full)) for v in values if v is not None]
        readings.append(Readings(sum(shares) / len(shares), max(shares)) if shares else None)
    return readings


def draw_area(
    readings: Sequence[Readings | None], rows: int, style: TextStyle = TextStyle.GOOD
) -> list[Line]:
    """Return the rows of the picture from the top; a zero is the lowest step, a gap is blank.

    A cell between the mean and the highest value has two colors: the area's and a darker one. The
    area is darker towards the bottom, and before the first reading there is its ground. Behind the
    area, dots mark the top of the scale and its middle.

    Args:
        readings: of each cell, as shares of the scale.
        rows: height of the picture.
        style: of the area.
    """
    steps = glyphs.GLYPHS.vertical
    high = rows * len(steps)
    begin = count_before(readings)
    grid, dot = grid_rows(rows), (glyphs.GLYPHS.zero, TextStyle.REST)
    lines = []
    for row in range(rows):
        base = (rows - 1 - row) * len(steps)
        shade = row * (SHADES - 1) // max(1, rows - 1)
        ground = begin if base == 0 else 0
        drawn = [_draw_cell(reading, high, base, style) for reading in readings[ground:]]
        if row in grid:
            drawn = [dot if text == " " else (text, own) for text, own in drawn]
        area = (
            ("".join(text for text, _ in run), own)
            for own, run in itertools.groupby(drawn, key=lambda cell: cell[1])
        )
        spans = (
            Span(text, own)
            if own in (FULL_REACHES[style], TextStyle.REST)
            else Shaded(text, own, shade)
            for text, own in area
        )
        lines.append((*draw_ground(ground), *spans))
    return lines


def grid_rows(rows: int) -> tuple[int, ...]:
    """Return the rows of a picture that end at the top of the scale or at its middle."""
    if rows < LOW_ROWS:
        return ()
    return (0, rows // 2) if rows >= LEAST_ROWS and rows % 2 == 0 else (0,)


def _draw_cell(
    readings: Readings | None, high: int, base: int, style: TextStyle
) -> tuple[str, TextStyle]:
    """Return one cell's glyph and style; ``base`` of all ``high`` steps are below it."""
    if readings is None:
        return " ", style
    steps = glyphs.GLYPHS.vertical
    solid = max(1, round(readings.mean * high)) - base
    reach = round(readings.highest * high) - base
    if solid >= len(steps):
        return steps[-1], style
    if solid > 0:
        return steps[solid - 1], REACHES[style] if reach >= len(steps) else style
    # A cell is shaded if at least half of it is filled.
    if 2 * reach < len(steps):
        return " ", style
    return glyphs.GLYPHS.shade, FULL_REACHES[style]


def count_pictures(view: DeviceView, recent: RecentReadings, available: int) -> int:
    """Return how many figures, of at least :data:`LEAST_ROWS` each, fit below each other.

    Args:
        view: the device.
        recent: its readings.
        available: rows for all.
    """
    return min(len(list_read_figures(view, recent)), available // (LEAST_ROWS + 1))


def stacked_lines(
    view: DeviceView,
    recent: RecentReadings,
    name: str,
    cells: int,
    height: int,
    following: str | None = None,
) -> list[Line]:
    """Return as many figures as fit, each with its heading; the chosen one first.

    The arguments are those of :func:`large_lines`.
    """
    lines: list[Line] = []
    for plotted, rows in plan_pictures(view, recent, name, cells, height):
        brief = bool(lines)
        lines += large_lines(view, recent, plotted, cells, rows, brief=brief, following=following)
    return lines


def plan_pictures(
    view: DeviceView, recent: RecentReadings, name: str, cells: int, available: int
) -> list[tuple[str, int]]:
    """Return the figures to draw below each other, the chosen one first, with their rows.

    Pictures that would be almost empty are low, while the others can use the rest. If the chosen
    one is almost empty, as of an idle device, all share it: the temperature is not to be the
    largest.

    Args:
        view: the device.
        recent: its readings.
        name: the chosen figure.
        cells: width of a line.
        available: the most rows.
    """
    known = list_figures(view, recent.sample)
    read = {figure.name for figure in list_read_figures(view, recent)}
    first = choose_figure(view, recent.sample, name)
    index = [figure.name for figure in known].index(first.name)
    others = [figure for figure in (*known[index + 1 :], *known[:index]) if figure.name in read]
    rows: list[int] = []
    grows: list[int] = []
    idle = is_flat(first, recent, cells - SCALE)
    for place, figure in enumerate([first, *others]):
        flat = is_flat(figure, recent, cells - SCALE)
        least = 1 + (LOW_ROWS if flat and place else LEAST_ROWS)
        if place and sum(rows) + least > available:
            break
        rows.append(min(least, available))
        grows += [place] if idle or not flat else []
    # Low pictures get what the others leave.
    for growing in (grows, range(len(rows))):
        while sum(rows) < available and growing:
            lowest = min(growing, key=lambda place: rows[place])
            if rows[lowest] > MOST_STACKED_ROWS:
                break
            rows[lowest] += 1
    return [(figure.name, count) for figure, count in zip([first, *others], rows, strict=False)]


def label_row(top: str, row: int, rows: int, cells: int) -> str:
    """Return the text in front of a row of a picture: the top of the scale, and the zero.

    Args:
        top: the top of the scale.
        row: number of the row from above.
        rows: of the picture.
        cells: width of the text.
    """
    words = top if row == 0 else "0" if row == rows - 1 else ""
    return f"{right(words, cells - 1)} "


def large_rows(available: int) -> int:
    """Return the rows of the picture with its heading in the available rows; 0 without room."""
    return min(available, MOST_ROWS + 1) if available > 1 else 0


def summarize(
    recent: RecentReadings,
    figure: PlottedFigure,
    readings: Sequence[Readings | None],
    span_s: float,
    format_size: text.SizeFormat,
) -> tuple[str, str]:
    """Return the present value of a figure, and its highest in a picture if that is another.

    Where the picture has shades, they stand before the highest, which they reach.

    Both are empty without a reading.

    Args:
        recent: the readings of the device.
        figure: the figure.
        readings: of each cell.
        span_s: duration of the picture in seconds.
        format_size: how the pane writes sizes.
    """
    values = _list_values(figure, recent, span_s)
    known = [value for value in values if value is not None]
    if not known:
        return "", ""
    highest = format_value(figure.name, max(known), format_size)
    last = values[-1] if readings and readings[-1] is not None else None
    present = "" if last is None else format_value(figure.name, last, format_size)
    shaded = any(each and each.highest - each.mean >= SHADED_FROM for each in readings)
    sign = f"{glyphs.GLYPHS.shade} " if shaded else ""
    return present, "" if highest == present else f"{sign}{HIGHEST}{highest}"


def _name(view: DeviceView, recent: RecentReadings, name: str | None) -> str:
    return choose_figure(view, recent.sample, name).label if name else EVERY


def heading_line(
    start: Sequence[str],
    rests: Sequence[Sequence[str]],
    cells: int,
    style: TextStyle = TextStyle.GOOD,
) -> Line:
    """Return a rule with a figure, its present value, which is strong, and the first rest to fit.

    Args:
        start: the name, and the value, which may be empty.
        rests: what may follow, the longest first.
        cells: width of the line.
        style: of the picture's area, whose shade stands before the highest value.
    """
    name, value = start
    gap = " " if value else ""
    room = cells - len(f"{glyphs.GLYPHS.rule} {name}{gap}{value} ")
    tails = ["".join(GAP + part for part in rest if part) for rest in rests]
    tail = next((words for words in tails if len(words) < room), "")
    words, hint, figure = tail.partition(f"{GAP}{NEXT_KEY} ")
    return fit_line(
        (
            Span(glyphs.GLYPHS.rule, TextStyle.REST),
            Span(f" {name}{gap}", TextStyle.QUIET),
            *([Span(value, TextStyle.STRONG)] if value else []),
            *_color_sample(words, style),
            *([Span(hint, TextStyle.KEY)] if hint else []),
            Span(f"{figure} ", TextStyle.QUIET),
            Span(glyphs.GLYPHS.rule * max(0, room - len(tail)), TextStyle.REST),
        ),
        cells,
    )


def _color_sample(words: str, style: TextStyle) -> Line:
    """Return the words of a heading with the sample of a shade in its color."""
    before, sign, after = words.partition(f"{glyphs.GLYPHS.shade} {HIGHEST}")
    if not sign:
        return (Span(words, TextStyle.QUIET),)
    return (
        Span(before, TextStyle.QUIET),
        Span(sign[0], FULL_REACHES[style]),
        Span(f"{sign[1:]}{after}", TextStyle.QUIET),
    )


def large_lines(
    view: DeviceView,
    recent: RecentReadings,
    name: str,
    cells: int,
    height: int,
    *,
    brief: bool = False,
    following: str | None = None,
    valued: bool = True,
    zoomed: bool = False,
    format_size: text.SizeFormat = text.size_short,
) -> list[Line]:
    """Return a heading and the picture of one figure.

    Args:
        view: the device.
        recent: its readings.
        name: the figure.
        cells: width of a line.
        height: lines in all.
        brief: name only the figure, below a picture whose heading has the rest.
        following: name of the figure that ``h`` draws next, empty for all; ``None`` without one.
        valued: the heading has the present value, which costs a line of output at each change.
        zoomed: the memory has the scale of :func:`choose_scale`, and the heading says so.
        format_size: how the pane writes sizes.
    """
    whole = choose_figure(view, recent.sample, name, format_size)
    figure = whole
    if zoomed and name == MEMORY:
        figure = choose_scale(whole, recent, max(0, cells - SCALE), format_size)
    zoom = ZOOMED if figure is not whole else ""
    scale = max(SCALE, len(figure.full_text) + 1)
    room, rows = max(0, cells - scale), max(1, height - 1)
    seconds, until = recent.column_s(room), recent.end
    readings = collect_readings(recent.points, figure, room, seconds, until)
    present, highest = summarize(recent, figure, readings, room * seconds, format_size)
    if brief:
        heading = heading_line([figure.label, present], [[]], cells, figure.style)
    else:
        span = format_span(recent.known_s(room * seconds))
        period = f"last {span}"
        gap = figure.full is not None and explain_gap(recent.points, readings, seconds, until)
        hint = (
            []
            if following in (None, figure.name)
            else [f"{NEXT_KEY} {_name(view, recent, following)}"]
        )
        more = [part for part in (period, zoom) if part]
        briefly = [zoom or span]
        blank = [[highest, *more, gap, *hint], [*more, gap], [*briefly, gap], [gap]] if gap else []
        rests = [*blank, [highest, *more, *hint], [*more, *hint], more, [period], []]
        start = [f"{view.label} {figure.label}", present if valued else ""]
        heading = heading_line(start, rests, cells, figure.style)
    if figure.full is None:
        return [heading, explain_no_scale(figure, cells)]
    if len(recent.points) >= SETTLED and not any(readings):
        reason = f" {figure.label} {text.NA}{NO_READING.removeprefix('gap')}"
        return [heading, (Span(left(reason, cells), TextStyle.QUIET),)]
    return [
        heading,
        *(
            (Span(label_row(figure.full_text, row, rows, scale)[:cells], TextStyle.QUIET), *picture)
            for row, picture in enumerate(draw_area(readings, rows, figure.style))
        ),
    ]
