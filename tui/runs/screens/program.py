"""What the screens of runs need of the app."""

from __future__ import annotations

from typing import Protocol

from tui.core.events import EventLog
from tui.devices.screens.panes import DeviceProgram
from tui.runs.session.actions import RunActions
from tui.runs.state.state import RunsState


class RunProgram(DeviceProgram, Protocol):
    """The app as a screen of runs sees it."""

    @property
    def runs(self) -> RunsState:
        """The state of the runs."""

    @property
    def event_log(self) -> EventLog:
        """The lines of the log."""

    @property
    def actions(self) -> RunActions:
        """What can be requested."""
