"""The event bus: publishes what happens in a session and delivers it to the subscribers.

Each feature has a state of its own, which only events change; its handlers return the changed
topics. A recording is a file of the published events.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union

LOG_LINES = 500


class Topic(enum.Enum):
    """A part of the states that some pane shows."""

    DEVICES = "devices"
    HOSTS = "hosts"
    """Devices of the hosts that are not selected."""
    SELECTION = "selection"
    MEMORY = "memory"
    WORKLOADS = "workloads"
    BACKEND = "backend"
    RUNNER = "runner"
    ALLOCATORS = "allocators"
    """Allocators of other processes."""
    LOG = "log"


Topics = frozenset[Topic]
"""The topics that one event changed."""
NO_TOPICS: Topics = frozenset()
E = TypeVar("E")
Handler = Callable[[E], "Topics | None"]
"""Applies an event; returns the topics that it changed, or ``None`` if it has no state."""
Publish = Callable[[object], object]


class EventBus:
    """Delivers events to handlers, and the topics that they changed to listeners."""

    def __init__(self) -> None:
        self._observers: list[Callable[[object], None]] = []
        self._handlers: dict[type, list[Handler[Any]]] = {}
        self._listeners: list[Callable[[Topics], None]] = []

    def observe(self, observer: Callable[[object], None]) -> None:
        """Register a function to call with every event, before the handlers get it."""
        self._observers.append(observer)

    def subscribe(self, kind: type[E], handler: Handler[E]) -> None:
        """Register a handler for one type of event; handlers run in the order of registration."""
        self._handlers.setdefault(kind, []).append(handler)

    def on_change(self, listener: Callable[[Topics], None]) -> None:
        """Register a function to call with the topics that an event changed, if there are any."""
        self._listeners.append(listener)

    def publish(self, event: object) -> Topics:
        """Deliver an event; returns the topics that it changed.

        A handler may publish too: its event is delivered before this one reaches the next handler.
        """
        for observer in self._observers:
            observer(event)
        changed = NO_TOPICS
        for handler in self._handlers.get(type(event), ()):
            changed |= handler(event) or NO_TOPICS
        self.announce(changed)
        return changed

    def announce(self, topics: Topics) -> None:
        """Call the listeners with the changed topics, unless there are none."""
        for listener in self._listeners if topics else ():
            listener(topics)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line for the log pane."""

    source: Literal["runner", "monitor", "watch", "workbench"]
    text: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of the log with its moment."""

    at: float
    """Unix time."""
    line: LogLine


class EventLog:
    """The newest lines of the log, oldest first.

    Args:
        bus: the bus whose log lines are appended.
        clock: returns the current Unix time, or that of a recording.
    """

    def __init__(self, bus: EventBus, clock: Callable[[], float]) -> None:
        self.entries: deque[LogEntry] = deque(maxlen=LOG_LINES)
        self._clock = clock
        bus.subscribe(LogLine, self.append)

    @property
    def lines(self) -> list[LogLine]:
        """Return the lines without their moments."""
        return [entry.line for entry in self.entries]

    def append(self, line: LogLine) -> Topics:
        """Append a line; returns the topic of the log."""
        self.entries.append(LogEntry(self._clock(), line))
        return frozenset({Topic.LOG})

    def clear(self) -> None:
        """Remove all lines."""
        self.entries.clear()


@dataclass(frozen=True, slots=True)
class RequestSent:
    """A request that was sent to a child."""

    child: Literal["monitor", "runner", "watch"]
    request: object


ChildStatus = Literal[
    "not started", "starting", "importing torch", "ready", "unusable", "restarting", "ended"
]
"""A child that is not started waits for a request, as the runner of another host does."""


@dataclass(frozen=True, slots=True)
class RunnerStatus:
    """The runner's process: its activity and, if something is wrong, why and what to do."""

    status: ChildStatus
    reason: str = ""
    advice: str = ""
    report: str | None = None
    """Path of the saved crash report."""

    @property
    def silence(self) -> str:
        """Return how long the runner or its worker has been silent; empty unless it is ready."""
        return self.reason.partition(":")[0] if self.status == "ready" else ""


@dataclass(frozen=True, slots=True)
class MonitorStatus:
    """The state of the monitor's process."""

    status: ChildStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """The state of the watch's process."""

    status: ChildStatus
    reason: str = ""


CoreEvent = Union[LogLine, RunnerStatus, MonitorStatus, WatchStatus]
