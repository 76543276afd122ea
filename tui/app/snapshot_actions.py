"""What the commands of the snapshot screen do; mixed into the app's actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from tui.app.toasts import Toasts
from tui.commands.command import Situation

if TYPE_CHECKING:
    from tui.screens.snapshot.tab import SnapshotTab
    from tui.snapshot_desk.desk import SnapshotDesk, View

ZOOM_IN = 0.5
ZOOM_OUT = 2.0


class SnapshotActions(Toasts):
    """Actions on the snapshot; the desk is made when it is first needed."""

    desk: SnapshotDesk | None = None
    _snapshot_due = False
    _first_snapshot: tuple[str, str] | None = None

    @property
    def base(self) -> Screen[object] | None:
        """The screen of the open tab, under any dialogs; ``None`` once the screens are gone."""
        return next(iter(self.screen_stack), None)

    def situation(self) -> Situation:
        """What decides which commands are valid."""
        raise NotImplementedError

    def copy(self, what: str, text: str) -> None:
        """Send text to the terminal's clipboard, keep it in a file, and say so.

        Args:
            what: names it in the message.
            text: all of it.
        """
        from tui.terminal.clipboard import told

        self.copy_to_clipboard(text)
        self.notify(told(what, text), markup=False)

    def make_desk(self) -> SnapshotDesk:
        """The desk; its reader starts with the first file."""
        if self.desk is None:
            from tui.snapshot_desk.desk import SnapshotDesk
            from tui.snapshot_desk.session import SnapshotSession

            self.desk = SnapshotDesk(SnapshotSession(), SnapshotSession())
            self.desk.listen(self._snapshot_changed)
        return self.desk

    def _snapshot_changed(self) -> None:
        """Draw once, however many answers came in this turn of the loop."""
        if not self._snapshot_due:
            self._snapshot_due = True
            self.call_later(self._draw_snapshot)

    def _draw_snapshot(self) -> None:
        self._snapshot_due = False
        if self.snapshot_tab is not None:
            with self.batch_update():
                self.snapshot_tab.catch_up()

    @property
    def snapshot_tab(self) -> SnapshotTab | None:
        """The snapshot screen, while it is what the user looks at, if under a dialog."""
        if self.desk is None:
            return None
        from tui.screens.snapshot.tab import SnapshotTab

        return self.base if isinstance(self.base, SnapshotTab) else None

    def _snapshot_screen(self) -> Screen[None]:
        """The mode's screen, made when it is first opened."""
        from tui.screens.snapshot.tab import SnapshotTab

        return SnapshotTab(self.store, self.make_desk(), self.situation, self.copy)

    def open_at_start(self, path: str, oom_text: str = "") -> None:
        """Have a file read and shown once the app runs; arguments as of :meth:`open_snapshot`."""
        self._first_snapshot = (path, oom_text)

    def open_first_snapshot(self) -> None:
        """Read the file that the app was started with, if there is one."""
        if self._first_snapshot is not None:
            self.open_snapshot(*self._first_snapshot)

    def open_snapshot(self, path: str, oom_text: str = "") -> None:
        """Read a file and show it.

        Args:
            path: of the file.
            oom_text: messages of exceptions that belong to it.
        """
        self.make_desk().open(path, oom_text)
        self.switch_mode("snapshot")

    # ---- files ----

    def action_snapshot_open(self) -> None:
        """Choose a file."""
        from tui.screens.snapshot.file import FileScreen

        desk = self.make_desk()

        def done(path: str | None) -> None:
            if path is not None:
                desk.open(path)

        self.push_screen(FileScreen("Open a snapshot", self._folder()), done)

    def action_snapshot_compare(self) -> None:
        """Choose a file to compare with."""
        from tui.screens.snapshot.file import FileScreen

        desk = self.make_desk()

        def done(path: str | None) -> None:
            if path is not None:
                desk.compare_with(path)
                desk.show("difference")

        self.push_screen(FileScreen("Compare with", self._folder()), done)

    def _folder(self) -> str | None:
        paths = self.desk.main.store.paths if self.desk is not None else ()
        return paths[0].rpartition("/")[0] if paths else None

    def action_snapshot_cancel(self) -> None:
        """End the readers that still read."""
        if self.desk is not None:
            self.desk.cancel()

    def action_snapshot_text(self) -> None:
        """Take the text of an exception."""
        from tui.screens.snapshot.oom_text import OomTextScreen

        desk = self.make_desk()

        def done(text: str | None) -> None:
            if text is not None:
                desk.main.set_text(text)

        self.push_screen(OomTextScreen(desk.main.store.oom_text), done)

    # ---- views ----

    def _show(self, view: View) -> None:
        if self.desk is not None:
            self.desk.show(view)

    def action_snapshot_verdict(self) -> None:
        """Show the verdict."""
        self._show("verdict")

    def action_snapshot_timeline(self) -> None:
        """Show the timeline."""
        self._show("timeline")

    def action_snapshot_sites(self) -> None:
        """Show the sites."""
        self._show("sites")

    def action_snapshot_map(self) -> None:
        """Show the map."""
        self._show("map")

    def action_snapshot_difference(self) -> None:
        """Show the difference."""
        self._show("difference")

    # ---- the moment ----

    def action_snapshot_device(self) -> None:
        """Go to the next device."""
        if self.desk is not None:
            self.desk.next_device()

    def action_snapshot_peak(self) -> None:
        """Go to the peak."""
        if self.desk is not None:
            self.desk.to_peak()

    def action_snapshot_oom(self) -> None:
        """Go to the next OOM entry."""
        if self.desk is not None:
            self.desk.to_next_oom()

    def action_snapshot_end(self) -> None:
        """Go to the end."""
        if self.desk is not None:
            self.desk.to_end()

    # ---- how it is shown ----

    def action_snapshot_group(self) -> None:
        """Group by the next thing."""
        if self.desk is not None:
            self.desk.next_grouping()

    def action_snapshot_sort(self) -> None:
        """Sort by the next column."""
        if self.desk is not None:
            self.desk.next_order()

    def action_snapshot_search(self) -> None:
        """Type a search."""
        if self.snapshot_tab is not None:
            self.snapshot_tab.search()

    def action_snapshot_zoom_in(self) -> None:
        """Look closer."""
        if self.snapshot_tab is not None:
            self.snapshot_tab.zoom(ZOOM_IN)

    def action_snapshot_zoom_out(self) -> None:
        """Look from further away."""
        if self.snapshot_tab is not None:
            self.snapshot_tab.zoom(ZOOM_OUT)

    def action_snapshot_copy(self) -> None:
        """Copy a report."""
        if self.snapshot_tab is not None:
            self.snapshot_tab.copy_report()
