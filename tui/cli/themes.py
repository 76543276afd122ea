"""Whether there is the theme that the settings name. Imports Textual, which has the themes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.theme import BUILTIN_THEMES

from tui.cli.errors import UsageError
from tui.cli.nearest import not_known
from tui.settings import THEME, Settings

PICKER = "T in the workbench"


def with_theme(chosen: Settings, problems: Sequence[str]) -> tuple[Settings, tuple[str, ...]]:
    """The settings with a theme that there is.

    Raises:
        UsageError: the command line names one that there is not.
    """
    item = chosen.chosen["theme"]
    if item.value in BUILTIN_THEMES:
        return chosen, tuple(problems)
    themes = sorted(BUILTIN_THEMES)
    problem = f"{item.source}: {not_known('theme', str(item.value), themes, PICKER)}"
    if item.source == "--theme":
        raise UsageError(problem)
    default = replace(item, value=THEME, source="default")
    found = replace(chosen, chosen={**chosen.chosen, "theme": default})
    return found, (*problems, f"{problem}; {THEME} is used")
