"""The third tab: an allocator snapshot, in several views of the same moment."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from tui.session.snapshot.reader import SnapshotReader
from tui.session.snapshot.session import SnapshotSession, View
from tui.snapshots.reader.messages import Export, Exported, Refused
from tui.ui.commands import bindings
from tui.ui.commands.command import Situation
from tui.ui.screens.command_screen import CommandScreen, Program
from tui.ui.screens.snapshot.file import FileScreen
from tui.ui.terminal.clipboard import copy
from tui.ui.widgets.line_bar import FooterBar, LineBar
from tui.ui.widgets.snapshot.difference import DifferencePane
from tui.ui.widgets.snapshot.map import MapPane
from tui.ui.widgets.snapshot.pane import SnapshotBar, SnapshotPane
from tui.ui.widgets.snapshot.sites import SitesPane
from tui.ui.widgets.snapshot.texts import StartPane, VerdictPane
from tui.ui.widgets.snapshot.timeline import TimelinePane

CLOSER, WIDER = 0.5, 2.0
"""By how much a key changes the stretch that is shown."""


class SnapshotTab(CommandScreen):
    """Header, bar, one of the views, footer; its readers start with the first file.

    Args:
        program: the app.
        memory: bytes that reading a file may take; ``None`` for a quarter of what is available.
    """

    TAB = "snapshot"
    CSS_PATH = "snapshot.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of_screen(TAB)

    def __init__(self, program: Program, memory: int | None = None) -> None:
        super().__init__(program)
        store = program.store
        session = self.session = SnapshotSession(
            SnapshotReader(memory=memory), SnapshotReader(memory=memory)
        )
        session.listen(self._changed)
        self.start = StartPane(store, session)
        self.timeline = TimelinePane(store, session)
        self.sites = SitesPane(store, session)
        self.map_view = MapPane(store, session)
        self.panes: dict[View, SnapshotPane] = {
            "verdict": VerdictPane(store, session),
            "timeline": self.timeline,
            "sites": self.sites,
            "map": self.map_view,
            "difference": DifferencePane(store, session),
        }
        self._shown: SnapshotPane | None = None
        self._copying: Export | None = None
        self._due = False

    def compose(self) -> ComposeResult:
        yield self.header()
        yield SnapshotBar(self.session)
        yield self.start
        for pane in self.panes.values():
            pane.display = False
            yield pane
        yield FooterBar(self.situation)

    def on_mount(self) -> None:
        self.catch_up()

    def situation(self) -> Situation:
        """With what there is of a snapshot."""
        return replace(
            super().situation(),
            snapshot=self.session.ready,
            snapshot_loading=self.session.loading,
            snapshot_ooms=self.session.has_ooms,
        )

    # ---- drawing ----

    def _changed(self) -> None:
        """Draw once, however many answers came in this turn of the loop."""
        if not self._due:
            self._due = True
            self.call_later(self._draw_changed)

    def _draw_changed(self) -> None:
        self._due = False
        if self in self.app.screen_stack:
            with self.app.batch_update():
                self.catch_up()

    @property
    def shown(self) -> SnapshotPane:
        """The pane that is to be shown now."""
        return self.panes[self.session.view] if self.session.ready else self.start

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
        self.session.show(event.view)

    # ---- files ----

    def action_snapshot_open(self) -> None:
        def done(path: str | None) -> None:
            if path is not None:
                self.session.open(path)

        self.app.push_screen(FileScreen("Open a snapshot", self._folder()), done)

    def action_snapshot_compare(self) -> None:
        """Choose a file to compare with."""

        def done(path: str | None) -> None:
            if path is not None:
                self.session.compare_with(path)
                self.session.show("difference")

        self.app.push_screen(FileScreen("Compare with", self._folder()), done)

    def _folder(self) -> str | None:
        paths = self.session.main.store.paths
        return paths[0].rpartition("/")[0] if paths else None

    def action_snapshot_cancel(self) -> None:
        """End the readers that still read."""
        self.session.cancel()

    def action_snapshot_text(self) -> None:
        """Take the text of an exception."""
        # A text area takes 20 ms to import.
        from tui.ui.screens.snapshot.oom_text import OomTextScreen

        def done(text: str | None) -> None:
            if text is not None:
                self.session.text_source = "pasted"
                self.session.main.set_text(text)

        self.app.push_screen(OomTextScreen(self.session.main.store.oom_text), done)

    # ---- views ----

    def action_snapshot_verdict(self) -> None:
        self.session.show("verdict")

    def action_snapshot_timeline(self) -> None:
        self.session.show("timeline")

    def action_snapshot_sites(self) -> None:
        self.session.show("sites")

    def action_snapshot_map(self) -> None:
        self.session.show("map")

    def action_snapshot_difference(self) -> None:
        self.session.show("difference")

    # ---- the moment ----

    def action_snapshot_device(self) -> None:
        self.session.next_device()

    def action_snapshot_peak(self) -> None:
        self.session.to_peak()

    def action_snapshot_oom(self) -> None:
        """Go to the next OOM entry."""
        self.session.to_next_oom()

    def action_snapshot_end(self) -> None:
        self.session.to_end()

    # ---- how it is shown ----

    def action_snapshot_group(self) -> None:
        self.session.next_grouping()

    def action_snapshot_sort(self) -> None:
        self.session.next_order()

    def action_snapshot_search(self) -> None:
        self.session.show("sites")
        self.sites.begin_search()

    def action_snapshot_zoom_in(self) -> None:
        self._zoom(CLOSER)

    def action_snapshot_zoom_out(self) -> None:
        self._zoom(WIDER)

    def _zoom(self, factor: float) -> None:
        if self.shown is self.timeline:
            self.timeline.zoom(factor)
        elif self.shown is self.map_view:
            self.map_view.zoom(factor)

    # ---- the report ----

    def action_snapshot_copy(self) -> None:
        """Ask for a report; it is copied when it is there."""
        focus = self.session.focus
        if focus is not None:
            self._copying = Export(0, "markdown", focus.device)
            self.session.want(self._copying)
            self._copy_if_there()

    def _copy_if_there(self) -> None:
        if self._copying is None:
            return
        answer = self.session.main.store.exactly(self._copying)
        if answer is None:
            return
        self._copying = None
        if isinstance(answer, Exported):
            copy(self.app, "report", answer.text)
        elif isinstance(answer, Refused):
            self.notify(answer.reason, markup=False)
