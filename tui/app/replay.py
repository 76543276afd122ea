"""The workbench over a recording: the same screens, and nothing that can be asked for."""

from __future__ import annotations

from dataclasses import replace

from textual import events

from tui.app.workbench import WorkbenchApp
from tui.commands.command import Situation
from tui.commands.registry import COMMANDS, key_text
from tui.recordings.replay import NOTHING_ASKED, ReplaySession
from tui.settings import THEME


class ReplayApp(WorkbenchApp):
    """Plays a recording on the workbench's screens.

    Args:
        session: it plays; what is on the screen is as old as it was then.
        theme: to draw with.
    """

    def __init__(self, session: ReplaySession, theme: str = THEME) -> None:
        super().__init__(session, readonly=True, clock=session.clock)
        self.theme = theme
        self._replay = session

    @property
    def header_note(self) -> str:
        """Where the recording is, for the header."""
        return self._replay.words()

    def situation(self) -> Situation:
        """What decides which commands are valid."""
        return replace(super().situation(), replay=True)

    def on_key(self, event: events.Key) -> None:
        """Say why a key does nothing that does something where there is a runner."""
        now = self.situation()
        for command in COMMANDS:
            if command.asks and event.key in command.keys and now.tab in command.tabs:
                words = f"{key_text(event.key)} {command.label}: {NOTHING_ASKED}"
                self.notify(words, severity="warning", markup=False)

    def action_replay_pause(self) -> None:
        """Pause or go on."""
        self._replay.toggle()
        self.draw_now()

    def action_replay_faster(self) -> None:
        """Twice as fast."""
        self._replay.faster()
        self.draw_now()

    def action_replay_slower(self) -> None:
        """Half as fast."""
        self._replay.slower()
        self.draw_now()
