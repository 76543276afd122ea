"""Explains the OOMs of processes on other machines in the state of their hosts."""

from __future__ import annotations

from tui.allocators.messages import AgentLogPart
from tui.core.events import EventBus, Topic, Topics
from tui.devices.state.hosts import HostsState
from tui.hosts.events import HostTorch
from tui.watch.state.host_ooms import HostOomLogs


class HostOomNotes:
    """Notes for each host why processes there have run out of memory.

    Args:
        hosts: the state of the hosts.
    """

    def __init__(self, hosts: HostsState) -> None:
        self._hosts = hosts
        self._logs: dict[str, HostOomLogs] = {}

    def apply(self, name: str, part: AgentLogPart) -> Topics:
        """Apply the lines of an agent on a host; return the changed topics.

        Args:
            name: of the host.
            part: of the agent's log.
        """
        host = next((host for host in self._hosts.all if host.name == name), None)
        if host is None:
            return frozenset()
        logs = self._logs.setdefault(name, HostOomLogs())
        logs.apply(part)
        sample = host.machine.sample
        ooms = logs.explain(host.machine.allocators, sample.devices if sample is not None else ())
        host.oom_notes = tuple(oom.line for oom in ooms)
        return frozenset({Topic.ALLOCATORS})


def explain_host_ooms(bus: EventBus, hosts: HostsState) -> None:
    """Explain from now on why processes of other hosts run out of memory.

    Args:
        bus: the events of the hosts.
        hosts: their states, which get the notes.
    """
    notes = HostOomNotes(hosts)

    def explain(event: HostTorch) -> Topics:
        return frozenset() if event.log is None else notes.apply(event.host, event.log)

    bus.subscribe(HostTorch, explain)
