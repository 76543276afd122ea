"""The live memory of one site over the events of the trace, as a plot. Pure."""

from __future__ import annotations

from dataclasses import replace

from tui.core.text import numbers as text
from tui.kit.lines import Line, Span, TextStyle, fit_line, line
from tui.kit.plot import LEAST_CELLS, LEAST_HEIGHT, Axis, Curve, Event, Plot, fit_plot_lines
from tui.kit.scale import Scale, scale_for
from tui.snapshots.model.pictures import REST, Layer, Timeline
from tui.snapshots.views.site_bars import layer_area

AROUND_PLOT = 5
"""Rows outside the edges: heading, legend, the sign of the moment, lower edge and its numbers."""
FEW_TICKS_BELOW = 8
"""Rows between the edges below which only zero and the top have a number."""


def find_layer(timeline: Timeline, site: str) -> Layer | None:
    """Return the layer of a site by its key; ``None`` for a site without a layer of its own."""
    layers = (layer for layer in timeline.layers if layer.key != REST)
    return next((layer for layer in layers if layer.key == site), None)


def growth_lines(
    timeline: Timeline, layer: Layer, event: int | None, cells: int, rows: int
) -> list[Line]:
    """Draw a site's live bytes over all events in at most ``rows`` rows; nothing without room.

    Args:
        timeline: the layers of the whole trace.
        layer: the site's layer.
        event: the event of the cursor; ``None`` for the end.
        cells: width of a line.
        rows: the most lines.
    """
    height = rows - AROUND_PLOT
    if cells < LEAST_CELLS or height < LEAST_HEIGHT or timeline.last <= timeline.first:
        return []
    places = [float(bucket.moment) for bucket in timeline.buckets]
    points = tuple((place, float(size)) for place, size in zip(places, layer.bytes, strict=True))
    upright = scale_for([0.0, *(size for _, size in points)], "byte")
    if height < FEW_TICKS_BELOW:
        upright = replace(upright, places=(0.0, upright.high))
    at = float(timeline.last if event is None else max(timeline.first, event))
    plot = Plot(
        Axis("events", "", Scale(float(timeline.first), float(timeline.last))),
        Axis("", "byte", upright),
        (Curve("live memory", points, "", layer_area(layer.rank), filled=True),),
        events=(Event("", at, TextStyle.KEY),),
    )
    heading = line(
        Span(layer.label, TextStyle.STRONG),
        Span(f"  highest {text.size(max(layer.bytes))}", TextStyle.QUIET),
    )
    lines = fit_plot_lines(plot, cells, height, rows - 1)
    return [fit_line(heading, cells), *lines] if lines else []
