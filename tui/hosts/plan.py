"""The other hosts of a session, and what it starts for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tui.hosts.address import HostAddress
from tui.hosts.archive import build_runner_archive
from tui.hosts.children import HostConnection
from tui.hosts.events import HostEvent
from tui.hosts.monitor import HostMonitor
from tui.hosts.process_watch import HostWatch, HostWatchEvent
from tui.hosts.supervisor import ReadingRounds, with_shared_connection


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The hosts that a session connects to.

    A session without other hosts has none, and imports none of the modules that reach them.
    """

    hosts: tuple[HostAddress, ...]
    here: bool = True
    """Show this machine as well."""
    pythons: Mapping[str, str] = field(default_factory=dict)
    """Names or paths of Pythons, by the names of their hosts."""
    rounds: ReadingRounds = field(default_factory=ReadingRounds)
    """In which the monitors and watches of all hosts are read."""

    def create_monitor(
        self, host: HostAddress, publish: Callable[[HostEvent], object], interval: float
    ) -> HostMonitor:
        """Return the monitor of a host, not started yet.

        Args:
            host: one of them.
            publish: receives each sample, and each loss of the connection.
            interval: seconds between two samples.
        """
        return HostMonitor(host, publish, interval, self.pythons.get(host.name), self.rounds)

    def create_watch(
        self,
        host: HostAddress,
        publish: Callable[[HostWatchEvent], object],
        interval: float,
    ) -> HostWatch:
        """Return the watch of a host, not started yet.

        Args:
            host: one of them.
            publish: receives the processes, their figures, steps and logs, and each loss.
            interval: seconds between two readings.
        """
        python, rounds = self.pythons.get(host.name), self.rounds
        return HostWatch(host, publish, interval, python, rounds=rounds)

    async def connect(self, host: HostAddress) -> HostConnection:
        """Return what starts a runner on a host, over the connection that its children share.

        Args:
            host: one of them.
        """
        # In a thread: packing the modules takes 0.1 s, during which no key would be answered.
        await asyncio.to_thread(build_runner_archive)
        shared = await with_shared_connection(host)
        return HostConnection(shared, self.pythons.get(host.name), alone=host)
