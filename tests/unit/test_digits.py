"""A figure in large digits: every row has one width, and what has no form is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.text import glyphs
from tui.kit.digits import ROWS, DigitSize, draw_large


def test_a_figure_with_its_unit() -> None:
    assert draw_large("1.9x") == (
        "▀▀██        ██▀▀██        ",
        "  ██        ▀▀▀▀██  ▀█▄▄█▀",
        "▄▄██▄▄  ▄▄  ▄▄▄▄██  ▄█▀▀█▄",
    )


def test_the_unit_of_enlarged_digits_is_smaller_and_on_their_base_line() -> None:
    assert draw_large("1 s", DigitSize(1, 2)) == (
        "████          ",
        "  ██          ",
        "  ██          ",
        "  ██          ",
        "  ██    ▄█▀▀▀▀",
        "██████  ▄▄▄▄█▀",
    )


def test_the_unit_of_the_smallest_digits_has_usual_letters() -> None:
    assert draw_large("1 ms") == (
        "▀▀██      ",
        "  ██      ",
        "▄▄██▄▄  ms",
    )


@given(
    st.text("0123456789. %xmnsµ", min_size=1, max_size=9),
    st.builds(DigitSize, st.integers(1, 3), st.integers(1, 4)),
)
def test_rows_have_one_width(words: str, size: DigitSize) -> None:
    rows = draw_large(words, size)
    assert len(rows) == ROWS * size.down
    assert len({*map(len, rows)}) == 1


def test_what_has_no_large_form_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw_large("") == draw_large("n/a") == ()
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    assert draw_large("12") == ()
