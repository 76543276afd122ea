"""Segments as rows of cells in the colors of the sites, and the piece at one address. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.bars import LEFT_GAP
from tui.kit.lines import (
    NEXT_LAYERS,
    Line,
    Span,
    TextStyle,
    beside,
    cell_len,
    fit,
    fit_line,
    flow,
    left,
    line,
    width,
)
from tui.snapshots.model.calls import MapPage, Stretch
from tui.snapshots.model.pictures import MapRow, Piece, Pinning, RowPicture, SiteInUse
from tui.snapshots.views.shared_lines import bulleted, stack_lines
from tui.snapshots.views.site_bars import (
    SiteBar,
    chip,
    layer_area,
    layer_letter,
    on_layer,
    site_bar_lines,
)

LABEL_CELLS = 21
ASCII_PARTLY = "-=%"
"""Glyphs for a cell with less than a third, two thirds, or nearly all in use."""
GROUP_CELLS = 32
"""Cells of the words about a group, before what it holds."""
EMPTY = {False: "·", True: "."}
ONE_BEGINS = {False: "│", True: "|"}
SEVERAL_BEGIN = {False: "┆", True: ":"}
"""Glyph on a used cell for the border of one or more blocks, where colors do not tell them."""
SEVERAL = "⣶"
"""Several blocks in one cell, as high as a full cell."""
FULL = 6
"""Eighths of a cell's height that a full cell has, so that neighboring rows stay apart."""
PENDING = "p"
FLAGS = {
    "L": "large pool",
    "S": "small pool",
    "e": "expandable",
    "P": "private pool",
    "s": "other stream",
}
"""Letters of the kind of a segment, with their meaning."""
NEARLY_ALL = 9
OUTSIDE = " "
LETTER_CELLS = 3
"""Cells of a block from which it shows its letter."""
TALL_PANE = 30
"""Rows of the pane from which the bar has two rows, and there is a legend of the sites."""
MOST_LEGEND = 3
"""Rows of the legend of the sites."""
LEAST_NAME = 12
"""Cells from which a part of the bar of all memory has a name, cut if it is too long."""
MOST_TALL, LEAST_STRIP, MOST_STRIP = 8, 3, 6
"""Rows of the picture of one segment, and those of one of several strips."""
MOST_STRIPS = 6
ROWS_BELOW = 12
"""Rows that the heading of a segment and the lines below its picture need."""
STRIP_LABEL = 10
"""Cells before a strip, for its distance from the first address."""
TWO_COLUMNS = 110
"""Cells from which the sites of a segment stand beside the stack."""


class MapCell(NamedTuple):
    """One cell of a segment's picture."""

    state: str
    tenths: int
    """Tenths in use; nine means all or nearly all."""
    begins: int
    rank: int | None
    """Rank of the layer of its site; ``None`` without one."""
    is_next: bool
    """It belongs to a block that takes the darker shade, beside another one of its layer."""


def parse_cells(states: str, used: str, begins: str, sites: str) -> list[MapCell]:
    """Return the cells of a picture, in the letters and digits of :class:`RowPicture`."""
    found: list[MapCell] = []
    before = None
    is_next = False
    rows = zip(states, used, _move_begins(begins, sites), sites, strict=True)
    for state, tenths, edges, site in rows:
        if site != before:
            is_next = False
        elif edges % 2:
            is_next = not is_next
        if tenths != "0":
            before = site
        rank = int(site) if site.isdecimal() else None
        found.append(MapCell(state, int(tenths), edges, rank, is_next))
    return found


def _move_begins(begins: str, sites: str) -> list[int]:
    """Return how many blocks begin in each cell, each one where its own color begins.

    The cell in which a block begins may have the color of the one before.
    """
    moved = [int(edges) for edges in begins]
    for at in range(1, len(moved) - 1):
        if moved[at] == 1 and not moved[at + 1] and sites[at - 1] == sites[at] != sites[at + 1]:
            moved[at], moved[at + 1] = 0, 1
    return moved


def picture(cells: Sequence[MapCell], *, marks: bool = False) -> Line:
    """Draw cells on one row: in use, partly in use, pending, or free.

    A block has the color of its site; beside another one of that site it is darker. A cell that is
    in use in part is lower.

    Args:
        cells: the cells.
        marks: draw the letters of the sites and mark the first cell of a block: for displays
            without colors.
    """
    # Neighbors are often alike: each run is drawn once.
    runs = [(_cell(cell, marks=marks), len(list(run))) for cell, run in groupby(cells)]
    return tuple(
        Span("".join([span.text * length for span, length in group]), style)
        for style, group in groupby(runs, key=lambda run: run[0].style)
    )


def _cell(cell: MapCell, *, marks: bool) -> Span:
    ascii_only = glyphs.GLYPHS.ascii
    if cell.state == "u" and not cell.tenths:
        return Span(OUTSIDE)
    if cell.state == "p":
        return Span(PENDING, TextStyle.NOTE)
    if cell.tenths == 0:
        return Span(EMPTY[ascii_only], TextStyle.QUIET)
    style = _next_area(cell.rank) if cell.is_next else layer_area(cell.rank)
    if cell.tenths >= NEARLY_ALL and (marks or ascii_only):
        mark = ONE_BEGINS if cell.begins == 1 else SEVERAL_BEGIN
        letter = _full_cell() if cell.rank is None else layer_letter(cell.rank)
        return Span(mark[ascii_only] if cell.begins else letter, style)
    if cell.tenths >= NEARLY_ALL:
        return Span(SEVERAL if cell.begins > 1 else _full_cell(), style)
    if ascii_only:
        return Span(ASCII_PARTLY[min(2, cell.tenths // 3)], style)
    return Span(glyphs.GLYPHS.vertical[round(cell.tenths * (FULL - 2) / NEARLY_ALL)], style)


def _next_area(rank: int | None) -> TextStyle:
    return TextStyle.NEXT_LAYER_REST if rank is None else NEXT_LAYERS[rank % len(NEXT_LAYERS)]


def _full_cell() -> str:
    known = glyphs.GLYPHS
    return known.slices["allocated"] if known.ascii else known.vertical[FULL - 1]


def tall_picture(cells: Sequence[MapCell], rows: int) -> list[Line]:
    """Draw cells on several rows as areas, each block with the letter of its site.

    A cell that is in use in part is filled from below. A gap separates blocks.
    """
    letters = _place_letters(cells)
    return [
        _tall_row(cells, rows, row, letters if row == (rows - 1) // 2 else {})
        for row in range(rows)
    ]


def _place_letters(cells: Sequence[MapCell]) -> dict[int, str]:
    """Return the cells in the middle of wide blocks, with the letters of their sites."""
    letters: dict[int, str] = {}
    start = 0
    for at in range(len(cells) + 1):
        if at < len(cells) and not cells[at].begins and _alike(cells[at], cells[start]):
            continue
        if at - start >= LETTER_CELLS and cells[start].tenths >= NEARLY_ALL:
            letters[(start + at) // 2] = layer_letter(cells[start].rank)
        start = at
    return letters


def _alike(one: MapCell, other: MapCell) -> bool:
    return (one.rank, one.state, one.tenths) == (other.rank, other.state, other.tenths)


def _tall_row(cells: Sequence[MapCell], rows: int, row: int, letters: Mapping[int, str]) -> Line:
    ascii_only = glyphs.GLYPHS.ascii
    steps = glyphs.GLYPHS.vertical
    drawn: list[Span] = []
    for at, cell in enumerate(cells):
        filled = max(1, round(cell.tenths * rows * len(steps) / NEARLY_ALL)) if cell.tenths else 0
        eighths = max(0, min(len(steps), filled - (rows - 1 - row) * len(steps)))
        if cell.state == "p":
            drawn.append(Span(PENDING, TextStyle.NOTE))
        elif eighths == len(steps):
            gap = (
                ""
                if not cell.begins
                else (LEFT_GAP if cell.begins == 1 else SEVERAL_BEGIN)[ascii_only]
            )
            drawn.append(Span(letters.get(at) or gap or " ", on_layer(cell.rank)))
        elif eighths:
            drawn.append(Span(steps[eighths - 1], layer_area(cell.rank)))
        elif cell.state == "u" or cell.tenths or row != rows - 1:
            drawn.append(Span(OUTSIDE))
        else:
            drawn.append(Span(EMPTY[ascii_only], TextStyle.QUIET))
    return tuple(
        Span("".join(span.text for span in group), style)
        for style, group in groupby(drawn, key=lambda span: span.style)
    )


# ---- above the list -----------------------------------------------------------------------------


def overview_lines(page: MapPage, cells: int, height: int, *, marks: bool = False) -> list[Line]:
    """Draw all reserved memory as one bar, the sites in it, and the legend of the glyphs.

    Args:
        page: the map.
        cells: width of a line.
        height: rows of the whole pane, which decide the bar's height and what the legend has.
        marks: as for :func:`picture`.
    """
    tall = height >= TALL_PANE
    lines = reserved_lines(page, cells, tall=tall)
    if tall:
        lines += [
            (Span(" "), *row) for row in flow(_site_parts(page.sites), cells - 1)[:MOST_LEGEND]
        ]
    return [*lines, legend(page.rows, cells, marks=marks)]


def page_lines(page: MapPage, cells: int, rows: int, *, marks: bool = False) -> list[Line]:
    """Draw the map without a cursor: a heading, all memory, and as many segments as fit.

    Args:
        page: the map, from its first line.
        cells: width of a line.
        rows: the most lines.
        marks: as for :func:`picture`.
    """
    heading = fit_line(line(Span("Memory by segment (B)", TextStyle.HEADING)), cells)
    above = [(), heading, *overview_lines(page, cells, rows, marks=marks)]
    room = max(0, rows - len(above))
    shown = page.rows if page.total <= room else page.rows[: max(0, room - 1)]
    segments = [map_line(each, cells, marks=marks) for each in shown]
    if more := page.total - len(shown):
        words = f"{'':>9} and {text.count(more, 'more line')} of the map"
        segments.append(fit_line(line(_quiet(words)), cells))
    return [*above, *segments][:rows]


def _site_parts(sites: Sequence[SiteInUse]) -> list[Line]:
    return [
        line(chip(site.rank), f" {site.label}", Span(f" {text.size(site.bytes)}", TextStyle.QUIET))
        for site in sites
    ]


def reserved_lines(page: MapPage, cells: int, *, tall: bool) -> list[Line]:
    """Draw all reserved memory like a segment: its size, the share in use, and a bar by site.

    Args:
        page: the map.
        cells: width of a line.
        tall: use two rows, the second one for figures.
    """
    used = sum(site.bytes for site in page.sites)
    free = max(0, page.reserved - used)
    share = text.share(used / page.reserved if page.reserved else None)
    first = f"{text.size(page.reserved):>9} {share:>4} {'all':<4} "
    second = f"{text.size(free):>9} free      "
    room = max(1, cells - LABEL_CELLS)
    rows: list[list[Span]] = [[Span(first, TextStyle.STRONG)], [Span(second, TextStyle.QUIET)]]
    reached = at = 0
    for site in page.sites:
        reached += site.bytes
        end = round(reached * room / max(1, page.reserved))
        name, figures = _bar_words(site, end - at, page.reserved, tall=tall)
        gap = LEFT_GAP[glyphs.GLYPHS.ascii] if at else " "
        for row, words in zip(rows, (name, figures), strict=True):
            if end > at:
                row.append(Span(gap + left(words, end - at - 1), on_layer(site.rank)))
        at = end
    for row in rows:
        row.append(Span(EMPTY[glyphs.GLYPHS.ascii] * (room - at), TextStyle.QUIET))
    return [tuple(row) for row in rows[: 2 if tall else 1]]


def _bar_words(site: SiteInUse, cells: int, whole: int, *, tall: bool) -> tuple[str, str]:
    """Return the words on a part of the bar, and those below them: the most that fits."""
    size, letter = text.size(site.bytes), layer_letter(site.rank)
    figures = [f"{size}  {text.share(site.bytes / max(1, whole))}", size]
    room = max(0, cells - 2)
    name = fit(f"{letter} {site.label}", room) if room >= LEAST_NAME else letter
    if not tall and cell_len(f"{letter} {site.label} {size}") <= room:
        name += f" {size}"
    return name[: cells - 1], next((words for words in figures if cell_len(words) <= room), "")


def legend(rows: Sequence[RowPicture], cells: int, *, marks: bool = False) -> Line:
    """Draw the legend of the glyphs that segments have, on one line.

    Args:
        rows: the segments.
        cells: width of a line.
        marks: as for :func:`picture`.
    """
    ascii_only = glyphs.GLYPHS.ascii
    partly = ASCII_PARTLY if ascii_only else glyphs.GLYPHS.vertical[FULL // 2 - 1]
    full = _full_cell()
    kinds = {kind for row in rows for kind in zip(row.states, row.used, row.begins, strict=True)}
    used = [int(begins) for _, tenths, begins in kinds if int(tenths) >= NEARLY_ALL]
    parts: list[Line] = []
    if marks or ascii_only:
        if used:
            parts.append(line(Span(f"A{full}", TextStyle.LAYER_A), _quiet(" in use")))
        if 1 in used:
            parts.append(line(_quiet(f"{ONE_BEGINS[ascii_only]} block begins")))
        if max(used, default=0) > 1:
            parts.append(line(_quiet(f"{SEVERAL_BEGIN[ascii_only]} several blocks")))
    elif used:
        shades = Span(2 * full, TextStyle.LAYER_A), Span(2 * full, NEXT_LAYERS[0])
        parts.append(line(*shades, _quiet(" blocks")))
        if max(used) > 1:
            parts.append(line(Span(SEVERAL, TextStyle.LAYER_A), _quiet(" several blocks")))
    if any(0 < int(tenths) < NEARLY_ALL for _, tenths, _ in kinds):
        parts.append(line(Span(partly, TextStyle.LAYER_A), _quiet(" partly in use")))
    if any(state != "u" and tenths == "0" for state, tenths, _ in kinds):
        parts.append(line(_quiet(f"{EMPTY[ascii_only]} free")))
    if any(state == "p" for state, _, _ in kinds):
        parts.append(line(_quiet(f"{PENDING} pending")))
    flags = {flag for row in rows for flag in _flags(row.row)}
    parts += [line(_quiet(f"{flag} {word}")) for flag, word in FLAGS.items() if flag in flags]
    return (Span(" "), *flow(parts, max(1, cells - 1))[0]) if parts else ()


def _quiet(words: str) -> Span:
    return Span(words, TextStyle.QUIET)


def _flags(row: MapRow) -> str:
    """Return the letters of a segment's kind, as in :data:`FLAGS`."""
    flags = {"small": "S", "large": "L"}.get(row.kind, "?")
    flags += "e" if row.expandable else ""
    flags += "P" if row.pool not in (None, (0, 0)) else ""
    return flags + ("s" if row.stream else "")


def map_line(
    pixels: RowPicture, cells: int, *, unfolded: bool = False, marks: bool = False
) -> Line:
    """Draw one segment: its size, its used bytes, its kind, and its picture.

    Args:
        pixels: the segment, or a group of full or of free ones.
        cells: width of the line.
        unfolded: the segments of the group follow.
        marks: as for :func:`picture`.
    """
    row = pixels.row
    share = (row.allocated + row.pending) / row.size if row.size else None
    label = f"{text.size(row.size):>9} {text.share(share):>4} {_flags(row):<4} "
    if pixels.group:
        mark = glyphs.GLYPHS.unfolded if unfolded else glyphs.GLYPHS.folded
        words = f"{mark} {_count_group(pixels)}"
        size = f"  {text.size(pixels.group * row.size)}"
        gap = Span(" " * max(2, GROUP_CELLS - cell_len(words + size)))
        lead = (Span(label), Span(words), Span(size, TextStyle.QUIET), gap)
        shown = _group_bar(pixels, cells - width(lead) - 1, marks=marks)
        return fit_line((*lead, *shown), cells)
    whole = parse_cells(pixels.states, pixels.used, pixels.begins, pixels.sites)
    shown = picture(whole, marks=marks)
    return fit_line((Span(label), *shown), cells)


def _group_bar(pixels: RowPicture, cells: int, *, marks: bool) -> Line:
    """Draw what a group of full segments holds, by site."""
    sites = pixels.sites
    if not sites or cells < 1:
        return ()
    shown = "".join(sites[at * len(sites) // cells] for at in range(cells))
    return picture(parse_cells("a" * cells, "9" * cells, "0" * cells, shown), marks=marks)


def _count_group(pixels: RowPicture) -> str:
    return text.count(pixels.group, "free segment" if pixels.row.free else "full segment")


def describe_line(pixels: RowPicture, segments: int) -> str:
    """Describe one line of the map in full, for a title."""
    if not pixels.group:
        return describe_segment(pixels.row, segments)
    return f"{_count_group(pixels)} of {text.count(segments)}   {text.size(pixels.row.size)} each"


def describe_segment(row: MapRow, total: int) -> str:
    """Describe one segment in full, for a title."""
    pool = "" if row.pool in (None, (0, 0)) else f"   private pool {row.pool}"
    stream = f"   stream {row.stream:#x}" if row.stream else ""
    return (
        f"1 of {text.count(total, 'segment')}"
        f"   {text.count(row.blocks, 'block')} in use, free {text.size(row.free)},"
        f" largest {text.size(row.largest_free)}{pool}{stream}"
    )


def detail_lines(
    answer: Stretch,
    pinning: Sequence[Line],
    ends: tuple[int, int],
    cursor: int,
    cells: int,
    *,
    rows: int,
    strips: int = 1,
    marks: bool = False,
) -> list[Line]:
    """Draw a part of a segment, the cursor's cell, the piece in it, and the segment's sites.

    Args:
        answer: the part of the segment.
        pinning: lines about the blocks that pin the segment, for :func:`about_cells`.
        ends: its first address and the one after its last.
        cursor: the cursor's cell.
        cells: width of a line.
        rows: rows in view, which the picture fills.
        strips: strips in which the addresses are drawn.
        marks: as for :func:`picture`.
    """
    start, end = ends
    near = about_cells(cells)
    about = [*_piece_lines(answer, cursor, near), *pinning]
    bars = [
        SiteBar(each.label, each.rank, each.bytes, f"  {text.count(each.blocks, 'block')}")
        for each in answer.in_use
    ]
    whole = sum(each.bytes for each in answer.in_use)
    if near < cells:
        below = beside(about, site_bar_lines(bars, whole, cells - near - 2, len(bars)), near)
    else:
        below = about
    shown = parse_cells(answer.states, answer.used, answer.begins, answer.sites)
    return [
        line(Span(f"{start:#x} to {end:#x}, {text.size(end - start)}", TextStyle.QUIET)),
        *_strip_lines(shown, end - start, cursor, cells, strips, rows - len(below) - 1, marks),
        *below,
    ]


def _strip_lines(
    shown: Sequence[MapCell],
    size: int,
    cursor: int,
    cells: int,
    strips: int,
    rows: int,
    marks: bool,
) -> list[Line]:
    """Draw addresses in strips, with the cursor below its cell.

    Several strips have their distance from the first address before them.
    """
    label = STRIP_LABEL if strips > 1 else 0
    length = max(1, cells - label)
    parts = [shown[first : first + length] for first in range(0, len(shown), length)]
    filled = sum(not _is_free(part) for part in parts)
    room = (rows - 2 * (len(parts) - filled)) // max(1, filled)
    height = max(1, min(MOST_TALL if strips == 1 else MOST_STRIP, room - 1))
    drawn: list[Line] = []
    for number, part in enumerate(parts):
        first = number * length
        offset = text.size(size * first // len(shown)) if first else "0"
        # Rows of free memory would say no more than one does.
        flat = height == 1 or _is_free(part)
        pictures = [picture(part, marks=marks)] if flat else tall_picture(part, height)
        leads = [f"{offset:>{label - 1}} " if label else "", *[" " * label] * (len(pictures) - 1)]
        for lead, row in zip(leads, pictures, strict=True):
            drawn.append(line(Span(lead, TextStyle.QUIET), *row))
        here = first <= cursor < first + length
        at = Span(" " * (label + cursor - first) + "^", TextStyle.STRONG)
        drawn.append(line(at) if here else ())
    return drawn


def _is_free(cells: Sequence[MapCell]) -> bool:
    return all(not cell.tenths and cell.state != "p" for cell in cells)


def strip_count(rows: int) -> int:
    """Return the number of strips that show a segment in a number of rows."""
    return max(1, min(MOST_STRIPS, (rows - ROWS_BELOW) // (LEAST_STRIP + 1)))


def strip_cells(cells: int, strips: int) -> int:
    """Return the number of cells in which all strips show addresses."""
    return max(1, cells - (STRIP_LABEL if strips > 1 else 0)) * strips


def about_cells(cells: int) -> int:
    """Return the width of the lines about the piece and what pins the segment."""
    return cells if cells < TWO_COLUMNS else cells // 2


def _piece_lines(answer: Stretch, cursor: int, cells: int) -> list[Line]:
    """Draw the piece at the cursor and its stack."""
    piece = answer.piece
    if piece is None:
        return [line(Span("no memory is mapped at this address", TextStyle.QUIET))]
    rank = answer.sites[min(cursor, len(answer.sites) - 1)]
    rows = flow(_piece_parts(piece, int(rank) if rank.isdecimal() else None), cells)
    if piece.requested is not None:
        rows += stack_lines(answer.frames, cells)
    return rows


def _piece_parts(piece: Piece, rank: int | None) -> list[Line]:
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
        parts.append(line(*(() if rank is None else (chip(rank), " ")), piece.site))
    return parts


def pinning_lines(pinning: Pinning | None, cells: int) -> list[Line]:
    """Draw the blocks that prevent a segment from being free."""
    if pinning is None:
        return [line(Span("no part of this segment is in use", TextStyle.QUIET))]
    gain = pinning.span - pinning.largest_free
    rows = flow(
        [
            line(Span(f"held open by {text.count(pinning.count, 'block')}", TextStyle.STRONG)),
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
