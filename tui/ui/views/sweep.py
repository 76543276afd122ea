"""A sweep as it is shown: where devices overtake each other, time and rate as plots, the table."""

from __future__ import annotations

from tui.state.sweep import Sweep
from tui.state.sweep_result import Swept, progress_text
from tui.ui.views.chart import beside, chart_lines, mark_lines
from tui.ui.views.lines import Line, Span, TextStyle, line, paragraph
from tui.ui.views.plot import HEIGHT, Event, Level
from tui.ui.views.tables import reason_lines, table_lines
from tui.ui.views.workload_state import progress_words, run_settings, running
from workloads.protocol.results import Chart

DRAWN = ("time", "rate")
"""The charts that are drawn; the speed-up stands in the table, and its crossings in both."""


def sweep_lines(found: Swept, sweep: Sweep, cells: int, height: int = HEIGHT) -> list[Line]:
    """How far the sweep is, what came of it in words, its plots, its gaps and its table.

    Args:
        found: the sweep with its runs.
        sweep: what was asked for.
        cells: width of a line.
        height: rows of a plot.
    """
    rows: list[Line] = [line(Span("Sweep", TextStyle.STRONG), f"  {progress_text(found)}")]
    going = running(found)
    if going is not None and going.progress is not None:
        words = f"{going.request.device} {run_settings(sweep, going)}: "
        rows += paragraph(words + progress_words(going.progress), cells, TextStyle.KEY, indent="  ")
    if not found.done:
        return rows
    rows += [*crossing_lines(found, cells), *plot_rows(found, cells, height)]
    return [*rows, (), *table_lines(found.table, {}, cells)[1:], *gap_lines(found, cells)]


def crossing_lines(found: Swept, cells: int) -> list[Line]:
    """Where one device overtakes the other, or that none does."""
    return [row for chart in found.charts for row in mark_lines(chart, cells)]


def gap_lines(found: Swept, cells: int) -> list[Line]:
    """Why points have no time."""
    return reason_lines("charts.time", found.unavailable, cells)


def plot_rows(found: Swept, cells: int, height: int = HEIGHT) -> list[Line]:
    """Time and rate, side by side where there is room."""
    charts = [chart for chart in found.charts if chart.name in DRAWN]
    return beside(
        lambda number, room: _drawn(found, charts[number], room, height), len(charts), cells
    )


def _drawn(found: Swept, chart: Chart, cells: int, height: int) -> list[Line]:
    events = tuple(
        Event(f"{item.device} overtakes {item.variant}".strip(), item.place)
        for item in found.crossovers
    )
    limits = found.limits if chart.name == "rate" else ()
    levels = tuple(Level(limit.words, limit.value) for limit in limits)
    return chart_lines(chart, {}, cells, height, levels=levels, events=events)
