"""The program's own themes, and the colors that it derives from others."""

from __future__ import annotations

from dataclasses import replace

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from tui.core.settings import OWN_PALETTE, THEME
from tui.kit.styles import LIGHT_GROUND, OWN_GROUND, Ground

DARK = Theme(
    name=THEME,
    primary="#45597a",
    secondary="#7aa2f7",
    accent="#7aa2f7",
    success="#4fd6be",
    warning="#ffc45c",
    error="#ff6b70",
    foreground="#e4e4e4",
    background="#11151c",
    surface="#171c26",
    panel="#1e2532",
    dark=True,
    variables={"text-success": "#4fd6be"},
)
"""Colored data on nearly black; rules are fainter than the parts that they separate."""
OWN_COLORS = replace(BUILTIN_THEMES["ansi-dark"], name=OWN_PALETTE, primary="ansi_cyan")
"""The terminal's sixteen colors; rules are cyan, because blue is hard to see on black."""
THEMES = (DARK, OWN_COLORS)


def theme_for(chosen: str, color_system: str | None) -> str:
    """Return the theme to start with: the chosen one if the terminal has colors for it.

    Args:
        chosen: the theme in the settings.
        color_system: the terminal's colors by Rich's name; "standard" is 16 colors.
    """
    named = chosen == OWN_PALETTE or chosen.startswith("ansi")
    return OWN_PALETTE if color_system == "standard" and not named else chosen


NEARLY_BLACK = 0.12
"""Brightness of the darkest backgrounds, on which a row is marked by a lighter one."""
LIGHTER = 0.1
"""By how much a marked row is brighter there, so that all text in it can be read."""
DARKER = 0.4
"""Share of black in a marked row on other dark backgrounds, for the same reason."""


def find_ground(theme: Theme) -> Ground:
    """Return what data are drawn on in a theme with colors of its own."""
    if theme.name == THEME:
        return OWN_GROUND
    if not theme.dark:
        return LIGHT_GROUND
    background, primary = (_parse(theme, name) for name in ("background", "primary"))
    other, share = Color(0, 0, 0), DARKER
    if background.brightness < NEARLY_BLACK:
        other, share = primary, LIGHTER / (primary.brightness - background.brightness)
    cursor, place = (background.blend(other, part) for part in (share, share / 2))
    return Ground(
        (background.r, background.g, background.b),
        Style(bgcolor=cursor.hex),
        Style(bgcolor=place.hex),
    )


def find_frame_color(theme: Theme) -> str:
    """Return the color of rules and frames, which are fainter than what they separate."""
    if theme.name == THEME or theme.ansi:
        return theme.primary
    return _parse(theme, "background").blend(_parse(theme, "primary"), 0.5).hex


def _parse(theme: Theme, name: str) -> Color:
    """Return a color that a theme has, or that Textual derives for it."""
    return Color.parse(theme.to_color_system().generate()[name])
