"""The characters that are drawn besides letters, decided once: block elements or plain ASCII."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Mapping

from workloads.fact import fact

VARIABLE = "GPU_WORKBENCH_ASCII"
"""Set to anything but nothing, 0, no or false, it asks for ASCII; ``--ascii`` sets it."""


@fact
class Glyphs:
    """One character set. Every single glyph is one cell wide."""

    ascii: bool
    horizontal: str
    """Parts of a cell filled from the left, in even steps; the last is a full cell."""
    vertical: str
    """Parts of a cell filled from below, in even steps; the last is a full cell."""
    zero: str
    """Stands where a level is zero, so that it differs from no level at all."""
    slices: Mapping[str, str]
    """How the parts of a device's memory are filled, by the slice's key."""
    unknown: str
    selected: str
    folded: str
    unfolded: str
    rule: str
    ellipsis: str
    dash: str
    arrow: str
    degree: str
    micro: str
    plus_minus: str
    at_most: str
    warning: str


UNICODE = Glyphs(
    ascii=False,
    horizontal="▏▎▍▌▋▊▉█",
    vertical="▁▂▃▄▅▆▇█",
    zero="·",
    slices={
        "allocated": "█",
        "unique": "█",
        "cached": "▓",
        "shared": "▓",
        "context": "▒",
        "process": "▒",
        "others": "░",
        "process_and_others": "░",
        "unattributed": "?",
        "driver": "▞",
        "free": "·",
        "unknown": "?",
    },
    unknown="?",
    selected="▸",
    folded="▸",
    unfolded="▾",
    rule="─",
    ellipsis="…",
    dash="–",
    arrow="→",
    degree="°",
    micro="µ",
    plus_minus="±",
    at_most="≤",
    warning="!",
)

ASCII = Glyphs(
    ascii=True,
    horizontal="-=#",
    vertical=".:-=+*%#",
    zero="_",
    slices={
        "allocated": "#",
        "unique": "#",
        "cached": "=",
        "shared": "=",
        "context": "+",
        "process": "+",
        "others": "o",
        "process_and_others": "o",
        "unattributed": "?",
        "driver": "%",
        "free": ".",
        "unknown": "?",
    },
    unknown="?",
    selected=">",
    folded=">",
    unfolded="v",
    rule="-",
    ellipsis="...",
    dash="-",
    arrow="->",
    degree=" ",
    micro="u",
    plus_minus="+/-",
    at_most="<=",
    warning="!",
)


def choose(environ: Mapping[str, str], encoding: str | None) -> Glyphs:
    """ASCII where it was asked for or where the terminal's encoding is not UTF-8.

    Args:
        environ: the process's environment.
        encoding: of the stream that the screen is drawn on, which is standard error.
    """
    asked = environ.get(VARIABLE, "").strip().lower() not in ("", "0", "no", "false")
    return ASCII if asked or not _is_utf8(encoding) else UNICODE


def _is_utf8(encoding: str | None) -> bool:
    if encoding is None:
        return False
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


GLYPHS = choose(os.environ, getattr(sys.__stderr__, "encoding", None))
"""What this process draws with. Read it as ``glyphs.GLYPHS``, at the time of drawing."""
