"""When the screen is drawn: a timer that looks for changes all the time would cost the box."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.timer import Timer

from tui.state.age import stale_after
from tui.state.store import Part, Parts, Store
from tui.ui.app.coalesce import Coalescer

LOOK_S = 1.0
"""How often it is looked at whether figures have grown old."""
GROWS_OLD = frozenset({Part.DEVICES, Part.MEMORY})


class Drawing:
    """Has what changed drawn together, and no more often than eye and link need.

    Args:
        app: whose timers are used.
        draw: is called with the parts of the store whose time has come.
    """

    def __init__(self, app: App[Any], draw: Callable[[Parts], None]) -> None:
        self._app = app
        self._draw = draw
        self._coalescer = Coalescer()
        self._timer: Timer | None = None
        self._ended = False

    def changed(self, parts: Parts) -> None:
        """Draw parts of the store when their time has come."""
        self._coalescer.add(parts)
        self._wait()

    def now(self) -> None:
        """Draw at once what has changed."""
        self._draw(self._coalescer.all(time.monotonic()))

    def watch_age(self, store: Store, clock: Callable[[], float]) -> None:
        """Look from now on at whether figures have grown old."""
        self._app.set_interval(LOOK_S, lambda: self._look(store, clock))

    def end(self) -> None:
        """Draw no more: the session still tells of its children's end when the screens are gone."""
        self._ended = True
        if self._timer is not None:
            self._timer.stop()

    def _wait(self) -> None:
        if self._timer is None and not self._ended:
            seconds = self._coalescer.due_in(time.monotonic())
            if seconds is not None:
                self._timer = self._app.set_timer(seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        self._draw(self._coalescer.due(time.monotonic()))
        self._wait()

    def _look(self, store: Store, clock: Callable[[], float]) -> None:
        """Figures grow old where nothing new comes, and only then are drawn for it."""
        sample = store.sample
        if sample and clock() - sample.at > stale_after(sample):
            self.changed(GROWS_OLD)
