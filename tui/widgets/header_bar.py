"""The header: what is measured on, what the runner does, the tabs."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from tui.store.store import Store
from tui.views.header import header_line, tab_at
from tui.views.lines import Line
from tui.widgets.line_bar import LineBar


class HeaderBar(LineBar):
    """One line; a click on a tab opens it."""

    def __init__(
        self, store: Store, tab: str, note: Callable[[], str] = str, *, readonly: bool = False
    ) -> None:
        """Show a store.

        Args:
            store: what is known.
            tab: the one that is open.
            note: what is said before all else.
            readonly: nothing is offered that asks the runner for something, and this is said.
        """
        super().__init__(self._header)
        self._store = store
        self._tab = tab
        self._note = note
        self._readonly = readonly

    def _header(self, cells: int) -> Line:
        return header_line(
            self._store, self._tab, cells, readonly=self._readonly, note=self._note()
        )

    def on_click(self, event: events.Click) -> None:
        """Open the tab under the mouse."""
        tab = tab_at(self._store, event.x, self.size.width, self._tab)
        if tab is not None:
            self.app.switch_mode(tab)
