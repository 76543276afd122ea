"""Allocation sites with the letters and colors of the timeline's layers, and bars of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.bars import draw_bar
from tui.kit.lines import LAYERS, ON_LAYERS, Line, Span, TextStyle, cell_len, fit_line, left, line

LETTERS = "ABCDEF"
OTHERS = {False: "·", True: "o"}
"""Glyph for the combined remainder, in place of a letter; the key is true for ASCII glyphs."""
LEAST_BAR, MOST_BAR = 4, 32
"""Cells of the bar of the site with the most memory."""
SITE_CELLS = 21
"""Cells of a line of a site beside its bar and its name."""


def layer_letter(rank: int | None) -> str:
    """Return the letter of the layer with a rank; ``None`` stands for the rest."""
    return OTHERS[glyphs.GLYPHS.ascii] if rank is None else LETTERS[rank % len(LETTERS)]


def layer_area(rank: int | None) -> TextStyle:
    """Return the color of the layer with a rank."""
    return TextStyle.LAYER_REST if rank is None else LAYERS[rank % len(LAYERS)]


def on_layer(rank: int | None) -> TextStyle:
    """Return the style of a letter on that color."""
    return TextStyle.ON_LAYER_REST if rank is None else ON_LAYERS[rank % len(ON_LAYERS)]


def chip(rank: int | None) -> Span:
    """Draw the letter of a layer on its color."""
    return Span(f" {layer_letter(rank)} ", on_layer(rank))


@dataclass(frozen=True, slots=True)
class SiteBar:
    """One line of a list of sites."""

    label: str
    rank: int | None
    """Rank of its layer in the timeline; ``None`` without one."""
    bytes: int
    words: str = ""
    """They stand behind the label where there is room."""
    is_quiet: bool = False


def site_bar_lines(sites: Sequence[SiteBar], whole: int, cells: int, rows: int) -> list[Line]:
    """Draw a line for each site: letter, bar, bytes, share and label.

    Args:
        sites: the largest first.
        whole: bytes of which the shares are.
        cells: width of a line.
        rows: the most lines; the last one counts what has none.
    """
    shown = sites[: rows if len(sites) <= rows else max(0, rows - 1)]
    names = max((cell_len(site.label + site.words) for site in shown), default=0)
    has_words = names + SITE_CELLS + LEAST_BAR <= cells
    if not has_words:
        names = max((cell_len(site.label) for site in shown), default=0)
    bar_cells = max(LEAST_BAR, min(MOST_BAR, cells - SITE_CELLS - names))
    most = max(1, max((site.bytes for site in shown), default=1))
    drawn = []
    for site in shown:
        style = TextStyle.QUIET if site.is_quiet else TextStyle.PLAIN
        share = text.share(site.bytes / whole if whole else None)
        bar = left(draw_bar(site.bytes / most, bar_cells), bar_cells)
        row = line(
            chip(site.rank),
            " ",
            Span(bar, layer_area(site.rank)),
            Span(f" {text.size(site.bytes):>9} {share:>4}  ", style),
            Span(site.label, style),
            Span(site.words if has_words else "", TextStyle.QUIET),
        )
        drawn.append(fit_line(row, cells))
    if (rest := sites[len(drawn) :]) and rows:
        words = f"{text.count(len(rest))} more: {text.size(sum(site.bytes for site in rest))}"
        drawn.append(fit_line(line(Span(f"    {words}", TextStyle.QUIET)), cells))
    return drawn
