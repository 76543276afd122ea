"""A frame in fewer bytes: what the framework draws, for a slow link.

The framework cuts what it draws again at the right end of what changed and not at the left, and
sets and resets the style of every piece. Both are made up for here, where its frame becomes text.
"""

from __future__ import annotations

import re

from rich.console import Console
from rich.control import Control

from tui.terminal.textual_private import ChopsUpdate, CompositorUpdate

_STYLE = re.compile(r"\x1b\[([0-9;:]*)m")
_MOVE = re.compile(r"\x1b\[[0-9;]*H")


class FrugalUpdate(CompositorUpdate):
    """Draws what another update draws.

    Args:
        update: the framework's.
    """

    def __init__(self, update: CompositorUpdate) -> None:
        self._update = update

    def render_segments(self, console: Console) -> str:
        """The frame as it goes to the terminal."""
        update = self._update
        if isinstance(update, ChopsUpdate):
            return with_few_styles(_changed_cells(update, console))
        return with_few_styles(update.render_segments(console))


def _changed_cells(update: ChopsUpdate, console: Console) -> str:
    """As ``ChopsUpdate.render_segments``, cut at the left end too."""
    parts: list[str] = []
    for row, left, right in update.spans:
        line, ends = update.chops[row], update.chop_ends[row]
        for end, (begin, strip) in zip(ends, line.items(), strict=False):
            if strip is None or begin >= right or end <= left:
                continue
            start, stop = max(left, begin), min(right, end)
            piece = strip.crop(start - begin, stop - begin)
            parts += [Control.move_to(start, row).segment.text, piece.render(console)]
    return "".join(parts)


def with_few_styles(frame: str) -> str:
    """The same frame, where a style is written only if it differs from the one before it.

    Args:
        frame: text in which every piece follows the whole of its style and a reset comes after it.
    """
    parts: list[str] = []
    wanted = written = ""
    at = 0
    for found in _STYLE.finditer(frame):
        wanted, written = _text(frame[at : found.start()], parts, wanted, written)
        wanted, at = found[1].strip("0") and found[1], found.end()
    _, written = _text(frame[at:], parts, wanted, written)
    if written:
        parts.append("\x1b[0m")
    return "".join(parts)


def _text(text: str, parts: list[str], wanted: str, written: str) -> tuple[str, str]:
    """Write what stands between two styles; a style only where something is drawn in it."""
    if text and _MOVE.sub("", text) and wanted != written:
        joined = ";".join(filter(None, ["0" if written else "", wanted]))
        moves = _MOVE.match(text)
        head = moves[0] if moves else ""
        parts += [head, f"\x1b[{joined}m", text[len(head) :]]
        return wanted, wanted
    parts.append(text)
    return wanted, written
