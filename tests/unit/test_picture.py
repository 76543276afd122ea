"""Tests that a saved picture has the screen's cells, without the gaps of a font."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ElementTree
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from tui.core.text.glyphs import UNICODE
from tui.kit.cell_shapes import draw_cells, draws_cell, is_block
from tui.kit.picture import CELL, ROW, make_portable

SVG = "{http://www.w3.org/2000/svg}"
CODES = (*range(0x2500, 0x25A0), *range(0x2800, 0x2900))
DRAWN = sorted(chr(code) for code in CODES if draws_cell(chr(code)))


def picture(*lines: str) -> str:
    """Return the portable SVG of some lines, as Textual makes one of its screen."""
    console = Console(
        width=20, record=True, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        console.print(Text(line, style="#87d787 on #11151c"))
    return make_portable(console.export_svg(title="picture"))


def texts(svg: str) -> list[str]:
    found = re.findall(r"<text[^>]*textLength[^>]*>([^<]*)</text>", svg)
    return [html.unescape(text).replace("\xa0", " ") for text in found]


def corners(path: str) -> list[tuple[float, float, float, float]]:
    """Return left, top, right and bottom of the rectangles of a path."""
    found = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H[\d.]+z", path)
    return [(float(a), float(b), float(c), float(d)) for a, b, c, d in found]


def test_words_stay_words_and_bars_become_shapes() -> None:
    svg = picture("cuda:0 ████ 40% <&>", "╭─ Memory ─╮")
    assert texts(svg) == ["cuda:0", "40% <&>", "Memory"]
    paths = ElementTree.fromstring(svg).findall(f".//{SVG}path")
    (bar,) = corners(paths[0].get("d", ""))
    assert bar == pytest.approx((7 * CELL, 1.5, 11 * CELL, 1.5 + ROW), abs=0.01)
    assert len(paths) == 5


def test_the_shapes_have_the_color_of_their_characters() -> None:
    svg = picture("load ▄")
    styles = dict(re.findall(r"\.(terminal-r\d+) \{ fill: (#\w+)", svg))
    (path,) = ElementTree.fromstring(svg).findall(f".//{SVG}path")
    assert styles[path.get("class", "")] == "#87d787"


def test_a_shade_covers_a_share_of_its_cell() -> None:
    paths = ElementTree.fromstring(picture("░▓")).findall(f".//{SVG}path")
    assert [path.get("fill-opacity") for path in paths] == ["0.25", "0.75"]


def test_full_blocks_of_two_rows_touch() -> None:
    paths = ElementTree.fromstring(picture("██", "▄▄")).findall(f".//{SVG}path")
    (upper,), (lower,) = (corners(path.get("d", "")) for path in paths)
    assert lower[3] - upper[3] == pytest.approx(ROW, abs=0.01)
    assert lower[1] - upper[3] == pytest.approx(ROW / 2, abs=0.01)


def test_every_block_and_line_of_the_program_is_drawn() -> None:
    frames = "│─╭╮╰╯┏┓┗┛━┃├┬┤└"
    for glyph in (*UNICODE.vertical, UNICODE.shade, UNICODE.rule, UNICODE.trace, *frames):
        assert draws_cell(glyph), glyph


def test_a_braille_pattern_has_a_square_for_each_dot() -> None:
    left, right = corners(draw_cells("\u2881", 1, 0, 0, CELL, ROW))
    assert left[0] < left[2] < CELL / 2 < right[0] < right[2]
    assert left[3] < ROW / 4
    assert right[1] > ROW * 3 / 4
    assert not draws_cell("\u2800")


@given(st.sampled_from(DRAWN), st.integers(1, 40), st.integers(0, 10), st.integers(0, 10))
def test_no_shape_leaves_its_cells(glyph: str, count: int, column: int, row: int) -> None:
    path = draw_cells(glyph, count, column * CELL + 1, row * ROW + 1, CELL, ROW)
    assert path
    for left, top, right, bottom in corners(path):
        assert left >= column * CELL + 0.99
        assert right <= (column + count) * CELL + 1.01
        # A line reaches a little into the next row, so that both touch.
        spill = 0.01 if is_block(glyph) else 0.26
        assert top >= row * ROW + 1 - spill
        assert bottom <= (row + 1) * ROW + 1 + spill


def test_a_picture_loads_nothing_and_is_the_same_in_each_run() -> None:
    one, other = picture("load ▄"), picture("load ▄")
    assert one == other
    assert "http" not in one.replace("http://www.w3.org/2000/svg", "").replace(
        "https://www.textualize.io", ""
    )
