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
ONE_BEGINS = {False: "│", True: "|"}
SEVERAL_BEGIN = {False: "┆", True: ":"}
"""Glyph on a used cell for the border of one or more blocks, where colors do not tell them."""
SEVERAL = "⣶"
"""Several blocks in one cell, as high as a full cell."""
FULL = 6
"""Eighths of a cell's height that a full cell has, so that neighboring rows stay apart."""
PENDING = "p"
NEARLY_ALL = 9
OUTSIDE = " "


def picture(states: str, used: str, begins: str, *, marks: bool = False) -> Line:
    """Draw cells as glyphs: in use, with the borders of blocks; partly in use; pending; or free.

    Every other block has another color. A cell that is in use in part is lower.

    Args:
        states: one letter per cell, as in :class:`RowPicture`.
        used: tenths in use, one digit per cell.
        begins: number of blocks that begin in each cell.
        marks: mark the first cell of a block: for displays without colors.
    """
    drawn: list[Span] = []
    blocks = 0
    for state, tenths, edges in zip(states, map(int, used), map(int, begins), strict=True):
        blocks += edges
        style = TextStyle.NEXT_BLOCK if blocks % 2 else TextStyle.LAYER_A
        drawn.append(_cell(state, tenths, edges, style, marks=marks))
    return tuple(
        Span("".join(span.text for span in group), style)
        for style, group in groupby(drawn, key=lambda span: span.style)
    )


def _cell(state: str, tenths: int, begins: int, style: TextStyle, *, marks: bool) -> Span:
    ascii_only = glyphs.GLYPHS.ascii
    if state == "u" and not tenths:
        return Span(OUTSIDE)
    if state == "p":
        return Span(PENDING, TextStyle.NOTE)
    if tenths == 0:
        return Span(EMPTY[ascii_only], TextStyle.QUIET)
    if tenths >= NEARLY_ALL and begins and (marks or ascii_only):
        mark = ONE_BEGINS if begins == 1 else SEVERAL_BEGIN
        return Span(mark[ascii_only], style)
    if tenths >= NEARLY_ALL:
        return Span(SEVERAL if begins > 1 else _full_cell(), style)
    if ascii_only:
        return Span(ASCII_PARTLY[min(2, tenths // 3)], style)
    return Span(glyphs.GLYPHS.vertical[round(tenths * (FULL - 2) / NEARLY_ALL)], style)


def _full_cell() -> str:
    known = glyphs.GLYPHS
    return known.slices["allocated"] if known.ascii else known.vertical[FULL - 1]


def legend(cells: int, *, marks: bool = False) -> Line:
    """Draw the legend of the glyphs on one line."""
    ascii_only = glyphs.GLYPHS.ascii
    partly = ASCII_PARTLY if ascii_only else glyphs.GLYPHS.vertical[FULL // 2 - 1]
    full = _full_cell()
    if marks or ascii_only:
        blocks = [
            line(Span(full, TextStyle.LAYER_A), Span(" in use", TextStyle.QUIET)),
            line(Span(f"{ONE_BEGINS[ascii_only]} block begins", TextStyle.QUIET)),
            line(Span(f"{SEVERAL_BEGIN[ascii_only]} several", TextStyle.QUIET)),
        ]
    else:
        blocks = [
            line(
                Span(2 * full, TextStyle.LAYER_A),
                Span(2 * full, TextStyle.NEXT_BLOCK),
                Span(" blocks", TextStyle.QUIET),
            ),
            line(Span(SEVERAL, TextStyle.LAYER_A), Span(" several", TextStyle.QUIET)),
        ]
    parts = [
        *blocks,
        line(Span(partly, TextStyle.LAYER_A), Span(" partly", TextStyle.QUIET)),
        line(Span(f"{EMPTY[ascii_only]} free", TextStyle.QUIET)),
        line(Span("p pending", TextStyle.QUIET)),
        line(Span("S small L large e expandable P private s other stream", TextStyle.QUIET)),
    ]
    return (Span(" "), *flow(parts, max(1, cells - 1))[0])


def map_line(
    pixels: RowPicture, cells: int, *, unfolded: bool = False, marks: bool = False
) -> Line:
    """Draw one segment: its size, its used bytes, its kind, and its picture.

    Args:
        pixels: the segment, or a group of full ones.
        cells: width of the line.
        unfolded: the segments of the group follow.
        marks: as for :func:`picture`.
    """
    row = pixels.row
    share = (row.allocated + row.pending) / row.size if row.size else None
    flags = {"small": "S", "large": "L"}.get(row.kind, "?")
    flags += "e" if row.expandable else ""
    flags += "P" if row.pool not in (None, (0, 0)) else ""
    flags += "s" if row.stream else ""
    label = f"{text.size(row.size):>9} {text.share(share):>4} {flags:<4} "
    if pixels.group:
        mark = glyphs.GLYPHS.unfolded if unfolded else glyphs.GLYPHS.folded
        words = f"{mark} {text.count(pixels.group, 'full segment')}"
        size = f"  {text.size(pixels.group * row.size)}"
        return fit_line((Span(label), Span(words), Span(size, TextStyle.QUIET)), cells)
    shown = picture(pixels.states, pixels.used, pixels.begins, marks=marks)
    return fit_line((Span(label), *shown), cells)


def describe_line(pixels: RowPicture, segments: int) -> str:
    """Describe one line of the map in full, for a title."""
    if not pixels.group:
        return describe_segment(pixels.row, segments)
    words = text.count(pixels.group, "full segment")
    return f"{words} of {text.count(segments)}   {text.size(pixels.row.size)} each"


def describe_segment(row: MapRow, total: int) -> str:
    """Describe one segment in full, for a title."""
    pool = "" if row.pool in (None, (0, 0)) else f"   private pool {row.pool}"
    stream = f"   stream {row.stream:#x}" if row.stream else ""
    return (
        f"segment {text.count(row.index + 1)} of {text.count(total)}"
        f"   {text.count(row.blocks, 'block')} in use, free {text.size(row.free)},"
        f" largest {text.size(row.largest_free)}{pool}{stream}"
    )


def stretch_lines(
    answer: Stretch, start: int, end: int, cursor: int, cells: int, *, marks: bool = False
) -> list[Line]:
    """Draw a part of a segment, the cursor's cell and the piece in it."""
    shown = picture(answer.states, answer.used, answer.begins, marks=marks)
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
