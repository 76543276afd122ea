"""What a workload's study has found: figures, charts, tables and words. Pure."""

from __future__ import annotations

from tui.text.quantity import absent_words, label, quantity
from tui.ui.views.chart import chart_lines, mark_lines, point_table
from tui.ui.views.lines import Line, Span, TextStyle, line, paragraph, verbatim
from tui.ui.views.tables import table_lines
from workloads.protocol.results import Chart, Figure, RunResult, Table

TOLD_ELSEWHERE = ("limit", "time.ci95_s")
"""Absences that have a line of their own."""
_FINDINGS = ("figures.", "tables.", "charts.")


def finding_lines(result: RunResult, cells: int, *, drawn: bool = True) -> list[Line]:
    """Figures, charts, tables and the log of a result.

    Args:
        result: finished or so far.
        cells: width of a line.
        drawn: charts as pictures; else as tables of their points.
    """
    rows: list[Line] = []
    for name, figure in result.figures.items():
        rows += figure_lines(name, figure, result.unavailable, cells)
    for chart in result.charts:
        if drawn:
            rows += [(), *chart_lines(chart, result.unavailable, cells)]
        else:
            points = _as_points(chart, result, cells)
            rows += [(), *points] if points else []
    for table in result.tables:
        rows += [(), *table_lines(table, result.unavailable, cells)]
    if result.log:
        rows += [(), line(Span("Log", TextStyle.STRONG))]
        rows += [row for entry in result.log for row in verbatim(entry, cells)]
    return rows


def _as_points(chart: Chart, result: RunResult, cells: int) -> list[Line]:
    if _is_told_by_a_table(chart, result.tables):
        # A staircase is both; once in numbers is enough.
        return mark_lines(chart, cells)
    rows = table_lines(point_table(chart), {}, cells)
    return rows + mark_lines(chart, cells)


def _is_told_by_a_table(chart: Chart, tables: tuple[Table, ...]) -> bool:
    series = [item.name for item in chart.series]
    return any(
        table.name == chart.name and [column.name for column in table.columns[1:]] == series
        for table in tables
    )


def figure_lines(name: str, figure: Figure, unavailable: dict[str, str], cells: int) -> list[Line]:
    """A further figure of the workload, with what it is."""
    if figure.value is None:
        reason = unavailable.get(f"figures.{name}", "not measured")
        about = f" ({figure.about})" if figure.about else ""
        words = f"{label(name, figure.unit)}{about} n/a: {reason}"
    else:
        about = f": {figure.about}" if figure.about else ""
        words = f"{label(name, figure.unit)} {quantity(figure.value, figure.unit)}{about}"
    return paragraph(words, cells, indent="  ")


def missing_lines(unavailable: dict[str, str], cells: int) -> list[Line]:
    """Why figures are missing: what shares a reason shares a line."""
    names: dict[str, list[str]] = {}
    for path, reason in unavailable.items():
        if path not in TOLD_ELSEWHERE and not path.startswith(_FINDINGS):
            names.setdefault(reason, []).append(absent_words(path))
    rows: list[Line] = []
    for reason, which in names.items():
        words = f"{', '.join(dict.fromkeys(which))} n/a: {reason}"
        rows += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    return rows
