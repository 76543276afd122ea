"""Keys at random over every tab and dialog: nothing that is typed ends the workbench."""

from __future__ import annotations

import inspect
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from textual.command import CommandPalette
from textual.screen import Screen
from textual.widgets import OptionList

import tui
from tests.screens import watched
from tests.screens.app_helpers import Running, running
from tests.screens.driving import key_event
from tests.screens.every_screen import SNAPSHOT, kept_results, scenes
from tests.screens.watched import ScriptedRuns, kept_run
from tests.tiers import VARIANT
from tests.walks import Walk
from tui.kit.command_screen import CommandScreen
from tui.kit.dialogs import ClosesOnce, ConfirmScreen, Palette
from tui.results.store import store_path
from tui.results.store.database import Database
from tui.runs.screens.present import PresentScreen
from tui.snapshots.session.snapshot_session import SnapshotSession


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somewhere to write to: a walk copies, deletes and opens files by names that it makes up."""
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("GPU_WORKBENCH_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def burst(on: Running, *keys: str) -> None:
    """Type keys faster than the app handles them, then wait until it has."""
    for key in keys:
        on.app.post_message(key_event(key))
    await on.settle()


async def go(walk: Walk, keys: int, *, readonly: bool = False, snapshot: bool = False) -> None:
    """Walk on one workbench after another, until so many keys are typed.

    Nothing is behind it: what it asks for is written down, no process is listed that there is.

    Args:
        walk: what is typed.
        keys: how many, in all.
        readonly: offer nothing that asks the runner for something.
        snapshot: begin with a snapshot that is open, which costs a child process.
    """
    two = watched.watched(watched.device(), watched.ran_out())
    past = kept_results()
    while walk.typed < keys:
        with Database(store_path(), writing=True) as database:
            database.add(past)
        runs = ScriptedRuns(kept_run(), opens=two)
        events = scenes()["swept"].events
        try:
            async with running((100, 30), "two gpus", *events, readonly=readonly, runs=runs) as on:
                if snapshot:
                    on.app.open_snapshot(str(SNAPSHOT))
                    assert on.app.snapshot is not None
                    await on.until(partial(_is_ready, on.app.snapshot.session))
                for step in walk.steps(keys):
                    if step.size is not None:
                        await on.resize(*step.size)
                    if step.apart:
                        await on.press(*step.keys)
                    else:
                        await burst(on, *step.keys)
                    if not on.app.is_running:
                        break
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told with the keys)
            walk.fail(f"{type(error).__name__}: {error}", error)


def _is_ready(session: SnapshotSession) -> bool:
    return session.ready


# ---- what closes a dialog reaches it twice ----


async def test_two_quick_enters_in_the_palette_run_one_command() -> None:
    async with running() as on:
        await on.press("colon", *"restart")
        await on.until(lambda: on.app.screen.query_one(OptionList).option_count == 1)
        await burst(on, "enter", "enter", "enter", "enter")
        await on.until(lambda: on.asked != [])
        await on.settle()
        assert on.app.screen is on.workbench
        assert [name for name, *_ in on.asked] == ["restart_runner"]


async def test_the_palette_may_have_closed_before_it_has_opened() -> None:
    async with running() as on:
        await burst(on, "colon", "escape", "escape", "colon", "escape")
        await on.until(lambda: on.app.screen is on.workbench)
        await on.press("6")
        await on.until(lambda: on.app.front is not None and on.app.front.TAB == "results")


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_what_is_typed_faster_than_the_palette_opens_is_searched_and_run(key: str) -> None:
    async with running() as on:
        await burst(on, key, *"results", "enter")
        await on.until(lambda: on.app.front is not None and on.app.front.TAB == "results")
        await on.settle()
        assert not isinstance(on.app.screen, Palette)


async def test_the_palette_goes_to_a_workload_from_any_tab() -> None:
    async with running((120, 40), "two gpus") as on:
        await on.press("4", "colon")
        await on.until(lambda: isinstance(on.app.screen, Palette))
        name = on.app.runs.catalogue[-1].name
        await on.press(*name.replace("_", "underscore"))
        await on.until(lambda: "workload " in on.text)
        assert name in on.row("workload ")
        await on.press("enter")
        await on.until(lambda: on.app.screen is on.workbench)
        await on.settle()
        assert on.workbench.workloads.table.workload == name
        assert on.app.focused is on.workbench.workloads.table
        assert on.row(f" {name}").strip("│ ").startswith("▸")


async def test_the_palette_finds_what_empty_tabs_offer() -> None:
    async with running((120, 40), "two gpus") as on:
        on.app.can_play_demo = True
        await on.press("colon", *"play demo".replace(" ", ""))
        await on.until(lambda: bool(on.row("Play the demo")))
        await on.press("enter")
        await on.until(lambda: on.app.demo_requested)


async def test_a_palette_that_is_closed_before_it_is_mounted_closes_once_it_is() -> None:
    async with running() as on:
        on.app.action_command_palette()
        palette = on.app.screen
        assert isinstance(palette, Palette)
        assert not palette.is_mounted
        palette.dismiss()
        palette.dismiss()
        await on.until(lambda: on.app.screen is on.workbench)
        await on.press("6")
        await on.until(lambda: on.app.front is not None and on.app.front.TAB == "results")


async def test_a_palette_may_be_opened_while_a_command_opens_another_tab() -> None:
    async with running() as on:
        on.app.action_command_palette()
        await on.app.switch_mode("results")
        await on.until(lambda: on.app.front is not None and on.app.front.TAB == "results")
        await on.press("1")
        await on.until(lambda: on.app.screen is on.workbench)
        await on.press("6")
        await on.until(lambda: on.app.front is not None and on.app.front.TAB == "results")


async def test_a_dialog_that_is_closed_twice_closes_nothing_else() -> None:
    async with running() as on:
        await on.press("R")
        dialog = on.app.screen
        assert isinstance(dialog, ConfirmScreen)
        dialog.action_answer(yes=False)
        dialog.action_answer(yes=False)
        await on.settle()
        assert on.app.screen is on.workbench


async def test_a_demo_that_is_left_twice_leaves_the_workbench() -> None:
    async with running((100, 30), "two gpus", *scenes()["busy"].events) as on:
        await on.press("D")
        demo = on.app.screen
        assert isinstance(demo, PresentScreen)
        demo.action_present_leave()
        demo.action_present_leave()
        await on.settle()
        assert on.app.screen_stack == [on.workbench]


def test_every_screen_over_another_closes_once() -> None:
    modules = [
        import_module(module.name)
        for module in walk_packages(tui.__path__, "tui.")
        if ".screens." in module.name or module.name.startswith("tui.kit.")
    ]
    screens = {
        found
        for module in modules
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Screen) and found.__module__.startswith("tui.")
    }
    over = {found for found in screens if not issubclass(found, CommandScreen)} | {PresentScreen}
    assert len(over) > 8
    assert {found for found in over if not issubclass(found, (ClosesOnce, Palette))} == set()
    assert "dismiss" in vars(Palette)
    assert issubclass(Palette, CommandPalette)


# ---- at random ----


@VARIANT
async def test_some_hundred_random_keys_end_nothing() -> None:
    await go(Walk(seed=20), 150)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("readonly", [False, True], ids=["plain", "readonly"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_thousands_of_random_keys_end_nothing(seed: int, readonly: bool) -> None:
    await go(Walk(seed), 1500, readonly=readonly, snapshot=True)
