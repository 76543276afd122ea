"""Horizontal bars: in parts of a cell to compare lengths, and gauges on a track. Pure."""

from __future__ import annotations

import math

from tui.core.text import glyphs
from tui.kit.lines import Line, Span, TextStyle, left

LEFT_GAP, LOWER_GAP = {False: "▏", True: "|"}, {False: "▁", True: " "}
"""Glyphs in the background's color that separate an area from its neighbors, by whether to draw in
ASCII."""


def draw_bar(share: float, cells: int) -> str:
    """Draw a bar from the left, without padding; a share above zero is always visible.

    Args:
        share: 0 to 1 of the full bar; values outside are clipped.
        cells: width of the full bar.
    """
    steps = glyphs.GLYPHS.horizontal
    filled = max(0.0, min(1.0, share)) * cells * len(steps)
    whole, part = divmod(math.ceil(filled) if 0 < filled < 1 else round(filled), len(steps))
    drawn = steps[-1] * whole + (steps[part - 1] if part else "")
    return drawn or glyphs.GLYPHS.zero


def draw_gauge(share: float | None, cells: int, style: TextStyle) -> Line:
    """Draw a gauge on a track that is ``cells`` wide, so that zero differs from unknown.

    It fills half cells with glyphs that leave a gap above and below, so that the gauges of
    neighboring rows stay apart. The figure beside a gauge is exact.

    Args:
        share: 0 to 1 of the track; ``None`` if unknown, which draws neither gauge nor track.
        cells: width of the track.
        style: style of the gauge; the track has its own.
    """
    if share is None:
        return (Span(left("", cells), style),)
    halves = round(max(0.0, min(1.0, share)) * cells * 2)
    filled, half = divmod(max(halves, 1) if share > 0 and cells else halves, 2)
    drawn = glyphs.GLYPHS.gauge * filled + glyphs.GLYPHS.trace * half
    track = Span(glyphs.GLYPHS.zero * (cells - len(drawn)), TextStyle.REST)
    return tuple(span for span in (Span(drawn, style), track) if span.text)
