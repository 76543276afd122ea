"""Size formats for sentences."""

from __future__ import annotations

from tui.core.text.numbers import size as text


def round_words(size: int) -> str:
    """Format a size without a zero decimal: ``32 MiB``."""
    return text(size).replace(".0 ", " ")
