"""What all panes share: they show parts of the store and are told when those changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container
from textual.content import Content
from textual.geometry import Region

from tui.state.store import Part, Store

if TYPE_CHECKING:
    from typing_extensions import Self


class Pane(Container):
    """A bordered, focusable part of a screen that shows parts of the store."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset()

    def __init__(self, store: Store, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.store = store
        self._words = ""
        self._retitling = False

    def retitle(self, words: str) -> None:
        """Write the title into the border; data in it is text, not markup."""
        title = f" {words} "
        if title != self._words:
            self._words = title
            self._retitling = True
            self.border_title = Content(title)
            self._retitling = False

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Draw again; a new title takes the top border alone, not all that stands below it."""
        if self._retitling and not regions:
            left, top = self.content_offset
            regions = (Region(-left, -top, self.outer_size.width, 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def store_changed(self) -> None:
        """Draw anew what depends on the store; called at most a few times a second."""
