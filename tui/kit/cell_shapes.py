"""Shapes of the characters that draw bars, plots and frames, as SVG path data. Pure.

A font draws them for its own line height. In a picture, whose lines are higher, they leave gaps.
"""

from __future__ import annotations

from tui.kit.braille import ACROSS, DOWN, list_dots

LIGHT, HEAVY = 1.4, 3.2
"""Widths of a light and a heavy line, in the units of the picture."""
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}
"""Share of its cell that a shade covers, by character."""
_OVERLAP = 0.25
"""How far a line reaches into the next row, so that none of the background shows between them."""

_Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of a cell."""

_EIGHTHS = [count / 8 for count in range(1, 9)]
_UPPER_LEFT, _UPPER_RIGHT = (0.0, 0.0, 0.5, 0.5), (0.5, 0.0, 1.0, 0.5)
_LOWER_LEFT, _LOWER_RIGHT = (0.0, 0.5, 0.5, 1.0), (0.5, 0.5, 1.0, 1.0)
_BLOCKS: dict[str, list[_Rectangle]] = {
    **{c: [(0.0, 1 - s, 1.0, 1.0)] for c, s in zip("▁▂▃▄▅▆▇█", _EIGHTHS, strict=True)},
    **{c: [(0.0, 0.0, s, 1.0)] for c, s in zip("▏▎▍▌▋▊▉", _EIGHTHS, strict=False)},
    **{shade: [(0.0, 0.0, 1.0, 1.0)] for shade in SHADES},
    "▀": [(0.0, 0.0, 1.0, 0.5)],
    "▐": [(0.5, 0.0, 1.0, 1.0)],
    "▔": [(0.0, 0.0, 1.0, 0.125)],
    "▕": [(0.875, 0.0, 1.0, 1.0)],
    "▖": [_LOWER_LEFT],
    "▗": [_LOWER_RIGHT],
    "▘": [_UPPER_LEFT],
    "▝": [_UPPER_RIGHT],
    "▚": [_UPPER_LEFT, _LOWER_RIGHT],
    "▞": [_UPPER_RIGHT, _LOWER_LEFT],
    "▙": [_UPPER_LEFT, _LOWER_LEFT, _LOWER_RIGHT],
    "▛": [_UPPER_LEFT, _UPPER_RIGHT, _LOWER_LEFT],
    "▜": [_UPPER_LEFT, _UPPER_RIGHT, _LOWER_RIGHT],
    "▟": [_UPPER_RIGHT, _LOWER_LEFT, _LOWER_RIGHT],
}
_LINES = {
    **dict.fromkeys("─│╴╵╶╷┌┐└┘├┤┬┴┼", LIGHT),
    **dict.fromkeys("━┃╸╹╺╻┏┓┗┛┣┫┳┻╋", HEAVY),
}
"""The width of each line by its character."""
_LEFT, _RIGHT = "─╴┐┘┤┬┴┼━╸┓┛┫┳┻╋", "─╶┌└├┬┴┼━╺┏┗┣┳┻╋"
_UP, _DOWN = "│╵└┘├┤┴┼┃╹┗┛┣┫┻╋", "│╷┌┐├┤┬┼┃╻┏┓┣┫┳╋"
"""The lines that reach an edge of their cell."""
_DOT = 0.46
"""Side of a dot of a curve, as a share of the distance of two dots."""
_ARCS = {"╭": (1, 1), "╮": (-1, 1), "╰": (1, -1), "╯": (-1, -1)}
"""To which side, and up (-1) or down, a round corner leaves its cell."""


def is_block(character: str) -> bool:
    """Return whether a character fills parts of its cell with straight edges."""
    return character in _BLOCKS


def draws_cell(character: str) -> bool:
    """Return whether ``draw_cells`` knows a character."""
    known = character in _BLOCKS or character in _LINES or character in _ARCS
    return known or bool(list_dots(character))


def draw_cells(
    character: str, count: int, left: float, top: float, width: float, height: float
) -> str:
    """Return the SVG path data of a character that is repeated in a row.

    Args:
        character: one for which ``draws_cell`` is true.
        count: how often it is repeated.
        left: of the first cell, as the others in the units of the picture.
        top: of the row.
        width: of a cell.
        height: of a cell.
    """
    places = [left + index * width for index in range(count)]
    if character in _ARCS:
        return "".join(_draw_arc(character, place, top, width, height) for place in places)
    if character in _LINES:
        if character in "─━":
            return _draw_line(character, left, top, width * count, height)
        return "".join(_draw_line(character, place, top, width, height) for place in places)
    rectangles = _BLOCKS.get(character) or [_place_dot(x, y) for x, y in list_dots(character)]
    if all(x0 == 0 and x1 == 1 for x0, _, x1, _ in rectangles):
        places, width = [left], width * count
    return "".join(
        _draw_rectangle(
            place + x0 * width, top + y0 * height, place + x1 * width, top + y1 * height
        )
        for place in places
        for x0, y0, x1, y1 in rectangles
    )


def _place_dot(x: int, y: int) -> _Rectangle:
    """Return the square of a dot of a braille pattern."""
    left, top = (x + (1 - _DOT) / 2) / ACROSS, (y + (1 - _DOT) / 2) / DOWN
    return left, top, left + _DOT / ACROSS, top + _DOT / DOWN


def _draw_line(character: str, left: float, top: float, width: float, height: float) -> str:
    """Return a box drawing character: an arm from the middle to each edge that it reaches."""
    half = _LINES[character] / 2
    middle, center = left + width / 2, top + height / 2
    drawn = ""
    if character in _LEFT + _RIGHT:
        start = left if character in _LEFT else middle - half
        end = left + width if character in _RIGHT else middle + half
        drawn += _draw_rectangle(start, center - half, end, center + half)
    if character in _UP + _DOWN:
        start = top - _OVERLAP if character in _UP else center - half
        end = top + height + _OVERLAP if character in _DOWN else center + half
        drawn += _draw_rectangle(middle - half, start, middle + half, end)
    return drawn


def _draw_arc(character: str, left: float, top: float, width: float, height: float) -> str:
    """Return a round corner: a quarter of a ring, and the rest of its arm up or down."""
    side, down = _ARCS[character]
    half, radius = LIGHT / 2, width / 2
    middle, center = left + width / 2, top + height / 2
    edge, turn = middle + side * radius, center + down * radius
    end = center + down * (height / 2 + _OVERLAP)
    sweep, back = (1, 0) if side == down else (0, 1)
    outer, inner = radius + half, radius - half
    return (
        f"M{middle - side * half:.2f} {end:.2f}V{turn:.2f}"
        f"A{outer:.2f} {outer:.2f} 0 0 {sweep} {edge:.2f} {center - down * half:.2f}"
        f"V{center + down * half:.2f}"
        f"A{inner:.2f} {inner:.2f} 0 0 {back} {middle + side * half:.2f} {turn:.2f}"
        f"V{end:.2f}z"
    )


def _draw_rectangle(left: float, top: float, right: float, bottom: float) -> str:
    return f"M{left:.2f} {top:.2f}H{right:.2f}V{bottom:.2f}H{left:.2f}z"
