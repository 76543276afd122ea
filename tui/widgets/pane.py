"""What all panes share: they show parts of the store and are told when those changed."""

from __future__ import annotations

from typing import ClassVar

from textual.containers import Container
from textual.content import Content

from tui.store import Part, Store


class Pane(Container):
    """A bordered, focusable part of a screen that shows parts of the store."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset()

    def __init__(self, store: Store, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.store = store
        self._words = ""

    def retitle(self, words: str) -> None:
        """Write the title into the border; data in it is text, not markup."""
        title = f" {words} "
        if title != self._words:
            self._words = title
            self.border_title = Content(title)

    def store_changed(self) -> None:
        """Draw anew what depends on the store; called at most a few times a second."""
