"""Pictures of the screen as SVG that any program draws and that load nothing. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import groupby

from rich.cells import cell_len

from tui.kit.cell_shapes import SHADES, draw_cells, draws_cell, is_block

CELL, ROW, BASELINE = 12.2, 24.4, 18.5
"""Width and height of a cell in Rich's SVG, and how far below its top a text stands."""
_RUN = re.compile(
    r'<text class="([\w-]+)" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+"'
    r' clip-path="([^"]*)">([^<]*)</text>'
)


def make_portable(svg: str) -> str:
    """Return Rich's SVG with the reader's own font, and the same class names in each run.

    Rich's loads a font from a server, also where a page shows it. A text starts at its first
    letter, because some programs that draw SVG, such as librsvg, leave out blanks before it. Bars,
    plots and frames become shapes, because a font's characters leave gaps between rows.

    Args:
        svg: from ``App.export_screenshot``.
    """
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    svg = _RUN.sub(_redraw, svg)
    return svg.replace("Fira Code, monospace", "monospace").replace("Fira Code", "monospace")


def _redraw(run: re.Match[str]) -> str:
    """Return a run of characters in one style as texts and shapes."""
    style, left, baseline, clip, escaped = run.groups()
    x, y = float(left), float(baseline)
    drawn = ""
    for piece in _split(html.unescape(escaped).rstrip("\n")):
        if draws_cell(piece[0]):
            path = draw_cells(piece[0], len(piece), x, y - BASELINE, CELL, ROW)
            look = ' shape-rendering="crispEdges"' if is_block(piece[0]) else ""
            if piece[0] in SHADES:
                look += f' fill-opacity="{SHADES[piece[0]]}"'
            drawn += f'<path class="{style}"{look} d="{path}"/>'
        elif text := piece.rstrip("\xa0"):
            words = html.escape(text, quote=False).replace("\xa0", "&#160;")
            drawn += (
                f'<text class="{style}" x="{x:.1f}" y="{baseline}" '
                f'textLength="{cell_len(text) * CELL:.1f}" clip-path="{clip}">{words}</text>'
            )
        x += cell_len(piece) * CELL
    # Rich writes a row as a line, which shows how two pictures differ.
    return drawn + ("\n" if "\n" in escaped else "")


def _split(text: str) -> Iterator[str]:
    """Split a text into blanks before a word, repeated shapes and the text between them."""
    for shape, characters in groupby(text, key=lambda c: c if draws_cell(c) else ""):
        piece = "".join(characters)
        blanks = 0 if shape else len(piece) - len(piece.lstrip("\xa0"))
        yield from (part for part in (piece[:blanks], piece[blanks:]) if part)
