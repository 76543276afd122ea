"""A flame view: the frames that allocated live memory, as wide as their bytes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.bars import LEFT_GAP, LOWER_GAP, draw_bar
from tui.kit.lines import (
    SLATES,
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
)
from tui.snapshots.explain.frames import Frame, format_frame
from tui.snapshots.model.pictures import AllocationSize, Flame, FlameFrame
from tui.snapshots.views.shared_lines import stack_lines
from tui.snapshots.views.site_bars import (
    LEAST_BAR,
    MOST_BAR,
    SiteBar,
    chip,
    layer_area,
    layer_letter,
    on_layer,
    site_bar_lines,
)

Path = tuple[str, ...]
Direction = Literal["in", "out", "left", "right"]
PASSED_ON = 0.95
"""Share of the memory in view from which a frame passes on nearly all of it."""
MOST_LEVEL_ROWS = 3
"""Rows of a level: the name, the figures, and what a frame holds itself or its lower edge."""
LEAST_LABEL = 6
"""Cells below which a frame with a letter has nothing else."""
OUTLINE = {False: ("▏", "▕", "▁"), True: ("|", "|", "_")}
"""Left, right and lower edge of a frame without a color, by whether to draw in ASCII."""
OWN_ROW = 2
"""Row of a frame that says what it holds itself."""
LETTER_CELLS = 3
"""Cells of the letter of a layer on its color."""
LEAST_MARGIN = 4
"""Cells of a frame beside its name: the letter, and blanks at both sides."""
SHARE_CELLS = 5
"""Cells of a share before a line of the stack."""
TWO_COLUMNS, THREE_COLUMNS = 110, 170
"""Cells from which the sites stand beside the stack, and from which the sizes stand between."""
LEAST_SIZES = 3
"""Rows for the heading and the sizes, below which they are left out."""
SIZES_COLUMN = 54
"""Cells of the sizes that stand in a column of their own."""
SIZE_CELLS = 35
"""Cells of a line of a size beside its bar."""
UNDRAWN = "in calls too small to draw"
"""Label of what no frame of the picture allocated itself."""
FEW_ROWS = 2
"""Rows for the names of narrow frames where the sites have no column."""


def edges(flame: Flame, frame: FlameFrame, cells: int) -> tuple[int, int]:
    """Return the first cell of a frame and the one after its last; equal if it is too narrow."""
    whole = max(1, flame.bytes)
    return round(frame.start * cells / whole), round((frame.start + frame.width) * cells / whole)


def depth_of(flame: Flame) -> int:
    """Return the number of levels, including the level of all live memory."""
    return max((len(frame.path) for frame in flame.frames), default=0) + 1


def find_frame(flame: Flame, path: Path) -> FlameFrame | None:
    """Return the frame with a path, else its nearest caller in the picture."""
    by_path = {frame.path: frame for frame in flame.frames}
    for length in range(len(path), -1, -1):
        if path[:length] in by_path:
            return by_path[path[:length]]
    return None


def find_fork(flame: Flame) -> Path:
    """Return the path of the innermost frame that holds all live memory, up to the first fork."""
    whole = (frame.path for frame in flame.frames if frame.bytes == flame.total_bytes)
    return max(whole, key=len, default=())


def arrange_levels(flame: Flame, outside: int, rows: int) -> tuple[int, ...]:
    """Return the rows of each level, so that few levels fill the picture.

    A level that passes on nearly all memory has only the rows that the others do not need.

    Args:
        flame: the frames.
        outside: number of levels that are out of view at first.
        rows: the most rows of the levels in view.
    """
    levels = range(depth_of(flame))
    widest = dict.fromkeys(levels, 0)
    for frame in flame.frames:
        widest[len(frame.path)] = max(widest[len(frame.path)], frame.bytes)
    inside = levels[outside:]
    thin = {level for level in inside if widest[level] >= PASSED_ON * flame.bytes}
    if len(thin) == len(inside):
        thin = set()
    room = (rows - len(thin)) // max(1, len(inside) - len(thin))
    height = max(1, min(MOST_LEVEL_ROWS, room))
    rest = (rows - height * (len(inside) - len(thin))) // max(1, len(thin))
    low = max(1, min(height, rest))
    return tuple(low if level in thin else height for level in levels)


def scroll_levels(heights: Sequence[int], top: int, level: int, rows: int) -> int:
    """Return how many levels to scroll out of view to have a level in view.

    Args:
        heights: rows of each level.
        top: number of levels that are out of view now.
        level: the level to show.
        rows: height of the picture.
    """
    top = min(top, level)
    while top < level and sum(heights[top : level + 1]) > rows:
        top += 1
    return top


def level_at(heights: Sequence[int], top: int, row: int) -> tuple[int, int]:
    """Return the level in a row of the picture, and the row within it.

    Args:
        heights: rows of each level.
        top: number of levels that are scrolled out of view.
        row: row of the picture, from 0.
    """
    for level, height in enumerate(heights[top:], top):
        if row < height:
            return level, row
        row -= height
    return len(heights), 0


def flame_lines(
    flame: Flame,
    cells: int,
    rows: int,
    chosen: Path,
    heights: Sequence[int],
    top: int = 0,
    *,
    outlined: bool = False,
) -> list[Line]:
    """Draw the levels from ``top`` on, the outermost first.

    Args:
        flame: the frames.
        cells: width of the picture.
        rows: its height.
        chosen: path of the frame under the cursor.
        heights: rows of each level.
        top: number of levels that are scrolled out of view.
        outlined: frames have outlines instead of areas: for displays without colors.
    """
    levels: dict[int, list[FlameFrame]] = {}
    for frame in flame.frames:
        levels.setdefault(len(frame.path), []).append(frame)
    slates = choose_slates(flame)
    drawn = []
    for level, row in (level_at(heights, top, row) for row in range(rows)):
        height = heights[level] if level < len(heights) else 1
        frames = levels.get(level, ())
        place = _LevelRow(row, height, cells)
        drawn.append(_level_line(flame, frames, place, chosen, None if outlined else slates))
    return drawn


def choose_slates(flame: Flame) -> dict[Path, int]:
    """Return a place in :data:`SLATES` for each frame that no layer colors.

    It differs from the place of its caller and from that of its neighbor at the left.
    """
    slates: dict[Path, int] = {}
    before: Path | None = None
    for frame in flame.frames:
        if frame.rank is None:
            taken = {slates.get(frame.path[:-1])} if frame.path else set()
            if before is not None and len(before) == len(frame.path):
                taken.add(slates.get(before))
            slates[frame.path] = next(at for at in range(len(SLATES)) if at not in taken)
        before = frame.path
    return slates


@dataclass(frozen=True, slots=True)
class _LevelRow:
    """A row of a level of the picture."""

    number: int
    """From 0, the uppermost row of the level."""
    height: int
    """Rows of the level."""
    cells: int
    """Width of the picture."""

    @property
    def is_last(self) -> bool:
        """True for the last of several rows, with the gap to the next level."""
        return 0 < self.number == self.height - 1


def _level_line(
    flame: Flame,
    frames: Sequence[FlameFrame],
    row: _LevelRow,
    chosen: Path,
    slates: Mapping[Path, int] | None,
) -> Line:
    """Draw one row of a level; without ``slates``, frames have outlines instead of areas."""
    spans: list[Span] = []
    at = 0
    placed = [(frame, *edges(flame, frame, row.cells)) for frame in frames]
    placed = [(frame, first, end) for frame, first, end in placed if end > first]
    starts = {first for _, first, _ in placed}
    for frame, first, end in placed:
        if first > at:
            spans.append(Span(" " * (first - at)))
        words = _frame_words(flame, frame, end - first, row)
        if frame.path == chosen:
            spans += _marked(frame, words, end - first, row, colored=slates is not None)
        elif slates is None:
            spans.append(_outlined(words, end - first, row, closed=end not in starts))
        else:
            slate = SLATES[slates.get(frame.path, 0)]
            beside = 0 < at == first
            spans += _filled(frame, words, end - first, slate, row, beside=beside)
        at = end
    return tuple(spans)


def _frame_words(flame: Flame, frame: FlameFrame, cells: int, place: _LevelRow) -> str:
    """Return the words of a frame on one row: its label, then its figures."""
    row, height = place.number, place.height
    room = max(0, cells - 2)
    size = text.size(frame.bytes)
    share = text.share(frame.bytes / flame.total_bytes) if flame.total_bytes else text.NA
    if row == 0:
        letter = "" if frame.rank is None else layer_letter(frame.rank)
        if letter and room < LEAST_LABEL:
            return letter[:room]
        label = f"{letter} {frame.label}" if letter else frame.label
        longer = (f"{label}  {size}  {share}", f"{label}  {size}") if height == 1 else ()
        return next((words for words in longer if cell_len(words) <= room), fit(label, room))
    if row == OWN_ROW:
        words = f"{text.size(frame.own)} itself" if 0 < frame.own < frame.bytes else ""
        return words if cell_len(words) <= room else ""
    figures = [size, share, text.count(frame.count, "allocation")]
    fitting = ("  ".join(figures[:number]) for number in range(len(figures), 0, -1))
    return next((words for words in fitting if cell_len(words) <= room), "")


def _filled(
    frame: FlameFrame,
    words: str,
    cells: int,
    slate: tuple[TextStyle, TextStyle],
    row: _LevelRow,
    *,
    beside: bool,
) -> list[Span]:
    """Draw one row of a frame as an area.

    Args:
        frame: the frame.
        words: its words on this row.
        cells: its width.
        slate: styles of the area and its gaps if no layer colors it.
        row: the row.
        beside: another frame ends where this one begins.
    """
    if frame.rank is None:
        style, gap = slate
    else:
        style = gap = on_layer(frame.rank)
    ascii_only = glyphs.GLYPHS.ascii
    # Words have no gap below them, and no cell has a gap at two sides: either would leave a foot.
    has_gap = row.is_last and not words
    under = LOWER_GAP[ascii_only] if has_gap else " "
    edge = LEFT_GAP[ascii_only] if ascii_only or (beside and not has_gap) else under
    room = cells - 1
    closed = ascii_only and room > cell_len(words)
    words += " " * (bool(words) and cell_len(words) + closed < room)
    rest = under * (room - closed - cell_len(words)) + LEFT_GAP[ascii_only] * closed
    return [Span(edge, gap), Span(words, style), Span(rest, gap)]


def _marked(
    frame: FlameFrame, words: str, cells: int, row: _LevelRow, *, colored: bool
) -> list[Span]:
    """Draw one row of the frame under the cursor: an area of the cursor's color.

    Args:
        frame: the frame.
        words: its words on this row.
        cells: its width.
        row: the row.
        colored: the display has colors, and the letter of a layer is on the layer's color.
    """
    drawn = left(f" {words}", cells)[:cells] if cells > 1 else " "
    if not colored:
        return [Span(drawn, TextStyle.CURSOR)]
    has_letter = row.number == 0 and frame.rank is not None and cells > LETTER_CELLS
    if not has_letter:
        return [Span(drawn, TextStyle.CHOSEN)]
    letter = Span(drawn[:LETTER_CELLS], on_layer(frame.rank))
    return [letter, Span(drawn[LETTER_CELLS:], TextStyle.CHOSEN)]


def _outlined(words: str, cells: int, row: _LevelRow, *, closed: bool) -> Span:
    """Draw one row of a frame with its edges.

    Args:
        words: its words on this row.
        cells: its width.
        row: the row.
        closed: it has a right edge, as no other frame begins behind it.
    """
    before, after, under = OUTLINE[glyphs.GLYPHS.ascii]
    filler = under if row.is_last else " "
    if cells < 2:
        return Span(before)
    room = cells - 1 - closed
    inner = words + " " * (0 < cell_len(words) < room)
    inner += filler * (room - cell_len(inner))
    return Span(before + inner + (after if closed else ""))


def frame_at(flame: Flame, cells: int, x: int, depth: int) -> Path | None:
    """Return the path of the frame in a cell of a level, or ``None`` if there is none."""
    for frame in flame.frames:
        first, end = edges(flame, frame, cells)
        if len(frame.path) == depth and first <= x < end:
            return frame.path
    return None


def next_frame(flame: Flame, chosen: Path, direction: Direction) -> Path:
    """Return the path of the frame that lies in a direction, or the chosen one at an end.

    ``in`` leads to the largest frame that the chosen one called, ``out`` to its caller, the others
    along the level; ``left`` from a frame that is alone there leads to its caller.
    """
    if direction == "out":
        return chosen[:-1]
    if direction == "in":
        inner = [frame for frame in flame.frames if frame.path[:-1] == chosen and frame.path]
        return max(inner, key=lambda frame: frame.bytes).path if inner else chosen
    level = [frame.path for frame in flame.frames if len(frame.path) == len(chosen)]
    if chosen not in level:
        return chosen
    if direction == "left" and level == [chosen]:
        return chosen[:-1]
    at = level.index(chosen) + (1 if direction == "right" else -1)
    return level[at] if 0 <= at < len(level) else chosen


def find_undrawn(flame: Flame, frame: FlameFrame) -> int:
    """Return the bytes below a frame that were allocated in calls too small to be drawn."""
    path = frame.path
    return frame.bytes - sum(each.own for each in flame.frames if each.path[: len(path)] == path)


def frame_lines(flame: Flame, frame: FlameFrame, cells: int) -> list[Line]:
    """Draw the memory of the frame under the cursor."""
    share = text.share(frame.bytes / flame.total_bytes) if flame.total_bytes else text.NA
    size, count = text.size(frame.bytes), text.count(frame.count, "allocation")
    variants = ([size, f"{share} of what is live", count], [size, share, count], [size, share])
    figures = ["".join(f"  {part}" for part in parts) for parts in variants]
    room = cells - cell_len(frame.label)
    fitting = next((words for words in figures if cell_len(words) <= room), figures[-1])
    heading = line(Span(frame.label, TextStyle.STRONG), Span(fitting))
    rows = [fit_line(heading, cells)]
    words = []
    if frame.path and frame.own == frame.bytes:
        words.append("allocates all of it itself")
    elif frame.own:
        words.append(f"allocates {text.size(frame.own)} itself")
    is_drawn_whole = len(frame.path) >= len(flame.path)
    if is_drawn_whole and (undrawn := find_undrawn(flame, frame)):
        words.append(f"{text.size(undrawn)} in calls too small to draw")
    if frame.hidden:
        words.append(f"{text.count(frame.hidden, 'frame')} of libraries between it and its caller")
    if words:
        rows.append(fit_line(line(Span("; ".join(words), TextStyle.QUIET)), cells))
    return rows


@dataclass(frozen=True, slots=True)
class OwnMemory:
    """What the frames of one line of code allocated themselves, in all places of the picture."""

    label: str
    rank: int | None
    """Rank of its layer, as in :class:`FlameFrame`."""
    bytes: int
    paths: tuple[Path, ...]


def own_memory(flame: Flame) -> list[OwnMemory]:
    """Return what each line of code in the picture allocated itself, the most first."""
    found: dict[str, OwnMemory] = {}
    for frame in flame.frames:
        if not frame.own or len(frame.path) < len(flame.path):
            continue
        old = found.get(frame.path[-1])
        rank = frame.rank if old is None or old.rank is None else old.rank
        size, paths = (0, ()) if old is None else (old.bytes, old.paths)
        found[frame.path[-1]] = OwnMemory(frame.label, rank, size + frame.own, (*paths, frame.path))
    return sorted(found.values(), key=lambda site: (-site.bytes, site.label))


def site_lines(flame: Flame, chosen: Path, cells: int, rows: int) -> list[Line]:
    """Draw a heading, and which lines of code allocated what is live, the most first.

    Args:
        flame: the frames.
        chosen: path of the frame under the cursor; what was not allocated below it is quiet.
        cells: width of a line.
        rows: the most lines, of which the first is the heading.
    """
    bars = []
    for site in own_memory(flame):
        is_below = any(path[: len(chosen)] == chosen for path in site.paths)
        bars.append(SiteBar(site.label, site.rank, site.bytes, is_quiet=not is_below))
    within = find_frame(flame, flame.path)
    if within is not None and (undrawn := find_undrawn(flame, within)):
        bars.append(SiteBar(UNDRAWN, None, undrawn, is_quiet=True))
    heading = fit_line(line(Span("by the innermost line", TextStyle.QUIET)), cells)
    return [heading, *site_bar_lines(bars, flame.total_bytes, cells, rows - 1)]


def narrow_lines(flame: Flame, cells: int, picture: int) -> list[Line]:
    """Name the frames that have a letter, but no room for their name, the narrowest first.

    Args:
        flame: the frames.
        cells: width of a line.
        picture: width of the picture.
    """

    def room(frame: FlameFrame) -> int:
        first, end = edges(flame, frame, picture)
        return end - first

    narrow = (
        frame
        for frame in flame.frames
        if frame.rank is not None and 0 < room(frame) < cell_len(frame.label) + LEAST_MARGIN
    )
    parts = []
    for frame in sorted(narrow, key=lambda frame: (room(frame), frame.path)):
        share = text.share(frame.bytes / flame.total_bytes) if flame.total_bytes else text.NA
        figures = Span(f" {text.size(frame.bytes)} {share}", TextStyle.QUIET)
        parts.append(line(chip(frame.rank), f" {frame.label}", figures))
    return flow(parts, cells)[:FEW_ROWS]


def chain_lines(flame: Flame, frame: FlameFrame, stack: Sequence[Frame], cells: int) -> list[Line]:
    """Draw the stack with the most bytes below a frame, each frame with its share.

    Args:
        flame: the frames.
        frame: the frame under the cursor.
        stack: frames from the innermost outwards.
        cells: width of a line.
    """
    shares = _shares_of_chain(flame, frame, stack)

    def lead(each: Frame | None) -> str:
        share = None if each is None else shares.get(format_frame(each))
        return " " * SHARE_CELLS if share is None else f"{text.share(share):>{SHARE_CELLS}}"

    return stack_lines(stack, cells, lead=lead)


def _shares_of_chain(flame: Flame, frame: FlameFrame, stack: Sequence[Frame]) -> dict[str, float]:
    """Return the shares of live memory of the frames of a stack, by label."""
    chain = [each for each in flame.frames if each.path == frame.path[: len(each.path)]]
    inner = frame
    for each in reversed(stack):
        label = format_frame(each)
        called = (
            child
            for child in flame.frames
            if child.path and child.path[:-1] == inner.path and child.label == label
        )
        if (found := next(called, None)) is not None:
            chain.append(found)
            inner = found
    whole = max(1, flame.total_bytes)
    return {each.label: each.bytes / whole for each in chain if each.path}


def size_lines(
    sizes: Sequence[AllocationSize], flame: Flame, frame: FlameFrame, cells: int, rows: int
) -> list[Line]:
    """Draw the sizes of the allocations below a frame: count, bar, bytes and share of all.

    Args:
        sizes: those with the most bytes first.
        flame: the frames.
        frame: the frame.
        cells: width of a line.
        rows: the most lines, of which the first is a heading.
    """
    if not sizes or rows < LEAST_SIZES:
        return []
    whole = max(1, flame.total_bytes)
    most = sizes[0].size * sizes[0].count
    bar_cells = max(LEAST_BAR, min(MOST_BAR, cells - SIZE_CELLS))
    drawn = [fit_line(line(Span(f"{'size':>9} x count", TextStyle.QUIET)), cells)]
    for each in sizes[: rows - 1]:
        total = each.size * each.count
        bar = left(draw_bar(total / max(1, most), bar_cells), bar_cells)
        figures = f" {text.size(total):>9} {text.share(total / whole):>4}"
        row = line(
            f"{text.size(each.size):>9} x {left(text.count(each.count), 7)}",
            Span(bar, layer_area(frame.rank)),
            Span(figures),
        )
        drawn.append(fit_line(row, cells))
    return drawn


def detail_lines(
    flame: Flame,
    frame: FlameFrame,
    stack: Sequence[Line],
    sizes: Sequence[AllocationSize],
    cells: int,
    *,
    picture: int,
    rows: int,
) -> list[Line]:
    """Draw what is below the picture: the frame under the cursor, and what each line allocated.

    Args:
        flame: the frames.
        frame: the frame under the cursor.
        stack: lines of its stack, drawn for :func:`stack_cells`.
        sizes: sizes of the allocations below it, which take the rows that are left.
        cells: width of a line.
        picture: width of the picture.
        rows: rows in view.
    """
    near = stack_cells(cells)
    about = frame_lines(flame, frame, near)
    if cells < TWO_COLUMNS:
        about += narrow_lines(flame, cells, picture)
    about += stack
    if cells >= THREE_COLUMNS:
        about = beside(about, size_lines(sizes, flame, frame, SIZES_COLUMN, rows), near)
        near += 2 + SIZES_COLUMN
        sites = site_lines(flame, frame.path, cells - near - 2, max(rows, len(about)))
        return beside(about, sites, near)
    about += size_lines(sizes, flame, frame, near, rows - len(about))
    if cells < TWO_COLUMNS:
        return about
    sites = site_lines(flame, frame.path, cells - near - 2, max(rows, len(about)))
    return beside(about, sites, near)


def stack_cells(cells: int) -> int:
    """Return the width of the stack's lines below the picture."""
    if cells < TWO_COLUMNS:
        return cells
    return cells // 3 if cells >= THREE_COLUMNS else cells // 2
