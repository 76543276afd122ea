"""How tones look: the sixteen colours of the terminal and its attributes, nothing else."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.views.lines import Line, Span, Tone, fit_line, width

STYLES = {
    Tone.PLAIN: Style(),
    Tone.STRONG: Style(bold=True),
    Tone.QUIET: Style(dim=True),
    Tone.GOOD: Style(color="green"),
    Tone.NOTE: Style(color="yellow"),
    Tone.BAD: Style(color="red", bold=True),
    Tone.KEY: Style(color="cyan"),
    Tone.CURSOR: Style(reverse=True),
    Tone.ALLOCATED: Style(color="cyan"),
    Tone.CACHED: Style(color="bright_blue"),
    Tone.CONTEXT: Style(color="magenta"),
    Tone.OTHERS: Style(color="yellow"),
    Tone.REST: Style(dim=True),
}


def strip_of(spans: Line, cells: int, base: Style, over: Style | None = None) -> Strip:
    """A drawn line that is exactly ``cells`` wide.

    Args:
        spans: the line; what does not fit ends in an ellipsis.
        cells: width of the widget.
        base: the widget's own style.
        over: laid over all of the line.
    """
    fitted = fit_line(spans, cells)
    filled = (*fitted, Span(" " * (cells - width(fitted))))
    styles = [base + STYLES[span.tone] + (over or Style()) for span in filled]
    segments = [
        Segment(span.text, style) for span, style in zip(filled, styles, strict=True) if span.text
    ]
    return Strip(segments, cells)
