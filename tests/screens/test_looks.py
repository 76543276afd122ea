"""How it looks where text alone does not tell: dark, light, without colours, in plain ASCII.

The pictures are kept in ``tests/screens/looks``; after a wanted change write them anew and look:

    GPU_WORKBENCH_UPDATE_GOLDEN=1 pytest tests/screens/test_looks.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.scrollbar import ScrollBar

from tests.screens.app_helpers import running
from tests.screens.test_golden import UPDATE, busy_events
from tui.core.text import glyphs

FOLDER = Path(__file__).with_name("looks")
LOOKS = ("dark", "light", "no-colour", "ascii")
THEMES = {"light": "textual-light"}


def normalised(svg: str) -> str:
    """Without the number that tells a picture's names from those of others on the same page."""
    return re.sub(r"terminal-\d+", "terminal", svg)


@pytest.mark.parametrize("look", LOOKS)
async def test_the_picture_is_as_it_was(look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if look == "no-colour":
        monkeypatch.setenv("NO_COLOR", "1")
    if look == "ascii":
        monkeypatch.setattr(glyphs, "GLYPHS", glyphs.ASCII)
        monkeypatch.setattr(ScrollBar, "renderer", ScrollBar.renderer)
    async with running((80, 24), "two gpus", *busy_events()) as on:
        on.app.theme = THEMES.get(look, on.app.theme)
        await on.settle()
        picture = normalised(on.app.export_screenshot())
        text = on.text
    path = FOLDER / f"{look}.svg"
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(picture, encoding="utf-8")
    # Not as an assertion on the texts, whose difference would be told at length.
    same = picture == path.read_text(encoding="utf-8")
    assert same, f"{path.name} differs; see the folder's test for how to write it anew"
    if look == "ascii":
        assert text.isascii()


def test_no_picture_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(LOOKS)
