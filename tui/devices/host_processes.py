"""Which processes hold the host's memory: read only while somebody asks for it."""

from __future__ import annotations

import heapq
import time

import psutil

from tui.devices.messages import GpuProcess, HostProcesses
from tui.devices.process_owners import ProcessOwners

LISTED = 40
"""Processes that are named; the memory of all others is one sum."""


class HostProcessReader:
    """Reads the resident memory of every process that has some, and names the largest."""

    def __init__(self) -> None:
        # These PIDs are this namespace's own, whatever NVML's are.
        self._owners = ProcessOwners(own_pids=False)

    def read(self) -> HostProcesses:
        """Read all processes of this PID namespace."""
        sizes: list[tuple[int, int]] = []
        hidden = 0
        for process in psutil.process_iter():
            try:
                resident = int(process.memory_info().rss)
            except psutil.NoSuchProcess:
                continue  # it has ended since it was listed: it holds nothing
            except (psutil.Error, OSError):
                hidden += 1
            else:
                # A kernel's thread has none, and could not be ended either.
                if resident:
                    sizes.append((resident, process.pid))
        largest = heapq.nlargest(LISTED, sizes)
        now = time.time()
        self._owners.keep_only(pid for _, pid in largest)
        rows = tuple(self._row(pid, resident, now) for resident, pid in largest)
        rest = sum(size for size, _ in sizes) - sum(size for size, _ in largest)
        return HostProcesses(rows, len(sizes) - len(largest), rest, hidden)

    def _row(self, pid: int, resident: int, now: float) -> GpuProcess:
        owner = self._owners.look_up(pid, now)
        return GpuProcess(
            pid=pid,
            user=owner.user,
            command=owner.command,
            memory=resident,
            kind="resident",
            started_at=owner.started_at,
            unavailable=dict(owner.unavailable),
        )
