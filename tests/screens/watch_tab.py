"""The app on the tab of watched runs, with scripted runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.screen import Screen

from tests.screens.app_helpers import Running, running
from tests.screens.helpers import NOW
from tests.screens.watched import ScriptedRuns, device, kept_run, unread, watched
from tui.recordings.lines import AnyEvent
from tui.watch.state.run import WatchedRun

TWO = watched(device(), unread())


class OnRuns:
    """The app on the tab of watched runs."""

    def __init__(self, on: Running, runs: ScriptedRuns) -> None:
        self.on, self.runs = on, runs
        self.app, self.press, self.until = on.app, on.press, on.until

    @property
    def rows(self) -> list[str]:
        return self.on.rows

    @property
    def text(self) -> str:
        return self.on.text

    @property
    def said(self) -> str:
        """All that stands on the screen, as one line."""
        return " ".join(self.text.replace("\u258c", " ").replace("\u2502", " ").split())

    @property
    def front(self) -> type[Screen[Any]]:
        """What is on top: a dialog, or the tab."""
        return type(self.app.screen)

    def was_asked(self, *what: object) -> bool:
        """Whether that was the last that the run's session was asked for."""
        return self.runs.asked[-1] == what

    def on_page(self, words: str) -> Callable[[], bool]:
        return lambda: words in self.text


@asynccontextmanager
async def on_runs(
    opens: WatchedRun | None = TWO,
    *events: AnyEvent,
    size: tuple[int, int] = (80, 24),
    runs: tuple[Any, ...] | None = None,
    **options: Any,
) -> AsyncIterator[OnRuns]:
    """Open the tab with two stored runs, the first of which is running."""
    ended = kept_run("older", ended=NOW - 20, code=1, command=("python", "old.py"))
    scripted = ScriptedRuns(*((kept_run(), ended) if runs is None else runs), opens=opens)
    async with running(size, "one gpu", *events, runs=scripted, **options) as on:
        await on.press("5")
        tab = on.app.watched
        assert tab is not None
        await on.until(lambda: tab.runs_pane.runs is not None)
        await on.settle()
        yield OnRuns(on, scripted)
