"""Text of strangers made harmless: what a name, a path or a message of others may hold."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
_WITHOUT_MEANING = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories of Unicode: controls, surrogates, private, unassigned, separators of lines."""


def clean(text: str) -> str:
    """The text on one line, without characters that move the cursor or turn the writing."""
    # No character of which `_harmless` makes another is printable to Python.
    if text.isprintable():
        return text
    return "".join(_harmless(character) for character in text)


def rows_of_text(rows: Iterable[str]) -> str:
    """The rows as text, each on one line whatever stands in it."""
    return "".join(f"{clean(row)}\n" for row in rows)


def _harmless(character: str) -> str:
    if character in "\n\r\t\v\f":
        return " "
    if character in _BIDI or unicodedata.category(character) in _WITHOUT_MEANING:
        return "?"
    return character
