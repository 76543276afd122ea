"""The state of other machines: each one's devices, its connection, and which row is selected."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tui.core.events import EventBus, RunnerStatus, Topic, Topics, WatchStatus
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import stale_after
from tui.hosts.events import HostLost, HostSample, HostsNamed, HostTorch

if TYPE_CHECKING:
    from tui.devices.state.machine import MachineState

NO_TORCH_YET = "torch starts there with the first run"
HERE = "here"
"""Name of this machine among the hosts."""
CLOCK_S = 30.0
"""Seconds after which a clock that was set back is known: nothing else makes samples so late."""
CHANGED = frozenset({Topic.DEVICES, Topic.MEMORY})
_LISTED = frozenset({Topic.DEVICES})
_OF_OTHERS = frozenset({Topic.HOSTS})


class HostState:
    """One host.

    Args:
        name: as the user gave it.
        machine: its devices; the events of ``bus`` change it.
        bus: of this host alone.
    """

    def __init__(self, name: str, machine: MachineState, bus: EventBus) -> None:
        self.name = name
        self.machine = machine
        self.round_trip_s: float | None = None
        self.lost: HostLost | None = None
        """Why it is not connected; ``None`` while it is, or before the first attempt has ended."""
        self._clocks: deque[tuple[float, float]] = deque()
        """When samples arrived, and by how much their time was ahead of that: the highest of the
        last :data:`CLOCK_S` seconds first, then the highest of those after it, and so on."""
        self.lost_since = 0.0
        """Unix time, of this machine, of the first of the failures in a row."""
        self.activity = ""
        """What this program runs there, in a word or two; empty while nothing runs."""
        self.oom_notes: tuple[str, ...] = ()
        """Why processes there have run out of memory, the newest first."""
        self.machine.lost = f"connecting to {name}"
        self.bus = bus
        """The events of this host alone; they are published by the states of all hosts."""
        self.bus.publish(RunnerStatus("not started", NO_TORCH_YET))

    @property
    def key(self) -> str:
        """Key of the host's own row, which stands for its CPU and its memory."""
        return f"{self.name}:{CPU}"

    @property
    def gpus(self) -> tuple[DeviceView, ...]:
        """The host's GPUs in the driver's order."""
        return tuple(view for view in self.machine.devices if view.key != CPU)

    @property
    def selected_row(self) -> str:
        """Key of the row of the selected device, whose number may change."""
        selected = self.machine.selected
        return next((view.label for view in self.machine.devices if view.key == selected), self.key)

    def find_key(self, key: str) -> str:
        """Return the key that a device of a row has on the host, by the row's key."""
        views = self.machine.devices
        return next((view.key for view in views if view.label == key), CPU)

    def apply(self, event: HostSample) -> None:
        """Apply a sample, which also shows that the host is connected."""
        if self.lost is not None:
            self._clocks.clear()
        ahead_s = event.sample.at - event.at
        while self._clocks and self._clocks[-1][1] <= ahead_s:
            self._clocks.pop()
        self._clocks.append((event.at, ahead_s))
        while not 0 <= event.at - self._clocks[0][0] <= CLOCK_S:
            self._clocks.popleft()
        # A sample is late by the way and by a busy machine: the least late one shows the clock.
        self.machine.clock_ahead_s = self._clocks[0][1]
        self.round_trip_s, self.lost, self.machine.lost = event.round_trip_s, None, ""
        self.bus.publish(event.sample)

    def apply_torch(self, event: HostTorch) -> Topics:
        """Apply an event of the host's torch processes; return the changed topics."""
        changed = frozenset[Topic]()
        for part in (event.processes, event.steps, event.figures):
            if part is not None:
                changed |= self.bus.publish(part)
        if event.lost:
            changed |= self.bus.publish(WatchStatus("restarting", event.lost))
        return changed

    def lose(self, event: HostLost) -> None:
        """Apply the end of the connection, or a failure to connect."""
        if self.lost is None:
            self.lost_since = event.at
        self.lost, self.machine.lost = event, f"unreachable: {event.reason}"


class HostsState:
    """All other machines, in the order in which the user named them.

    Args:
        bus: whose events change them.
        make_machine: creates the state of a machine with this name, on this bus.
    """

    def __init__(
        self, bus: EventBus, make_machine: Callable[[str, EventBus], MachineState]
    ) -> None:
        self._make_machine = make_machine
        self.forget()
        bus.subscribe(HostsNamed, self._on_named)
        bus.subscribe(HostSample, self._on_sample)
        bus.subscribe(HostLost, self._on_lost)
        bus.subscribe(HostTorch, self._on_torch)

    def forget(self) -> None:
        """Reset all facts in place."""
        self.here = True
        """This machine is shown as well."""
        self.selected_host: HostState | None = None
        """The host of the selected row; ``None`` for this machine."""
        self._by_name: dict[str, HostState] = {}

    # ---- queries ----

    def __bool__(self) -> bool:
        """Return whether the session shows other hosts."""
        return bool(self._by_name)

    @property
    def all(self) -> Sequence[HostState]:
        """The hosts in order."""
        return tuple(self._by_name.values())

    @property
    def selected(self) -> str:
        """Key of the selected row of another host; empty while one of this machine's is."""
        return self.selected_host.selected_row if self.selected_host is not None else ""

    def find_named(self, name: str) -> HostState | None:
        """Return the host with this name; ``None`` if there is none."""
        return self._by_name.get(name)

    def find(self, key: str) -> HostState | None:
        """Return the host of a row, by the row's key; ``None`` for a row of this machine."""
        # A row's key is the name of its host, which may have colons, and that of its device.
        host = self._by_name.get(key.rpartition(":")[0])
        if host is None:
            return None
        is_row = key == host.key or any(key == view.label for view in host.machine.devices)
        return host if is_row else None

    def has_aged(self, now: float) -> bool:
        """Return whether a host shows an age that grows: it is lost, or its figures are old."""
        for host in self._by_name.values():
            sample = host.machine.sample
            if host.lost is not None:
                return True
            if sample is not None and host.machine.now(now) - sample.at > stale_after(sample):
                return True
        return False

    # ---- events ----

    def select(self, key: str) -> HostState | None:
        """Select the row with this key; return its host, or ``None`` for this machine."""
        self.selected_host = self.find(key)
        return self.selected_host

    def _on_named(self, event: HostsNamed) -> Topics:
        self.forget()
        self.here = event.here
        for name in event.names:
            bus = EventBus()
            self._by_name[name] = HostState(name, self._make_machine(name, bus), bus)
        if not self.here and self._by_name:
            self.selected_host = next(iter(self._by_name.values()))
        return CHANGED | {Topic.SELECTION}

    def _on_sample(self, event: HostSample) -> Topics:
        host = self._by_name.get(event.host)
        if host is None:
            return frozenset()
        is_new = host.lost is not None or host.machine.sample is None
        host.apply(event)
        if host is not self.selected_host:
            # Of a host that is not selected only the list of devices shows anything.
            return _LISTED if is_new else _OF_OTHERS
        return CHANGED

    def _on_torch(self, event: HostTorch) -> Topics:
        host = self._by_name.get(event.host)
        if host is None:
            return frozenset()
        changed = host.apply_torch(event)
        # The ranks of jobs on other hosts are redrawn with the next sample.
        return changed if host is self.selected_host else frozenset()

    def _on_lost(self, event: HostLost) -> Topics:
        host = self._by_name.get(event.host)
        if host is None:
            return frozenset()
        host.lose(event)
        return CHANGED
