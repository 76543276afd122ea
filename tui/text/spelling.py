"""What is written for a character that the encoding of a stream does not have."""

from __future__ import annotations

import codecs

from tui.text.glyphs import ASCII, UNICODE

NAME = "gpu-workbench.spelled-out"
"""Of the error handler, for ``errors=`` of a text stream."""

_WORDS = {
    UNICODE.ellipsis: ASCII.ellipsis,
    UNICODE.dash: ASCII.dash,
    UNICODE.arrow: ASCII.arrow,
    UNICODE.degree: ASCII.degree,
    UNICODE.micro: ASCII.micro,
    UNICODE.plus_minus: ASCII.plus_minus,
    UNICODE.at_most: ASCII.at_most,
    "\N{GREEK SMALL LETTER MU}": ASCII.micro,
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{SQUARE ROOT}": "sqrt",
    "\N{MIDDLE DOT}": "*",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{EN DASH}": "-",
    "\N{MINUS SIGN}": "-",
}
"""So that a unit and a sign can be read: ``3.1 us``, not ``3.1 ?s``."""


def _spelled_out(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_WORDS.get(character, "?") for character in lacking), error.end


codecs.register_error(NAME, _spelled_out)
