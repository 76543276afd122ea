"""One watch for all parts of a session that read PyTorch processes from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui import allocators as watch
from tui.allocators.messages import (
    CPU_BUILD,
    NO_TORCH,
    WATCH_EVENTS,
    ListedProcesses,
    ProcessFigures,
    TorchProcess,
    TorchProcesses,
    WatchEvent,
    WatchPace,
    WatchTargets,
    pids_of,
)
from tui.core.child.launch import FOLDER
from tui.core.child.process import ChildProcess, MalformedMessage
from tui.core.child.supervisor import ChildSupervisor
from tui.core.events import EventBus, LogLine, Publish, RequestSent, WatchStatus
from tui.monitor.messages import Sample

ON_SCREEN_S = 1.0
"""Seconds between two readings while the screen shows them."""
IN_BACKGROUND_S = 2.0
"""Seconds between two readings otherwise, which suffices for findings over time."""
CHANGING_S = 0.1
"""Seconds between two readings on the screen while torch reserves memory all the time."""
CHANGED_WITHIN_S = 2.0
"""Seconds for which an allocator counts as changing after it has reserved or released memory."""


class ScreenPace:
    """Decides how often to read the allocators that are on the screen.

    Torch's figures and NVML's can be subtracted if two of torch's readings with equal reserved
    memory lie around NVML's. While an allocator grows, only readings in quick succession do.
    """

    def __init__(self) -> None:
        self._reserved: dict[tuple[int, str], int] = {}
        """Bytes at the last reading, by pid and device."""
        self._changed_at = -CHANGED_WITHIN_S

    def decide(self, event: ProcessFigures) -> float:
        """Return the seconds between two readings after this one."""
        reserved = {(figures.pid, figures.device): figures.reserved for figures in event.devices}
        if any(self._reserved.get(key, size) != size for key, size in reserved.items()):
            self._changed_at = event.at
        self._reserved = reserved
        return CHANGING_S if event.at - self._changed_at < CHANGED_WITHIN_S else ON_SCREEN_S


class WatchSupervisor(ChildSupervisor[WatchEvent]):
    """A supervisor that restarts the watch and repeats the requests to it.

    Args:
        publish: receives each event.
        pace: seconds between two readings.
        targets: the processes to watch.
        listed: processes that NVML lists, also watched.
    """

    def __init__(
        self, publish: Publish, *, pace: float, targets: WatchTargets, listed: tuple[int, ...]
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


Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(frozen=True, slots=True)
class WatchInterest:
    """The processes that one party reads, and how often.

    Raises:
        ValueError: it includes no process.
    """

    pace: float
    """Seconds between two readings."""
    pids: frozenset[int] = frozenset()
    """These processes, with torch or without, running or not."""
    children: bool = True
    """Also the descendants of :attr:`pids` that have torch."""
    others: bool = False
    """Also this user's other processes (for root, those of all users) that have torch."""

    def __post_init__(self) -> None:
        if not (self.pids or self.others):
            raise ValueError("the interest includes no process")

    def includes(self, process: TorchProcess) -> bool:
        """Return whether the party reads this process, which another party may have requested."""
        requested = self.pids.intersection(process.requested)
        if process.pid in requested or (self.children and requested):
            return True
        is_missing = process.start is None and process.refused
        return self.others and not is_missing and process.reason not in (NO_TORCH, CPU_BUILD)

    def select(self, processes: Sequence[TorchProcess]) -> tuple[TorchProcess, ...]:
        """Return the party's processes."""
        return tuple(filter(self.includes, processes))


def select_figures(figures: ProcessFigures, pids: Collection[int]) -> ProcessFigures:
    """Return the figures of these processes alone."""
    texts = {str(pid) for pid in pids}
    return replace(
        figures,
        devices=tuple(device for device in figures.devices if device.pid in pids),
        unavailable={
            name: why
            for name, why in figures.unavailable.items()
            if name.partition(" ")[0] in texts
        },
        host_rss={pid: resident for pid, resident in figures.host_rss.items() if pid in texts},
    )


class WatchParty:
    """A part of the session that reads processes through the shared watch.

    It receives the events of its own watch: the list of its processes when that changes,
    their figures at its pace, and the status of the watch.

    Args:
        watch: the watch.
        interest: the processes, and how often.
        publish: receives the events.
    """

    def __init__(self, watch: SharedWatch, interest: WatchInterest, publish: Publish) -> None:
        self._watch = watch
        self._interest = interest
        self._publish = publish
        self._processes: tuple[TorchProcess, ...] | None = None
        """The processes in the last list; ``None`` before the first."""
        self._read_at = 0.0
        """Unix time of the last figures."""

    @property
    def interest(self) -> WatchInterest:
        """The processes that the party reads."""
        return self._interest

    def set_interest(self, interest: WatchInterest) -> None:
        """Change the processes that the party reads."""
        if interest != self._interest:
            self._interest = interest
            self._watch.update()

    def leave(self) -> None:
        """End the party, and with the last party the watch."""
        self._watch.remove(self)

    def apply(self, event: object, pace: float) -> None:
        """Publish the party's part of an event of the watch.

        Args:
            event: the event.
            pace: seconds between two readings of the watch.
        """
        if isinstance(event, TorchProcesses):
            self._apply_list(event)
        elif isinstance(event, ProcessFigures):
            self._apply_figures(event, pace)
        else:
            self._publish(event)

    def _apply_list(self, event: TorchProcesses) -> None:
        own = self._interest.select(event.processes)
        # Only lists from before the request lack a requested process.
        is_answer = bool(own) or self._interest.others
        # The list also comes after a change of other parties' processes.
        if is_answer and own != self._processes:
            self._processes = own
            self._publish(replace(event, processes=own))

    def _apply_figures(self, event: ProcessFigures, pace: float) -> None:
        if self._processes is None:
            return
        # Readings for another party may come more often: choose the nearest to the party's time.
        if 0 <= event.at - self._read_at < self._interest.pace - pace / 2:
            return
        self._read_at = event.at
        self._publish(select_figures(event, {process.pid for process in self._processes}))


class SharedWatch:
    """One watch child that serves several parties: the processes tab, the open run.

    It reads the processes of all parties at the fastest pace among them, and each party receives
    its own part. The child starts with the first party and ends with the last.

    Args:
        bus: receives the requests to the watch and its log lines; its samples name the processes
            on a GPU.
        spawn: runs a coroutine as a task of the session.
    """

    def __init__(self, bus: EventBus, spawn: Spawn) -> None:
        self._bus = bus
        self._spawn = spawn
        self._parties: list[WatchParty] = []
        self._targets = WatchTargets(())
        self._pace = 0.0
        self._listed: tuple[int, ...] = ()
        self._supervisor: WatchSupervisor | None = None
        self._task: asyncio.Task[None] | None = None
        self._ending: list[ChildProcess[WatchEvent]] = []
        bus.subscribe(Sample, self._apply_sample)

    def join(self, interest: WatchInterest, publish: Publish) -> WatchParty:
        """Add a party.

        Args:
            interest: the processes that the party reads.
            publish: receives its part of the watch's events.
        """
        party = WatchParty(self, interest, publish)
        self._parties.append(party)
        self.update(needs_list=True)
        return party

    def remove(self, party: WatchParty) -> None:
        """Remove a party, if it has not left before."""
        if party in self._parties:
            self._parties.remove(party)
            self.update()

    @property
    def children(self) -> Sequence[ChildProcess[WatchEvent]]:
        """The children that are being ended, and the newest."""
        newest = None if self._supervisor is None else self._supervisor.child
        return (*self._ending, *(() if newest is None else (newest,)))

    async def ended(self) -> None:
        """Wait until the children without a party have ended."""
        await asyncio.gather(*(child.stop() for child in tuple(self._ending)))

    def set_listed(self, pids: tuple[int, ...]) -> None:
        """Set the processes that NVML lists, for a bus without samples."""
        self._listed = pids
        if self._supervisor is not None:
            self._supervisor.set_listed(pids)

    def update(self, *, needs_list: bool = False) -> None:
        """Start, change or end the watch, as the parties require.

        Args:
            needs_list: a party has not received its list, which the watch sends after a request.
        """
        interests = [party.interest for party in self._parties]
        if not interests:
            self._end()
            return
        targets = WatchTargets(
            tuple(sorted(frozenset[int]().union(*(interest.pids for interest in interests)))),
            children=any(interest.children for interest in interests),
            others=any(interest.others for interest in interests),
        )
        self._pace = min(interest.pace for interest in interests)
        if self._supervisor is None:
            self._supervisor = WatchSupervisor(
                self._publish, pace=self._pace, targets=targets, listed=self._listed
            )
            self._task = self._spawn(self._supervisor.supervise())
        else:
            self._supervisor.set_pace(self._pace)
            if needs_list or targets != self._targets:
                self._supervisor.set_targets(targets)
        self._targets = targets

    def _end(self) -> None:
        supervisor, task = self._supervisor, self._task
        self._supervisor = self._task = None
        if task is not None:
            task.cancel()
        if supervisor is not None and supervisor.child is not None:
            self._ending.append(supervisor.child)
            self._spawn(self._stop(supervisor.child))

    async def _stop(self, child: ChildProcess[WatchEvent]) -> None:
        await child.stop()
        self._ending.remove(child)

    def _publish(self, event: object) -> None:
        if isinstance(event, (LogLine, RequestSent)):
            self._bus.publish(event)
            return
        for party in tuple(self._parties):
            party.apply(event, self._pace)

    def _apply_sample(self, sample: Sample) -> None:
        self.set_listed(pids_of(sample.devices))
