"""Pictures of the screen as SVG that any program draws and that load nothing. Pure."""

from __future__ import annotations

import re

CELL = 12.2
"""Width of a character in Rich's SVG."""
_TEXT = re.compile(
    r'x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*>)((?:&#160;)+)(?!<)',
)


def make_portable(svg: str) -> str:
    """Return Rich's SVG with the reader's own font, and the same class names in each run.

    Rich's loads a font from a server, also where a page shows it. A text starts at its first
    letter, because some programs that draw SVG, such as librsvg, leave out blanks before it.

    Args:
        svg: from ``App.export_screenshot``.
    """
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    svg = _TEXT.sub(_indent, svg)
    return svg.replace("Fira Code, monospace", "monospace").replace("Fira Code", "monospace")


def _indent(text: re.Match[str]) -> str:
    """Return the start of a text moved to the right by the blanks that it begins with."""
    x, y, length, rest, blanks = text.groups()
    indent = CELL * blanks.count(";")
    return f'x="{float(x) + indent:.1f}" y="{y}" textLength="{float(length) - indent:.1f}"{rest}'
