"""What is on the screen first, and what is started when."""

from __future__ import annotations

import asyncio

from textual import events
from textual.geometry import Size

from tests.screens.app_helpers import PromptApp, Running
from tests.screens.fakes import FakeSession
from tests.screens.helpers import clock, gpu, make_store, sample, screen_text
from tui.app.workbench import AT_ONCE_S
from tui.monitor.messages import Utilization


class SeeingSession(FakeSession):
    """Its monitor has answered by the time it is asked; the devices are drawn when a test says."""

    def __init__(self) -> None:
        super().__init__(make_store("empty"))
        self.app = PromptApp(self, clock=clock)
        self.first_paint: list[str] = []
        self.drawn = asyncio.Event()
        self.at_start: list[str] = []

    def watch(self) -> None:
        busy = Utilization(50.0, 0.0)  # idle ones would share a row
        self.tell(sample(*(gpu(index, utilization=busy) for index in range(8))))

    async def wait_for_sample(self, timeout_s: float = 60.0) -> None:
        if timeout_s > AT_ONCE_S:
            self.first_paint = screen_text(self.app)
            await self.drawn.wait()

    async def start(self) -> None:
        self.at_start = screen_text(self.app)
        await super().start()


async def test_the_first_paint_has_the_figures_and_the_runner_comes_after_it() -> None:
    session = SeeingSession()
    async with session.app.run_test(size=(120, 40)) as pilot:
        on = Running(session.app, session, pilot)
        await on.until(lambda: session.first_paint != [])
        assert sum("°C" in row for row in session.first_paint) == 8
        await on.press("j", "r")
        await on.settle()
        assert not session.started, "the runner's import would take the cores from the devices"
        session.drawn.set()
        await on.until(lambda: session.started)
        assert sum("°C" in row for row in session.at_start) == 8


class LateSession(SeeingSession):
    """Its monitor answers after the first paint."""

    def watch(self) -> None:
        """Do nothing: the session starts to watch after the first paint."""

    async def wait_for_sample(self, timeout_s: float = 60.0) -> None:
        await super().wait_for_sample(timeout_s)
        if timeout_s > AT_ONCE_S:
            super().watch()


async def test_figures_that_come_later_are_drawn_before_the_runner_starts() -> None:
    session = LateSession()
    async with session.app.run_test(size=(120, 40)) as pilot:
        on = Running(session.app, session, pilot)
        await on.until(lambda: session.first_paint != [])
        assert not any("°C" in row for row in session.first_paint)
        session.drawn.set()
        await on.until(lambda: session.started)
        assert sum("°C" in row for row in session.at_start) == 8


class ResizedApp(PromptApp):
    """Its terminal has a size of its own, whatever the events say."""

    actual: Size | None = None

    def terminal_size(self) -> Size | None:
        return self.actual


async def test_an_event_of_a_size_that_the_terminal_had_earlier_is_corrected() -> None:
    session = FakeSession(make_store())
    app = ResizedApp(session, clock=clock)
    async with app.run_test(size=(120, 40)) as pilot:
        on = Running(app, session, pilot)
        await on.settle()
        app.actual = Size(80, 24)
        app.post_message(events.Resize(Size(179, 40), Size(179, 40)))
        await on.until(lambda: len(on.rows) == 24)
        assert max(len(row) for row in on.rows) == 80
