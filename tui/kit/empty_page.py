"""What a pane shows while it has nothing else: offers and words, as one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container

from tui.kit.lines import Line, width
from tui.kit.lists import OfferList, offer_lines
from tui.kit.pane import LinesView, set_height, set_width

BLOCK_CELLS = 88
"""Width of the block, which has the same place on all tabs: wider prose is hard to read."""
AROUND_WORDS = 3
"""Cells of a line of words beside its text: its indent and the scroll bar's column."""


class EmptyPage(Container):
    """Offers above words, in a block that begins at a third of the pane's height.

    Args:
        build: makes the words; receives the width of a line.
        offers: what can be opened, if there is anything.
    """

    def __init__(
        self, build: Callable[[int], Sequence[Line]], offers: OfferList | None = None
    ) -> None:
        super().__init__()
        self.offers = offers
        self.words = LinesView(build)
        self._build = build

    def compose(self) -> ComposeResult:
        """Yield the offers and the words."""
        if self.offers is not None:
            yield self.offers
        yield self.words

    def show(self, *, words: bool, offers: bool = False) -> None:
        """Show or hide the parts; the page is shown with any of them."""
        if self.offers is not None:
            self.offers.display = offers
        self.words.display = words
        self.display = words or offers

    def on_resize(self, _event: events.Resize) -> None:
        """Fit the block into the new size."""
        self.rebuild()

    @on(OfferList.Listed)
    def _listed(self) -> None:
        self.rebuild()

    def rebuild(self) -> None:
        """Draw the offers and the words, and fit the block to them."""
        if self.offers is not None:
            self.offers.rebuild()
        self._fit()
        self.words.rebuild()

    def _fit(self) -> None:
        cells, rows = self.size
        if not cells or not rows:
            return
        offers: list[Line] = []
        if self.offers is not None and self.offers.display:
            offers = offer_lines(self.offers.offers, cells)
        # The facts of offers are not cut where there is room.
        block = max(BLOCK_CELLS, AROUND_WORDS + max(map(width, offers), default=0))
        words = self._build(max(1, min(BLOCK_CELLS, cells) - AROUND_WORDS))
        beside = len(offers) + 1 if offers else 0
        height = max(1, min(len(words), rows - beside))
        top = min(rows // 3, max(0, rows - beside - height))
        set_width(self.words, min(cells, block))
        set_height(self.words, height)
        self.words.styles.margin = (0 if offers else top, 0, 0, 0)
        if self.offers is not None:
            set_width(self.offers, min(cells, block))
            self.offers.styles.margin = (top, 0, 1, 0)
