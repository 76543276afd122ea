"""Keeps the watch running: it reads what torch's allocators hold in other processes."""

from __future__ import annotations

import asyncio
import itertools

from tui import watch
from tui.child.process import ChildProcess, Garbage
from tui.monitor.messages import Sample
from tui.session.supervisors import BACK_OFF_S, Apply, Sent
from tui.state.events import LogLine, WatchStatus
from tui.watch.messages import WATCH_EVENTS, ListedProcesses, WatchEvent, WatchPace
from tui.watch.pairing import pids_of

LOOKED_AT_S = 0.5
"""Between two readings while they are on the screen."""
UNSEEN_S = 2.0
"""While they are not: what they tell over time needs no more."""


class WatchSupervisor:
    """Keeps a watch running, from when it is first needed.

    Args:
        apply: takes each event.
        sample: the monitor's newest.
        sent: is called with each request that was sent.
    """

    def __init__(self, apply: Apply, sample: Sample | None, sent: Sent | None = None) -> None:
        self.child: ChildProcess[WatchEvent] | None = None
        self._apply = apply
        self._sent = sent
        self._listed = pids_of(sample.devices) if sample else ()
        self._pace = LOOKED_AT_S

    async def supervise(self) -> None:
        """Start it, and start it again whenever it has ended; never returns."""
        for failures in itertools.count():
            reason = await self._run_once()
            words = f"the watch ended: {reason}; it is restarted"
            self._apply(WatchStatus("restarting", words))
            self._apply(LogLine("watch", f"ended: {reason}", "error"))
            await asyncio.sleep(BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)])

    async def _run_once(self) -> str:
        """Start it and take what it says until it ends; returns how it ended."""
        command = watch.serving(self._pace, listed=self._listed)
        child: ChildProcess[WatchEvent] = ChildProcess(
            command, WATCH_EVENTS, folder=watch.FOLDER, sent=self._sent
        )
        self.child = child
        try:
            await child.start()
        except OSError as error:
            return str(error)
        # What was asked for while it was being started.
        child.send(ListedProcesses(self._listed))
        async for event in child.events():
            if isinstance(event, Garbage):
                text = f"unreadable: {event.reason}: {event.line}"
                self._apply(LogLine("watch", text, "warning"))
            else:
                self._apply(event)
        return await child.ended()

    def look_at(self, wanted: bool) -> None:
        """Have them read often while they are looked at."""
        pace = LOOKED_AT_S if wanted else UNSEEN_S
        if pace != self._pace:
            self._pace = pace
            if self.child is not None:
                self.child.send(WatchPace(pace))

    def take_sample(self, sample: Sample) -> None:
        """Have those watched too that NVML lists."""
        listed = pids_of(sample.devices)
        if listed != self._listed:
            self._listed = listed
            if self.child is not None:
                self.child.send(ListedProcesses(listed))
