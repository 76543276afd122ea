"""The workbench over a recording: the same screens, without commands that need a runner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.screen import Screen

from tui.app.workbench import WorkbenchApp
from tui.core.settings import THEME
from tui.kit.command_line.output import print_notice
from tui.kit.command_line.values import with_theme
from tui.kit.themes import theme_for
from tui.recordings import DEMO, DEMO_SNAPSHOT, FOLDER
from tui.recordings.lines import RecordingSummary, Scene, scan_recording
from tui.recordings.replay import ReplaySession
from tui.runs.screens.tab import WorkbenchScreen
from tui.watch.state.host_ooms import explain_host_ooms

if TYPE_CHECKING:
    from tui.core.settings import Settings


class ReplayApp(WorkbenchApp):
    """Plays a recording on the workbench's screens.

    Args:
        session: plays the recording; ages on the screen count in recorded time.
        theme: the theme to draw with.
        snapshot: the file that the snapshot tab had open.
    """

    replay = True

    def __init__(
        self, session: ReplaySession, theme: str = THEME, snapshot: Path | None = None
    ) -> None:
        super().__init__(session, readonly=True, clock=session.clock)
        self.theme = theme_for(theme, self.console.color_system)
        self._replay = session
        self.header_note = session.describe_position
        self._shown_snapshot = snapshot
        self.caption = lambda: session.caption
        self.replay_ended = lambda: session.ended
        self._placed: tuple[str, str | None, str] | None = None
        """The tab, the workload and the view that the last scene put; ``None`` before the first."""
        self._prepared: Screen[None] | None = None
        """The snapshot tab, until it is first shown."""
        session.on_scene(self._show_scene)

    def create_tab(self, tab: str) -> Screen[None]:
        """Create the screen of a tab; the snapshot tab opens the recording's file."""
        if tab == "snapshot" and self._prepared is not None:
            screen, self._prepared = self._prepared, None
            return screen
        screen = super().create_tab(tab)
        if screen is self.snapshot and self._shown_snapshot is not None:
            self.snapshot.session.open(str(self._shown_snapshot), self._replay.out_of_memory())
        return screen

    async def on_event(self, event: events.Event) -> None:
        """Give the footer back its keys at the first key after the recording's end."""
        if isinstance(event, events.Key) and self._replay.ended and self._replay.caption:
            self._replay.hide_caption()
            self.call_later(self.draw_now)
        await super().on_event(event)

    def _place(self) -> tuple[str, str | None, str]:
        """Return the tab in front, the workload under its cursor, and its view or zoomed pane."""
        front, snapshot = self.front, self.snapshot
        if front is None:
            return "", None, ""
        if isinstance(front, WorkbenchScreen):
            return front.TAB, front.workloads.table.workload, front.zoomed_pane
        view = snapshot.session.view if snapshot is not None and front == snapshot else ""
        return front.TAB, None, view

    def _has_user_moved(self) -> bool:
        """Return whether the user has gone elsewhere since the last scene."""
        if self._placed is None:
            return False
        (tab, workload, view), place = self._placed, self._place()
        # The table may have been empty at the last scene; its first row is selected since.
        return place != (tab, workload or place[1], view)

    def _show_scene(self, scene: Scene) -> None:
        """Open the place of a scene, unless the user has gone elsewhere."""
        if self._has_user_moved():
            return
        if scene.workload and self.snapshot is None and self._shown_snapshot is not None:
            # Reading takes a while: the scene that shows the snapshot is not to wait for it.
            self._prepared = self.create_tab("snapshot")
        if scene.tab != self._place()[0]:
            self.switch_mode(scene.tab)
        front, snapshot = self.front, self.snapshot
        if isinstance(front, WorkbenchScreen):
            if scene.workload:
                front.workloads.table.reveal(scene.workload)
                front.workloads.state_changed()
            if scene.view == "detail" and front.detail.roofline:
                front.detail.turn_to(roofline=False)  # the caption is about the workload
            front.zoom_pane(scene.view)
        elif snapshot is not None and front == snapshot:
            if scene.view:
                snapshot.session.show(scene.view)
            if scene.moment is not None:
                snapshot.session.go_to_share(scene.moment)
        self._placed = self._place()

    def action_replay_pause(self) -> None:
        self._replay.toggle()
        self.draw_now()

    def action_replay_faster(self) -> None:
        self._replay.faster()
        self.draw_now()

    def action_replay_slower(self) -> None:
        self._replay.slower()
        self.draw_now()


def run_replay(
    summary: RecordingSummary | None,
    chosen: Settings,
    problems: Sequence[str],
    *,
    speed: float,
    loop: bool,
    snapshot: Path | None,
) -> int:
    """Play a recording on the terminal; return the exit code.

    Args:
        summary: the recording; ``None`` for the demo, with its snapshot.
        chosen: the settings of the screen.
        problems: lines about settings, to print after the end.
        speed: multiple of real time; infinity never waits.
        loop: start again at the end.
        snapshot: the file that the snapshot tab had open.

    Raises:
        UsageError: the command line names an unknown theme.
    """
    chosen, problems = with_theme(chosen, problems)
    if summary is None:
        summary, snapshot = scan_recording(FOLDER / DEMO), FOLDER / DEMO_SNAPSHOT
    session = ReplaySession(summary, speed, loop=loop)
    explain_host_ooms(session.state.bus, session.state.machine.hosts)
    app = ReplayApp(session, theme=str(chosen.value("theme")), snapshot=snapshot)
    app.handles_signals = True
    app.run(mouse=bool(chosen.value("mouse")))
    for problem in problems:
        print_notice(problem)
    return app.return_code or 0
