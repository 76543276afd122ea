"""The whole app over a session that starts nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from textual.pilot import Pilot

from tests.screens.fakes import FakeSession
from tests.screens.helpers import Kind, clock, make_store, screen_text
from tui.app.workbench import WorkbenchApp
from tui.screens.workbench import WorkbenchScreen
from tui.store.events import AnyEvent

ROUNDS = 200


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
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def tell(self, *events: AnyEvent) -> None:
        """Events from the children, drawn."""
        self.session.tell(*events)
        self.app.draw_now()
        await self.pilot.pause()

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(ROUNDS):
            if condition():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"it did not come about on this screen:\n{self.text}")


@asynccontextmanager
async def running(
    size: tuple[int, int] = (80, 24),
    kind: Kind = "one gpu",
    *events: AnyEvent,
    readonly: bool = False,
    now: Callable[[], float] = clock,
) -> AsyncIterator[Running]:
    session = FakeSession(make_store(kind, *events))
    app = WorkbenchApp(session, readonly=readonly, clock=now)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        found = Running(app, session, pilot)
        await found.until(lambda: app.focused is not None)
        yield found
