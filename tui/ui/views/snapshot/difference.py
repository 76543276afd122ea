"""What changed from one snapshot to another, as lines. Pure."""

from __future__ import annotations

from tui.snapshots.model.results import Difference, DiffRow
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, flow, line, paragraph
from tui.ui.views.snapshot.words import FRAME_STYLES

MARKS = {"new": "new", "grown": "grown", "shrunk": "shrunk", "gone": "gone"}
STYLES = {
    "new": TextStyle.BAD,
    "grown": TextStyle.NOTE,
    "shrunk": TextStyle.GOOD,
    "gone": TextStyle.GOOD,
}


def signed(value: int) -> str:
    """A change of bytes with its sign."""
    return f"+{text.size(value)}" if value > 0 else text.size(value)


def head_lines(difference: Difference, cells: int) -> list[Line]:
    """What is compared, and the sums."""
    arrow = glyphs.GLYPHS.arrow
    live = difference.live_b - difference.live_a
    reserved = difference.reserved_b - difference.reserved_a
    rows = [
        *paragraph(difference.a, cells, indent="   ", label="A  "),
        *paragraph(difference.b, cells, indent="   ", label="B  "),
    ]
    rows += flow(
        [
            line(
                Span("live ", TextStyle.QUIET),
                f"{text.size(difference.live_a)} {arrow} {text.size(difference.live_b)}",
                Span(f" ({signed(live)})", TextStyle.STRONG),
            ),
            line(
                Span("reserved ", TextStyle.QUIET),
                f"{text.size(difference.reserved_a)} {arrow} {text.size(difference.reserved_b)}",
                Span(f" ({signed(reserved)})", TextStyle.STRONG),
            ),
        ],
        cells,
    )
    if not difference.rows:
        rows.append(line(Span("no site changed", TextStyle.STRONG)))
    return rows


def heading(cells: int) -> Line:
    """The heading over the columns of changes."""
    return fit_line(
        line(Span(f"{'change':>10} {'':<6} {'count':>8} {'B':>9}  ", TextStyle.QUIET)), cells
    )


def diff_line(row: DiffRow, cells: int) -> Line:
    """The change of one site: bytes, what kind, count, what it is in B, and who."""
    change = row.bytes_b - row.bytes_a
    count = row.count_b - row.count_a
    figures = (
        Span(f"{signed(change):>10} "),
        Span(f"{MARKS[row.change]:<6}", STYLES[row.change]),
        Span(f" {count:>+8d} {text.size(row.bytes_b):>9}  "),
        Span(row.label, FRAME_STYLES[row.kind]),
    )
    return fit_line(figures, cells)


def row_detail(row: DiffRow, cells: int) -> list[Line]:
    """One site in full."""
    arrow = glyphs.GLYPHS.arrow
    rows = paragraph(row.key, cells, indent="   ")
    rows.append(
        line(
            f"{text.size(row.bytes_a)} in {text.count(row.count_a, 'allocation')} {arrow} "
            f"{text.size(row.bytes_b)} in {text.count(row.count_b, 'allocation')}"
        )
    )
    return rows
