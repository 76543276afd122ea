"""A frame in fewer bytes draws the same screen."""

from __future__ import annotations

import io

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.app.drawing import FrugalUpdate, frugal_styles
from tui.kit.terminal.textual_private import ChopsUpdate

ROWS, CELLS, CUT = 4, 16, 7
# One choice of a style and not one of each part: an example has some thirty of them.
STYLES = st.sampled_from(
    [
        Style(color=color, bgcolor=behind, bold=bold, reverse=reverse)
        for color in (None, "red", "bright_blue", "#102030")
        for behind in (None, "default", "blue")
        for bold in (False, True)
        for reverse in (False, True)
    ]
)
SPANS = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, CELLS - 1), st.integers(1, CELLS)),
    min_size=1,
    max_size=5,
).map(lambda spans: sorted((row, min(a, b - 1), max(a + 1, b)) for row, a, b in spans))


@st.composite
def strips(draw: st.DrawFn, cells: int) -> Strip:
    segments, left = [], cells
    while left:
        length = draw(st.integers(1, left))
        text = draw(st.text(alphabet="ab1·█", min_size=length, max_size=length))
        segments.append(Segment(text, draw(STYLES)))
        left -= length
    return Strip(segments, cells)


@st.composite
def screens(draw: st.DrawFn) -> list[dict[int, Strip | None]]:
    """Two widgets side by side, row by row."""
    return [{0: draw(strips(CUT)), CUT: draw(strips(CELLS - CUT))} for _ in range(ROWS)]


def _console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=CELLS)


def _update(
    screen: list[dict[int, Strip | None]], spans: list[tuple[int, int, int]]
) -> ChopsUpdate:
    return ChopsUpdate(screen, spans, [[CUT, CELLS]] * ROWS)


def _shown(*frames: str) -> list[list[pyte.screens.Char]]:
    screen = pyte.Screen(CELLS, ROWS)
    stream = pyte.Stream(screen)
    for frame in frames:
        stream.feed(frame.replace("\n", "\r\n"))
    return [[screen.buffer[row][column] for column in range(CELLS)] for row in range(ROWS)]


@pytest.mark.parametrize(
    ("drawn", "shorter"),
    [
        ("\x1b[39;49ma\x1b[0m\x1b[39;49mb\x1b[0m", "ab"),
        ("\x1b[32;49ma\x1b[0m\x1b[39;49mb\x1b[0m", "\x1b[32ma\x1b[mb"),
        ("\x1b[1;39;49ma\x1b[0m\x1b[33;49mb\x1b[0m", "\x1b[1ma\x1b[;33mb\x1b[m"),
        ("\x1b[38;2;39;49;39ma\x1b[0m", "\x1b[38;2;39;49;39ma\x1b[m"),
        ("\x1b[38;5;49;48;5;39ma\x1b[0m", "\x1b[38;5;49;48;5;39ma\x1b[m"),
        ("\x1b[2;1Ha;49mb", "\x1b[2;1Ha;49mb"),
    ],
)
def test_a_style_is_what_differs_from_none(drawn: str, shorter: str) -> None:
    assert frugal_styles(drawn) == shorter


WHOLE = [(row, 0, CELLS) for row in range(ROWS)]


@given(screens(), screens(), SPANS)
def test_the_cells_of_the_spans_are_drawn_and_no_others(
    old: list[dict[int, Strip | None]],
    new: list[dict[int, Strip | None]],
    spans: list[tuple[int, int, int]],
) -> None:
    console = _console()
    before = _update(old, WHOLE).render_segments(console)
    after = _update(new, WHOLE).render_segments(console)
    frame = FrugalUpdate(_update(new, spans)).render_segments(console)
    untouched, drawn, shown = _shown(before), _shown(after), _shown(before, frame)
    touched = {(row, column) for row, left, right in spans for column in range(left, right)}
    for row in range(ROWS):
        for column in range(CELLS):
            source = drawn if (row, column) in touched else untouched
            assert shown[row][column] == source[row][column]
