"""The watch tab: an open run, or the list of stored runs."""

from __future__ import annotations

import asyncio
import shlex
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Protocol

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.notifications import SeverityLevel
from textual.timer import Timer
from textual.worker import Worker

from tui.core.text.secrets import MASK
from tui.devices.screens.device_list import DeviceProgram
from tui.kit.command_screen import CommandScreen, bindings_of_screen
from tui.kit.commands.command import Situation
from tui.kit.dialogs import EndScreen
from tui.kit.frames import FRAMED_ROWS
from tui.kit.pane import FooterBar, LineBar
from tui.watch.commands import WATCH_COMMANDS
from tui.watch.runs.run_summary import format_command
from tui.watch.runs.runs import StartedRun
from tui.watch.screens.dialogs import (
    LeaveOrEndScreen,
    StacksScreen,
    TwoSnapshotsScreen,
)
from tui.watch.screens.forms import RehearseScreen, RunCommandScreen
from tui.watch.screens.panes import (
    OutputPane,
    RunPane,
    StoredRunList,
    StoredRunsPane,
    WatchedDeviceList,
    WatchedMemoryPane,
)
from tui.watch.session.command_start import CommandError
from tui.watch.session.rehearsal_start import RehearsalError, RehearsalRequest
from tui.watch.session.run_folder import StoredRun, StoredRuns
from tui.watch.session.watched_session import RunError, WatchedRunSession
from tui.watch.state.alarms import WatchAlarms, watched_facts
from tui.watch.state.run import WatchedDevice, WatchedRun
from tui.watch.views.run import (
    ProcessSnapshot,
    describe_missing_snapshot,
    describe_running_run,
    has_figures,
    has_memory,
    has_snapshots,
    is_on,
    snapshots_of,
)

STORED_RUNS_S = 2.0
"""Seconds between two readings of the stored runs while their list is visible."""
PAUSE_S = 0.5
"""Least seconds between two drawings that no key caused: there are ten samples a second."""
_STORED_OOM = "stored OOM"
"""Group of the workers that explain the OOM of the run under the cursor."""
TALL_ROWS = 45
"""Rows of the screen from which the output stands below the memory."""
BESIDE_FROM = 150
"""Cells of the screen from which the output that a user asks for stands beside the memory."""


class SnapshotOpener(DeviceProgram, Protocol):
    """The parts of the app that the tab uses beyond what all screens use."""

    def open_snapshot(
        self, path: str, oom_text: str = "", text_source: str = "", *, view: str = ""
    ) -> None:
        """Show a file in the snapshot tab."""

    def compare_snapshots(self, earlier: str, later: str) -> None:
        """Show the growth between two files in the snapshot tab."""


class WatchTab(CommandScreen):
    """Header, the stored runs or the open one, footer.

    Args:
        program: the app.
        session: session of the run; the app ends it.
    """

    TAB = "watch"
    CSS_PATH = "watch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of_screen(TAB, *WATCH_COMMANDS)

    def __init__(self, program: SnapshotOpener, session: WatchedRunSession) -> None:
        super().__init__(program)
        self.session = session
        self._opener = program
        clock = program.clock
        self.runs_pane = StoredRunsPane(clock, self.offers())
        self.run_pane = RunPane(lambda: session.state, clock)
        self.memory = WatchedMemoryPane(
            program.machine, lambda: self.run_pane.table.selected, clock
        )
        self.output = OutputPane(lambda: session.state)
        self._lower = Container(self.memory, self.output, id="watched-lower")
        self._parts_of_run = (self.run_pane, self._lower)
        self.hide_at_first(self._parts_of_run)
        self._stored_runs = StoredRuns(session.stored_runs)
        self._explaining: Path | None = None
        """Folder of the run whose OOM is being explained."""
        self._alarms = WatchAlarms(clock)
        self._open: StartedRun | None = None
        """The run that is shown; the state may be another run's by the time it is drawn."""
        self._is_output_chosen = False
        self._rehearsal: RehearsalRequest | None = None
        """The request of the last rehearsal from here."""
        self._failed_command = ""
        """The last typed command, if it could not be started."""
        self._drawn = float("-inf")
        self._timer: Timer | None = None
        session.listen(self._changed)

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.runs_pane
        if self.session.state is not None:
            yield from self._parts_of_run
        yield FooterBar(self.program.commands, self.situation)

    def situation(self) -> Situation:
        """Return the facts that decide which commands are valid, such as whether a run is open."""
        now = super().situation()
        state = self.session.state
        devices = () if state is None else state.devices
        pane = self.runs_pane.id if state is None else now.pane
        if state is not None and pane == self.runs_pane.id:
            pane = self.run_pane.id
        return replace(
            now,
            pane=pane,
            can_go_back=state is not None,
            run_continues=state is not None and is_on(state),
            run_has_agent=any(row.agent is not None for row in devices),
            run_has_figures=any(row.figures is not None for row in devices),
            run_has_snapshots=any(map(has_snapshots, devices)),
        )

    @property
    def selected(self) -> WatchedDevice | None:
        """The row under the cursor."""
        return self.run_pane.table.selected

    # ---- life ----

    def resumed(self, event: events.ScreenResume) -> None:
        """Sample faster while the screen is shown."""
        self.session.set_visible(True)
        super().resumed(event)
        # Afterwards: the thread would take turns with the drawing of the frame.
        self.call_after_refresh(self._read_stored)

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        # Around a dialog the page stays visible.
        self.session.set_visible(self in self.app.screen_stack)

    def on_mount(self) -> None:
        """Read the stored runs at intervals: other programs start and end runs too."""
        self.set_interval(STORED_RUNS_S, self._read_stored)
        self.call_after_refresh(self.runs_pane.offers.load)
        self.call_after_refresh(self.mount_hidden)

    def _read_stored(self) -> None:
        """Read the files of each run in a thread: there may be many."""
        if self.session.state is None and self in self.app.screen_stack:
            _: Worker[None] = self.run_worker(
                self._read_runs_in_thread, exclusive=True, group="kept runs"
            )

    async def _read_runs_in_thread(self) -> None:
        self.runs_pane.runs = await asyncio.to_thread(self._stored_runs.read)
        self.catch_up()
        self._explain_stored()

    @on(StoredRunList.Moved)
    def _explain_stored(self) -> None:
        """Explain the OOM of the run under the cursor, unless that is done or being done."""
        stored = self.runs_pane.list.stored
        folder = None if stored is None else stored.run.folder
        if self._explaining is not None and folder == self._explaining:
            return
        self.workers.cancel_group(self, _STORED_OOM)
        if stored is not None and stored.ooms and not self.runs_pane.ooms.is_read(stored):
            _: Worker[None] = self.run_worker(self._explain_in_thread(stored), group=_STORED_OOM)

    async def _explain_in_thread(self, stored: StoredRun) -> None:
        self._explaining = stored.run.folder
        is_left = threading.Event()
        try:
            await asyncio.to_thread(self.runs_pane.ooms.read, stored, lambda: not is_left.is_set())
        finally:
            is_left.set()  # at exit, the program waits for its threads
            if self._explaining == stored.run.folder:
                self._explaining = None
        self.catch_up()

    def describe_open_run(self) -> str:
        """Return the run that the program leaves running, and its folder; empty for none."""
        state = self.session.state
        return describe_running_run(state.run) if state is not None and is_on(state) else ""

    def alarm_lines(self) -> list[str]:
        """Return a line for each event since the last call that should alarm the user."""
        state = self.session.state
        if state is None or state.replayed:
            return self._alarms.compare(None)
        logs = {row.log.identity: row.log for row in state.devices if row.log is not None}
        is_over = state.over or state.run.ended is not None
        return self._alarms.compare(watched_facts(state.run, tuple(logs.values()), is_over=is_over))

    def confirm_leaving(self, leave: Callable[[], None]) -> bool:
        """Let the user leave the open run to itself or end it.

        Args:
            leave: called if the user leaves it.

        Returns:
            Whether there is something to confirm: a running run, and no such dialog yet.
        """
        left = self.describe_open_run()
        if not left or isinstance(self.app.screen, LeaveOrEndScreen):
            return False

        def answered(answer: str | None) -> None:
            if answer == LeaveOrEndScreen.LEAVE:
                leave()
            elif answer == LeaveOrEndScreen.END:
                self.end_run(signal.SIGINT)

        self.app.push_screen(LeaveOrEndScreen([left]), answered)
        return True

    # ---- drawing ----

    def _changed(self) -> None:
        """Draw once enough time has passed since the last drawing."""
        if self._timer is not None or not self.is_running:
            return
        wait = self._drawn + PAUSE_S - time.monotonic()
        self._timer = self.set_timer(max(0.001, wait), self._draw_changed)

    def _draw_changed(self) -> None:
        self._timer = None
        if self in self.app.screen_stack:
            with self.app.batch_update():
                self.catch_up()

    def on_resize(self, _event: events.Resize) -> None:
        """Show the output too on a tall screen."""
        self.call_after_refresh(self.catch_up)

    def catch_up(self) -> None:
        """Show the right panes and redraw changed parts."""
        self._drawn = time.monotonic()
        state = self.session.state if self.are_hidden_mounted else None
        if (state.run.folder if state else None) != (self._open.folder if self._open else None):
            self._switch_to(state)
        if state is None:
            self.runs_pane.state_changed()
        else:
            self._arrange(state)
            self.run_pane.state_changed()
            self.memory.follow(state)
            if self.output.display:
                self.output.state_changed()
        for bar in self.query(LineBar):
            if bar.parent is self:
                bar.rebuild()

    def _switch_to(self, state: WatchedRun | None) -> None:
        """Switch to another open run, or to none."""
        self._open = state.run if state is not None else None
        self._is_output_chosen = False
        self.runs_pane.display = state is None
        self.run_pane.display = self._lower.display = state is not None
        if state is None:
            self.set_focus(self.runs_pane.keys_go_to)
            self._read_stored()
        else:
            self.run_pane.begin(state)
            self._arrange(state)
            self.set_focus(self.run_pane.table)
            # Panes that were not displayed have no size yet.
            self.call_after_refresh(self.catch_up)

    def _arrange(self, state: WatchedRun) -> None:
        """Show the memory, the output, or both; the output if there is no memory to show."""
        size, idle = self.app.size, not has_memory(state)
        # Without a GPU's figures, the output is as much of an answer as the host memory.
        rows = TALL_ROWS if has_figures(state) else FRAMED_ROWS
        below = idle or size.height >= rows
        chosen = self._is_output_chosen
        beside = chosen and not idle and size.width >= BESIDE_FROM
        only_output = not beside and (chosen or not state.devices)
        shown = (not only_output, only_output or below or beside)
        before = (self.memory.display, self.output.display), self._lower.has_class("-beside")
        self.memory.display, self.output.display = shown
        self._lower.set_class(beside, "-beside")
        self.output.set_class(below and not idle and not chosen and bool(state.devices), "-below")
        if before != (shown, beside):
            self.call_after_refresh(self.catch_up)

    @on(WatchedDeviceList.Moved)
    @on(StoredRunList.Moved)
    def _moved(self) -> None:
        self.call_after_refresh(self.catch_up)

    # ---- the list ----

    @on(StoredRunList.Chosen)
    def _chosen(self, event: StoredRunList.Chosen) -> None:
        event.stop()
        if self.session.state is None and (run := self.runs_pane.list.selected) is not None:
            self.open_run(run)

    def open_run(self, run: StartedRun) -> None:
        """Show a run, or the reason why it cannot be opened."""
        try:
            self.session.open(run)
        except RunError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        if self.is_mounted:  # else it is drawn when mounted
            self.catch_up()

    def action_watch_command(self) -> None:
        """Ask for a command, run it under the watch, and show its run."""

        def answered(command: str | None) -> None:
            if command is not None:
                _: Worker[None] = self.run_worker(self._start(command), group="start")

        suggested = self._failed_command or self._suggest_command()
        self.app.push_screen(RunCommandScreen(suggested), answered)

    async def _start(self, command: str) -> None:
        try:
            run = await self.session.start(command)
        except CommandError as error:
            self._failed_command = command
            self._notify(str(error))
            return
        self._failed_command = ""
        self.open_run(run)

    def _suggest_command(self) -> str:
        """Return the command of the open run, else of the one under the cursor."""
        state = self.session.state
        run = self.runs_pane.list.selected if state is None else state.run
        if run is None or any(MASK in word for word in run.command):
            return ""  # a masked word would change the command
        return shlex.join(run.command)

    def action_watch_rehearse(self) -> None:
        """Ask for a command and a card, rehearse it, and show its run."""

        def answered(request: RehearsalRequest | None) -> None:
            if request is not None:
                self._rehearsal = request
                _: Worker[None] = self.run_worker(self._rehearse(request), group="rehearsal")

        self.app.push_screen(RehearseScreen(self._suggest_rehearsal()), answered)

    def _suggest_rehearsal(self) -> RehearsalRequest:
        """Return the last rehearsal, else one of the suggested command."""
        return self._rehearsal or RehearsalRequest(self._suggest_command())

    async def _rehearse(self, request: RehearsalRequest) -> None:
        self._notify(f"the rehearsal on {request.card} begins", "information")
        before = self.session.state
        try:
            run = await self.session.rehearse(request)
        except RehearsalError as error:
            self._notify(str(error))
            return
        shown = self.session.state
        is_same = shown is not None and before is not None and shown.run.folder == before.run.folder
        if shown is None or (is_same and shown.over):
            self.open_run(run)
        else:
            self._notify(f"{run.folder.name} rehearses: open it in the list of runs", "information")

    def action_go_back(self) -> None:
        """Go back from the output to the memory, or from the run to the list."""
        if self._is_output_chosen:
            self.action_watch_output()
        else:
            self.session.close()
            self.catch_up()

    # ---- snapshots ----

    def action_watch_open(self, view: str = "") -> None:
        """Open the newest snapshot of the process under the cursor; in the list, open the run.

        Args:
            view: the view of the snapshot; empty for its first.
        """
        if self.session.state is None:
            if (run := self.runs_pane.list.selected) is not None:
                self.open_run(run)
            return
        row = self.selected
        snapshots = snapshots_of(row) if row is not None else []
        if row is None or not snapshots:
            self._notify(describe_missing_snapshot(row))
            return
        oom, path = snapshots[-1].oom, str(snapshots[-1].path)
        oom_text, source = (oom.text, oom.text_source) if oom else ("", "")
        self._opener.open_snapshot(path, oom_text, source, view=view)

    def action_watch_difference(self) -> None:
        """Compare two snapshots of the process under the cursor; of more, the user chooses."""
        row = self.selected
        snapshots = snapshots_of(row) if row is not None else []
        if len(snapshots) < 2:
            left = "one" if snapshots else "none"
            words = f"a comparison needs two snapshots; the process has left {left}"
            state = self.session.state
            can_take = state is not None and is_on(state)
            self._notify(f"{words}: M takes one at its next step" if can_take else words)
        elif len(snapshots) == 2:
            self._compare((snapshots[0], snapshots[1]))
        else:
            self.app.push_screen(TwoSnapshotsScreen(snapshots), self._compare)

    def _compare(self, two: tuple[ProcessSnapshot, ProcessSnapshot] | None) -> None:
        if two is not None:
            self._opener.compare_snapshots(str(two[0].path), str(two[1].path))

    # ---- requests to the agent ----

    def action_watch_snapshot(self) -> None:
        """Ask the process under the cursor for a snapshot."""
        if (row := self._with_agent("a snapshot")) is not None:
            self._notify(self.session.snapshot(row.process.pid), "information")

    def action_watch_history(self) -> None:
        """Start or stop recording torch's memory history in the process under the cursor."""
        row = self._with_agent("the history")
        if row is not None and row.agent is not None:
            self._notify(
                self.session.record(row.process.pid, not row.agent.recording), "information"
            )

    def action_watch_stacks(self) -> None:
        """Show where each rank is now."""
        if self.session.state is not None:
            self.app.push_screen(StacksScreen(self.session.stacks))

    def _with_agent(self, request: str) -> WatchedDevice | None:
        """Return the selected row if its process has an agent; else report why not."""
        row = self.selected
        if row is None:
            self._notify(f"{request} needs a process: none has loaded torch yet")
        elif row.ended:
            self._notify(f"{request} needs a running process: {row.process.pid}: {row.ended}")
        elif row.agent is None:
            why = row.why_no_agent or "there is none"
            self._notify(f"{request} needs the agent in {row.process.pid}: {why}")
        else:
            return row
        return None

    def _notify(self, text: str, severity: SeverityLevel = "warning") -> None:
        self.notify(text, severity=severity, markup=False)

    # ---- the run ----

    def action_watch_end(self) -> None:
        """Ask for the signal to end the run with, and send it."""
        state = self.session.state
        if state is None:
            return
        if not is_on(state):
            self._notify("nothing was sent: the run has ended, or is on another machine")
            return

        def answered(number: signal.Signals | None) -> None:
            if number is not None:
                self.end_run(number)

        words = [
            format_command(state.run),
            "The signal goes to its process group. torchrun passes SIGINT and SIGTERM on to its "
            "workers; SIGKILL also goes to each process with an agent. The run's folder stays.",
        ]
        self.app.push_screen(EndScreen("End the run?", words), answered)

    def end_run(self, number: signal.Signals) -> None:
        """Send a signal to the open run, and report it."""
        self._notify(self.session.end(number), "information")

    def action_watch_output(self) -> None:
        """Swap the output and the memory."""
        state = self.session.state
        if state is None:
            return
        self._is_output_chosen = not self._is_output_chosen
        self._arrange(state)
        self.set_focus(self.output.body if self._is_output_chosen else self.run_pane.table)
        self.catch_up()

    def action_explain_watched_memory(self) -> None:
        """Explain the memory of the process under the cursor."""
        page = self.memory.explanation()
        if page is not None:
            self.app.push_screen(page)
        else:
            self._notify("the memory of this process is unknown")

    def action_watch_over(self) -> None:
        """Plot over steps or over time."""
        self.memory.toggle_axis()

    def action_watch_freeze(self) -> None:
        """Freeze the figures, or let them follow the run again."""
        state = self.session.state
        if state is not None:
            self.session.freeze(state.frozen_at is None)
            self.catch_up()
