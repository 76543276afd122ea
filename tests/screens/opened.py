"""Open a scene of :mod:`tests.screens.every_screen`, by the steps that lead to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from tests.screens.app_helpers import POLL_S, Running, running
from tests.screens.every_screen import Scene
from tests.screens.stored_runs import store_runs
from tests.screens.watched import ScriptedRuns
from tui.app.workbench import WorkbenchApp
from tui.results.store import store_path
from tui.results.store.database import Database
from tui.runs.screens.workloads_pane import WorkloadList


def select_workload(table: WorkloadList, workload: str) -> None:
    """Put the cursor on a workload, or with a stroke at its end on the heading of its group."""
    for place in range(table.count):
        table.go_to(place)
        if table.workload == workload.rstrip("/"):
            break
    else:
        raise LookupError(f"there is no workload {workload}")
    while workload.endswith("/") and table.workload is not None:
        table.action_move(-1)


def _answered(on: Running) -> bool:
    tab = on.app.snapshot
    if tab is None or tab.session.main.store.status == "empty":
        return True
    return tab.session.ready and not tab.session.main.store.waiting


def _at_rest(on: Running) -> bool:
    """Return whether nothing is read from the stored results and runs."""
    tab = on.app.watched
    if tab is not None and tab is on.app.front and tab.session.state is None:
        stored = tab.runs_pane.list.stored
        if stored is None or not (stored.ooms == 0 or tab.runs_pane.ooms.is_read(stored)):
            return False
    return not any(worker.is_running for worker in on.app.workers if worker.node is on.app.front)


def store_results(scene: Scene) -> None:
    """Write the scene's results into the store."""
    if scene.kept:
        with Database(store_path(), writing=True) as database:
            database.add(scene.kept)


@asynccontextmanager
async def opened(
    scene: Scene,
    size: tuple[int, int],
    prepare: Callable[[WorkbenchApp], object] = lambda _app: None,
) -> AsyncIterator[Running]:
    """Open a screen, whose results are stored.

    Args:
        scene: the screen.
        size: columns and rows of the terminal.
        prepare: is given the app before the first step.
    """
    runs = ScriptedRuns(*store_runs(), opens=scene.watched)
    async with running(size, "empty", *scene.events, runs=runs) as on:
        prepare(on.app)
        if scene.workload:
            select_workload(on.workbench.workloads.table, scene.workload)
            await on.settle()
        if scene.snapshot is not None:
            on.app.open_snapshot(str(scene.snapshot))
            await on.until(partial(_answered, on))
        if scene.watched is not None:
            on.app.open_run(scene.watched.run)
            await on.settle()
        for key in scene.keys:
            await on.press(key)
            await on.until(partial(_answered, on))
            await on.until(partial(_at_rest, on))
        await on.settle()
        await on.pilot.pause(POLL_S)
        yield on
