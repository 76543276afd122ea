"""Keeps the watch running, which reads the torch allocators of other processes."""

from __future__ import annotations

import asyncio

from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import LogLine, Publish, RequestSent, WatchStatus
from tui.devices import allocators as watch
from tui.devices.allocators.messages import (
    WATCH_EVENTS,
    ListedProcesses,
    ProcessFigures,
    WatchEvent,
    WatchPace,
    pids_of,
)
from tui.devices.monitor.messages import Sample

LOOKED_AT_S = 0.5
"""Between two readings while they are on the screen."""
UNSEEN_S = 2.0
"""While they are not: what they tell over time needs no more."""


class WatchSupervisor(ChildSupervisor[WatchEvent]):
    """Keeps a watch running, from when it is first needed.

    Args:
        publish: receives each event.
        sample: the monitor's newest.
    """

    def __init__(self, publish: Publish, sample: Sample | None) -> None:
        super().__init__()
        self._publish = publish
        self._listed = pids_of(sample.devices) if sample else ()
        self._pace = LOOKED_AT_S

    def make_child(self) -> ChildProcess[WatchEvent]:
        command = watch.serving(self._pace, listed=self._listed)
        return ChildProcess(
            command,
            WATCH_EVENTS,
            folder=FOLDER,
            sent=lambda request: self._publish(RequestSent("watch", request)),
        )

    def send_first_requests(self) -> None:
        self.send(ListedProcesses(self._listed))

    def apply_event(self, event: WatchEvent) -> None:
        self.is_useful = self.is_useful or isinstance(event, ProcessFigures)
        self._publish(event)

    def report_malformed(self, message: MalformedMessage) -> None:
        text = f"unreadable: {message.reason}: {message.line}"
        self._publish(LogLine("watch", text, "warning"))

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        words = f"the watch ended: {reason}; it is restarted"
        self._publish(WatchStatus("restarting", words))
        self._publish(LogLine("watch", f"ended: {reason}", "error"))
        await asyncio.sleep(seconds)

    def look_at(self, wanted: bool) -> None:
        """Have them read often while they are looked at."""
        pace = LOOKED_AT_S if wanted else UNSEEN_S
        if pace != self._pace:
            self._pace = pace
            self.send(WatchPace(pace))

    def apply_sample(self, sample: Sample) -> None:
        """Have those watched too that NVML lists."""
        listed = pids_of(sample.devices)
        if listed != self._listed:
            self._listed = listed
            self.send(ListedProcesses(listed))
