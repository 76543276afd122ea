"""Lines on standard output, in color where it is a terminal that has colors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tui.core.text.glyphs import rows_of_text
from tui.kit.command_line.output import print_clean, print_text
from tui.kit.lines import Line, TextStyle, plain

CODES = {
    TextStyle.STRONG: "1",
    TextStyle.HEADING: "1",
    TextStyle.QUIET: "2",
    TextStyle.BAD: "31",
    TextStyle.GOOD: "32",
    TextStyle.NOTE: "33",
    TextStyle.KEY: "35",
    TextStyle.CACHED: "36",
}
"""Parameters of the escape sequence that begins a style; a style without any is plain."""


def has_colors() -> bool:
    """Return whether standard output is a terminal with colors (no-color.org)."""
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def print_lines(rows: Sequence[Line]) -> None:
    """Print lines.

    Raises:
        Failure: they cannot be written.
        OutputClosedError: the reader has gone.
    """
    if has_colors():
        print_clean("".join(f"{encode(row)}\n" for row in rows))
    else:
        print_text(rows_of_text(plain(row).rstrip() for row in rows))


def encode(row: Line) -> str:
    """Return a line with the escape sequences of its styles; a span's text is clean."""
    return "".join(
        f"\x1b[{CODES[span.style]}m{span.text}\x1b[0m" if span.style in CODES else span.text
        for span in row
    )
