"""A supervisor of the watch, which reads the allocators of PyTorch processes from outside."""

from __future__ import annotations

import asyncio

from tui import allocators as watch
from tui.allocators.messages import (
    WATCH_EVENTS,
    ListedProcesses,
    ProcessFigures,
    WatchEvent,
    WatchPace,
    WatchTargets,
)
from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import LogLine, Publish, RequestSent, WatchStatus

ON_SCREEN_S = 1.0
"""Seconds between two readings while the screen shows them."""
IN_BACKGROUND_S = 2.0
"""Seconds between two readings otherwise, which suffices for findings over time."""

_ALL = WatchTargets(())


class WatchSupervisor(ChildSupervisor[WatchEvent]):
    """A supervisor that restarts the watch and repeats the requests to it.

    Args:
        publish: receives each event.
        pace: seconds between two readings.
        wanted: the processes to watch; all processes of this user unless given.
        listed: processes that NVML lists, also watched.
    """

    def __init__(
        self,
        publish: Publish,
        *,
        pace: float = ON_SCREEN_S,
        targets: WatchTargets = _ALL,
        listed: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self._publish = publish
        self._pace = WatchPace(pace)
        self._targets = targets
        self._listed = ListedProcesses(listed)
        self._at_start: frozenset[object] = frozenset()
        """Requests passed to the newest child at its start."""

    def make_child(self) -> ChildProcess[WatchEvent]:
        self._at_start = frozenset((self._targets, self._listed, self._pace))
        arguments = watch.serve_arguments(
            self._pace.seconds,
            self._targets.pids,
            self._listed.pids,
            children=self._targets.children,
            others=self._targets.others,
        )
        return ChildProcess(
            watch.serving(arguments),
            WATCH_EVENTS,
            folder=FOLDER,
            sent=lambda request: self._publish(RequestSent("watch", request)),
        )

    def send_first_requests(self) -> None:
        for request in (self._targets, self._listed, self._pace):
            if request not in self._at_start:
                self.send(request)

    def apply_event(self, event: WatchEvent) -> None:
        self.is_useful = self.is_useful or isinstance(event, ProcessFigures)
        self._publish(event)

    def report_malformed(self, message: MalformedMessage) -> None:
        text = f"unreadable: {message.reason}: {message.line}"
        self._publish(LogLine("watch", text, "warning"))

    async def wait_for_next_start(self, reason: str, seconds: float) -> None:
        words = f"the watch ended: {reason}; it is restarted"
        self._publish(WatchStatus("restarting", words))
        last = "" if self.child is None else " ".join(self.child.stderr.last(1))
        self._publish(LogLine("watch", f"ended: {reason} {last}".rstrip(), "error"))
        await asyncio.sleep(seconds)

    # ---- requests ----

    def set_pace(self, seconds: float) -> None:
        """Read the figures this many seconds apart."""
        if seconds != self._pace.seconds:
            self._pace = WatchPace(seconds)
            self.send(self._pace)

    def set_targets(self, targets: WatchTargets) -> None:
        """Watch these processes; the watch answers with its list, even if nothing changes."""
        self._targets = targets
        self.send(targets)

    def set_listed(self, pids: tuple[int, ...]) -> None:
        """Watch the processes that NVML lists as well."""
        if pids != self._listed.pids:
            self._listed = ListedProcesses(pids)
            self.send(self._listed)
