"""Themes on terminals with 256 or 16 colors: without COLORTERM most say no more over SSH."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color, ColorType
from rich.console import Console
from textual.theme import BUILTIN_THEMES

from tests.screens.app_helpers import running
from tests.screens.helpers import screen_strips
from tui.core.settings import OWN_PALETTE, THEME
from tui.kit.few_colors import TABLE, nearest
from tui.kit.themes import theme_for

NAMED = sorted(name for name in BUILTIN_THEMES if not name.startswith("ansi"))


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_the_nearest_is_one_that_every_terminal_has_and_near(colour: tuple[int, int, int]) -> None:
    actual = nearest(colour)
    assert 16 <= actual < 256
    # The most among all colors is 69, of (137, 47, 48).
    assert max(abs(a - b) for a, b in zip(colour, TABLE[actual - 16], strict=True)) <= 69


def test_a_colour_that_the_terminal_has_stays_as_it_is() -> None:
    assert len(TABLE) == 240
    assert [colour for colour in TABLE if TABLE[nearest(colour) - 16] != colour] == []


@pytest.mark.parametrize("name", NAMED)
def test_no_theme_turns_black_or_into_another_colour_of_256(name: str) -> None:
    background = BUILTIN_THEMES[name].to_color_system().generate()["background"]
    triplet = Color.parse(background[:7]).triplet
    assert triplet is not None
    shown = TABLE[nearest((triplet.red, triplet.green, triplet.blue)) - 16]
    assert sum(shown) > 0
    assert max(shown) - min(shown) <= max(triplet) - min(triplet) + 20


@pytest.mark.parametrize(
    ("system", "kinds"),
    [
        ("256", {ColorType.EIGHT_BIT}),
        # Data have some of the 256, whose numbers are shorter.
        ("truecolor", {ColorType.TRUECOLOR, ColorType.EIGHT_BIT}),
    ],
)
async def test_what_is_drawn_has_the_colours_that_the_terminal_has(
    system: str, kinds: set[ColorType]
) -> None:
    async with running((80, 24)) as on:
        on.app.console = Console(color_system=system, file=StringIO(), force_terminal=True)  # type: ignore[arg-type]
        on.app.theme = "tokyo-night"
        await on.settle()
        await on.resize(90, 24)
        segments = [segment for strip in screen_strips(on.app) for segment in strip]
        actual = {
            colour.type
            for segment in segments
            if segment.style is not None
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None
        }
        assert actual <= kinds
        assert any(segment.style and segment.style.bgcolor for segment in segments)


@pytest.mark.parametrize(
    ("chosen", "system", "expected"),
    [
        (THEME, "standard", OWN_PALETTE),
        ("tokyo-night", "standard", OWN_PALETTE),
        ("ansi-light", "standard", "ansi-light"),
        (OWN_PALETTE, "standard", OWN_PALETTE),
        ("tokyo-night", "256", "tokyo-night"),
        (THEME, None, THEME),
    ],
)
def test_sixteen_colors_are_the_users_own(chosen: str, system: str | None, expected: str) -> None:
    assert theme_for(chosen, system) == expected
