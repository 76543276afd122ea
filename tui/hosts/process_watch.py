"""The watch of one host, which reads the allocators of torch processes there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Union

from tui.allocators.messages import (
    VERSION,
    AgentLogPart,
    ListedProcesses,
    ProcessFigures,
    StepsCounted,
    TorchProcesses,
    WatchEvent,
    WatchHello,
    WatchPace,
)
from tui.core.child.process import ChildProcess
from tui.hosts.address import HostAddress
from tui.hosts.events import HostLost
from tui.hosts.supervisor import HostSupervisor, ReadingRounds
from workloads.protocol.keep_alive import Alive

_DEVICE = re.compile(r"cuda:\d{1,4}")
_PID_AND_DEVICE = re.compile(r"\d{1,10} cuda:\d{1,4}")


HostWatchEvent = Union[TorchProcesses, ProcessFigures, StepsCounted, AgentLogPart, HostLost]


class HostWatch(HostSupervisor[WatchEvent | Alive]):
    """Keeps a watch running on one host.

    Args:
        host: its address.
        publish: receives each list of processes, their figures, their steps, the logs of their
            agents, and each loss of the connection.
        interval: seconds between two readings.
        python: name or path of a Python there; ``None`` for ``python3``.
        pids: watch only these processes; empty for all of the user there, for root of all users.
        children: also watch the descendants of ``pids``.
        rounds: in which the children of all hosts are read; ``None`` to read each message at once.
    """

    def __init__(
        self,
        host: HostAddress,
        publish: Callable[[HostWatchEvent], object],
        interval: float,
        python: str | None = None,
        pids: Sequence[int] = (),
        *,
        children: bool = True,
        rounds: ReadingRounds | None = None,
    ) -> None:
        super().__init__(host, python, rounds)
        self._publish = publish
        self._interval = interval
        self._pids = tuple(pids)
        self._children = children
        self._listed: tuple[int, ...] = ()

    def set_listed(self, pids: Sequence[int]) -> None:
        """Watch the processes that NVML lists there as well."""
        if tuple(pids) != self._listed:
            self._listed = tuple(pids)
            if self.greeted:
                self.send(ListedProcesses(self._listed))

    def set_interval(self, seconds: float) -> None:
        """Set the interval in seconds, also for further connections."""
        if seconds != self._interval:
            self._interval = seconds
            if self.greeted:
                self.send(WatchPace(seconds))

    def make_host_child(self) -> ChildProcess[WatchEvent | Alive]:
        return self.connection.watch_child(
            self._interval, self._pids, self._listed, children=self._children
        )

    def apply_host_event(self, event: WatchEvent | Alive) -> None:
        if isinstance(event, WatchHello):
            if self.greet(event.version, VERSION):
                # Both may have changed since the child was given them.
                self.send(ListedProcesses(self._listed))
                self.send(WatchPace(self._interval))
        elif not self.greeted or isinstance(event, Alive):
            return
        elif isinstance(event, ProcessFigures) and not _has_valid_names(event):
            self.give_up("it sent figures of unknown devices")
        else:
            self.is_useful = True
            self._publish(event)

    def report_lost(self, reason: str, seconds: float) -> None:
        self._publish(HostLost(self.host.name, reason, seconds))


def _has_valid_names(figures: ProcessFigures) -> bool:
    return all(_DEVICE.fullmatch(device.device) for device in figures.devices) and all(
        map(_PID_AND_DEVICE.fullmatch, figures.unavailable)
    )
