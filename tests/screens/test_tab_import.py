"""The tabs' modules are imported beside the event loop: after the first figures, or when asked."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.screens.app_helpers import PromptApp, Running
from tests.screens.fakes import FakeSession
from tests.screens.helpers import clock, make_store
from tui.app import tabs
from tui.app.tab_screens import TAB_SCREENS, TabScreens
from tui.devices.screens.memory_tab import MemoryTab
from tui.kit.terminal.textual_private import notifications


class Imports:
    """Stands for the import of the tabs: notes its thread, and ends when a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: ImportError | None = None) -> None:
        self.threads: list[threading.Thread] = []
        self.may_end = threading.Event()
        self.error = error
        monkeypatch.setattr(tabs, "import_tab_screens", self.begin)

    def begin(self) -> TabScreens:
        self.threads.append(threading.current_thread())
        assert self.may_end.wait(60)
        if self.error is not None:
            raise self.error
        return TAB_SCREENS


class WaitingSession(FakeSession):
    """Its monitor answers when a test says."""

    def __init__(self) -> None:
        super().__init__(make_store("one gpu"))
        self.answered = asyncio.Event()

    async def wait_for_sample(self, timeout_s: float = 60.0) -> None:
        if timeout_s > 1:
            await self.answered.wait()


async def test_the_tabs_are_imported_in_a_thread_after_the_first_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imports = Imports(monkeypatch)
    imports.may_end.set()
    session = WaitingSession()
    app = PromptApp(session, clock=clock)
    async with app.run_test() as pilot:
        on = Running(app, session, pilot)
        await on.settle()
        assert not imports.threads, "the import would take the processor from the first figures"
        session.answered.set()
        await on.until(lambda: bool(imports.threads))
        assert session.started
        assert threading.main_thread() not in imports.threads


async def test_a_tab_that_is_opened_early_waits_for_the_import_while_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imports = Imports(monkeypatch)
    session = WaitingSession()
    app = PromptApp(session, clock=clock)
    async with app.run_test() as pilot:
        on = Running(app, session, pilot)
        await on.settle()
        opening = asyncio.create_task(app.action_switch_mode(MemoryTab.TAB))
        await on.until(lambda: bool(imports.threads))
        assert on.workbench, "the loop goes on, and the first tab is still there"
        imports.may_end.set()
        await opening
        assert isinstance(app.front, MemoryTab)
        assert threading.main_thread() not in imports.threads


@pytest.mark.parametrize(("key", "what"), [("2", "tab"), ("D", "presentation")])
async def test_a_tab_that_cannot_be_imported_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, key: str, what: str
) -> None:
    imports = Imports(monkeypatch, ModuleNotFoundError("No module named 'tui.results'"))
    imports.may_end.set()
    session = WaitingSession()
    app = PromptApp(session, clock=clock)
    async with app.run_test() as pilot:
        on = Running(app, session, pilot)
        await on.settle()
        await on.press(key)
        await on.until(lambda: bool(notifications(app)))
        (shown,) = notifications(app)
        assert shown.message == f"the {what} cannot be opened: No module named 'tui.results'"
        assert on.workbench, "the program goes on"


async def test_what_the_command_line_names_and_cannot_be_imported_is_a_clear_line_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imports = Imports(monkeypatch, ModuleNotFoundError("No module named 'tui.results'"))
    imports.may_end.set()
    session = WaitingSession()
    app = PromptApp(session, clock=clock, present="transfer")
    app.open_at_start("oom.pickle")
    async with app.run_test() as pilot:
        on = Running(app, session, pilot)
        await on.until(lambda: len(notifications(app)) == 2)
        assert [shown.message for shown in notifications(app)] == [
            "the presentation cannot be opened: No module named 'tui.results'",
            "the tab cannot be opened: No module named 'tui.results'",
        ]
        assert on.workbench, "the program goes on"
