"""Where the offers and the words of an empty pane stand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.app import ComposeResult

from tests.screens.helpers import StyledApp
from tui.kit import pane
from tui.kit.empty_page import BLOCK_CELLS, EmptyPage
from tui.kit.lines import Line, paragraph
from tui.kit.lists import Offer, OfferList

WORDS = "Nothing is here yet. " * 20
FACTS = "a long command " * 8
SIZES = [(60, 8), (80, 24), (120, 40), (200, 60)]


def draw_words(cells: int) -> Sequence[Line]:
    return paragraph(WORDS, cells)


class EmptyApp(StyledApp):
    CSS_PATH = Path(pane.__file__).with_name("pane.tcss")

    def __init__(self, *, offers: bool) -> None:
        super().__init__()
        found = [Offer("Open it", FACTS, lambda: None), Offer("Play", "a demo", lambda: None)]
        listed = OfferList(lambda: found, tuple) if offers else None
        self.page = EmptyPage(draw_words, listed)
        self.page.show(words=True, offers=offers)

    def compose(self) -> ComposeResult:
        yield self.page


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offers", [False, True])
async def test_the_block_begins_at_a_third_and_is_never_outside(
    size: tuple[int, int], offers: bool
) -> None:
    app = EmptyApp(offers=offers)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        words = app.page.words.region
        top, left, right = words.y, words.x, words.right
        if app.page.offers is not None:
            listed = app.page.offers.region
            assert listed.x == words.x, "the text of both is aligned"
            assert listed.height == 2
            assert words.y == listed.bottom + 1
            top, right = listed.y, max(right, listed.right)
            full = len(f"  Open it  {FACTS}")
            assert listed.width >= min(size[0], full), "no fact is cut where there is room"
            assert listed.width == words.width
        else:
            assert words.width == min(BLOCK_CELLS, size[0])
        assert 0 <= top <= size[1] // 3
        assert words.bottom <= size[1], "more words are scrolled to"
        assert top == size[1] // 3 or words.bottom == size[1]
        assert abs(left - (size[0] - right)) <= 1


async def test_hidden_parts_are_not_copied() -> None:
    app = EmptyApp(offers=True)
    async with app.run_test(size=(80, 24)):
        app.page.show(words=False)
        parts = (app.page, app.page.words, app.page.offers)
        assert [part is not None and part.display for part in parts] == [False] * 3
