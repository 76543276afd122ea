"""A pane whose figures grow old when nothing new comes."""

from __future__ import annotations

from collections.abc import Callable

from tui.store.reading import STALE_AFTER_S
from tui.store.store import Store
from tui.widgets.pane import Pane

LOOK_EVERY_S = 1.0
ROOM = 6
"""Cells of the top border that a title cannot have: corners, rules and blanks."""


class AgingPane(Pane):
    """Looks once a second whether the newest sample is old, and only then draws by itself."""

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
        """The first lines, and from now on their age."""
        self.store_changed()
        self.set_interval(LOOK_EVERY_S, self.grow_old)

    def grow_old(self) -> None:
        """Draw the age of figures that are no longer current."""
        sample = self.store.sample
        if self.is_attached and sample and self.clock() - sample.at > STALE_AFTER_S:
            self.store_changed()
