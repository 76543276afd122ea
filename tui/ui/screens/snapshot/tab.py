"""The third tab: an allocator snapshot, in several views of the same moment."""

from __future__ import annotations

from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen

from tui.session.snapshot.session import SnapshotDesk, View
from tui.snapshots.reader.messages import Export, Exported, Refused
from tui.state.store import Store
from tui.ui.commands.command import Situation
from tui.ui.views.lines import Line
from tui.ui.views.snapshot.bar import bar_line, view_at
from tui.ui.widgets.footer_bar import FooterBar
from tui.ui.widgets.header_bar import HeaderBar
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.snapshot.difference import DifferencePane
from tui.ui.widgets.snapshot.map import MapPane
from tui.ui.widgets.snapshot.pane import SnapshotPane
from tui.ui.widgets.snapshot.sites import SitesPane
from tui.ui.widgets.snapshot.texts import StartPane, VerdictPane
from tui.ui.widgets.snapshot.timeline import TimelinePane


class SnapshotBar(LineBar):
    """The views; a click shows one."""

    class Picked(Message):
        """A view was clicked."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    def __init__(self, desk: SnapshotDesk) -> None:
        super().__init__(self._bar)
        self._desk = desk

    def _bar(self, cells: int) -> Line:
        return bar_line(self._desk, cells)

    def on_click(self, event: events.Click) -> None:
        """Show the view under the mouse."""
        view = view_at(event.x)
        if view is not None and self._desk.ready:
            self.post_message(self.Picked(view))


class SnapshotTab(Screen[None]):
    """Header, bar, one of the views, footer."""

    CSS_PATH = "snapshot.tcss"

    def __init__(
        self,
        store: Store,
        desk: SnapshotDesk,
        situation: Callable[[], Situation],
        copy: Callable[[str, str], None],
    ) -> None:
        super().__init__()
        self._store = store
        self._copy = copy
        self.desk = desk
        self._situation = situation
        self.start = StartPane(store, desk)
        self.timeline = TimelinePane(store, desk)
        self.sites = SitesPane(store, desk)
        self.map_view = MapPane(store, desk)
        self.panes: dict[View, SnapshotPane] = {
            "verdict": VerdictPane(store, desk),
            "timeline": self.timeline,
            "sites": self.sites,
            "map": self.map_view,
            "difference": DifferencePane(store, desk),
        }
        self._shown: SnapshotPane | None = None
        self._copying: Export | None = None

    def compose(self) -> ComposeResult:
        """From the top down."""
        yield HeaderBar(self._store, "snapshot")
        yield SnapshotBar(self.desk)
        yield self.start
        for pane in self.panes.values():
            pane.display = False
            yield pane
        yield FooterBar(self._situation)

    def on_mount(self) -> None:
        """Show what there is."""
        self.catch_up()

    @on(events.ScreenResume)
    def _resumed(self) -> None:
        """Catch up with what changed while another tab was open."""
        self.catch_up()

    @property
    def shown(self) -> SnapshotPane:
        """The pane that is to be shown now."""
        return self.panes[self.desk.view] if self.desk.ready else self.start

    def catch_up(self) -> None:
        """Show the right pane and draw what changed."""
        shown = self.shown
        if shown is not self._shown:
            self._shown = shown
            for pane in (self.start, *self.panes.values()):
                pane.display = pane is shown
            shown.focus_first()
            # A pane that was not displayed has no size yet.
            self.call_after_refresh(shown.store_changed)
        shown.store_changed()
        for bar in self.query(LineBar):
            bar.rebuild()
        self._copy_if_there()

    @on(SnapshotBar.Picked)
    def _picked(self, event: SnapshotBar.Picked) -> None:
        self.desk.show(event.view)

    # ---- keys ----

    def zoom(self, factor: float) -> None:
        """Look closer (below 1) or from further away, where that means something."""
        if self.shown is self.timeline:
            self.timeline.zoom(factor)
        elif self.shown is self.map_view:
            self.map_view.zoom(factor)

    def search(self) -> None:
        """Type a search."""
        self.desk.show("sites")
        self.sites.begin_search()

    def copy_report(self) -> None:
        """Ask for a report; it is copied when it is there."""
        focus = self.desk.focus
        if focus is not None:
            self._copying = Export(0, "markdown", focus.device)
            self.desk.want(self._copying)
            self._copy_if_there()

    def _copy_if_there(self) -> None:
        if self._copying is None:
            return
        answer = self.desk.main.store.exactly(self._copying)
        if answer is None:
            return
        self._copying = None
        if isinstance(answer, Exported):
            self._copy("report", answer.text)
        elif isinstance(answer, Refused):
            self.app.notify(answer.reason, markup=False)
