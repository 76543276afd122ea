"""A reduced frame leaves the terminal as the whole frame does, and is shorter."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyte
import pytest
from rich.color import ColorSystem
from rich.style import Style
from textual.strip import Strip

from tui.kit.terminal.frames import PLAIN, FrameReducer, Pen, change_pen, parse_pen

COLUMNS, ROWS = 40, 12
STYLES = tuple(
    Style.parse(words)
    for words in (
        "none",
        "bold",
        "dim",
        "bold dim",
        "italic underline",
        "reverse",
        "strike",
        "#5fb3f6 on #11151c",
        "#7fdc8a on #11151c",
        "bold #dce3ee on #1a2130",
        "bold reverse #dce3ee on #1a2130",
        "green",
        "bright_yellow on blue",
        "color(99) on color(17)",
        "default on default",
    )
)
PIECES = ("ab", "  ", " ", "██▉", "···", "a b", "140.4G", "⢀⣶⣶", "─" * 12, "56°C")
WIDE = ("日本", "e\u0301", "👍")


def place(row: int, column: int) -> str:
    """The sequence for a place, both counted from 1."""
    return f"\x1b[{row};{column}H"


def drawn(text: str, style: Style) -> str:
    """A piece of text as Textual writes it."""
    return Strip.render_style(style, text, ColorSystem.TRUECOLOR)


def partial_frame(chance: random.Random, pieces: Sequence[str]) -> str:
    """A frame of some rows, each from a random column on, as Textual writes them."""
    parts = []
    for row in sorted(chance.sample(range(2, ROWS), chance.randint(1, 5))):
        column = chance.choice((1, 7, 21))
        parts.append(place(row, column))
        for _ in range(chance.randint(1, 4)):
            piece = chance.choice(pieces)
            column += 2 * len(piece)
            if column <= COLUMNS:  # Textual draws nothing beyond the edge
                parts.append(drawn(piece, chance.choice(STYLES)))
        parts.append("\n")
    return "".join(parts[:-1]) + place(1, 1)


def whole_frame(chance: random.Random) -> str:
    """A frame of the whole screen."""
    rows = []
    for row in range(1, ROWS + 1):
        text = "".join(chance.choice("ab █·") for _ in range(COLUMNS - 1))
        rows.append(place(row, 1) + drawn(text, chance.choice(STYLES)))
    return "\n".join(rows) + place(1, 1)


class Screen:
    """A terminal."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.Stream(self.screen)

    def show(self, text: str) -> list[object]:
        """Write a text; what then can be seen of each cell, and where the cursor is."""
        self.stream.feed(text.replace("\n", "\r\n"))
        seen: list[object] = [(self.screen.cursor.x, self.screen.cursor.y)]
        for row in range(ROWS):
            for column in range(COLUMNS):
                cell = self.screen.buffer[row][column]
                blank = cell.data == " "
                lines = (cell.underscore, cell.strikethrough, cell.reverse)
                letters = (cell.data, cell.fg, cell.bold, cell.italics)
                seen.append((cell.bg, lines, () if blank and not any(lines) else letters))
        return seen


@pytest.mark.parametrize("seed", range(20))
def test_reduced_frames_show_what_the_frames_show(seed: int) -> None:
    """Any sequence of partial and whole frames, wide characters and foreign sequences."""
    chance = random.Random(seed)
    plain, reduced, reducer = Screen(), Screen(), FrameReducer()
    sent = received = 0
    for number in range(120):
        kind = chance.random()
        if number == 0 or kind < 0.03:
            frame = whole_frame(chance)
        elif kind < 0.06:
            frame = "\x1b]52;c;YQ==\x07"
        else:
            pieces = (*PIECES, *WIDE) if seed % 2 else PIECES
            frame = partial_frame(chance, pieces)
        short = reducer.reduce(frame)
        assert reduced.show(short) == plain.show(frame), (number, frame, short)
        sent, received = sent + len(frame), received + len(short)
    assert received < sent


def test_an_equal_frame_only_places_the_cursor() -> None:
    reducer = FrameReducer()
    frame = f"{place(3, 5)}{drawn('█' * 8, STYLES[7])}{drawn('···', STYLES[8])}{place(1, 1)}"
    assert len(reducer.reduce(frame)) > len(place(1, 1))
    assert reducer.reduce(frame) == place(1, 1)


def test_only_cells_that_differ_are_written() -> None:
    reducer = FrameReducer()
    head, tail = place(3, 1), place(1, 1)
    reducer.reduce(f"{head}{drawn('cuda:0 50/140.4G  56°C', STYLES[0])}{tail}")
    found = reducer.reduce(f"{head}{drawn('cuda:0 51/140.4G  57°C', STYLES[0])}{tail}")
    assert found == f"{place(3, 9)}1\x1b[10C7{tail}"


def test_a_style_is_written_as_its_difference() -> None:
    """Of two full colors, only the one that changes."""
    reducer = FrameReducer()
    found = reducer.reduce(
        f"{place(3, 1)}{drawn('a', STYLES[7])}{drawn('b', STYLES[8])}{place(1, 1)}"
    )
    assert found.count("48;2;17;21;28") == 1
    assert "\x1b[38;2;127;220;138mb" in found


def test_what_is_unknown_is_passed_on_and_drawn_again_after() -> None:
    reducer = FrameReducer()
    frame = f"{place(3, 1)}text{place(1, 1)}"
    first = reducer.reduce(frame)
    assert reducer.reduce("\x1b[?1049h") == "\x1b[?1049h"
    assert reducer.reduce(frame) == first
    # The two that surround a frame do not touch the screen.
    assert reducer.reduce("\x1b[?2026h") == "\x1b[?2026h"
    assert reducer.reduce(frame) == place(1, 1)


def test_a_frame_of_the_whole_screen_repairs_what_others_wrote() -> None:
    """It is drawn in full although nothing has changed."""
    chance = random.Random(1)
    frame = whole_frame(chance)
    reducer = FrameReducer()
    reducer.reduce(frame)
    screen = Screen()
    expected = screen.show(frame)
    screen.show(f"{place(4, 3)}a message of the kernel")
    assert screen.show(reducer.reduce(frame)) == expected


def test_an_unknown_style_is_not_understood() -> None:
    assert parse_pen("38;9;1") is None
    assert parse_pen("38;2;1") is None
    assert parse_pen("200") is None


def test_the_end_of_bold_leaves_dim() -> None:
    """One sequence ends both."""
    both, dim = parse_pen("1;2"), parse_pen("2")
    assert both == Pen(frozenset({"1", "2"}))
    assert both is not None
    assert dim is not None
    assert change_pen(both, dim) in ("\x1b[22;2m", "\x1b[;2m")
    assert change_pen(both, PLAIN) == "\x1b[m"
