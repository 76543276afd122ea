"""Text can be read: 4.5:1 at least, as it is drawn, in the palettes that terminals have."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.color import Color
from rich.console import Console
from rich.style import Style
from textual.theme import BUILTIN_THEMES

from tests.screens.app_helpers import running
from tests.screens.contrast import DARK, LEAST, LIGHT, Palette, contrast, ratio, texts
from tests.screens.test_golden import busy_events
from tests.screens.watched import ScriptedRuns, kept_run, ran_out, unread, watched
from tests.tiers import with_variants
from tui.core.settings import OWN_PALETTE, THEME
from tui.kit import styles as looks
from tui.kit import styles as text_styles
from tui.kit.lines import (
    EDGES,
    FAINT_AREAS,
    FULL_REACHES,
    LAYERS,
    NEXT_LAYERS,
    REACHES,
    SLATES,
    TextStyle,
)
from tui.kit.styles import IN_DARK_COLORS, IN_OWN_COLORS, LIGHT_GROUND
from tui.kit.themes import THEMES, find_ground

STATES: dict[str, tuple[str, ...]] = {
    "workbench": (),
    "switches": ("F",),
    "detail": ("i",),
    "log": ("l",),
    "filter": ("slash",),
    "parameters": ("equals_sign",),
    "copied": ("y",),
    "memory": ("2",),
    "snapshot": ("3",),
    "file": ("3", "o"),
    "processes": ("4",),
    "runs": ("5",),
    "run": ("5", "enter"),
    "end of a run": ("5", "enter", "x"),
    "help": ("question_mark",),
    "palette": ("colon",),
    "present": ("D",),
}
PALETTES = {OWN_PALETTE: DARK, "ansi-light": LIGHT}
ELSEWHERE = ("workbench", "parameters", "copied", "memory", "help", "palette")
"""What is looked at in themes that are not the default: each widget with colours of its own."""
TRUECOLOR = (THEME, "textual-dark", "textual-light")


BLOCKS = (
    TextStyle.LAYER_REST,
    TextStyle.NEXT_LAYER_REST,
    *NEXT_LAYERS,
    *(gap for _, gap in SLATES),
    *EDGES.values(),
)
"""Styles of areas and of the gaps in them, in which nothing is written."""


def too_faint(style: Style, palettes: dict[str, Palette], least: float) -> dict[str, float]:
    """Return the terminals in which the style is too faint, with its contrast there."""
    ratios = {name: contrast(style, palette) for name, palette in palettes.items()}
    return {name: round(actual, 2) for name, actual in ratios.items() if actual < least}


@pytest.mark.parametrize(
    "theme", with_variants(["ansi-light", THEME], [OWN_PALETTE, *TRUECOLOR[1:]])
)
async def test_text_has_contrast_in_every_state_of_the_screen(theme: str) -> None:
    palettes = PALETTES.get(theme, {"truecolor": DARK["xterm"]})
    faint = {}
    runs = ScriptedRuns(kept_run(), opens=watched(ran_out(), unread()))
    async with running((100, 30), "two gpus", *busy_events(), runs=runs) as on:
        on.app.console = Console(color_system="truecolor", file=StringIO(), force_terminal=True)
        for name in (OWN_PALETTE, "textual-dark", theme):
            on.app.theme = name
        for state in STATES if theme == THEME else ELSEWHERE:
            await on.press(*STATES[state])
            for text, style, least in texts(on.app):
                if actual := too_faint(style, palettes, least):
                    faint[state, text.strip(), str(style)] = actual
            await on.press("escape", "escape", "1", "w")
    assert not faint


def test_text_can_be_read_on_the_cursor_s_row_of_a_light_theme() -> None:
    under = LIGHT_GROUND.cursor.bgcolor
    assert under is not None
    blocks = (*BLOCKS, *LAYERS, *FAINT_AREAS.values(), *REACHES.values())
    for name, style in text_styles.IN_LIGHT_COLORS.items():
        if style.color is not None and style.bgcolor is None and name not in blocks:
            front, back = style.color.get_truecolor(), under.get_truecolor()
            assert ratio(front, back) >= LEAST, name


DARK_THEMES = {
    theme.name: theme
    for theme in (*BUILTIN_THEMES.values(), *THEMES)
    if theme.dark and not theme.ansi
}


@pytest.mark.parametrize("name", sorted(DARK_THEMES))
def test_data_can_be_read_in_each_dark_theme_also_under_the_cursor(name: str) -> None:
    ground = find_ground(DARK_THEMES[name])
    styles = IN_OWN_COLORS if name == THEME else IN_DARK_COLORS
    shades = (*REACHES.values(), *FULL_REACHES.values(), *FAINT_AREAS.values())
    faint = {}
    for under in (Color.from_rgb(*ground.background), ground.cursor.bgcolor, ground.place.bgcolor):
        assert under is not None
        for text_style, style in styles.items():
            if text_style in (TextStyle.REST, TextStyle.SYSTEM, *BLOCKS, *shades):
                continue  # blocks of a bar, a history or a plot, which nobody reads
            front, back = style.color, style.bgcolor or under
            if front is not None and front != back:  # else it is decoration
                actual = ratio(front.get_truecolor(), back.get_truecolor())
                if actual < LEAST:
                    faint[text_style, under.name] = round(actual, 2)
    assert not faint


@pytest.mark.parametrize("name", sorted(DARK_THEMES))
def test_the_row_under_the_cursor_is_seen_in_each_dark_theme(name: str) -> None:
    ground = find_ground(DARK_THEMES[name])
    assert ground.cursor.bgcolor is not None
    assert ratio(ground.cursor.bgcolor.get_truecolor(), ground.background) >= 1.15


BUILTIN = sorted(name for name, theme in BUILTIN_THEMES.items() if not theme.ansi)


@pytest.mark.parametrize("name", BUILTIN)
def test_the_styles_can_be_read_on_the_background_of_each_theme(name: str) -> None:
    theme = BUILTIN_THEMES[name].to_color_system().generate()
    background = Color.parse(theme["background"][:7])
    dark = BUILTIN_THEMES[name].dark
    palette = looks.PALETTE_ON_DARK if dark else looks.PALETTE_ON_LIGHT
    blocks = BLOCKS if dark else (*BLOCKS, *LAYERS, *FAINT_AREAS.values(), *REACHES.values())
    styles = text_styles.IN_TRUECOLOR if dark else text_styles.IN_LIGHT_COLORS
    for text_style, style in styles.items():
        under = style.bgcolor or background
        if style.color is not None and style.color != under and text_style not in blocks:
            shown, behind = style.color.get_truecolor(palette), under.get_truecolor(palette)
            assert ratio(shown, behind) >= LEAST


def test_what_is_chosen_looks_different_without_any_colour() -> None:
    for styles in (text_styles.ON_DARK, text_styles.ON_LIGHT, text_styles.IN_TRUECOLOR):
        reverse = {text_style for text_style, style in styles.items() if style.reverse}
        # Without colours the layers of a timeline are letters that nothing is laid under.
        assert {item for item in reverse if "layer" not in item.value} == {TextStyle.CURSOR}


def test_black_on_white_is_the_most_that_there_is() -> None:
    assert ratio((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert ratio((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)
