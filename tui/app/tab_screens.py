"""The screens of the tabs that open later than the first one.

Importing this module imports some 300 others, which takes 0.2 s. :class:`tui.app.tabs.TabbedApp`
imports it in a thread, so that the screen does not freeze.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui.app import offers
from tui.core.events import Topic
from tui.devices.screens.memory_tab import MemoryTab
from tui.devices.screens.processes_tab import ProcessesTab
from tui.results.screens.tab import ResultsTab
from tui.snapshots.screens.tab import SnapshotTab
from tui.watch.screens.tab import WatchTab
from tui.watch.session.watched_session import WatchedRunSession
from tui.watch.state.explained import find_oom_context

if TYPE_CHECKING:
    from tui.app.tabs import TabbedApp


def create_snapshot_tab(app: TabbedApp) -> Screen[None]:
    """Create the tab of snapshots, and store it in the app."""
    app.snapshot = SnapshotTab(app, app.snapshot_memory, find_oom_context)
    return app.snapshot


def create_watch_tab(app: TabbedApp) -> Screen[None]:
    """Create the tab of watched runs, store it in the app, and pass it the newest sample."""
    app.watched = WatchTab(app, app.create_run_session() or WatchedRunSession(app.shared_watch))
    app.devices_changed(frozenset({Topic.DEVICES}))
    return app.watched


assert offers, "imported with the tabs, whose empty pages call it"
FACTORIES: Mapping[str, Callable[[TabbedApp], Screen[None]]] = {
    "memory": MemoryTab,
    "snapshot": create_snapshot_tab,
    "processes": ProcessesTab,
    "watch": create_watch_tab,
    "results": ResultsTab,
}
"""The function that creates each tab's screen, by the tab's id. Defined last: if it exists, the
module is complete."""
