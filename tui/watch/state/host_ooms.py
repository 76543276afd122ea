"""Explanations of the OOMs on other machines, from the logs of their agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tui.allocators.findings import at_step
from tui.allocators.messages import AgentLogPart
from tui.core.events import EventBus, Topic, Topics
from tui.core.text.glyphs import clean
from tui.core.text.redact import with_texts
from tui.devices.state.hosts import HostsState
from tui.devices.state.watched_processes import WatchedProcesses
from tui.hosts.events import HostTorch
from tui.monitor.messages import Device
from tui.snapshots.explain.explanation import Explanation
from tui.watch.runs.ooms import Oom, describe_request
from tui.watch.runs.process_logs import ProcessLog, parse_log
from tui.watch.state.explained import circumstances, explain_without_snapshot, find_allocator
from tui.watch.state.processes import find_occupancy

EXAMINED = "its agent is examining the process"
_OOM_LINE = '{"event": "oom"'
"""Beginning of an agent's line that precedes the inventory's line."""
MOST_LOGS = 64
"""Logs of a host that are stored, the newest."""
MOST_CHARACTERS = 8 << 20
"""Characters of a log that are stored, the first."""


@dataclass(frozen=True, slots=True)
class HostOom:
    """The newest OOM of a process on a host, with its explanation."""

    log: ProcessLog
    oom: Oom
    explanation: Explanation | None
    """``None`` while the agent is examining the process."""

    @property
    def line(self) -> str:
        """Return the process and why it ran out of memory."""
        if self.explanation is None:
            why = f"OOM {at_step(self.oom.step)}: {describe_request(self.oom)}; {EXAMINED}"
        else:
            why = self.explanation.line
        rank = "" if self.log.rank is None else f" (rank {self.log.rank})"
        handled = ", which it handled" if self.oom.handled else ""
        return f"process {self.log.pid}{rank}{handled}: {why}"


@dataclass(slots=True)
class _ReceivedLog:
    run: str
    lines: list[str] = field(default_factory=list)
    characters: int = 0


class HostOomLogs:
    """The logs of the agents on one host, of which each has an OOM."""

    def __init__(self) -> None:
        self._logs: dict[str, _ReceivedLog] = {}

    def apply(self, part: AgentLogPart) -> None:
        """Store a part of a log; the first part replaces the log."""
        log = self._logs.get(part.identity)
        if log is None or part.number == 1:
            self._logs.pop(part.identity, None)
            log = self._logs[part.identity] = _ReceivedLog(part.run)
            while len(self._logs) > MOST_LOGS:
                del self._logs[next(iter(self._logs))]
        for line in part.lines:
            log.characters += len(line)
            if log.characters > MOST_CHARACTERS:
                return
            log.lines.append(line)

    def explain(
        self, processes: WatchedProcesses | None, devices: Sequence[Device]
    ) -> tuple[HostOom, ...]:
        """Return the newest OOM of each process, the newest of all first.

        Args:
            processes: the readings of the host's processes; ``None`` without any.
            devices: the GPUs of the host, as NVML has listed them last.
        """
        explained: list[HostOom] = []
        for identity, log in self._logs.items():
            if not log.lines:
                continue
            lines = [f"{line}\n".encode() for line in log.lines]
            logs = parse_log(identity, Path(log.run), lines).logs
            is_examined = log.lines[-1].startswith(_OOM_LINE)
            for program in logs:
                if program.ooms and is_examined and program is logs[-1]:
                    explained.append(_clean(HostOom(program, program.ooms[-1], None)))
                elif program.ooms:
                    explained.append(_explain(program, processes, devices))
        return tuple(sorted(explained, key=lambda host_oom: host_oom.oom.at, reverse=True))


def _explain(
    log: ProcessLog, processes: WatchedProcesses | None, devices: Sequence[Device]
) -> HostOom:
    oom = log.ooms[-1]
    seen = None if processes is None else find_allocator(processes, log, oom)
    known = circumstances(None, log, oom, seen, gpus=find_occupancy(devices))
    return _clean(HostOom(log, oom, explain_without_snapshot(oom, known)))


def _clean(host_oom: HostOom) -> HostOom:
    """Return an OOM whose texts cannot control this terminal: a host may be anybody's."""
    return with_texts(host_oom, clean, keys=False)


def explain_host_ooms(bus: EventBus, hosts: HostsState) -> None:
    """Note for each host, from its next event on, why processes there run out of memory.

    Args:
        bus: the events of the hosts.
        hosts: their states, which get the notes.
    """
    logs_of: defaultdict[str, HostOomLogs] = defaultdict(HostOomLogs)

    def explain(event: HostTorch) -> Topics:
        host = next((host for host in hosts.all if host.name == event.host), None)
        if event.log is None or host is None:
            return frozenset()
        logs = logs_of[host.name]
        logs.apply(event.log)
        sample = host.machine.sample
        ooms = logs.explain(host.machine.allocators, sample.devices if sample is not None else ())
        host.oom_notes = tuple(oom.line for oom in ooms)
        return frozenset({Topic.ALLOCATORS})

    bus.subscribe(HostTorch, explain)
