"""Sizes as sentences have them."""

from __future__ import annotations

from tui.core.text.numbers import size as text


def round_words(size: int) -> str:
    """``32 MiB``: a size without a decimal that is zero."""
    return text(size).replace(".0 ", " ")
