"""How wide a text is drawn. Pure."""

from __future__ import annotations

from rich import cells


def cell_len(text: str) -> int:
    """Cells of a terminal's row that a text takes.

    What is plain is counted here: the library keeps the 4096 texts that it measured last, and the
    pieces of a paragraph that is being wrapped do not come again.
    """
    if text.isascii() and text.isprintable():
        return len(text)
    return cells.cell_len(text)
