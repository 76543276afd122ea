"""The second tab: the memory of the selected device, under the same header and footer."""

from __future__ import annotations

from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.screen import Screen

from tui.state.store import Store
from tui.ui.commands.command import Situation
from tui.ui.screens.memory import MemoryView
from tui.ui.widgets.footer_bar import FooterBar
from tui.ui.widgets.header_bar import HeaderBar


class MemoryTab(Screen[None]):
    """Header, account, footer."""

    CSS_PATH = "memory.tcss"

    def __init__(
        self, store: Store, situation: Callable[[], Situation], clock: Callable[[], float]
    ) -> None:
        super().__init__()
        self._store = store
        self._situation = situation
        self.view = MemoryView(store, clock)

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield HeaderBar(self._store, "memory")
        yield self.view
        yield FooterBar(self._situation)

    @on(events.ScreenResume)
    def _resumed(self) -> None:
        """Catch up with what changed while the other tab was open."""
        self.view.store_changed()
        self.query_one(HeaderBar).rebuild()
        self.query_one(FooterBar).rebuild()
