"""The tabs of the app: their creation, the files and runs that they open, and their end.

A tab is created when it is first opened. Its modules are imported in a thread after the first
paint.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui.app.commands import REGISTRY
from tui.app.header import header_line, tab_at
from tui.core.borders import Borders
from tui.core.events import Topic, Topics
from tui.devices.views.host_rows import host_groups
from tui.kit.command_screen import CommandScreen, front_of
from tui.kit.commands.command import SWITCH, TABS, WATCH, Command, Situation
from tui.kit.lines import Line
from tui.kit.lists import Offer
from tui.kit.terminal import textual_private
from tui.runs.screens.program import RunActions
from tui.runs.screens.tab import WorkbenchScreen
from tui.runs.state.state import RunsState, WorkbenchState

if TYPE_CHECKING:
    from tui.app.tab_screens import TabScreens
    from tui.devices.session.shared_watch import SharedWatch
    from tui.snapshots.screens.tab import SnapshotTab
    from tui.watch.runs.runs import StartedRun
    from tui.watch.screens.tab import WatchTab
    from tui.watch.session.watched_session import WatchedRunSession


class TabbedApp(textual_private.HookedApp):
    """An app in which each tab is a mode; the first becomes one after it is painted.

    Args:
        state: the state that the tabs show.
        actions: the requests that the tabs can make.
        readonly: offer no command that sends a request to the runner.
        clock: returns the current Unix time, from which ages are computed.
    """

    DEFAULT_MODE = WorkbenchScreen.TAB
    commands = REGISTRY
    replay = False

    def __init__(
        self,
        state: WorkbenchState,
        actions: RunActions,
        *,
        readonly: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.state = state
        self.machine = state.machine
        self.event_log = state.log
        self.actions = actions
        self.readonly = readonly
        self.clock = clock
        self.borders = Borders()
        """Positions of the borders between columns of panes."""
        self.shared_watch: SharedWatch | None = None
        """The session's watch of this machine, for the open run; ``None`` for one of its own."""
        self.header_note: Callable[[], str] = str
        self.caption: Callable[[], str] = str
        """Returns the caption of the recording's current scene, for the footer."""
        self.replay_ended: Callable[[], bool] = bool
        """Returns whether a recording has come to its end."""
        self.stores_results = True
        """True if measured results are added to the store."""
        self.snapshot_memory: int | None = None
        """Bytes of memory for reading a snapshot; ``None`` for a quarter of the free memory."""
        self.snapshot: SnapshotTab | None = None
        """The snapshot tab, created when it is first opened."""
        self.watched: WatchTab | None = None
        """The watch tab, created when it is first opened."""
        self.run_left: StartedRun | None = None
        """The watched run that was open at the end."""
        self.can_play_demo = False
        """True if the demo can be played: the caller starts it once the app has ended."""
        self.first_start = False
        """No result was ever stored: the workbench says which keys to press."""
        self._tab_screens: TabScreens | None = None
        self._shows_torch_processes = False
        self._shows_hosts = True
        self._opened_first: list[Callable[[], None]] = []
        """Functions that open something once the app runs."""
        for tab in TABS:
            if tab.id != self.DEFAULT_MODE:
                self.add_mode(tab.id, partial(self.create_tab, tab.id))

    @property
    def offers_demo(self) -> bool:
        """True if empty tabs offer to play the demo.

        A page of the browser closes with the app, so that nobody would see the demo there.
        """
        return self.can_play_demo and not self.is_web

    @property
    def all_runs(self) -> RunsState:
        """The runs on this machine, which know those on other hosts."""
        return self.state.runs

    @property
    def runs(self) -> RunsState:
        """The runs on the machine of the selected row."""
        return self.state.runs.shown

    def draw_now(self) -> None:
        """Redraw at once after a key."""
        raise NotImplementedError

    def watch_allocators(self, enabled: bool) -> None:
        """Read the allocators of other processes while they are on the screen."""
        if enabled != self._shows_torch_processes:
            self._shows_torch_processes = enabled
            self.actions.watch_torch(enabled)

    def sample_hosts(self, *, often: bool) -> None:
        """Sample hosts that are not selected often while they are on the screen."""
        if often != self._shows_hosts:
            self._shows_hosts = often
            self.actions.sample_hosts(often=often)

    # ---- for the screens ----

    def header_line(self, tab: str, cells: int) -> Line:
        """Return the header of a tab's screen."""
        note = self.header_note()
        ended = self.replay_ended()
        return header_line(
            self.all_runs, tab, cells, readonly=self.readonly, note=note, ended=ended
        )

    def tab_at(self, tab: str, x: int, cells: int) -> str | None:
        """Return the tab under a column of that header."""
        return tab_at(self.machine, x, cells, tab, self.header_note())

    def situation(self) -> Situation:
        """Return the facts of the program that decide which commands are valid."""
        machine, runs = self.machine.shown, self.runs
        # The next run on another host tries again.
        lost = ("ended",) if runs.machine.host else ("unusable", "ended")
        return Situation(
            runner_usable=runs.runner.status not in lost,
            has_workloads=bool(runs.catalogue),
            has_selection=False,
            pending=bool(runs.pending()),
            pending_anywhere=any(
                runs_of_host.pending() for runs_of_host in self.all_runs.everywhere
            ),
            has_switches=False,
            has_worker=machine.worker_pid is not None and machine.selected_device.torch is not None,
            on_process=False,
            readonly=self.readonly,
            replay=self.replay,
            replay_ended=self.replay_ended(),
            caption=self.caption(),
        )

    # ---- commands that several tabs share ----

    def action_next_device(self) -> None:
        """Select the next device."""
        if self.machine.hosts:
            groups = host_groups(self.machine)
            keys = [key for group in groups for key in (*(gpu for gpu, _ in group.gpus), group.key)]
        else:
            keys = [view.key for view in self.machine.devices]
        if keys:
            selected = self.machine.selected_key
            index = keys.index(selected) if selected in keys else -1
            self.actions.select_device(keys[(index + 1) % len(keys)])
            self.draw_now()

    def action_empty_cache(self) -> None:
        """Empty the selected device's cache."""
        self.actions.empty_cache(self.machine.selected_key)

    def action_reset_peaks(self) -> None:
        """Reset the selected device's peaks."""
        self.actions.reset_peaks(self.machine.selected_key)

    def action_cancel_all(self) -> None:
        """Cancel all running and waiting workloads, on every machine."""
        self.actions.cancel("")
        self.draw_now()

    # ---- screens ----

    @property
    def front(self) -> CommandScreen | None:
        """The visible screen, even if a dialog covers it; ``None`` once the screens are gone."""
        return front_of(self)

    def get_default_screen(self) -> Screen[None]:
        """Return the workbench: as a mode of its own it would be painted 30 ms later."""
        return WorkbenchScreen(self)

    async def import_tabs(self) -> None:
        """Import the screens of the other tabs in a thread, unless they are imported already.

        Raises:
            ImportError: a file of the program is missing or damaged.
        """
        if self._tab_screens is None:
            self._tab_screens = await asyncio.to_thread(import_tab_screens)
            # Read together: for each tab that brings its own, Textual would parse all again.
            for path in self._tab_screens.styles:
                self.stylesheet.read(path)

    @property
    def tab_screens(self) -> TabScreens:
        """The screens of the other tabs; imported now if :meth:`import_tabs` has not ended."""
        if self._tab_screens is None:
            self._tab_screens = import_tab_screens()
        return self._tab_screens

    def delay_update(self, delay: float = 0.05) -> None:
        """Draw another tab at once: Textual would wait, to hide a frame without contents.

        The first frame of a tab has its contents, and a key is to be answered within 50 ms.
        """

    async def action_switch_mode(self, mode: str) -> None:
        """Open a tab as soon as its screen is imported."""
        if await self._import_or_notify("tab"):
            await super().action_switch_mode(mode)

    async def _import_or_notify(self, module: str) -> bool:
        """Import the tabs, and return whether that succeeded; notify the user if it did not.

        Args:
            module: kind of screen to open, such as ``tab``.
        """
        try:
            await self.import_tabs()
        except ImportError as error:
            self.notify(f"the {module} cannot be opened: {error}", severity="error", markup=False)
            return False
        return True

    def create_tab(self, tab: str) -> Screen[None]:
        """Create the screen of a tab other than the first."""
        return self.tab_screens.factories[tab](self)

    def create_run_session(self) -> WatchedRunSession | None:
        """Create the session of the watch tab; ``None`` for the usual one."""
        return None

    async def open_pages(self, group: str, workload: str | None = None) -> None:
        """Open the pages of a group, at a workload or at the first page."""
        if await self._import_or_notify("presentation"):
            self.push_screen(self.tab_screens.present(self, group, workload))

    # ---- offers of empty tabs ----

    def list_offers(self, tab: str) -> Sequence[Offer]:
        """Return the offers of an empty tab that need no file."""
        return self.tab_screens.list_offers(self, tab)

    def find_offers(self, tab: str) -> Sequence[Offer]:
        """Search files for the offers of an empty tab; called in a thread."""
        return self.tab_screens.find_offers(self, tab)

    def play_demo(self) -> None:
        """End the app, whose caller plays the demo."""
        raise NotImplementedError

    def time_workload(self, name: str) -> None:
        """Time a workload with its parameters, and show the workbench."""
        self.switch_mode(self.DEFAULT_MODE)
        if isinstance(self.front, WorkbenchScreen):
            self.front.workloads.table.attach(name)
        self.actions.run([name])
        self.draw_now()

    def devices_changed(self, topics: Topics) -> None:
        """Pass on NVML's sample, which shows where a run's processes are and their memory there."""
        if self.watched is not None and Topic.DEVICES in topics and self.machine.sample is not None:
            self.watched.session.apply_devices(self.machine.sample)

    # ---- opening things in the tabs ----

    def open_snapshot(
        self, path: str, oom_text: str = "", text_source: str = "", *, view: str = ""
    ) -> None:
        """Read a file and show it in its tab, from which Escape returns to the watched run.

        Args:
            path: path of the file.
            oom_text: messages of the exceptions that belong to it.
            text_source: source of the messages, unless the user gave them.
            view: the view to show; empty for the first.
        """
        came_from = self.current_mode if self.current_mode in WATCH else ""
        self.switch_mode("snapshot")
        if self.snapshot is not None:
            self.snapshot.came_from = came_from
            self.snapshot.session.open(path, oom_text, text_source)
            if view:
                self.snapshot.session.show(view)

    def compare_snapshots(self, earlier: str, later: str) -> None:
        """Show the growth between two files in the snapshot tab."""
        self.open_snapshot(earlier)
        if self.snapshot is not None:
            self.snapshot.session.compare_with(later)
            self.snapshot.session.show("difference")

    def open_run(self, run: StartedRun) -> None:
        """Show a running or ended run in the watch tab."""
        self.switch_mode("watch")
        if self.watched is not None:
            self.watched.open_run(run)

    def request_command(self) -> None:
        """Show the dialog for a command to run under the watch."""
        self.switch_mode("watch")
        if self.watched is not None:
            self.watched.action_watch_command()

    def open_at_start(self, path: str, oom_text: str = "") -> None:
        """Call :meth:`open_snapshot` once the app runs."""
        self._opened_first.append(lambda: self.open_snapshot(path, oom_text))

    def open_run_at_start(self, run: StartedRun) -> None:
        """Call :meth:`open_run` once the app runs."""
        self._opened_first.append(lambda: self.open_run(run))

    async def open_first(self) -> None:
        """Open the file or run that the command line names, after the first paint."""
        # From now on the first screen is a mode, so that the user can return to it. As a mode from
        # the beginning it would be painted later.
        self.add_mode(self.DEFAULT_MODE, self.get_default_screen)
        if self._opened_first and await self._import_or_notify("tab"):
            for open_it in self._opened_first:
                open_it()

    async def end_tabs(self) -> None:
        """End the children and sessions that the tabs started."""
        if self.snapshot is not None:
            await self.snapshot.session.stop()
        if self.watched is not None:
            state = self.watched.session.state
            self.run_left = None if state is None else state.run
            await self.watched.session.stop()


def command_of(action: str, parameters: tuple[object, ...]) -> Command | None:
    """Return the command with this action; ``None`` for the framework's own actions."""
    name = f"tab_{parameters[0]}" if action == SWITCH and parameters else action
    return REGISTRY.by_id.get(name)


def import_tab_screens() -> TabScreens:
    """Import the screens of the other tabs.

    Raises:
        ImportError: a file of the program is missing or damaged.
    """
    # Deferred: 300 modules, which a start does not wait for.
    from tui.app.tab_screens import TAB_SCREENS

    return TAB_SCREENS
