"""What opening a tab must not do: each of these took longer than the 50 ms a key may take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.screens.app_helpers import Running, running
from tests.tiers import VARIANT
from tui.app.tab_screens import STYLES
from tui.kit.commands.command import TABS
from tui.snapshots.screens.tab import SnapshotTab
from tui.watch.screens.tab import WatchTab

ROOT = Path(__file__).resolve().parents[2]
KEYS = tuple(str(number) for number in range(1, len(TABS) + 1))
OPEN_ALL = f"""
import asyncio, sys
from tests.screens.app_helpers import running

def loaded():
    return {{name for name in sys.modules if name.startswith("tui.")}}

async def main():
    async with running() as on:
        await on.app.import_tabs()
        before = loaded()
        for key in {KEYS!r}:
            await on.press(key)
        found = loaded() - before
    print(*sorted(found))

asyncio.run(main())
"""


async def _imported(on: Running) -> None:
    """Wait until what a tab needs is imported."""
    await on.app.import_tabs()
    await on.settle()


def _counted(call: Callable[[], None], calls: list[str], name: str) -> Callable[[], None]:
    def counted() -> None:
        calls.append(name)
        call()

    return counted


async def test_no_styles_are_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as on:
        await _imported(on)
        styles, calls = on.app.stylesheet, list[str]()
        before = {path for path, widget in styles.source if not widget}
        assert {str(path) for path in STYLES} <= before
        monkeypatch.setattr(styles, "reparse", _counted(styles.reparse, calls, "reparse"))
        for key in (*KEYS, *KEYS, "question_mark", "escape"):
            await on.press(key)
        assert not calls
        assert {path for path, widget in styles.source if not widget} == before


async def test_another_theme_is_parsed_and_reaches_a_tab_that_was_open_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as on:
        await _imported(on)
        await on.press("2")
        memory = on.app.front
        assert memory is not None
        await on.press("1")
        styles, calls = on.app.stylesheet, list[str]()
        monkeypatch.setattr(styles, "reparse", _counted(styles.reparse, calls, "reparse"))
        old = memory.styles.background
        on.app.theme = "textual-light"
        await on.settle()
        assert calls
        await on.press("2")
        assert on.app.front is memory
        assert memory.styles.background != old
        assert memory.styles.background.hex == on.app.theme_variables["background"]


async def test_no_timer_delays_the_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as on:
        await _imported(on)
        delays: list[object] = []
        set_timer = on.app.set_timer

        def noted(delay: float, *arguments: object, **options: object) -> object:
            delays.append(options.get("name"))
            return set_timer(delay, *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(on.app, "set_timer", noted)
        for key in KEYS:
            await on.press(key)
        assert "delay_update" not in delays


@VARIANT
def test_no_module_is_imported_by_opening_a_tab() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPEN_ALL], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


async def test_the_first_frame_waits_for_no_pane_that_is_hidden() -> None:
    async with running() as on:
        await _imported(on)
        await on.press("3")
        snapshot = on.app.front
        assert isinstance(snapshot, SnapshotTab)
        assert not {*snapshot.compose()} & {*snapshot.panes.values()}
        assert all(pane.is_mounted for pane in snapshot.panes.values()), "they follow it"
        await on.press("5")
        watch = on.app.front
        assert isinstance(watch, WatchTab)
        assert watch.run_pane not in [*watch.compose()]
        assert watch.run_pane.is_mounted, "it follows the frame"
