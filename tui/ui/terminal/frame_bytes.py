"""A frame in fewer bytes, for a slow link.

The framework cuts what it draws again at the right end of what changed and not at the left. Here
both ends are cut. It also says of every piece of text that its colours are the terminal's own, and
takes back what was never set: here a style is what differs from none.
"""

from __future__ import annotations

import re

from rich.console import Console

from tui.ui.terminal.textual_private import ChopsUpdate, CompositorUpdate


class FrugalUpdate(CompositorUpdate):
    """Draws what another update draws, cut at the left end too.

    Args:
        update: the framework's.
    """

    def __init__(self, update: ChopsUpdate) -> None:
        self._update = update

    def render_segments(self, console: Console) -> str:
        """The frame as it goes to the terminal."""
        update = self._update
        parts: list[str] = []
        at: int | None = None
        for row, left, right in update.spans:
            line, ends = update.chops[row], update.chop_ends[row]
            for end, (begin, strip) in zip(ends, line.items(), strict=False):
                if strip is None or begin >= right or end <= left:
                    continue
                start, stop = max(left, begin), min(right, end)
                piece = strip.crop(start - begin, stop - begin)
                # Where a piece was drawn in the same row, the column alone tells the place.
                place = f"\x1b[{start + 1}G" if row == at else f"\x1b[{row + 1};{start + 1}H"
                parts += [place, piece.render(console)]
                at = row
        return frugal_styles("".join(parts))


_STYLES = re.compile(r"(?:\x1b\[[0-9;]*m)+")
_STYLE = re.compile(r"\x1b\[([0-9;]*)m")
_NONE = ("", "0")
_DEFAULTS = ("39", "49")
"""The terminal's own colours: what a reset leaves."""


def frugal_styles(drawn: str) -> str:
    """What looks the same with shorter and fewer styles.

    Args:
        drawn: text for a terminal on which no style is set; it leaves none, and sets each style
            after a reset, as Rich does.
    """
    is_set = False

    def shorter(found: re.Match[str]) -> str:
        nonlocal is_set
        *_, last = _STYLE.findall(found[0])
        codes = [] if last in _NONE else _without_defaults(last.split(";"))
        was_set, is_set = is_set, bool(codes)
        if not codes:
            return "\x1b[m" if was_set else ""
        return f"\x1b[{';'.join(['', *codes] if was_set else codes)}m"

    return _STYLES.sub(shorter, drawn)


def _without_defaults(codes: list[str]) -> list[str]:
    """The codes of one style without those that a reset has set; the parts of 38 and 48 stay."""
    kept: list[str] = []
    while codes:
        # 38;5;n and 38;2;r;g;b are one colour each; any of their numbers may be a 39.
        is_long = codes[0] in _LONG and len(codes) > 1
        count = _LENGTHS.get(codes[1], 1) if is_long else 1
        if count > 1 or codes[0] not in _DEFAULTS:
            kept += codes[:count]
        codes = codes[count:]
    return kept


_LENGTHS = {"5": 3, "2": 5}
"""How many numbers a colour is, by the second of them."""
_LONG = ("38", "48")
