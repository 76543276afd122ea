"""What the screens of devices need of the app."""

from __future__ import annotations

from typing import Protocol

from tui.devices.session.actions import DeviceActions
from tui.devices.state.machine import MachineState
from tui.kit.command_screen import Program


class DeviceProgram(Program, Protocol):
    """The app as a screen of devices sees it."""

    @property
    def machine(self) -> MachineState:
        """The state of the machine."""

    @property
    def actions(self) -> DeviceActions:
        """What can be requested."""
