"""A flame view: the frames that allocated live memory, as wide as their bytes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.lines import ON_LAYERS, Line, Span, TextStyle, cell_len, fit, fit_line, line
from tui.snapshots.model.pictures import Flame, FlameFrame

Path = tuple[str, ...]
Direction = Literal["in", "out", "left", "right"]


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


def flame_lines(flame: Flame, cells: int, rows: int, chosen: Path, top: int = 0) -> list[Line]:
    """Draw the levels from ``top`` on, the outermost first.

    Args:
        flame: the frames.
        cells: width of the picture.
        rows: its height.
        chosen: path of the frame under the cursor.
        top: number of levels that are scrolled out of view.
    """
    ranks = _rank_frames(flame)
    levels: dict[int, list[FlameFrame]] = {}
    for frame in flame.frames:
        levels.setdefault(len(frame.path), []).append(frame)
    return [
        _level_line(flame, levels.get(depth, ()), cells, chosen, ranks)
        for depth in range(top, top + rows)
    ]


def _rank_frames(flame: Flame) -> dict[str, int]:
    """Return the rank of each line of the program by its bytes; the largest has rank zero."""
    sizes: Counter[str] = Counter()
    for frame in flame.frames:
        if frame.kind == "user":
            sizes[frame.path[-1]] += frame.bytes
    return {key: rank for rank, (key, _) in enumerate(sizes.most_common())}


def _level_line(
    flame: Flame,
    frames: Sequence[FlameFrame],
    cells: int,
    chosen: Path,
    ranks: Mapping[str, int],
) -> Line:
    spans: list[Span] = []
    at = 0
    before: TextStyle | None = None
    for frame in frames:
        first, end = edges(flame, frame, cells)
        if end <= first:
            continue
        if first > at:
            spans.append(Span(" " * (first - at)))
            before = None
        style = _style_of(frame, ranks, before)
        under_cursor = frame.path == chosen
        spans.append(
            Span(
                _frame_text(frame, end - first, under_cursor=under_cursor),
                TextStyle.CURSOR if under_cursor else style,
            )
        )
        at, before = end, style
    return tuple(spans)


def _style_of(frame: FlameFrame, ranks: Mapping[str, int], before: TextStyle | None) -> TextStyle:
    """Return the color of the frame's rank, or the next one if its left neighbor has that."""
    if frame.kind != "user":
        return TextStyle.ON_LAYER_REST
    number = ranks[frame.path[-1]] % len(ON_LAYERS)
    if ON_LAYERS[number] is before:
        number = (number + 1) % len(ON_LAYERS)
    return ON_LAYERS[number]


def _frame_text(frame: FlameFrame, cells: int, *, under_cursor: bool) -> str:
    """Return a frame's label behind its left edge, which separates it where there is no color."""
    edge = glyphs.GLYPHS.selected if under_cursor else glyphs.GLYPHS.wall
    if cells < 2:
        return edge
    words = f"{edge}{fit(frame.label, cells - 1)}"
    figures = f" {text.size(frame.bytes)} "
    if cell_len(frame.label) + len(figures) + 2 <= cells:
        words = f"{edge}{frame.label}{figures}"
    return words + " " * (cells - cell_len(words))


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
