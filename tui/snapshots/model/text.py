"""What a file calls things, made fit to be shown: one line, no control characters, bounded."""

from __future__ import annotations

LONGEST = 4096
"""Characters that are kept of any name in a file; a longer one ends in an ellipsis."""

_MOST_ITEMS = 64
_MOST_BITS = 1024


class _Table(dict[int, str]):
    # Asked only for characters of strings that are not printable, so speed does not matter.
    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in "\t\n\r":
            return " "
        return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"


_TABLE = _Table()


def clean(text: str) -> str:
    """Text without line ends, escapes, lone surrogates or marks that turn its direction.

    Stricter than what a screen needs (:func:`tui.text.clean.clean`), since it is written into
    reports and JSON too: every character that Python does not call printable is replaced.
    """
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return text if text.isprintable() else text.translate(_TABLE)


def of(value: object) -> str:
    """Any value of a file as text: scalars and strings whole, of containers one level."""
    if isinstance(value, dict):
        items = list(zip(value.items(), range(_MOST_ITEMS), strict=False))
        return clean(", ".join(f"{_scalar(k)}:{_scalar(v)}" for (k, v), _ in items))
    if isinstance(value, (list, tuple)):
        return clean(", ".join(_scalar(item) for item in value[:_MOST_ITEMS]))
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        # Python refuses to print very large integers, and nobody wants to read them.
        large = value.bit_length() > _MOST_BITS
        return f"an integer of {value.bit_length()} bits" if large else str(value)
    if isinstance(value, float) or value is None:
        return str(value)
    return kind(value)


def kind(value: object) -> str:
    """What a value is, for a message: ``a list``, ``an int``, ``None``."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
