"""Bars in parts of a cell, and the track that tells zero from unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.kit.bars import draw_bar, draw_gauge
from tui.kit.lines import TextStyle, plain, width


@given(st.floats(0, 1), st.integers(1, 60))
def test_a_bar_fits_and_something_is_never_drawn_as_nothing(share: float, cells: int) -> None:
    drawn = draw_bar(share, cells)
    assert 1 <= len(drawn) <= cells
    assert (drawn == glyphs.GLYPHS.zero) == (share == 0)


@pytest.mark.parametrize(
    ("share", "unicode", "ascii_only"),
    [
        (None, "    ", "    "),
        (0.0, "····", "...."),
        (0.001, "╸···", "-..."),
        (0.4, "■╸··", "#-.."),
        (0.5, "■■··", "##.."),
        (0.99, "■■■■", "####"),
        (1.0, "■■■■", "####"),
        (7.0, "■■■■", "####"),
    ],
)
def test_the_track_is_what_the_bar_leaves(
    share: float | None, unicode: str, ascii_only: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plain(draw_gauge(share, 4, TextStyle.GOOD)) == unicode
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    assert plain(draw_gauge(share, 4, TextStyle.GOOD)) == ascii_only


@given(st.none() | st.floats(0, 2), st.integers(1, 60), st.sampled_from(TextStyle))
def test_bar_and_track_fill_the_cells(share: float | None, cells: int, style: TextStyle) -> None:
    drawn = draw_gauge(share, cells, style)
    assert width(drawn) == cells
    # The bar alone has the style: the track is drawn alike behind every bar.
    assert {span.style for span in drawn} <= {style, TextStyle.REST}
    assert (share == 0) == (plain(drawn) == glyphs.GLYPHS.zero * cells)
