"""The list of an empty tab; Enter opens the row under the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from textual.worker import Worker

from tui.kit.lines import Line, Span, TextStyle, fit_line, line
from tui.kit.lists import KeyedList
from tui.kit.pane import set_height


@dataclass(frozen=True, slots=True)
class Offer:
    """An item that an empty tab can open."""

    title: str
    """Effect of Enter, such as ``Open the newest OOM``."""
    facts: str
    """A few words about the item."""
    open: Callable[[], None] = field(compare=False)


def offer_lines(offers: Sequence[Offer], cells: int) -> list[Line]:
    """Return a line for each offer: its title, then its facts."""
    room = max((len(offer.title) for offer in offers), default=0)
    return [
        fit_line(
            line(
                Span(f" {offer.title.ljust(room)}", TextStyle.KEY),
                Span(f"  {offer.facts}", TextStyle.QUIET),
            ),
            cells,
        )
        for offer in offers
    ]


class OfferList(KeyedList):
    """The offers of a tab, one row each.

    Args:
        at_once: returns the offers that need no file.
        read: searches files for more offers, the most useful first; called in a thread.
        id: the widget's.
    """

    def __init__(
        self,
        at_once: Callable[[], Sequence[Offer]],
        read: Callable[[], Sequence[Offer]],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(id=id)
        self._at_once, self._read = at_once, read
        self._offers_in_files: Sequence[Offer] = ()
        self.add_class("offers")

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All offers in the order of the list."""
        return (*self._offers_in_files, *self._at_once())

    def load(self) -> None:
        """Search the files for offers, in a thread."""
        _: Worker[None] = self.run_worker(self._load, exclusive=True, group="offers")

    async def _load(self) -> None:
        self._offers_in_files = await asyncio.to_thread(self._read)
        self.rebuild()

    def rebuild(self) -> None:
        """Redraw the offers, and fit the height to them."""
        set_height(self, len(self.offers))
        super().rebuild()

    def row_keys(self) -> Sequence[str]:
        """Return the titles, which are unique."""
        return [offer.title for offer in self.offers]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return the lines of the offers."""
        return offer_lines(self.offers, cells)

    def choose(self) -> None:
        """Open the offer under the cursor."""
        for offer in self.offers:
            if offer.title == self.key:
                offer.open()
