"""The offers of empty tabs: the newest OOM, the stored results, an example and the demo."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tui.core.text import numbers as text
from tui.core.text.commands import shorten_command
from tui.kit.lists import Offer
from tui.recordings import DEMO, DEMO_SNAPSHOT, FOLDER
from tui.recordings.replay import find_out_of_memory
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
MOST_OOMS = 5
"""Most OOMs that are offered: one of each run."""


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
    if tab == WATCH and not app.readonly and not app.replay:
        words = "its memory, steps and OOMs; the script stays unchanged"
        offers.append(Offer("Watch a script", words, app.request_command))
    if tab != RESULTS:
        words = "a program that leaks until it runs out of memory"
        offers.append(Offer("Open the example snapshot", words, partial(open_example, app)))
    if app.offers_demo:
        words = "recorded runs, about a minute; q comes back"
        offers.append(Offer("Play the demo", words, app.play_demo))
    return offers


def open_example(app: TabbedApp) -> None:
    """Open the demo's snapshot with its exception, which has the device's total and its limit."""
    app.open_snapshot(str(FOLDER / DEMO_SNAPSHOT), find_out_of_memory(FOLDER / DEMO))


def find_offers(app: TabbedApp, tab: str) -> Sequence[Offer]:
    """Return the offers of a tab that are found in files, the most useful first."""
    if app.replay or tab == RESULTS:
        return []
    if tab == SNAPSHOT:
        # The first row has the cursor, and Enter on it is to open a snapshot, not another tab.
        return _list_oom_offers(app)
    results = _results_offer(app)
    return [] if results is None else [results]


def find_ooms() -> list[tuple[StartedRun, Oom]]:
    """Return the OOM of each stored run that has a snapshot, the newest first.

    Without any snapshot, the newest OOM alone.
    """
    newest = []
    for run in stored_runs():
        ooms = [oom for log in process_logs_in(run.folder) for oom in log.ooms]
        if ooms:
            newest.append((run, max(ooms, key=lambda oom: (_has_snapshot(oom), oom.at))))
    newest.sort(key=lambda pair: pair[1].at, reverse=True)
    return [(run, oom) for run, oom in newest if _has_snapshot(oom)] or newest[:1]


def _has_snapshot(oom: Oom) -> bool:
    return oom.snapshot is not None and oom.snapshot.exists()


def _list_oom_offers(app: TabbedApp) -> list[Offer]:
    return [
        _oom_offer(app, NEWEST_OOM if number == 0 else f"Open OOM {number + 1}", run, oom)
        for number, (run, oom) in enumerate(find_ooms()[:MOST_OOMS])
    ]


def _oom_offer(app: TabbedApp, title: str, run: StartedRun, oom: Oom) -> Offer:
    command = shorten_command(" ".join(run.command)) or run.folder.name
    ago, request = text.age(app.clock() - oom.at), describe_request(oom)
    if not _has_snapshot(oom):
        facts = f"{ago}, no snapshot: {command}: {request}"
        return Offer(title, facts, partial(app.open_run, run))
    opens = partial(app.open_snapshot, str(oom.snapshot), oom.text, oom.text_source)
    return Offer(title, f"{ago}: {command}: {request}", opens)


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
    return Offer("Show the results", facts, partial(app.switch_mode, RESULTS), is_last=True)
