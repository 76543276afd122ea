"""Borders between columns: no column gets too narrow, and what is stored is read back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.core.borders import LEAST, Borders, parse_borders

PLACES = st.integers(-50, 150)


@given(st.lists(st.tuples(st.sampled_from(["middle", "left", "right"]), PLACES), max_size=20))
def test_no_column_gets_too_narrow_however_borders_are_moved(moves: list[tuple[str, int]]) -> None:
    borders = Borders()
    for which, place in moves:
        borders = getattr(borders, f"moved_{which}")(place)
        edges = (0, borders.left, borders.right, 100)
        assert all(after - before >= LEAST for before, after in itertools.pairwise(edges))
        assert LEAST <= borders.middle <= 100 - LEAST
        assert parse_borders(str(borders)) == borders


@given(st.integers(LEAST, 100 - LEAST))
def test_a_border_goes_where_it_may_be(place: int) -> None:
    assert Borders().moved_middle(place).middle == place


@pytest.mark.parametrize("words", ["", "50", "50 38", "a b c", "10 38 72", "50 38 40", "50 38 90"])
def test_what_is_no_layout_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_borders(words)
