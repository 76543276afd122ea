"""The processes tab: who holds the memory of the selected device."""

from __future__ import annotations

from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.screen import Screen

from tui.session.actions import Actions
from tui.state.store import Store
from tui.ui.commands.command import Situation
from tui.ui.widgets.footer_bar import FooterBar
from tui.ui.widgets.header_bar import HeaderBar
from tui.ui.widgets.processes_pane import ProcessesPane


class ProcessesTab(Screen[None]):
    """Header, processes, footer."""

    CSS_PATH = "processes.tcss"

    def __init__(
        self,
        store: Store,
        actions: Actions,
        situation: Callable[[], Situation],
        clock: Callable[[], float],
    ) -> None:
        super().__init__()
        self._store = store
        self._situation = situation
        self.pane = ProcessesPane(store, actions, clock)

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield HeaderBar(self._store, "processes")
        yield self.pane
        yield FooterBar(self._situation)

    @on(events.ScreenResume)
    def _resumed(self) -> None:
        """Catch up with what changed while another tab was open."""
        self.pane.opened(True)
        self.pane.store_changed()
        self.query_one(HeaderBar).rebuild()
        self.query_one(FooterBar).rebuild()

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        self.pane.opened(False)
