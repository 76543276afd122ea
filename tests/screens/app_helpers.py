"""The whole app over a session that starts no processes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import StringIO

from rich.console import Console
from textual.pilot import Pilot

from tests.screens.driving import press, settle
from tests.screens.fakes import FakeSession
from tests.screens.helpers import Kind, clock, make_store, screen_text
from tests.screens.watched import ScriptedRuns
from tui.app import tab_screens
from tui.app.workbench import WorkbenchApp
from tui.core.settings import OWN_PALETTE, THEME
from tui.recordings.lines import AnyEvent
from tui.runs.screens.tab import WorkbenchScreen
from tui.watch.session.watched_session import WatchedRunSession

assert tab_screens.FACTORIES, "imported here, so that no test waits for the thread that imports it"
POLL_S = 0.005
TIMEOUT_S = 120.0
"""How long a test waits for a condition: far above any real wait, on a loaded machine too."""


class PromptApp(WorkbenchApp):
    """The workbench, which leaves the user's stored runs unread."""

    scripted_runs: ScriptedRuns | None = None

    def create_run_session(self) -> WatchedRunSession:
        """Return a scripted session."""
        self.scripted_runs = self.scripted_runs or ScriptedRuns()
        return self.scripted_runs


@dataclass
class Running:
    """The app on a screen of a given size, and its requests."""

    app: WorkbenchApp
    session: FakeSession
    pilot: Pilot[None]

    @property
    def rows(self) -> list[str]:
        return screen_text(self.app)

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def workbench(self) -> WorkbenchScreen:
        """Return the workbench, if it is the current screen."""
        assert isinstance(self.app.front, WorkbenchScreen)
        return self.app.front

    @property
    def pane(self) -> str | None:
        """Return the pane with the keyboard focus."""
        return self.workbench.focused_pane

    @property
    def asked(self) -> list[tuple[object, ...]]:
        return self.session.asked

    def row(self, words: str) -> str:
        """Return the first row below the header that contains the words."""
        return next((row for row in self.rows[1:] if words in row), "")

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def tell(self, *events: AnyEvent) -> None:
        """Apply events from the children, and draw."""
        self.session.tell(*events)
        self.app.draw_now()
        await self.settle()

    async def settle(self) -> None:
        """Wait until every message is handled and drawn."""
        await settle(self.pilot)

    async def resize(self, width: int, height: int) -> None:
        """Change the terminal's size."""
        await self.pilot.resize_terminal(width, height)
        await self.settle()

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not come about on this screen:\n{self.text}")
            await self.pilot.pause(POLL_S)


@asynccontextmanager
async def running(
    size: tuple[int, int] = (80, 24),
    kind: Kind = "one gpu",
    *events: AnyEvent,
    readonly: bool = False,
    now: Callable[[], float] = clock,
    runs: ScriptedRuns | None = None,
) -> AsyncIterator[Running]:
    session = FakeSession(make_store(kind, *events))
    app = PromptApp(session, readonly=readonly, clock=now)
    app.scripted_runs = runs
    # Independent of the terminal that runs the tests.
    app.console = Console(color_system="truecolor", file=StringIO(), force_terminal=True)
    for theme in (OWN_PALETTE, THEME):
        app.theme = theme
    async with app.run_test(size=size, notifications=True) as pilot:
        found = Running(app, session, pilot)
        await found.until(lambda: app.focused is not None)
        await found.settle()
        yield found
