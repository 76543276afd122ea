"""A scroll bar of whole cells, for terminals that cannot draw block elements."""

from __future__ import annotations

from typing import ClassVar

from textual.scrollbar import ScrollBarRender


class AsciiScrollBar(ScrollBarRender):
    """The thumb moves by whole cells and is told apart by its background."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8
    BLANK_GLYPH: ClassVar[str] = " "
