"""A workload's findings as lines: charts, a study's figures and tables, a sweep. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping

from tui.core.text import glyphs
from tui.core.text.glyphs import clean
from tui.core.text.numbers import quantity
from tui.kit.bars import draw_bar
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    fit,
    fit_line,
    left,
    line,
    paragraph,
    right,
    verbatim,
    width,
)
from tui.kit.plot import (
    HEIGHT,
    LEAST_CELLS,
    LEAST_HEIGHT,
    Axis,
    Curve,
    Event,
    Level,
    Plot,
    plot_lines,
)
from tui.kit.scale import above, places_scale, scale_for
from tui.kit.tables import format_title, reason_lines, table_lines
from tui.runs.state.parameters import Sweep
from tui.runs.sweeps.sweep_result import SweepResult, format_settings, format_sweep_progress
from tui.runs.views.device_charts import change_order_often, find_wins, name_devices
from tui.runs.views.device_colors import list_curve_marks, list_curve_styles, style_of_device
from tui.runs.views.variant_table import finding_table_lines
from tui.runs.views.workload_state import format_run_progress
from workloads.protocol.figure_names import name_figure
from workloads.protocol.results import Cell, Chart, DataColumn, Figure, RunResult, Series, Table

MOST_LABEL = 28
LEAST_BAR = 8
BARS_FROM = 30
"""Least cells for bars; narrower charts of steps are tables."""
CHART_GAP = 3
WIDE = 50
"""Least cells of each plot when two are side by side."""
EXPLAINED_ELSEWHERE = ("limit", "time.ci95_s")
"""Paths of absent figures that other lines explain."""
_FINDINGS = ("figures.", "tables.", "charts.")
"""Prefixes of paths whose absence is explained beside the findings."""
_ABSENT = {
    "time.median_s": "median",
    "time.p95_s": "p95",
    "time.ci95_s": "95% interval",
    "time.device_median_s": "device time",
    "time.enqueue_s": "enqueue time",
    "rates.flop_per_s": "FLOP/s",
    "rates.byte_per_s": "B/s",
    "rates.item_per_s": "samples/s",
    "memory.allocated_peak": "allocated peak",
    "memory.reserved_peak": "reserved peak",
    "memory.workspace": "cuBLAS workspace",
    "memory.process_peak": "process peak",
}
"""Names of figures that a run may lack, by the dotted path in ``unavailable``."""
_AROUND_PLOT = 3
"""Rows around a plot: its heading, the axis and the axis' labels."""
_LEGIBLE_PLOT = 6
"""Least rows of each of several plots that share the rows."""
DRAWN = ("time", "rate")
"""The plotted charts; the table has the speed-up, and both have its crossovers."""


def bar_lines(chart: Chart, cells: int, style: TextStyle = TextStyle.ALLOCATED) -> list[Line]:
    """Draw each series with a bar for each step; series of one unit share a scale.

    Args:
        chart: a chart of labeled steps.
        cells: width of a line.
        style: color of the bars.
    """
    rows: list[Line] = []
    highest: dict[str, float] = {}
    for series in chart.series:
        most = max(_filter_known(series), default=0.0)
        highest[series.unit] = max(highest.get(series.unit, 0.0), most)
    for series in chart.series:
        rows += _draw_bar_block(chart, series, highest[series.unit], cells, style)
    return rows


def _draw_bar_block(
    chart: Chart, series: Series, highest: float, cells: int, style: TextStyle
) -> list[Line]:
    title = Span(f"  {clean(series.name)}", TextStyle.KEY)
    if not _filter_known(series):
        return [line(title, Span(f"  {quantity(None)}", TextStyle.QUIET))]
    full = above(highest) if highest > 0 else 1.0
    if series.unit in ("byte", "bytes", "B") and highest > 0:
        full = 2.0 ** math.ceil(math.log2(highest))
    texts = [quantity(value, series.unit) for value in series.values]
    value_cells = max(map(cell_len, texts))
    labels = [clean(chart.labels[place]) for place in range(len(series.values))]
    longest = max(map(cell_len, labels), default=0)
    label_cells = min(longest, MOST_LABEL, max(6, cells - 8 - value_cells - LEAST_BAR))
    room = max(1, cells - 4 - label_cells - value_cells - 4)
    scale = f"   full bar {quantity(full, series.unit)}"
    rows = [line(title, Span(scale, TextStyle.QUIET))]
    for name, words, value in zip(labels, texts, series.values, strict=True):
        share = 0.0 if value is None else value / full
        # A label that does not fit gets its own line.
        if cell_len(name) > label_cells:
            rows += [line("    ", *row) for row in paragraph(name, max(1, cells - 4))]
            name = ""
        drawn = Span(left(" " if value is None else draw_bar(share, room), room), style)
        rows.append(
            line(f"    {left(name, label_cells)}  ", drawn, f"  {right(words, value_cells)}")
        )
    return rows


def curve_lines(
    chart: Chart,
    cells: int,
    height: int = HEIGHT,
    levels: tuple[Level, ...] = (),
    events: tuple[Event, ...] = (),
    device: str = "",
) -> list[Line]:
    """Return the title, and one plot for each unit, with different marks for its curves.

    Args:
        chart: a chart over at least one place.
        cells: width of a line; at least :data:`LEAST_CELLS`.
        height: rows between the edges of a plot; plots of several units share them, where each
            stays legible.
        levels: limits to draw, in the unit of the first series.
        events: places to mark on the axis of the first series.
        device: device of the figures, whose color a single curve has.
    """
    rows: list[Line] = []
    title = format_title(clean(chart.title or chart.name), unreliable=chart.unreliable)
    names = [series.name for series in chart.series]
    styles, marks = list_curve_styles(names, device), list_curve_marks(names)
    units = tuple(dict.fromkeys(series.unit for series in chart.series))
    height = _share_rows(height + _AROUND_PLOT, len(units)) or height
    for unit in units:
        members = [(at, series) for at, series in enumerate(chart.series) if series.unit == unit]
        values = [value for _, series in members for value in _filter_known(series)]
        if not values:
            rows += paragraph(title, cells, TextStyle.STRONG) if title else []
            listed = fit(", ".join(clean(series.name) for _, series in members), cells)
            words = f"{listed}: {quantity(None)}, no value is known"
            rows += [line("  ", *row) for row in paragraph(words, cells - 2, TextStyle.QUIET)]
            title = ""
            continue
        curves = tuple(
            Curve(
                series.name,
                tuple(zip(chart.places, series.values, strict=True)),
                marks[at],
                styles[at],
            )
            for at, series in members
            if _filter_known(series)
        )
        lines = levels if unit == chart.series[0].unit else ()
        # Sizes have a unit of their own, so that 16777216 is 16 MiB.
        sizes = chart.axis if chart.axis in ("byte", "bytes") else ""
        name = "" if sizes or chart.axis in title.split() else chart.axis
        across = Axis(name, sizes, places_scale(chart.places))
        scale = scale_for([*values, *(level.value for level in lines)], unit)
        marked = events if unit == chart.series[0].unit else ()
        plot = Plot(across, Axis("", unit, scale), curves, lines, marked, title)
        rows += plot_lines(plot, cells, height)
        title = ""  # one title above the first panel serves all
    return rows


def _filter_known(series: Series) -> list[float]:
    """Return the values that are known."""
    return [value for value in series.values if value is not None and math.isfinite(value)]


def chart_lines(
    chart: Chart,
    unavailable: Mapping[str, str],
    cells: int,
    height: int = HEIGHT,
    levels: tuple[Level, ...] = (),
    events: tuple[Event, ...] = (),
    device: str = "",
) -> list[Line]:
    """Return the chart with its title and marks, or a table of points if the width is small.

    Args:
        chart: the chart to show.
        unavailable: reasons by dotted path; this chart's reasons are listed below it.
        cells: width of a line.
        height: rows between the edges of a plot.
        levels: limits, in the unit of the first series; bars ignore them.
        events: places to mark on the axis; charts of steps ignore them. Without any, the crossing
            with the CPU's curve is marked.
        device: device of the figures, whose color bars and a single curve have.
    """
    chart = name_devices(chart, device)
    events = events or find_wins(chart, device)
    title = format_title(chart.title or chart.name, unreliable=chart.unreliable)
    rows = paragraph(title, cells, TextStyle.STRONG)
    if not chart.places:
        rows.append(line(Span("  no points yet", TextStyle.QUIET)))
    elif chart.labels:
        style = style_of_device(device)
        bars = cells >= BARS_FROM
        drawn = bar_lines(chart, cells, style) if bars else _points_as_table(chart, cells)
        rows += [fit_line(row, cells) for row in drawn]
    elif cells >= LEAST_CELLS:
        rows = curve_lines(chart, cells, height, levels, events, device)
    else:
        rows += _points_as_table(chart, cells)
    is_doubted = chart.unreliable or change_order_often(chart, device)
    doubted = chart.marks if is_doubted else ()
    return [
        *rows,
        *mark_lines(chart, cells, doubted),
        *reason_lines(f"charts.{chart.name}", unavailable, cells),
    ]


def count_beside(count: int, cells: int) -> int:
    """Return how many of several pictures fit side by side, at least one."""
    return max(1, min(count, (cells + CHART_GAP) // (WIDE + CHART_GAP)))


def draw_beside(draw: Callable[[int, int], list[Line]], count: int, cells: int) -> list[Line]:
    """Draw pictures side by side if each gets :data:`WIDE` cells, else one below the other.

    Args:
        draw: draws a picture from its number and its width.
        count: number of pictures.
        cells: width of a line.
    """
    across = count_beside(count, cells)
    room = (cells - CHART_GAP * (across - 1)) // across
    rows: list[Line] = []
    for start in range(0, count, across):
        drawn = [draw(number, room) for number in range(start, min(count, start + across))]
        for parts in itertools.zip_longest(*drawn, fillvalue=()):
            joined: list[Span] = []
            for number, part in enumerate(parts):
                joined += part
                if number < len(parts) - 1:
                    joined.append(Span(" " * (room + CHART_GAP - width(part))))
            rows.append(tuple(joined))
    return rows


def _points_as_table(chart: Chart, cells: int) -> list[Line]:
    return table_lines(build_point_table(chart), {}, cells)[1:]


def mark_lines(chart: Chart, cells: int, doubted: Collection[str] = ()) -> list[Line]:
    """List the marks of a chart; those that are doubted in the color of warnings."""
    rows: list[Line] = []
    for mark in chart.marks:
        style = TextStyle.NOTE if mark in doubted else TextStyle.GOOD
        marked = paragraph(f"{glyphs.GLYPHS.arrow} {mark}", cells - 2, style, indent="  ")
        rows += [line("  ", *row) for row in marked]
    return rows


def build_point_table(chart: Chart) -> Table:
    """Tabulate the points of a chart: a row for each place, a column for each series."""
    columns = (DataColumn(chart.axis), *(DataColumn(item.name, item.unit) for item in chart.series))
    rows: list[tuple[Cell, ...]] = []
    for number, value in enumerate(chart.places):
        name: Cell = chart.labels[number] if chart.labels else value
        rows.append((name, *(series.values[number] for series in chart.series)))
    return Table(chart.name, chart.title, columns, tuple(rows), chart.unreliable)


# ---- the findings of a study ---------------------------------------------------------------------


def finding_lines(result: RunResult, cells: int, *, drawn: bool = True) -> list[Line]:
    """Return the figures, charts, tables and log of a result.

    Args:
        result: a finished or unfinished result.
        cells: width of a line.
        drawn: plot the charts; if false, list their points in tables.
    """
    rows: list[Line] = []
    for name, figure in result.figures.items():
        rows += figure_lines(name, figure, result.unavailable, cells)
    for chart in result.charts:
        if drawn:
            rows += [(), *chart_lines(chart, result.unavailable, cells, device=result.device)]
        else:
            points = _chart_as_points(chart, result, cells)
            rows += [(), *points] if points else []
    rows += finding_table_lines(result.tables, result.unavailable, cells)
    if result.log:
        rows += [(), line(Span("Log", TextStyle.STRONG))]
        rows += [row for entry in result.log for row in verbatim(entry, cells)]
    return rows


def _chart_as_points(chart: Chart, result: RunResult, cells: int) -> list[Line]:
    if _is_shown_in_table(chart, result.tables):
        # A staircase is both a chart and a table; its numbers appear once.
        return mark_lines(chart, cells)
    rows = table_lines(build_point_table(chart), {}, cells)
    return rows + mark_lines(chart, cells, chart.marks if chart.unreliable else ())


def _is_shown_in_table(chart: Chart, tables: tuple[Table, ...]) -> bool:
    series = [item.name for item in chart.series]
    return any(
        table.name == chart.name and [column.name for column in table.columns[1:]] == series
        for table in tables
    )


def figure_lines(name: str, figure: Figure, unavailable: dict[str, str], cells: int) -> list[Line]:
    """Return an additional figure of the workload, with its description."""
    if figure.value is None:
        reason = unavailable.get(f"figures.{name}", "not measured")
        about = f" ({figure.about})" if figure.about else ""
        words = f"{name_figure(name, figure.unit)}{about} n/a: {reason}"
    else:
        about = f" ({figure.about})" if figure.about else ""
        words = f"{name_figure(name, figure.unit)}: {quantity(figure.value, figure.unit)}{about}"
    return paragraph(words, cells, indent="  ")


def format_absent_path(path: str) -> str:
    """Return the name of a dotted path in ``unavailable``: "p95" for ``time.p95_s``."""
    if path in _ABSENT:
        return _ABSENT[path]
    return name_figure(path.rpartition(".")[2], "s").replace(" per s", "/s")


def missing_lines(unavailable: dict[str, str], cells: int) -> list[Line]:
    """Return the reasons for missing figures; figures with one reason share a line."""
    names: dict[str, list[str]] = {}
    for path, reason in unavailable.items():
        if path not in EXPLAINED_ELSEWHERE and not path.startswith(_FINDINGS):
            names.setdefault(reason, []).append(format_absent_path(path))
    rows: list[Line] = []
    for reason, which in names.items():
        words = f"{', '.join(dict.fromkeys(which))} n/a: {reason}"
        rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    return rows


# ---- a sweep -------------------------------------------------------------------------------------


def sweep_lines(
    sweep_result: SweepResult, sweep: Sweep, cells: int, height: int = HEIGHT
) -> list[Line]:
    """Return a sweep's progress, its findings as text, its plots, its gaps and its table.

    Args:
        sweep_result: the sweep with its runs.
        sweep: the requested settings.
        cells: width of a line.
        height: rows of a plot.
    """
    rows: list[Line] = [
        line(Span("Sweep", TextStyle.STRONG), f"  {format_sweep_progress(sweep_result)}")
    ]
    running = sweep_result.running
    if running is not None and running.progress is not None:
        words = f"{running.request.device} {format_settings(sweep, running.request.parameters)}: "
        rows += paragraph(
            words + format_run_progress(running.progress), cells, TextStyle.KEY, indent="  "
        )
    if sweep_result.last is None:
        return rows
    rows += [*crossing_lines(sweep_result, cells), *plot_rows(sweep_result, cells, height)]
    return [
        *rows,
        (),
        *table_lines(sweep_result.table, {}, cells)[1:],
        *gap_lines(sweep_result, cells),
    ]


def crossing_lines(sweep_result: SweepResult, cells: int) -> list[Line]:
    """Return where one device overtakes the other, or that none does."""
    return [
        row
        for chart in sweep_result.charts
        for row in mark_lines(chart, cells, sweep_result.doubted)
    ]


def gap_lines(sweep_result: SweepResult, cells: int) -> list[Line]:
    """Return the reasons for points without a time."""
    return reason_lines("charts.time", sweep_result.unavailable, cells)


def _share_rows(rows: int, plots: int) -> int:
    """Return the rows between the edges of each of several plots; 0 if they would be illegible."""
    shared = rows // max(1, plots) - _AROUND_PLOT
    return shared if shared >= _LEGIBLE_PLOT else 0


def plot_rows(sweep_result: SweepResult, cells: int, height: int = HEIGHT) -> list[Line]:
    """Plot time and rate, side by side if they fit; below each other they share the rows.

    Where that leaves too few for each, the first has all rows, and the second is below them.
    """
    charts = [chart for chart in sweep_result.charts if chart.name in DRAWN]
    if count_beside(len(charts), cells) < len(charts):
        height = _share_rows(height, len(charts)) or height
    return draw_beside(
        lambda number, room: _draw_sweep_chart(sweep_result, charts[number], room, height),
        len(charts),
        cells,
    )


def _draw_sweep_chart(
    sweep_result: SweepResult, chart: Chart, cells: int, height: int
) -> list[Line]:
    events = tuple(
        Event(
            f"{item.device} {item.verb} {item.variant}".strip(),
            item.place,
            TextStyle.GOOD if item.trusted else TextStyle.NOTE,
        )
        for item in sweep_result.crossovers
    )
    limits = sweep_result.limits if chart.name == "rate" else ()
    levels = tuple(
        Level(limit.label, limit.value, style=style_of_device(limit.device)) for limit in limits
    )
    # Beside each other, plots end in one row, whatever the rows of their legends.
    most = height + _AROUND_PLOT + (1 if events else 0)
    rows = chart_lines(chart, {}, cells, height, levels=levels, events=events)
    while len(rows) > most and height > LEAST_HEIGHT:
        height -= 1
        rows = chart_lines(chart, {}, cells, height, levels=levels, events=events)
    return rows
