"""All that one session knows: the states of its features on one event bus."""

from __future__ import annotations

from tui.core.events import EventBus, EventLog, Topic, Topics
from tui.devices.state.machine import MachineState
from tui.runs.state.state import RunsState


class WorkbenchState:
    """The states that the screens and the headless commands read, and the bus that changes them.

    Args:
        simulated: the GPUs are no hardware; a recording says so.
    """

    def __init__(self, *, simulated: bool = False) -> None:
        self.bus = EventBus()
        self.log = EventLog(self.bus)
        self.machine = MachineState(self.bus, simulated=simulated)
        self.runs = RunsState(self.bus, self.machine, self.log)

    def publish(self, event: object) -> Topics:
        """Deliver an event to the states; returns the topics that it changed."""
        return self.bus.publish(event)

    def forget(self) -> None:
        """Know nothing again: a recording is played from its beginning."""
        self.log.lines.clear()
        self.machine.forget()
        self.runs.forget()
        self.bus.announce(frozenset(Topic))
