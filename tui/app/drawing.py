"""Decide when the screen is redrawn: as rarely as the eye and the link allow.

A timer that polls for changes all the time would cost processor time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from textual.app import App

from tui.core.events import Topic, Topics
from tui.devices.state.history import stale_after
from tui.runs.state.state import WorkbenchState

CHECK_S = 1.0
"""Seconds between two checks whether figures have grown old."""
GROWS_OLD = frozenset({Topic.DEVICES, Topic.MEMORY})


class Drawing:
    """Draws changes together, and no more often than the eye and the link need.

    Args:
        app: the app whose timers are used.
        draw: called with the topics that are due.
    """

    def __init__(self, app: App[Any], draw: Callable[[Topics], None]) -> None:
        self._app = app
        self._draw = draw
        self._coalescer = Coalescer()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def changed(self, topics: Topics) -> None:
        """Draw topics when they are due."""
        self._coalescer.add(topics, time.monotonic())
        self._wait()

    def now(self) -> None:
        """Draw everything that changed, at once."""
        self._draw(self._coalescer.all(time.monotonic()))

    def watch_age(self, state: WorkbenchState, clock: Callable[[], float]) -> None:
        """Check from now on whether figures have grown old."""
        self._app.set_interval(CHECK_S, lambda: self._redraw_aged(state, clock))

    def end(self) -> None:
        """Stop drawing: the session still reports its children's end after the screens are gone."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        seconds = None if self._ended else self._coalescer.due_in(time.monotonic())
        if seconds is None:
            return
        # Each timer of the framework is a task of its own.
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            # What has changed since is due earlier.
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._app.call_later, self._draw_due)

    def _draw_due(self) -> None:
        self._timer = None
        if self._ended:
            return
        self._draw(self._coalescer.due(time.monotonic()))
        self._wait()

    def _redraw_aged(self, state: WorkbenchState, clock: Callable[[], float]) -> None:
        """Redraw figures that have grown old, which happens only while nothing new arrives."""
        sample = state.machine.sample
        aged = sample is not None and clock() - sample.at > stale_after(sample)
        if aged or state.machine.hosts.has_aged(clock()):
            self.changed(GROWS_OLD)


GATHER_S = 0.03
"""Seconds in which further changes join the drawing of a first one."""
GATHER_SAMPLES_S = 0.15
"""The same if only samples changed: the samples of all hosts are of one moment and arrive one
after the other, as do the samples of NVML and the allocators."""
PAUSE_S = 0.25
"""Least seconds between two drawings that no key caused."""
PERIOD_S = {
    Topic.DEVICES: 0.9,
    Topic.HOSTS: 1.5,
    Topic.MEMORY: 0.9,
    Topic.ALLOCATORS: 0.5,
    Topic.WORKLOADS: 0.5,
    Topic.BACKEND: 0.5,
    Topic.LOG: 0.5,
}
"""Least seconds between two drawings of a topic, where that is longer."""
SAMPLED = frozenset({Topic.DEVICES, Topic.HOSTS, Topic.MEMORY, Topic.ALLOCATORS})
"""Topics that samples change. They join every drawing of others, so that all that one sample, or
those of ten hosts, changed is drawn at once."""


class Coalescer:
    """Collects changed topics and releases them no more often than they may be drawn.

    Times are in seconds, of a monotonic clock.
    """

    def __init__(self) -> None:
        self._waiting: set[Topic] = set()
        self._since = float("-inf")
        """When the first of the latest changes was added that are gathered for one drawing."""
        self._drawn: dict[Topic, float] = {}
        self._last = float("-inf")

    def add(self, topics: Topics, now: float) -> None:
        """Add topics that changed."""
        self._waiting |= topics
        if not topics <= SAMPLED or now - self._since > GATHER_SAMPLES_S:
            self._since = now

    def due_in(self, now: float) -> float | None:
        """Return the seconds until a topic is due; ``None`` while nothing has changed."""
        if not self._waiting:
            return None
        gather_s = GATHER_SAMPLES_S if self._waiting <= SAMPLED else GATHER_S
        gathered_in_s = gather_s - (now - self._since)
        return max(0.0, gathered_in_s, min(map(self._time_of, self._waiting)) - now)

    def due(self, now: float) -> Topics:
        """Return the changed topics that are due, or nearly so."""
        topics = {topic for topic in self._waiting if self._time_of(topic) <= now + GATHER_S}
        if topics:
            self._last = now
            topics |= self._waiting & SAMPLED
        return self._release(topics, now)

    def all(self, now: float) -> Topics:
        """Return everything that changed, after a key."""
        return self._release(set(self._waiting), now)

    def _time_of(self, topic: Topic) -> float:
        own = self._drawn.get(topic, float("-inf")) + PERIOD_S.get(topic, 0.0)
        return max(own, self._last + PAUSE_S)

    def _release(self, topics: set[Topic], now: float) -> Topics:
        self._waiting -= topics
        self._drawn.update(dict.fromkeys(topics, now))
        return frozenset(topics)
