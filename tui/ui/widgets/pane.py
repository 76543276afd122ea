"""Panes: parts of a screen that show parts of the store and are told when those changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from tui.state.store import Part, Store

if TYPE_CHECKING:
    from typing_extensions import Self

ROOM = 4
"""Cells of the top border that a title cannot have: corners, rules and blanks."""


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

    @property
    def keys_go_to(self) -> Widget | None:
        """The part that gets the focus when the pane does; ``None`` until its parts are made."""
        parts: list[Widget] = [self, *self.query(Widget)]
        return next((part for part in parts if part.can_focus and part.display), None)

    def store_changed(self) -> None:
        """Draw anew what depends on the store; called at most a few times a second."""


class AgingPane(Pane):
    """Tells old figures by a clock; it is told to draw where they grow old."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        """Show a store.

        Args:
            store: what is known.
            clock: Unix time now, to tell old figures.
            id: the widget's.
        """
        super().__init__(store, id=id)
        self.clock = clock

    def on_mount(self) -> None:
        self.store_changed()


def pane_of(widget: Widget | None) -> Pane | None:
    """The pane that a widget is or lies in."""
    if widget is None:
        return None
    return next((node for node in widget.ancestors_with_self if isinstance(node, Pane)), None)
