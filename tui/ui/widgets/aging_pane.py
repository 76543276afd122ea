"""A pane whose figures have an age."""

from __future__ import annotations

from collections.abc import Callable

from tui.state.store import Store
from tui.ui.widgets.pane import Pane

ROOM = 6
"""Cells of the top border that a title cannot have: corners, rules and blanks."""


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
        """The first lines."""
        self.store_changed()
