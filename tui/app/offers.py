"""The offers of empty tabs: the newest OOM, the stored results, an example and the demo."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tui.core.text import numbers as text
from tui.core.text.commands import shorten_command
from tui.kit.lists import Offer
from tui.recordings import DEMO_SNAPSHOT, FOLDER
from tui.results.store import StoreError, queries, store_path
from tui.watch.runs.ooms import Oom, describe_request
from tui.watch.runs.process_logs import process_logs_in
from tui.watch.runs.runs import StartedRun, stored_runs

if TYPE_CHECKING:
    from tui.app.tabs import TabbedApp

SNAPSHOT, WATCH, RESULTS = "snapshot", "watch", "results"
"""Ids of the tabs that can be empty."""
TIMED = "matmul"
"""The workload that the tab of results offers to time."""
NEWEST_OOM = "Open the newest OOM"


def list_offers(app: TabbedApp, tab: str) -> Sequence[Offer]:
    """Return the offers of a tab that need no file."""
    offers: list[Offer] = []
    runnable = not app.readonly and app.runs.runner.status not in ("unusable", "ended")
    if tab == RESULTS and runnable and app.stores_results:
        # Before torch has started, the GPUs of NVML's list are expected to be usable.
        known, gpu = app.runs.machine.environment, app.runs.machine.gpu_column
        has_gpu = len(app.runs.machine.usual_devices) > 1 if known else gpu is not None
        where = "on the CPU and the GPU" if has_gpu else "on the CPU"
        offers.append(Offer(f"Time {TIMED}", where, partial(app.time_workload, TIMED)))
    if tab != RESULTS:
        words = "a program that leaks until it runs out of memory"
        opens = partial(app.open_snapshot, str(FOLDER / DEMO_SNAPSHOT))
        offers.append(Offer("Open the example snapshot", words, opens))
    # A page of the browser closes with the app, so that nobody would see the demo.
    if app.can_play_demo and not app.is_web:
        words = "recorded runs, about a minute; q comes back"
        offers.append(Offer("Play the demo", words, app.play_demo))
    return offers


def find_offers(app: TabbedApp, tab: str) -> Sequence[Offer]:
    """Return the offers of a tab that are found in files, the most useful first."""
    if app.replay or tab == RESULTS:
        return []
    if tab == SNAPSHOT:
        # The first row has the cursor, and Enter on it is to open a snapshot, not another tab.
        oom = find_newest_oom()
        return [] if oom is None else [_oom_offer(app, *oom)]
    results = _results_offer(app)
    return [] if results is None else [results]


def find_newest_oom() -> tuple[StartedRun, Oom] | None:
    """Return the newest OOM of a stored run that has a snapshot, else the newest OOM at all."""
    ooms = [
        (oom.snapshot is not None and oom.snapshot.exists(), oom.at, run, oom)
        for run in stored_runs()
        for left in process_logs_in(run.folder)
        for oom in left.ooms
    ]
    if not ooms:
        return None
    _, _, run, oom = max(ooms, key=lambda entry: entry[:2])
    return run, oom


def _oom_offer(app: TabbedApp, run: StartedRun, oom: Oom) -> Offer:
    command = shorten_command(" ".join(run.command)) or run.folder.name
    ago, request = text.age(app.clock() - oom.at), describe_request(oom)
    if oom.snapshot is None or not oom.snapshot.exists():
        facts = f"{ago}, no snapshot: {command}: {request}"
        return Offer(NEWEST_OOM, facts, partial(app.open_run, run))
    opens = partial(app.open_snapshot, str(oom.snapshot), oom.text, oom.text_source)
    return Offer(NEWEST_OOM, f"{ago}: {command}: {request}", opens)


def _results_offer(app: TabbedApp) -> Offer | None:
    path = store_path()
    if not path.exists():
        return None
    try:
        listing = queries.read_listing(path, "", app.clock(), traceless=app.readonly)
    except StoreError:
        return None  # the results tab explains errors of the store
    if not listing.rows:
        return None
    newest = listing.rows[0]
    ago = text.age(app.clock() - newest.at)
    facts = f"{text.count(listing.all)} stored; the newest: {newest.workload}, {ago}"
    return Offer("Show the results", facts, partial(app.switch_mode, RESULTS))
