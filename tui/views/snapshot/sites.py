"""The tree of sites as lines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tui import format as text
from tui.snapshots.facts import Grouping, Order, SiteListing, SiteRow
from tui.terminal import glyphs
from tui.views.lines import Line, Span, Tone, fit_line, line
from tui.views.snapshot.words import FRAME_TONES, SITE_HEADING
from workloads.fact import fact

Path = tuple[str, ...]


@fact
class Node:
    """One line of the tree that is drawn."""

    path: Path
    """Of keys, its own last; of a line that says what is not listed, the parent's with ``…``."""
    row: SiteRow | None
    """``None``: what is not listed, or a listing that is not there yet."""
    words: str = ""

    @property
    def depth(self) -> int:
        return len(self.path) - 1


def nodes(
    listings: Callable[[Path], SiteListing | None], open_paths: Mapping[Path, bool]
) -> list[Node]:
    """The tree as far as it is unfolded.

    Args:
        listings: the children of a path, ``None`` while they are not known.
        open_paths: which nodes are unfolded.
    """
    made: list[Node] = []
    _add(made, (), listings, open_paths)
    return made


def _add(
    made: list[Node],
    path: Path,
    listings: Callable[[Path], SiteListing | None],
    open_paths: Mapping[Path, bool],
) -> None:
    listing = listings(path)
    if listing is None:
        made.append(Node((*path, "…"), None, glyphs.GLYPHS.ellipsis))
        return
    for row in listing.rows:
        own = (*path, row.key)
        made.append(Node(own, row))
        if open_paths.get(own):
            _add(made, own, listings, open_paths)
    if listing.more:
        words = f"{text.count(listing.more)} more with {text.size(listing.more_bytes)}"
        made.append(Node((*path, "…"), None, words))
    elif not listing.rows and not path:
        made.append(Node((*path, "…"), None, "nothing is live, or nothing matches"))


def node_line(node: Node, *, unfolded: bool, cells: int) -> Line:
    """Bytes, share, count, and the label under its parent's."""
    indent = "  " * node.depth
    row = node.row
    if row is None:
        return fit_line(
            line(Span(" " * len(SITE_HEADING) + indent + node.words, Tone.QUIET)), cells
        )
    mark = " "
    if row.children:
        mark = glyphs.GLYPHS.unfolded if unfolded else glyphs.GLYPHS.folded
    figures = f"{text.size(row.bytes):>9} {text.share(row.share):>4} {text.count(row.count):>7}  "
    label = Span(f"{indent}{mark} {row.label}", FRAME_TONES[row.kind])
    folded = Span(f"  after {row.folded} folded" if row.folded and node.depth else "", Tone.QUIET)
    return fit_line((Span(figures), label, folded), cells)


def tree_heading(grouping: Grouping, order: Order, cells: int) -> Line:
    """Over the columns."""
    return fit_line(
        line(Span(SITE_HEADING, Tone.QUIET), Span(f"  by {grouping}, by {order}", Tone.QUIET)),
        cells,
    )


def after(options: tuple[str, ...], present: str) -> str:
    """The next of some options, from the last one on to the first."""
    return options[(options.index(present) + 1) % len(options)]


def search_of(typed: str) -> tuple[str, bool]:
    """What was typed as a search and whether it is a regular expression: ``/.../`` is one."""
    words = typed.strip()
    if len(words) > 2 and words.startswith("/") and words.endswith("/"):
        return words[1:-1], True
    return words, False
