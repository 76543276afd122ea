"""The modules that the app imports after its first paint: the screens of the other tabs.

Importing this module imports some 300 others, which takes 0.2 s. :class:`tui.app.tabs.TabbedApp`
imports it in a thread, so that the screen does not freeze.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui.app.offers import find_offers, list_offers
from tui.core.events import Topic
from tui.devices.screens.memory_tab import MemoryTab
from tui.devices.screens.processes_tab import ProcessesTab
from tui.kit.lists import Offer
from tui.results.screens.tab import ResultsTab
from tui.runs.screens.present import PresentScreen
from tui.snapshots.screens.tab import SnapshotTab
from tui.watch.runs.run_summary import describe_left_run
from tui.watch.runs.runs import StartedRun
from tui.watch.runs.start import is_child
from tui.watch.screens.tab import WatchTab
from tui.watch.session.stored_ooms import describe_fatal_oom, find_oom_context
from tui.watch.session.watched_session import WatchedRunSession

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


FACTORIES: Mapping[str, Callable[[TabbedApp], Screen[None]]] = {
    "memory": MemoryTab,
    "snapshot": create_snapshot_tab,
    "processes": ProcessesTab,
    "watch": create_watch_tab,
    "results": ResultsTab,
}
"""The function that creates each tab's screen, by the tab's id."""


def describe_run(run: StartedRun) -> list[str]:
    """Describe a run that is running or was started here, and its fatal OOM; else nothing."""
    if not (run.is_running or is_child(run)):
        return []
    return [*describe_fatal_oom(run), describe_left_run(run)]


@dataclass(frozen=True, slots=True)
class TabScreens:
    """The classes and functions of this module that the app uses."""

    present: type[PresentScreen]
    factories: Mapping[str, Callable[[TabbedApp], Screen[None]]]
    styles: Sequence[Path]
    """The style sheets of the tabs, of their dialogs and of the presentation."""
    list_offers: Callable[[TabbedApp, str], Sequence[Offer]]
    find_offers: Callable[[TabbedApp, str], Sequence[Offer]]
    describe_run: Callable[[StartedRun], Sequence[str]]


TUI = Path(__file__).parents[1]
STYLES = (
    TUI / "devices" / "screens" / "memory.tcss",
    TUI / "devices" / "screens" / "processes.tcss",
    TUI / "kit" / "dialog.tcss",
    TUI / "results" / "screens" / "results.tcss",
    TUI / "runs" / "screens" / "present.tcss",
    TUI / "snapshots" / "screens" / "snapshot.tcss",
    TUI / "watch" / "screens" / "watch.tcss",
)
TAB_SCREENS = TabScreens(PresentScreen, FACTORIES, STYLES, list_offers, find_offers, describe_run)
