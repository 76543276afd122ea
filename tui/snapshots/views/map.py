"""Segments as rows of cells, and the piece at one address. Pure."""

from __future__ import annotations

from itertools import groupby

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import Line, Span, TextStyle, fit_line, flow, line
from tui.snapshots.model.calls import Stretch
from tui.snapshots.model.pictures import MapRow, Piece, Pinning, RowPicture
from tui.snapshots.views.shared_lines import bulleted, stack_lines

LABEL_CELLS = 21
ASCII_PARTLY = "-=%"
"""Glyphs for a cell with less than a third, two thirds, or nearly all in use."""
EMPTY = {False: "·", True: "."}
ONE_BEGINS = {False: "▏", True: "|"}
SEVERAL_BEGIN = {False: "┆", True: ":"}
"""Glyph on a used cell for the border of one or more blocks."""
PENDING = "p"
NEARLY_ALL = 9
OUTSIDE = " "


def picture(states: str, used: str, begins: str) -> Line:
    """Draw cells as glyphs: in use, with the borders of blocks; partly in use; pending; or free.

    Args:
        states: one letter per cell, as in :class:`RowPicture`.
        used: tenths in use, one digit per cell.
        begins: number of blocks that begin in each cell.
    """
    tenths = [*map(int, used)]
    drawn: list[Span] = []
    for place, (state, cell, edges) in enumerate(zip(states, tenths, begins, strict=True)):
        before = tenths[place - 1] if place else 0
        after = tenths[place + 1] if place + 1 < len(tenths) else 0
        drawn.append(_cell(state, cell, int(edges), to_the_right=before < after))
    return tuple(
        Span("".join(span.text for span in group), style)
        for style, group in groupby(drawn, key=lambda span: span.style)
    )


def _cell(state: str, tenths: int, begins: int, *, to_the_right: bool) -> Span:
    ascii_only = glyphs.GLYPHS.ascii
    if state == "u" and not tenths:
        return Span(OUTSIDE)
    if state == "p":
        return Span(PENDING, TextStyle.NOTE)
    if tenths == 0:
        return Span(EMPTY[ascii_only], TextStyle.QUIET)
    if tenths >= NEARLY_ALL and begins:
        mark = ONE_BEGINS if begins == 1 else SEVERAL_BEGIN
        return Span(mark[ascii_only], TextStyle.ON_LAYER_A)
    if tenths >= NEARLY_ALL:
        return Span(glyphs.GLYPHS.slices["allocated"], TextStyle.FULL_LAYER_A)
    if ascii_only:
        return Span(ASCII_PARTLY[min(2, tenths // 3)], TextStyle.LAYER_A)
    eighths = max(1, min(7, round(tenths * 0.8)))
    if to_the_right:
        # To fill a cell from the right, draw its free left part in reverse video.
        return Span(glyphs.GLYPHS.horizontal[7 - eighths], TextStyle.ON_LAYER_A)
    return Span(glyphs.GLYPHS.horizontal[eighths - 1], TextStyle.LAYER_A)


def legend(cells: int) -> Line:
    """Draw the legend of the glyphs."""
    ascii_only = glyphs.GLYPHS.ascii
    partly = ASCII_PARTLY if ascii_only else glyphs.GLYPHS.horizontal[3]
    full = glyphs.GLYPHS.slices["allocated"]
    parts = [
        line(Span(full, TextStyle.FULL_LAYER_A), Span(" in use", TextStyle.QUIET)),
        line(
            Span(ONE_BEGINS[ascii_only], TextStyle.ON_LAYER_A),
            Span(" block begins ", TextStyle.QUIET),
            Span(SEVERAL_BEGIN[ascii_only], TextStyle.ON_LAYER_A),
            Span(" several", TextStyle.QUIET),
        ),
        line(Span(partly, TextStyle.LAYER_A), Span(" partly", TextStyle.QUIET)),
        line(Span(f"{EMPTY[ascii_only]} free", TextStyle.QUIET)),
        line(Span("p pending", TextStyle.QUIET)),
        line(Span("S small L large e expandable P private s other stream", TextStyle.QUIET)),
    ]
    return flow(parts, cells)[0]


def map_line(pixels: RowPicture, cells: int) -> Line:
    """Draw one segment: its size, its used bytes, its kind, and its picture."""
    row = pixels.row
    share = (row.allocated + row.pending) / row.size if row.size else None
    flags = {"small": "S", "large": "L"}.get(row.kind, "?")
    flags += "e" if row.expandable else ""
    flags += "P" if row.pool not in (None, (0, 0)) else ""
    flags += "s" if row.stream else ""
    label = f"{text.size(row.size):>9} {text.share(share):>4} {flags:<4} "
    return fit_line((Span(label), *picture(pixels.states, pixels.used, pixels.begins)), cells)


def describe_segment(row: MapRow, total: int) -> str:
    """Describe one segment in full, for a title."""
    pool = "" if row.pool in (None, (0, 0)) else f"   private pool {row.pool}"
    stream = f"   stream {row.stream:#x}" if row.stream else ""
    return (
        f"segment {text.count(row.index + 1)} of {text.count(total)}"
        f"   {text.count(row.blocks, 'block')} in use, free {text.size(row.free)},"
        f" largest {text.size(row.largest_free)}{pool}{stream}"
    )


def stretch_lines(answer: Stretch, start: int, end: int, cursor: int, cells: int) -> list[Line]:
    """Draw a part of a segment, the cursor's cell and the piece in it."""
    shown = picture(answer.states, answer.used, answer.begins)
    rows: list[Line] = [
        line(Span(f"{start:#x} to {end:#x}, {text.size(end - start)}", TextStyle.QUIET)),
        shown,
        line(Span(" " * cursor + "^", TextStyle.STRONG)),
    ]
    piece = answer.piece
    if piece is None:
        rows.append(line(Span("no memory is mapped at this address", TextStyle.QUIET)))
        return rows
    rows += flow(_piece_parts(piece), cells)
    if piece.requested is not None:
        rows += stack_lines(answer.frames, cells)
    return rows


def _piece_parts(piece: Piece) -> list[Line]:
    words = {"allocated": "in use", "pending": "pending: freed, a stream may use it"}
    parts = [
        line(Span(f"{piece.address:#x}", TextStyle.STRONG)),
        line(Span(text.size(piece.size), TextStyle.STRONG)),
        line(words.get(piece.state, "free")),
    ]
    if piece.requested is not None and piece.requested != piece.size:
        parts.append(
            line(Span(f"requested {text.count(piece.requested, 'byte')}", TextStyle.QUIET))
        )
    if piece.site:
        parts.append(line(piece.site))
    return parts


def pinning_lines(pinning: Pinning | None, cells: int) -> list[Line]:
    """Draw the blocks that prevent a segment from being free."""
    if pinning is None:
        return [line(Span("no part of this segment is in use", TextStyle.QUIET))]
    gain = pinning.span - pinning.largest_free
    rows = flow(
        [
            line(Span(f"pinned by {text.count(pinning.count, 'block')}", TextStyle.STRONG)),
            line(f"of {text.size(pinning.cost)}:"),
            line(f"without {'it' if pinning.count == 1 else 'them'} {text.size(pinning.span)}"),
            line("would be free in one piece,"),
            line(f"{text.size(gain)} more than now"),
        ],
        cells,
        gap=" ",
    )
    for block in pinning.blocks:
        name = f"  {block.name}" if block.name else ""
        rows += bulleted(f"{text.size(block.size)}  {block.site}{name}", cells)
    return rows
