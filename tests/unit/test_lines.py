"""Laws of lines: nothing is wider than its room, nothing harmful stays, nothing vanishes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

from tui.core.text import glyphs
from tui.core.text.glyphs import clean
from tui.kit.lines import (
    Line,
    LinesOnDemand,
    Span,
    TextStyle,
    fit,
    fit_line,
    flow,
    left,
    line,
    plain,
    right,
    width,
    wrap,
)
from tui.kit.styles import strip_of

TEXTS = st.text(max_size=60)
WIDTHS = st.integers(min_value=1, max_value=80)


@given(TEXTS, WIDTHS)
def test_fitted_text_is_never_wider_than_its_room(text: str, cells: int) -> None:
    assert cell_len(fit(text, cells)) <= cells


@given(TEXTS, WIDTHS)
def test_a_cut_text_says_so(text: str, cells: int) -> None:
    fitted = fit(text, cells)
    assert fitted == clean(text) or fitted.endswith(glyphs.GLYPHS.ellipsis[:cells])


@given(st.text("abc de", max_size=30), st.integers(0, 30))
def test_what_is_plain_is_cut_by_its_characters(text: str, cells: int) -> None:
    cut = fit(text, cells)
    assert len(cut) <= cells
    assert cut == text or cells == 0 or cut.endswith("…")


def test_ascii_terminals_get_an_ellipsis_of_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
    assert fit("abcdefg", 5) == "ab..."


@given(TEXTS, WIDTHS)
def test_a_column_is_filled_exactly(text: str, cells: int) -> None:
    assert cell_len(left(text, cells)) == cells
    assert cell_len(right(text, cells)) == cells


@given(st.lists(TEXTS, max_size=6), WIDTHS)
def test_a_fitted_line_is_never_wider_than_its_room(texts: list[str], cells: int) -> None:
    assert width(fit_line(line(*texts), cells)) <= cells


@given(st.lists(TEXTS, max_size=6), WIDTHS)
def test_a_line_that_fits_is_left_alone(texts: list[str], cells: int) -> None:
    spans = line(*texts)
    if width(spans) <= cells:
        assert fit_line(spans, cells) == spans


@given(st.text(max_size=200), st.integers(min_value=4, max_value=60))
def test_wrapping_loses_no_word_and_stays_in_its_room(text: str, cells: int) -> None:
    rows = wrap(text, cells)
    assert all(cell_len(row) <= cells for row in rows)
    assert "".join("".join(rows).split()) == "".join(clean(text).split())


def test_a_number_is_not_broken_between_its_groups() -> None:
    rows = ["it is 32 768", "  x 32 768", "  of float32", "  at step 90", "  512"]
    assert wrap("it is 32 768 x 32 768 of float32 at step 90 512", 12, "  ")[:3] == rows[:3]
    assert wrap("1 234 567", 4) == ["1 23", "4 56", "7"]


@given(st.lists(TEXTS, max_size=6), st.integers(min_value=1, max_value=60))
def test_flowing_parts_stay_in_their_room(texts: list[str], cells: int) -> None:
    rows = flow([line(text) for text in texts], cells, indent="  ")
    # A wide character in a single cell is the one thing that cannot fit.
    assert all(width(row) <= max(cells, 2) for row in rows)


@pytest.mark.parametrize("cells", [-3, 0, 1])
def test_without_room_each_character_has_a_line(cells: int) -> None:
    assert [plain(row) for row in flow([line("on"), line("e")], cells, indent="  ")] == [*"one"]


def test_parts_that_fit_share_a_line_and_others_start_a_new_one() -> None:
    rows = flow([line("one"), line("two"), line("three")], 9, indent="  ")
    assert [plain(row) for row in rows] == ["one  two", "  three"]


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("a\nb\tc", "a b c"),
        ("\x1b[31mred", "?[31mred"),
        ("\x00\x07", "??"),
        ("right\u202eleft", "right?left"),
        ("aten::conv[NHWC] [/x]", "aten::conv[NHWC] [/x]"),
        ("größe ±1 µs", "größe ±1 µs"),
    ],
)
def test_characters_that_move_the_cursor_are_replaced(text: str, harmless: str) -> None:
    assert Span(text).text == harmless


@given(st.integers(0, 20), st.integers(-25, 25), st.integers(-25, 25))
def test_lines_on_demand_are_those_of_a_list_and_made_once(
    count: int, first: int, last: int
) -> None:
    made: list[int] = []

    def make(place: int) -> Line:
        made.append(place)
        return line(str(place))

    lines = LinesOnDemand(count, make)
    whole = [line(str(place)) for place in range(count)]
    assert made == []
    assert list(lines[first:last]) == whole[first:last]
    assert made == list(range(count))[first:last]
    assert list(lines) == whole
    assert sorted(made) == list(range(count))


STYLES = st.sampled_from(
    [TextStyle.PLAIN, TextStyle.GOOD, TextStyle.QUIET, TextStyle.CURSOR, TextStyle.FULL_LAYER_A]
)
ON_BLACK = Style(bgcolor="black")


def appearances(spans: Line, cells: int) -> list[object]:
    """Return what is visible of each cell of a drawn line: a blank has no color of its own."""
    return [
        (cell, style) if cell != " " else (style.bgcolor, bool(style.reverse))
        for text, style, _ in strip_of(spans, cells, ON_BLACK)
        for cell in text
        if style is not None
    ]


@given(st.lists(st.tuples(st.sampled_from([" ", "   ", "x", " y", "z "]), STYLES), max_size=8))
def test_a_blank_has_the_style_of_its_neighbor_where_it_looks_the_same(
    parts: list[tuple[str, TextStyle]],
) -> None:
    spans = tuple(Span(text, style) for text, style in (*parts, ("x", TextStyle.PLAIN)))
    alone = [cell for span in spans for cell in appearances((span,), span.width)]
    assert appearances(spans, width(spans)) == alone
    texts = [text for text, _, _ in strip_of(spans, width(spans), ON_BLACK)]
    assert "".join(texts) == plain(spans)


def test_a_bar_between_blanks_is_one_segment() -> None:
    spans = (Span("  "), Span("\u2588\u2588", TextStyle.GOOD), Span("   "))
    assert len(list(strip_of(spans, 10, ON_BLACK))) == 1


@pytest.mark.parametrize(
    ("color", "codes"),
    [("#87d787", "38;5;114"), ("#9e9e9e", "38;5;247"), ("#87d788", "38;2;135;215;136")],
)
def test_a_color_that_has_a_number_is_written_as_its_number(color: str, codes: str) -> None:
    (segment,) = strip_of((Span("x"),), 1, Style(color=color))
    drawn = segment.style
    assert drawn is not None
    assert drawn.render("x", color_system=ColorSystem.TRUECOLOR) == f"\x1b[{codes}mx\x1b[0m"
    assert drawn.color is not None
    assert drawn.color.get_truecolor().hex == color
