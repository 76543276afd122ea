"""What holds for every test: the terminal draws block elements, whatever this one can do."""

from __future__ import annotations

import pytest

from tui import glyphs


@pytest.fixture(autouse=True)
def _unicode_glyphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "GLYPHS", glyphs.UNICODE)
