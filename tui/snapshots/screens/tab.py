"""The snapshot tab: one open file in several views of the same moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.worker import Worker

from tui.core.text.glyphs import clean
from tui.kit.command_screen import CommandScreen, Program, bindings_of_screen
from tui.kit.commands.command import SWITCH, Situation
from tui.kit.lists import Offer
from tui.kit.pane import FooterBar, LineBar
from tui.kit.terminal.clipboard import copy
from tui.snapshots.commands import SNAPSHOT_COMMANDS, VIEWS, SnapshotView
from tui.snapshots.explain.evidence import OomContext
from tui.snapshots.model.calls import REPORT, ReportArguments
from tui.snapshots.screens.dialogs import FileScreen, OomTextScreen
from tui.snapshots.screens.panes import SnapshotBar, SnapshotPane, StartPane
from tui.snapshots.screens.sites import SitesPane
from tui.snapshots.session.snapshot_reader import CallError, SnapshotReader
from tui.snapshots.session.snapshot_session import SnapshotSession


def _import_pane(view: SnapshotView) -> type[SnapshotPane]:
    """Import the class of the pane of a view."""
    module, _, name = view.pane.partition(":")
    kind: type[SnapshotPane] = getattr(import_module(f"{__package__}.{module}"), name)
    return kind


PANES = {view.id: _import_pane(view) for view in VIEWS}
"""The class of the pane of each view, imported with this module and not when the tab opens."""
PROGRAM = Path(__file__).resolve().parents[2]
"""The folder of the program's own files."""
CLOSER, WIDER = 0.5, 2.0
"""Factors by which the zoom keys scale the visible range."""


class SnapshotTab(CommandScreen):
    """Header, bar, one view and footer; its readers start with the first file.

    Args:
        program: the app.
        memory: bytes that reading a file may use; ``None`` for a quarter of available memory.
        known: returns data from the run that wrote a snapshot; ``None`` without a run.
    """

    TAB = "snapshot"
    CSS_PATH = "snapshot.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of_screen(TAB, *SNAPSHOT_COMMANDS)

    def __init__(
        self,
        program: Program,
        memory: int | None = None,
        known: Callable[[Path], OomContext | None] = lambda _path: None,
    ) -> None:
        super().__init__(program)
        session = self.session = SnapshotSession(
            SnapshotReader(memory=memory, known=known), SnapshotReader(memory=memory, known=known)
        )
        session.listen(self._changed)
        self.bar = SnapshotBar(session)
        self.start = StartPane(session, self.offers(self._list_reopening))
        self.panes = {view: kind(session, id=view) for view, kind in PANES.items()}
        self.hide_at_first(tuple(self.panes.values()))
        self.came_from = ""
        """Id of the tab whose snapshot is open, to which Escape returns; empty for none."""
        self._shown: SnapshotPane | None = None
        self._due = False

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.bar
        yield self.start
        if self.session.loading or self.session.ready:
            yield from self.panes.values()
        yield FooterBar(self.program.commands, self.situation)

    def on_mount(self) -> None:
        self.call_after_refresh(self.start.offers.load)
        self.call_after_refresh(self.mount_hidden)
        self.catch_up()

    def situation(self) -> Situation:
        """Add the state of the session, which decides the available commands."""
        now = super().situation()
        return replace(
            now,
            pane="offers" if self.start.offers.has_focus else now.pane,
            snapshot=self.session.ready,
            snapshot_loading=self.session.loading,
            snapshot_ooms=self.session.has_ooms,
            snapshot_history=self.session.has_history,
            snapshot_moments=self.session.has_moments,
            snapshot_stacks=self.session.has_stacks,
            compared=self.session.both.store.loaded is not None,
            can_go_back=bool(self.came_from),
        )

    # ---- drawing ----

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        """Show the keys of the focused view: the focus moves after the view is drawn."""
        self.rebuild_footer()

    def _changed(self) -> None:
        """Draw once per turn of the event loop, however many answers arrived."""
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
        """The pane that should be visible now; the start page until the others are mounted."""
        ready = self.session.ready and self.are_hidden_mounted
        return self.panes[self.session.view] if ready else self.start

    def catch_up(self) -> None:
        """Show the right pane and draw the changes."""
        shown = self.shown
        if shown is not self._shown:
            self._shown = shown
            for pane in (self.start, *self.panes.values()):
                pane.display = pane is shown
            shown.focus_first()
            # A pane that was never displayed has no size yet.
            self.call_after_refresh(shown.state_changed)
        self.bar.display = shown is not self.start
        shown.state_changed()
        self._request_needs()
        # Drawing may change the sizes of the parts, for example by adding a scrollbar.
        shown.change_needs()
        for bar in self.query(LineBar):
            bar.rebuild()

    @on(SnapshotPane.NeedsChanged)
    def _request_needs(self) -> None:
        """Send the visible pane's requests that have no answer yet."""
        shown = self.shown
        for need in shown.needs():
            if need is not None:
                shown.reader.request(need)

    @on(SnapshotBar.Picked)
    def _picked(self, event: SnapshotBar.Picked) -> None:
        self.session.show(event.view)

    # ---- files ----

    def action_snapshot_open(self) -> None:
        def done(path: str | None) -> None:
            if path is not None:
                self.came_from = ""
                self.session.open(path)

        self.app.push_screen(FileScreen("Open a snapshot", self._folder()), done)

    def action_snapshot_compare(self) -> None:
        """Choose a file to compare with."""

        def done(path: str | None) -> None:
            if path is not None:
                self.session.compare_with(path)
                self.session.show("difference")

        self.app.push_screen(FileScreen("Compare with", self._folder()), done)

    def _list_reopening(self) -> Sequence[Offer]:
        """Return the offer of the file that was open before one that could not be read."""
        file = self.session.replaced
        if file is None:
            return []
        name = clean(Path(file.path).name)
        return [Offer("Open the last snapshot again", name, partial(self.session.reopen, file))]

    def _folder(self) -> str | None:
        """Return the folder of the open file; ``None`` for the example in the program's own."""
        paths = self.session.main.store.paths
        if not paths or PROGRAM in Path(paths[0]).resolve().parents:
            return None
        return paths[0].rpartition("/")[0]

    def action_snapshot_cancel(self) -> None:
        """Stop the readers that are still reading."""
        self.session.cancel()

    def action_snapshot_text(self) -> None:
        """Ask for the text of an exception."""

        def done(text: str | None) -> None:
            if text is not None:
                self.session.text_source = "pasted"
                self.session.main.set_text(text)

        self.app.push_screen(OomTextScreen(self.session.main.store.oom_text), done)

    def action_snapshot_explain(self) -> None:
        """Give the reasons for the verdict or the whole stack, or say why there is none."""
        page = self.shown.explanation()
        if isinstance(page, str):
            self.notify(page, markup=False)
        else:
            self.app.push_screen(page)

    async def action_go_back(self) -> None:
        """Return to the tab from which the snapshot was opened."""
        tab, self.came_from = self.came_from, ""
        await self.run_action(f"app.{SWITCH}('{tab}')")

    # ---- views ----

    def action_snapshot_view(self, view: str) -> None:
        """Switch to another view."""
        self.session.show(view)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable a view's action according to that view's command."""
        if action == "snapshot_view":
            return super().check_action(f"snapshot_{parameters[0]}", ())
        return super().check_action(action, parameters)

    # ---- the moment ----

    def action_snapshot_device(self) -> None:
        self.session.next_device()

    def action_snapshot_peak(self) -> None:
        self.session.to_peak()

    def action_snapshot_oom(self) -> None:
        """Move to the next OOM entry."""
        self.session.to_next_oom()

    def action_snapshot_end(self) -> None:
        self.session.to_end()

    # ---- display options ----

    def action_snapshot_group(self) -> None:
        self.session.next_grouping()

    def action_snapshot_sort(self) -> None:
        self.session.next_order()

    def action_snapshot_search(self) -> None:
        self.session.show("sites")
        self.query_one(SitesPane).begin_search()

    def action_snapshot_zoom_in(self) -> None:
        self.shown.zoom(CLOSER)

    def action_snapshot_zoom_out(self) -> None:
        self.shown.zoom(WIDER)

    # ---- the report ----

    def action_snapshot_copy(self) -> None:
        """Copy a report as soon as it is ready."""
        focus = self.session.focus
        if focus is not None:
            copying = partial(self._copy_report, focus.device)
            _: Worker[None] = self.run_worker(copying, group="report", exclusive=True)

    async def _copy_report(self, device: int) -> None:
        try:
            report = await self.session.main.call(REPORT, ReportArguments("markdown", device))
        except CallError as error:
            self.notify(str(error), markup=False)
        else:
            copy(self.app, "report", report)
