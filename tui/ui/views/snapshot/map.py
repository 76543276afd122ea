"""The segments as rows of cells, and what stands at one address. Pure."""

from __future__ import annotations

from tui.snapshots.model.results import MapRow, Piece, Pinning
from tui.snapshots.reader.messages import StretchIs
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, flow, line
from tui.ui.views.snapshot.words import bulleted, stack_lines

LABEL_CELLS = 21
PARTLY = {False: "░▒▓", True: "-=%"}
"""A cell of which less than a third, two thirds or nearly all is in use."""
EMPTY = {False: "·", True: "."}
PENDING = "p"
NEARLY_ALL = 9
OUTSIDE = " "


def picture(states: str, used: str) -> str:
    """Cells as glyphs: how full, or pending, or free."""
    return "".join(_glyph(state, int(digit)) for state, digit in zip(states, used, strict=True))


def _glyph(state: str, tenths: int) -> str:
    ascii_only = glyphs.GLYPHS.ascii
    if state == "u" and not tenths:
        return OUTSIDE
    if state == "p":
        return PENDING
    if tenths >= NEARLY_ALL:
        return glyphs.GLYPHS.slices["allocated"]
    if tenths == 0:
        return EMPTY[ascii_only]
    return PARTLY[ascii_only][min(2, tenths // 3)]


def legend(cells: int) -> Line:
    """What the glyphs are."""
    ascii_only = glyphs.GLYPHS.ascii
    parts = [
        line(Span(f"{glyphs.GLYPHS.slices['allocated']} in use", TextStyle.QUIET)),
        line(Span(f"{PARTLY[ascii_only]} partly", TextStyle.QUIET)),
        line(Span(f"{EMPTY[ascii_only]} free", TextStyle.QUIET)),
        line(Span("p pending", TextStyle.QUIET)),
        line(Span("S small L large e expandable P private pool s other stream", TextStyle.QUIET)),
    ]
    return flow(parts, cells)[0]


def map_line(row: MapRow, states: str, used: str, cells: int) -> Line:
    """One segment: its size, how much of it is in use, what kind, and its picture."""
    share = (row.allocated + row.pending) / row.size if row.size else None
    flags = {"small": "S", "large": "L"}.get(row.kind, "?")
    flags += "e" if row.expandable else ""
    flags += "P" if row.pool not in (None, (0, 0)) else ""
    flags += "s" if row.stream else ""
    label = f"{text.size(row.size):>9} {text.share(share):>4} {flags:<4} "
    return fit_line((Span(label), Span(picture(states, used), TextStyle.ALLOCATED)), cells)


def row_words(row: MapRow, total: int) -> str:
    """One segment in full, for a title."""
    pool = "" if row.pool in (None, (0, 0)) else f"   private pool {row.pool}"
    stream = f"   stream {row.stream:#x}" if row.stream else ""
    return (
        f"segment {text.count(row.index + 1)} of {text.count(total)} at {row.address:#x}"
        f"   {text.count(row.blocks, 'block')} in use, free {text.size(row.free)},"
        f" largest {text.size(row.largest_free)}{pool}{stream}"
    )


def stretch_lines(answer: StretchIs, start: int, end: int, cursor: int, cells: int) -> list[Line]:
    """A stretch of a segment, the cursor's cell, and the piece that stands there."""
    shown = picture(answer.states, answer.used)
    rows: list[Line] = [
        line(Span(f"{start:#x} to {end:#x}, {text.size(end - start)}", TextStyle.QUIET)),
        line(Span(shown, TextStyle.ALLOCATED)),
        line(Span(" " * cursor + "^", TextStyle.STRONG)),
    ]
    piece = answer.piece
    if piece is None:
        rows.append(line(Span("nothing is mapped here", TextStyle.QUIET)))
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
            line(Span(f"asked for {text.count(piece.requested, 'byte')}", TextStyle.QUIET))
        )
    if piece.site:
        parts.append(line(piece.site))
    return parts


def pinning_lines(pinning: Pinning | None, cells: int) -> list[Line]:
    """What keeps a segment from being free."""
    if pinning is None:
        return [line(Span("nothing of this segment is in use", TextStyle.QUIET))]
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
