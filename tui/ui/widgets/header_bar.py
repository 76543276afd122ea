"""The header: what is measured on, what the runner does, the tabs."""

from __future__ import annotations

from textual import events
from textual.message import Message

from tui.state.store import Store
from tui.ui.views.header import header_line, tab_at
from tui.ui.views.lines import Line
from tui.ui.widgets.line_bar import LineBar


class HeaderBar(LineBar):
    """One line; a click on a tab opens it."""

    class TabPicked(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, store: Store, tab: str) -> None:
        super().__init__(self._header)
        self._store = store
        self._tab = tab

    def _header(self, cells: int) -> Line:
        readonly = bool(getattr(self.app, "readonly", False))
        note = str(getattr(self.app, "header_note", ""))
        return header_line(self._store, self._tab, cells, readonly=readonly, note=note)

    def on_click(self, event: events.Click) -> None:
        """Open the tab under the mouse."""
        tab = tab_at(self._store, event.x, self.size.width, self._tab)
        if tab is not None:
            self.post_message(self.TabPicked(tab))
