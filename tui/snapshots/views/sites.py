"""The tree of a snapshot's sites, and the site-by-site difference of two snapshots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.bars import draw_bar
from tui.kit.lines import Line, Span, TextStyle, fit_line, flow, left, line, paragraph
from tui.snapshots.model.results import Difference, DiffRow, Grouping, Order, SiteListing, SiteRow
from tui.snapshots.views.shared_lines import FRAME_STYLES, SITE_FIGURES, site_heading, site_line
from tui.snapshots.views.site_bars import chip, layer_area

Path = tuple[str, ...]
LEAST_WITH_BARS, MOST_BAR = 100, 40
"""Cells of a line from which sites have bars, and those of the longest bar: labels stay near."""
BESIDE_BAR = 108
"""Cells of the figures and of a long label: bars have what is left of a wide line."""
CHIP_CELLS = 4
"""Cells of a letter with the gap after it."""
CHANGE_STYLES = {
    "new": TextStyle.BAD,
    "grown": TextStyle.NOTE,
    "shrunk": TextStyle.GOOD,
    "gone": TextStyle.GOOD,
}


@dataclass(frozen=True, slots=True)
class SiteLine:
    """One line of the tree."""

    path: Path
    """Path of keys, ending with its own; a line for omitted rows has its parent's path and
    ``…``."""
    row: SiteRow | None
    """The row; ``None`` for omitted rows or a listing that has not arrived."""
    text: str = ""
    rank: int | None = None
    """Rank of the layer of the site that it belongs to, if that has one."""

    @property
    def depth(self) -> int:
        return len(self.path) - 1


def nodes(
    listings: Callable[[Path], SiteListing | None], open_paths: Mapping[Path, bool]
) -> list[SiteLine]:
    """Return the lines of the unfolded part of the tree.

    Args:
        listings: returns the children of a path, ``None`` until they are known.
        open_paths: paths of the unfolded nodes.
    """
    lines: list[SiteLine] = []
    _add_nodes(lines, (), None, listings, open_paths)
    return lines


def _add_nodes(
    lines: list[SiteLine],
    path: Path,
    rank: int | None,
    listings: Callable[[Path], SiteListing | None],
    open_paths: Mapping[Path, bool],
) -> None:
    listing = listings(path)
    if listing is None:
        lines.append(SiteLine((*path, "…"), None, glyphs.GLYPHS.ellipsis))
        return
    for row in listing.rows:
        own = (*path, row.key)
        layer = rank if path else row.rank
        lines.append(SiteLine(own, row, rank=layer))
        if open_paths.get(own):
            _add_nodes(lines, own, layer, listings, open_paths)
    if listing.more:
        words = f"{text.count(listing.more)} more with {text.size(listing.more_bytes)}"
        lines.append(SiteLine((*path, "…"), None, words))
    elif not listing.rows and not path:
        lines.append(SiteLine((*path, "…"), None, "nothing is live, or nothing matches"))


def node_line(
    node: SiteLine, *, unfolded: bool, cells: int, most: float = 1.0, lettered: bool = False
) -> Line:
    """Draw bytes, share, count, a bar where there is room, and the label below its parent's.

    Args:
        node: the line of the tree.
        unfolded: whether its children are shown.
        cells: width of a line.
        most: the share that fills a bar.
        lettered: sites have the letters and colors of their layers in the timeline.
    """
    indent = "  " * node.depth
    row = node.row
    room = bar_cells(cells)
    if row is None:
        lead = " " * (SITE_FIGURES + room + (CHIP_CELLS if lettered else 0)) + indent
        return fit_line(line(Span(lead + node.text, TextStyle.QUIET)), cells)
    mark = " "
    if row.children:
        mark = glyphs.GLYPHS.unfolded if unfolded else glyphs.GLYPHS.folded
    label = Span(f"{indent}{mark} {row.label}", FRAME_STYLES[row.kind])
    folded = Span(
        f"  after {row.folded} folded" if row.folded and node.depth else "", TextStyle.QUIET
    )
    style = layer_area(node.rank) if lettered else TextStyle.ALLOCATED
    bar = Span(left(draw_bar(row.share / most, room - 2), room) if room else "", style)
    letter: Line = ()
    if lettered:
        first = Span(" " * (CHIP_CELLS - 1)) if node.depth else chip(node.rank)
        letter = (first, Span(" "))
    return site_line(row, (*letter, bar, label, folded), cells)


def bar_cells(cells: int) -> int:
    """Return the width of the bars of shares with the gap after them; 0 on a narrow screen."""
    if cells < LEAST_WITH_BARS:
        return 0
    return 2 + min(MOST_BAR, max(cells // 6, cells - BESIDE_BAR))


def tree_heading(grouping: Grouping, order: Order, cells: int) -> Line:
    """Draw the heading over the columns of sites."""
    lead = " " * (bar_cells(cells) + (CHIP_CELLS if has_letters(grouping) else 0))
    return site_heading(f"{lead}  by {grouping}, by {order}; % of live memory", cells)


def has_letters(grouping: Grouping) -> bool:
    """Return whether rows of a grouping are layers of the timeline."""
    return grouping == "site"


def parse_search(typed: str) -> tuple[str, bool]:
    """Return the search text, and true if it is a regular expression written as ``/.../``."""
    words = typed.strip()
    if len(words) > 2 and words.startswith("/") and words.endswith("/"):
        return words[1:-1], True
    return words, False


# ---- two snapshots -------------------------------------------------------------------------------


def signed(value: int) -> str:
    """Format a change in bytes with its sign."""
    return f"+{text.size(value)}" if value > 0 else text.size(value)


def difference_head(difference: Difference, cells: int) -> list[Line]:
    """Draw the names of the two compared snapshots, and the sums."""
    arrow = glyphs.GLYPHS.arrow
    live = difference.live_b - difference.live_a
    reserved = difference.reserved_b - difference.reserved_a
    rows = [
        *paragraph(difference.a, cells, indent="   ", label="A  "),
        *paragraph(difference.b, cells, indent="   ", label="B  "),
    ]
    rows += flow(
        [
            line(
                Span("live ", TextStyle.QUIET),
                f"{text.size(difference.live_a)} {arrow} {text.size(difference.live_b)}",
                Span(f" ({signed(live)})", TextStyle.STRONG),
            ),
            line(
                Span("reserved ", TextStyle.QUIET),
                f"{text.size(difference.reserved_a)} {arrow} {text.size(difference.reserved_b)}",
                Span(f" ({signed(reserved)})", TextStyle.STRONG),
            ),
        ],
        cells,
    )
    if not difference.rows:
        rows.append(line(Span("no site changed", TextStyle.STRONG)))
    return rows


def difference_heading(cells: int) -> Line:
    """Draw the heading over the columns of changes."""
    return fit_line(
        line(Span(f"{'change':>10} {'':<6} {'count':>8} {'B':>9}  ", TextStyle.QUIET)), cells
    )


def difference_line(row: DiffRow, cells: int) -> Line:
    """Draw the change of one site: bytes, kind, count, bytes in B, and its label."""
    change = row.bytes_b - row.bytes_a
    count = row.count_b - row.count_a
    figures = (
        Span(f"{signed(change):>10} "),
        Span(f"{row.change:<6}", CHANGE_STYLES[row.change]),
        Span(f" {count:>+8d} {text.size(row.bytes_b):>9}  "),
        Span(row.label, FRAME_STYLES[row.kind]),
    )
    return fit_line(figures, cells)


def difference_detail(row: DiffRow, cells: int) -> list[Line]:
    """Draw one site in full."""
    arrow = glyphs.GLYPHS.arrow
    rows = paragraph(row.key, cells, indent="   ")
    rows.append(
        line(
            f"{text.size(row.bytes_a)} in {text.count(row.count_a, 'allocation')} {arrow} "
            f"{text.size(row.bytes_b)} in {text.count(row.count_b, 'allocation')}"
        )
    )
    return rows
