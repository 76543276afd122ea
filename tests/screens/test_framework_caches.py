"""What the framework keeps of widgets and sizes that are gone is given up."""

from __future__ import annotations

import gc

from textual._styles_cache import StylesCache

from tests.screens.driving import press, settle
from tests.screens.fakes import FakeSession
from tests.screens.helpers import make_store
from tui.app.workbench import WorkbenchApp
from tui.terminal import framework_caches


def _caches() -> int:
    """Widgets whose drawn lines are still held."""
    framework_caches.forget()
    gc.collect()
    return sum(isinstance(each, StylesCache) for each in gc.get_objects())


async def test_dialogs_that_were_closed_are_not_kept() -> None:
    app = WorkbenchApp(FakeSession(make_store()))
    held = []
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(4):
            for key in ("question_mark", "escape"):
                await press(pilot, key)
            held.append(_caches())
    assert held[-1] <= held[0]


async def test_it_is_drawn_as_before() -> None:
    app = WorkbenchApp(FakeSession(make_store()))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        before = app.export_screenshot()
        framework_caches.forget()
        app.screen.refresh(layout=True)
        await settle(pilot)
        assert app.export_screenshot() == before
