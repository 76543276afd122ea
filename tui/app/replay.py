"""The workbench over a recording: the same screens, without commands that need a runner."""

from __future__ import annotations

from pathlib import Path

from textual import events
from textual.screen import Screen

from tui.app.workbench import WorkbenchApp
from tui.core.settings import THEME
from tui.kit.commands.registry import key_text
from tui.recordings.replay import NOTHING_ASKED, ReplaySession


class ReplayApp(WorkbenchApp):
    """Plays a recording on the workbench's screens.

    Args:
        session: plays the recording; ages on the screen are those of the recorded time.
        theme: the theme to draw with.
        snapshot: the file that the snapshot tab had open.
    """

    replay = True

    def __init__(
        self, session: ReplaySession, theme: str = THEME, snapshot: Path | None = None
    ) -> None:
        super().__init__(session, readonly=True, clock=session.clock)
        self.theme = theme
        self._replay = session
        self.header_note = session.words
        self._shown_snapshot = snapshot

    def create_tab(self, tab: str) -> Screen[None]:
        """Create the screen of a tab; the snapshot tab opens the recording's file."""
        screen = super().create_tab(tab)
        if screen is self.snapshot and self._shown_snapshot is not None:
            self.snapshot.session.open(str(self._shown_snapshot), self._replay.out_of_memory())
        return screen

    def on_key(self, event: events.Key) -> None:
        """Explain why a key does nothing here that needs a runner."""
        if self.front is None:
            return
        now = self.front.situation()
        for command in self.commands.commands:
            if command.asks and event.key in command.keys and now.tab in command.tabs:
                words = f"{key_text(event.key)} {command.label}: {NOTHING_ASKED}"
                self.notify(words, severity="warning", markup=False)

    def action_replay_pause(self) -> None:
        self._replay.toggle()
        self.draw_now()

    def action_replay_faster(self) -> None:
        self._replay.faster()
        self.draw_now()

    def action_replay_slower(self) -> None:
        self._replay.slower()
        self.draw_now()
