"""A flame view: the frames that allocated live memory, as wide as their bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import (
    LAYERS,
    ON_LAYERS,
    Line,
    Span,
    TextStyle,
    cell_len,
    fit,
    fit_line,
    line,
)
from tui.snapshots.model.pictures import Flame, FlameFrame
from tui.snapshots.views.layers import LETTERS

Path = tuple[str, ...]
Direction = Literal["in", "out", "left", "right"]
MOST_LEVEL_ROWS = 3
LEAST_LABEL = 6
"""Cells below which a frame with a letter has nothing else."""
LEFT_GAP, LOWER_GAP = {False: "▏", True: "|"}, {False: "▁", True: " "}
"""Glyphs in the background's color that separate an area from its neighbors."""
OUTLINE = {False: ("▌", "▐", "▁"), True: ("[", "]", "_")}
"""Left, right and lower edge of the frame under the cursor."""


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


def level_height(levels: int, rows: int) -> int:
    """Return the rows of each level, so that few levels fill the picture."""
    return max(1, min(MOST_LEVEL_ROWS, rows // max(1, levels)))


def flame_lines(
    flame: Flame, cells: int, rows: int, chosen: Path, top: int = 0, height: int = 1
) -> list[Line]:
    """Draw the levels from ``top`` on, the outermost first.

    Args:
        flame: the frames.
        cells: width of the picture.
        rows: its height.
        chosen: path of the frame under the cursor.
        top: number of levels that are scrolled out of view.
        height: rows of each level.
    """
    levels: dict[int, list[FlameFrame]] = {}
    for frame in flame.frames:
        levels.setdefault(len(frame.path), []).append(frame)
    return [
        _level_line(flame, levels.get(top + row // height, ()), cells, chosen, row % height, height)
        for row in range(rows)
    ]


def _level_line(
    flame: Flame, frames: Sequence[FlameFrame], cells: int, chosen: Path, row: int, height: int
) -> Line:
    """Draw one row of a level."""
    spans: list[Span] = []
    at = 0
    for frame in frames:
        first, end = edges(flame, frame, cells)
        if end <= first:
            continue
        if first > at:
            spans.append(Span(" " * (first - at)))
        words = _frame_words(flame, frame, end - first, row, height)
        last = 0 < row == height - 1
        if frame.path == chosen:
            spans += _outlined(frame, words, end - first, first=row == 0, last=last)
        else:
            spans += _filled(frame, words, end - first, last=last, beside=0 < at == first)
        at = end
    return tuple(spans)


def _frame_words(flame: Flame, frame: FlameFrame, cells: int, row: int, height: int) -> str:
    """Return the words of a frame on one row: its label, and its figures on the second."""
    room = max(0, cells - 2)
    size = text.size(frame.bytes)
    if row == 0:
        letter = "" if frame.rank is None else LETTERS[frame.rank % len(LETTERS)]
        if letter and room < LEAST_LABEL:
            return letter[:room]
        label = f"{letter} {frame.label}" if letter else frame.label
        both = f"{label} {size}"
        return both if height == 1 and cell_len(both) <= room else fit(label, room)
    if row > 1:
        return ""
    share = text.share(frame.bytes / flame.total_bytes) if flame.total_bytes else text.NA
    figures = [size, share, text.count(frame.count, "allocation")]
    fitting = ("  ".join(figures[:number]) for number in range(len(figures), 0, -1))
    return next((words for words in fitting if cell_len(words) <= room), "")


def _filled(frame: FlameFrame, words: str, cells: int, *, last: bool, beside: bool) -> list[Span]:
    """Draw one row of a frame as an area.

    Args:
        frame: the frame.
        words: its words on this row.
        cells: its width.
        last: it is the last of several rows, with the gap to the next level.
        beside: another frame ends where this one begins.
    """
    if frame.rank is None:
        style, gap = TextStyle.ON_LAYER_REST, TextStyle.GAP_IN_REST
    else:
        style = gap = ON_LAYERS[frame.rank % len(ON_LAYERS)]
    ascii_only = glyphs.GLYPHS.ascii
    under = LOWER_GAP[ascii_only] if last else " "
    edge = LEFT_GAP[ascii_only] if beside or ascii_only else under if not words else " "
    words = f"{words} " if words else ""
    rest = under * (cells - 1 - cell_len(words))
    return [Span(edge, gap), Span(words, style), Span(rest, gap)]


def _outlined(frame: FlameFrame, words: str, cells: int, *, first: bool, last: bool) -> list[Span]:
    """Draw one row of the frame under the cursor, the only one that is not an area.

    That shows in any theme. Its outline has the frame's color, and begins with the cursor's sign.
    """
    style = TextStyle.STRONG if frame.rank is None else LAYERS[frame.rank % len(LAYERS)]
    if cells < 2:
        return [Span(glyphs.GLYPHS.selected, style)]
    left, right, under = OUTLINE[glyphs.GLYPHS.ascii]
    left = glyphs.GLYPHS.selected if first else left
    rest = (under if last else " ") * (cells - 2 - cell_len(words))
    return [Span(left, style), Span(words, TextStyle.STRONG), Span(f"{rest}{right}", style)]


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


def frame_lines(flame: Flame, frame: FlameFrame, cells: int) -> list[Line]:
    """Draw the memory of the frame under the cursor."""
    share = text.share(frame.bytes / flame.total_bytes) if flame.total_bytes else text.NA
    figures = (
        f"  {text.size(frame.bytes)}  {share} of what is live"
        f"  {text.count(frame.count, 'allocation')}"
    )
    own = frame.bytes - sum(
        child.bytes for child in flame.frames if child.path and child.path[:-1] == frame.path
    )
    rows = [fit_line(line(Span(frame.label, TextStyle.STRONG), Span(figures)), cells)]
    words = []
    if frame.path and own == frame.bytes:
        words.append("allocates all of it itself, or in calls too small to be drawn")
    elif frame.path and own:
        words.append(f"{text.size(own)} of it itself, or in calls too small to be drawn")
    if frame.hidden:
        words.append(f"{text.count(frame.hidden, 'frame')} of libraries between it and its caller")
    if words:
        rows.append(fit_line(line(Span("; ".join(words), TextStyle.QUIET)), cells))
    return rows
