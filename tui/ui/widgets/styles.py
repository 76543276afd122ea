"""How text looks: the sixteen colours of the terminal and its attributes, nothing else.

Which of the sixteen a terminal draws well depends on what it draws them on: the dark half of them
is hard to read on black, the bright half on white. A truecolor theme draws the sixteen from the
palettes of ``tui.ui.terminal.palettes``.
"""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.ui.views.lines import Line, Span, TextStyle, fit_line, width

SHARED = {
    TextStyle.PLAIN: Style(),
    TextStyle.STRONG: Style(bold=True),
    TextStyle.CURSOR: Style(reverse=True),
    # Decoration, not text: how faint this is differs from terminal to terminal.
    TextStyle.REST: Style(dim=True),
}
ON_DARK = {
    **SHARED,
    TextStyle.QUIET: Style(),
    TextStyle.GOOD: Style(color="green"),
    TextStyle.NOTE: Style(color="bright_yellow"),
    TextStyle.BAD: Style(color="bright_red", bold=True),
    TextStyle.KEY: Style(color="cyan"),
    TextStyle.ALLOCATED: Style(color="cyan"),
    TextStyle.CACHED: Style(color="bright_blue"),
    TextStyle.CONTEXT: Style(color="bright_magenta"),
    TextStyle.OTHERS: Style(color="bright_yellow"),
}
"""In the terminal's own colours, on black or nearly so. Faint text is below 4.5:1 in most."""
ON_LIGHT = {
    **SHARED,
    TextStyle.QUIET: Style(),
    TextStyle.GOOD: Style(),
    TextStyle.NOTE: Style(color="magenta"),
    TextStyle.BAD: Style(color="red", bold=True),
    TextStyle.KEY: Style(color="blue"),
    TextStyle.ALLOCATED: Style(color="blue"),
    TextStyle.CACHED: Style(color="magenta"),
    TextStyle.CONTEXT: Style(color="red"),
    TextStyle.OTHERS: Style(),
}
"""In the terminal's own colours, on white: green, yellow and cyan are not to be read there."""
IN_TRUECOLOR = {**ON_DARK, TextStyle.QUIET: Style(dim=True)}
"""In a theme with colours of its own, which also says how faint faint is."""


class _Present:
    """The present styles; every line asks when it is drawn."""

    styles = ON_DARK


def use(*, native: bool, dark: bool) -> None:
    """Draw for a theme from now on.

    Args:
        native: it takes the terminal's own colours.
        dark: it is light on dark.
    """
    _Present.styles = (ON_DARK if dark else ON_LIGHT) if native else IN_TRUECOLOR


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
    over = over or Style()
    segments: list[Segment] = []
    text, style = "", Style()
    # Equal styles become one segment: each costs the link some twenty bytes.
    for span in filled:
        own = _Present.styles[span.style]
        if own != style and text:
            segments.append(Segment(text, base + style + over))
            text = ""
        text, style = text + span.text, own
    if text:
        segments.append(Segment(text, base + style + over))
    return Strip(segments, cells)
