"""The characters on the screen: glyphs for drawing, and the cleaning of untrusted text.

Characters missing in a stream's encoding are spelled out; those that move the cursor or change the
writing direction are replaced.
"""

from __future__ import annotations

import codecs
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

VARIABLE = "GPU_WORKBENCH_ASCII"
"""Variable that requests ASCII unless empty, 0, no or false; ``--ascii`` sets it."""
COERCED = "C.UTF-8"
"""Python's value of LC_CTYPE in place of C."""


class IntervalGlyphs(NamedTuple):
    """Glyphs for an interval on a line around one."""

    line: str
    one: str
    low: str
    inside: str
    one_inside: str
    high: str


class Glyphs(NamedTuple):
    """One character set. Every single glyph is one cell wide."""

    ascii: bool
    horizontal: str
    """Parts of a cell filled from the left, in even steps; the last is a full cell."""
    vertical: str
    """Parts of a cell filled from below, in even steps; the last is a full cell."""
    gauge: str
    """A filled cell of a gauge."""
    trace: str
    """Half a filled cell of a gauge, which also stands for any smaller share above zero."""
    shade: str
    """Fills the area between the mean and the highest reading of a history."""
    zero: str
    """Marks a level of zero, to distinguish it from an unknown level."""
    slices: Mapping[str, str]
    """Fill characters of the parts of a device's memory, by the slice's key."""
    selected: str
    folded: str
    unfolded: str
    sorts: str
    """Behind the name of the column that sorts a table."""
    continued: str
    """Precedes the rest of a line of code that is wrapped."""
    rule: str
    ellipsis: str
    dash: str
    arrow: str
    degree: str
    micro: str
    plus_minus: str
    at_most: str
    warning: str
    """Precedes a problem."""
    limit: str
    """Precedes a figure that is near or at its limit."""
    marks: str
    """Marks of the curves of a chart, which distinguish them without color."""
    shared: str
    """Marks a cell with two curves."""
    wall: str
    """The left edge of a chart."""
    wall_tick: str
    """A value on a chart's left edge."""
    steps: str
    """Corners of a line with steps: the end and the start of a rise, then of a fall."""
    branch: str
    """Leads to a part of a tree that others follow."""
    corner: str
    tick: str
    """A place on a chart's lower edge."""
    interval: IntervalGlyphs


UNICODE = Glyphs(
    ascii=False,
    horizontal="▏▎▍▌▋▊▉█",
    vertical="▁▂▃▄▅▆▇█",
    gauge="■",
    trace="╸",
    shade="░",
    zero="·",
    slices={
        "allocated": "█",
        "unique": "█",
        "cached": "▓",
        "workspace": "▚",
        "shared": "▓",
        "context": "▒",
        "process": "▒",
        "ours": "╬",
        "others": "░",
        "other_allocated": "┃",
        "other_cached": "│",
        "other_context": "┊",
        "process_and_others": "░",
        "unattributed": "╱",
        "driver": "▞",
        "free": "·",
        "unknown": "╲",
    },
    selected="▸",
    folded="▸",
    unfolded="▾",
    sorts="▾",
    continued="↳",
    rule="─",
    ellipsis="…",
    dash="–",
    arrow="→",
    degree="°",
    micro="µ",
    plus_minus="±",
    at_most="≤",
    warning="!",
    limit="▴",
    marks="●○×+◆◇▲△",
    shared="◉",
    wall="│",
    wall_tick="┤",
    steps="┘┌┐└",
    branch="├",
    corner="└",
    tick="┬",
    interval=IntervalGlyphs("╌", "│", "├", "─", "┼", "┤"),
)

ASCII = Glyphs(
    ascii=True,
    horizontal="-=#",
    vertical="_:-=+*%#",
    gauge="#",
    trace="-",
    shade="'",
    zero=".",
    slices={
        "allocated": "#",
        "unique": "#",
        "cached": "=",
        "workspace": "w",
        "shared": "=",
        "context": "+",
        "process": "+",
        "ours": "&",
        "others": "o",
        "other_allocated": "A",
        "other_cached": "C",
        "other_context": "X",
        "process_and_others": "o",
        "unattributed": "u",
        "driver": "%",
        "free": ".",
        "unknown": "x",
    },
    selected=">",
    folded=">",
    unfolded="v",
    sorts="<",
    continued=">",
    rule="-",
    ellipsis="...",
    dash="-",
    arrow="->",
    degree=" ",
    micro="u",
    plus_minus="+/-",
    at_most="<=",
    warning="!",
    limit="^",
    marks="*ox+#@%$",
    shared="&",
    wall="|",
    wall_tick="+",
    steps="++++",
    branch="+",
    corner="+",
    tick="+",
    interval=IntervalGlyphs(".", "|", "[", "=", "+", "]"),
)


def choose(environ: Mapping[str, str], encoding: str | None) -> Glyphs:
    """Choose ASCII if it was requested, or if the terminal's encoding is not UTF-8.

    A locale named C or POSIX requests it too, although Python itself then writes UTF-8
    (PEP 538, PEP 540). If no locale is named, as in most containers, the terminal is modern.

    Args:
        environ: the process's environment.
        encoding: encoding of the stream that the screen is drawn on, which is standard error.
    """
    wants_ascii = environ.get(VARIABLE, "").strip().lower() not in ("", "0", "no", "false")
    return ASCII if wants_ascii or _plain_locale(environ) or not _is_utf8(encoding) else UNICODE


def _plain_locale(environ: Mapping[str, str]) -> bool:
    if environ.get("PYTHONUTF8") == "1" or environ.get("PYTHONIOENCODING"):
        return False
    named = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if named == COERCED and not environ.get("LC_ALL"):
        # Python itself sets LC_CTYPE if the locale is C, named or by default.
        named = environ.get("LANG") or named
    return named in ("C", "POSIX")


def _is_utf8(encoding: str | None) -> bool:
    if encoding is None:
        return False
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


def use_ascii() -> None:
    """Draw with ASCII from now on, here and in the children."""
    global GLYPHS
    os.environ[VARIABLE] = "1"
    GLYPHS = ASCII


GLYPHS = choose(os.environ, getattr(sys.__stderr__, "encoding", None))
"""The characters of this process. Read it as ``glyphs.GLYPHS`` at the time of drawing."""


SPELLED_OUT = "gpu-workbench.spelled-out"
"""Name of the error handler, for ``errors=`` of a text stream."""

_WORDS = {
    UNICODE.ellipsis: ASCII.ellipsis,
    UNICODE.dash: ASCII.dash,
    UNICODE.arrow: ASCII.arrow,
    UNICODE.continued: ASCII.continued,
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
"""Keeps units and signs readable: ``3.1 us``, not ``3.1 ?s``."""


def _spelled_out(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_WORDS.get(character, "?") for character in lacking), error.end


codecs.register_error(SPELLED_OUT, _spelled_out)


_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
_WITHOUT_MEANING = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
"""Categories of Unicode: controls, surrogates, private, unassigned, separators of lines."""


def clean(text: str) -> str:
    """Return the text on one line, without characters that move or reverse the cursor."""
    # Every character that `_harmless` replaces is unprintable to Python.
    if text.isprintable():
        return text
    return "".join(_harmless(character) for character in text)


def rows_of_text(rows: Iterable[str]) -> str:
    """Return the rows as text, each on one line even if it contains line breaks."""
    return "".join(f"{clean(row)}\n" for row in rows)


def _harmless(character: str) -> str:
    if character in "\n\r\t\v\f":
        return " "
    if character in _BIDI or unicodedata.category(character) in _WITHOUT_MEANING:
        return "?"
    return character


def escape_markdown(content: str) -> str:
    """Escape text so that it stays on one line, ends no cell of a table and begins no markup."""
    words = " ".join(content.split())
    return "".join(f"\\{letter}" if letter in "|\\`*_<>[]" else letter for letter in words)
