"""What the studies of a page found on each device: a table of figures, plots and tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.numbers import quantity
from tui.kit.lines import Line, Span, TextStyle, cell_len, left, line, paragraph, right, verbatim
from tui.runs.views.chart import chart_lines, draw_beside, figure_lines
from tui.runs.views.device_colors import style_of_device
from tui.runs.views.variant_table import finding_table_lines
from workloads.protocol.figure_names import name_figure
from workloads.protocol.results import RunResult

MOST_VALUE = 24
"""Most cells of a value in the table of figures; a longer text has a paragraph."""
GAP = 2
TITLE = "What it found"
LEAST_ABOUT = 24
"""Least cells of the explanation beside a figure."""


def figure_rows(results: Mapping[str, RunResult], cells: int) -> list[Line]:
    """Return the figures of studies as a table: names, a column for each device, explanations.

    Args:
        results: results of one workload by device.
        cells: width of a line.
    """
    devices = [device for device, result in results.items() if result.figures]
    figures = {
        name: figure for device in devices for name, figure in results[device].figures.items()
    }
    names = {name: name_figure(name, figure.unit) for name, figure in figures.items()}
    values = {
        name: {device: _format_value(results[device], name) for device in devices}
        for name in figures
    }
    short = [
        name for name in figures if all(cell_len(x) <= MOST_VALUE for x in values[name].values())
    ]
    name_cells = max(map(cell_len, [TITLE, *(names[name] for name in short)]))
    widths = {
        device: max([cell_len(device), *(cell_len(values[name][device]) for name in short)])
        for device in devices
    }
    used = name_cells + sum(GAP + size for size in widths.values())
    if used > cells:
        short = []
    rows: list[Line] = []
    if short:
        heads = [
            Span(" " * GAP + right(name, widths[name]), style_of_device(name)) for name in devices
        ]
        rows.append(line(Span(left(TITLE, name_cells), TextStyle.HEADING), *heads))
    for name in short:
        row = [Span(left(names[name], name_cells))]
        for device, words in values[name].items():
            style = TextStyle.QUIET if words in ("", text.NA) else TextStyle.STRONG
            row += [Span(" " * GAP), Span(right(words, widths[device]), style)]
        about = _explain(results, devices, name, figures[name].about)
        rows += _with_about(row, about, used, cells)
    for name in figures:
        if name not in short:
            for device in devices:
                if name in results[device].figures:
                    result = results[device]
                    rows += figure_lines(name, result.figures[name], result.unavailable, cells)
    return rows


def _format_value(result: RunResult, name: str) -> str:
    figure = result.figures.get(name)
    if figure is None:
        return ""
    return text.NA if figure.value is None else quantity(figure.value, figure.unit)


def _explain(
    results: Mapping[str, RunResult], devices: Sequence[str], name: str, about: str
) -> str:
    """Return the explanation of a figure, and why a device has none."""
    reasons = {results[device].unavailable.get(f"figures.{name}", "") for device in devices}
    said = [f"{text.NA}: {reason}" for reason in sorted(filter(None, reasons))]
    return "; ".join(filter(None, (about, *said)))


def _with_about(row: list[Span], about: str, used: int, cells: int) -> list[Line]:
    """Return a row with its explanation beside it, or below it in a narrow table."""
    if not about:
        return [tuple(row)]
    room = cells - used - GAP
    if room < LEAST_ABOUT:
        below = paragraph(about, cells - GAP, TextStyle.QUIET)
        return [tuple(row), *(line(" " * GAP, *part) for part in below)]
    first, *more = paragraph(about, room, TextStyle.QUIET)
    lead = Span(" " * (used + GAP))
    return [(*row, Span(" " * GAP), *first), *((lead, *part) for part in more)]


def chart_rows(charts: Sequence[tuple[str, RunResult, int]], cells: int, height: int) -> list[Line]:
    """Return the plots, side by side if they fit.

    Args:
        charts: the device, the result and the place in it of each.
        cells: width of a line.
        height: rows of a plot.
    """
    several = len({device for device, _, _ in charts}) > 1

    def draw(number: int, room: int) -> list[Line]:
        device, result, place = charts[number]
        chart = result.charts[place]
        if several:
            chart = replace(chart, title=f"{chart.title or chart.name}, {device}")
        return chart_lines(chart, result.unavailable, room, height, device=device)

    return draw_beside(draw, len(charts), cells)


def record_lines(results: Mapping[str, RunResult], cells: int) -> list[Line]:
    """Return the tables and the log of each device, below a rule with its name."""
    rows: list[Line] = []
    for device, result in results.items():
        parts = finding_table_lines(result.tables, result.unavailable, cells)
        if result.log:
            parts += [(), line(Span("Log", TextStyle.HEADING))]
            parts += [row for entry in result.log for row in verbatim(entry, cells)]
        if parts:
            name = Span(f"{glyphs.GLYPHS.rule * 2} {device} ", TextStyle.HEADING)
            rows += [*([()] if rows else []), line(name), *parts[1:]]
    return rows
