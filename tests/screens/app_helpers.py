"""The whole app over a session that starts nothing."""

from __future__ import annotations

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
from tui.recordings.lines import AnyEvent
from tui.runs.screens.tab import WorkbenchScreen
from tui.watch.screens.tab import RunSession

assert tab_screens.FACTORIES, "imported here, so that no test waits for the thread that imports it"
POLL_S = 0.005
ROUNDS = 4000
"""How often a condition is asked for before a test gives it up: far above any real wait."""


class PromptApp(WorkbenchApp):
    """The workbench, drawn at once where another tab is opened.

    The framework holds the drawing back for 50 ms then, to hide the transition from an eye.
    """

    scripted_runs: ScriptedRuns | None = None

    def create_run_session(self) -> RunSession:
        """A scripted one: what runs this user has kept is not looked at."""
        self.scripted_runs = self.scripted_runs or ScriptedRuns()
        return self.scripted_runs

    def delay_update(self, delay: float = 0.05) -> None:
        """Hold nothing back."""


@dataclass
class Running:
    """The app on a screen of a given size, and what it was asked for."""

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
        """The workbench, where it is what is looked at."""
        assert isinstance(self.app.front, WorkbenchScreen)
        return self.app.front

    @property
    def pane(self) -> str | None:
        """The pane that keys go to."""
        return self.workbench.focused_pane

    @property
    def asked(self) -> list[tuple[object, ...]]:
        return self.session.asked

    def row(self, words: str) -> str:
        """The first row below the header with the words in it."""
        return next((row for row in self.rows[1:] if words in row), "")

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def tell(self, *events: AnyEvent) -> None:
        """Events from the children, drawn."""
        self.session.tell(*events)
        self.app.draw_now()
        await self.settle()

    async def settle(self) -> None:
        """Wait until every message is handled and drawn."""
        await settle(self.pilot)

    async def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        await self.pilot.resize_terminal(width, height)
        await self.settle()

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(ROUNDS):
            if condition():
                return
            await self.pilot.pause(POLL_S)
        raise AssertionError(f"it did not come about on this screen:\n{self.text}")


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
    # Whatever terminal the tests are started on.
    app.console = Console(color_system="truecolor", file=StringIO(), force_terminal=True)
    async with app.run_test(size=size, notifications=True) as pilot:
        found = Running(app, session, pilot)
        await found.until(lambda: app.focused is not None)
        await found.settle()
        yield found
