"""The live memory of one site over the events of the trace, as a plot. Pure."""

from __future__ import annotations

from dataclasses import replace

from tui.core.text import numbers as text
from tui.kit.lines import Line, Span, TextStyle, fit_line, line
from tui.kit.plot import LEAST_CELLS, LEAST_HEIGHT, Axis, Curve, Event, Plot, fit_plot_lines
from tui.kit.scale import Scale, scale_for
from tui.snapshots.model.pictures import SiteHistory
from tui.snapshots.views.site_bars import layer_area

AROUND_PLOT = 5
"""Rows outside the edges: heading, legend, the sign of the moment, lower edge and its numbers."""
FEW_TICKS_BELOW = 8
"""Rows between the edges below which only zero and the top have a number."""


def growth_lines(
    history: SiteHistory,
    label: str,
    rank: int | None,
    event: int | None,
    cells: int,
    rows: int,
) -> list[Line]:
    """Draw a site's live bytes over all events in at most ``rows`` rows; nothing without room.

    Args:
        history: the site's live bytes.
        label: the site.
        rank: rank of its layer in the timeline, if it has one.
        event: the event of the cursor; ``None`` for the end.
        cells: width of a line.
        rows: the most lines.
    """
    height = rows - AROUND_PLOT
    last = history.points[-1][0] if history.points else 0
    if cells < LEAST_CELLS or height < LEAST_HEIGHT or last <= 0:
        return []
    points = tuple((float(place), float(size)) for place, size in history.points)
    upright = scale_for([0.0, *(size for _, size in points)], "byte")
    if height < FEW_TICKS_BELOW:
        upright = replace(upright, places=(0.0, upright.high))
    at = float(last if event is None else max(0, event))
    plot = Plot(
        Axis("events", "", Scale(0.0, float(last))),
        Axis("", "byte", upright),
        (Curve("live memory", points, "", layer_area(rank), filled=True),),
        events=(Event("", at, TextStyle.KEY),),
    )
    heading = line(
        Span(label, TextStyle.STRONG),
        Span(f"  highest {text.size(history.peak)}", TextStyle.QUIET),
    )
    lines = fit_plot_lines(plot, cells, height, rows - 1)
    return [fit_line(heading, cells), *lines] if lines else []
