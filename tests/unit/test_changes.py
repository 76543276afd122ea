"""The cells that are drawn again are all that differ, and no row that does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.kit.lines import Change, Line, Span, TextStyle, TwoColored, changes, fit_line

CELLS = 12
TEXT = st.text(alphabet="ab°█ 漢\u0301", max_size=8)
LINES = st.lists(
    st.lists(
        st.builds(Span, TEXT, st.sampled_from([TextStyle.PLAIN, TextStyle.BAD])), max_size=5
    ).map(tuple),
    max_size=4,
)


def _drawn(line: Line) -> list[tuple[str, TextStyle]]:
    """Return the text and style of each cell; a wide character fills two, a mark shares one."""
    found: list[tuple[str, TextStyle]] = []
    for span in fit_line(line, CELLS):
        for character in span.text:
            width = Span(character).width
            if not width and found:
                found[-1] = (found[-1][0] + character, found[-1][1])
            found += [(character, span.style)] * width
    return [*found, *[(" ", TextStyle.PLAIN)] * (CELLS - len(found))]


@given(LINES, LINES)
def test_drawing_the_changed_cells_gives_the_new_lines(old: list[Line], new: list[Line]) -> None:
    height = max(len(old), len(new))
    rows = [_drawn(old[row] if row < len(old) else ()) for row in range(height)]
    wanted = [_drawn(new[row] if row < len(new) else ()) for row in range(height)]
    for change in changes(old, new, CELLS):
        stretch = slice(change.start, change.end)
        rows[change.row][stretch] = wanted[change.row][stretch]
    assert rows == wanted


@given(LINES)
def test_equal_lines_need_no_drawing(lines: list[Line]) -> None:
    assert changes(lines, lines, CELLS) == []


def test_a_row_is_drawn_once_from_its_first_change_to_its_last() -> None:
    bar, style = "█" * 6, TextStyle.GOOD
    old = (Span("61% "), Span(bar, style), Span(" 45°C"))
    new = (Span("63% "), Span(bar, style), Span(" 46°C"))
    assert changes([old, old], [new, old], 20) == [Change(0, 1, 13)]


def test_the_upper_half_of_a_cell_is_drawn_when_it_changes() -> None:
    old = TwoColored("▄▄", TextStyle.GOOD, TextStyle.BAD)
    new = TwoColored("▄▄", TextStyle.GOOD, TextStyle.NOTE)
    assert changes([(old,)], [(new,)], 20) == [Change(0, 0, 2)]


def test_a_change_between_equal_spans_is_found() -> None:
    old = (Span("a"), Span("b", TextStyle.BAD), Span("c"), Span("d", TextStyle.BAD))
    new = (Span("a"), Span("x", TextStyle.BAD), Span("c"), Span("d", TextStyle.BAD))
    assert changes([old], [new], 20) == [Change(0, 1, 2)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((Span("e\u0301 x"), Span("漢a")), (Span("e\u0301 y"), Span("漢a"))),
        ((Span("e\u0301 x漢a"),), (Span("e\u0301 y漢a"),)),
    ],
    ids=["in two spans", "in one span"],
)
def test_a_mark_without_width_and_a_wide_character_do_not_cancel_out(old: Line, new: Line) -> None:
    assert changes([old], [new], 20) == [Change(0, 0, 20)]


def test_one_figure_takes_its_own_cells() -> None:
    old, new = (Span("cuda:0  61% 310 W"),), (Span("cuda:0  63% 310 W"),)
    assert changes([old], [new], 20) == [Change(0, 9, 10)]
