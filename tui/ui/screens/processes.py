"""The processes tab: who holds the memory of the selected device, and what nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from tui.monitor.messages import GpuProcess
from tui.session.actions import Actions
from tui.session.terminate import refusal, terminate
from tui.state.pairing import CPU
from tui.state.store import Part, Store
from tui.ui.commands import bindings
from tui.ui.commands.command import Situation
from tui.ui.screens.command_screen import CommandScreen, Program
from tui.ui.screens.dialogs import ConfirmScreen
from tui.ui.views.lines import Line
from tui.ui.views.processes import (
    ORDERS,
    Holders,
    Order,
    heading,
    holders,
    process_line,
    remainder_lines,
    selected_lines,
)
from tui.ui.widgets.line_bar import FooterBar, LineBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.lists import KeyedList
from tui.ui.widgets.pane import AgingPane


class ProcessList(KeyedList):
    """A line for each process; its cursor stays on the process."""

    def __init__(
        self, found: Callable[[], Holders], store: Store, clock: Callable[[], float]
    ) -> None:
        """List what the owner has found.

        Args:
            found: the processes in their order.
            store: knows which of them is the worker.
            clock: Unix time now, to tell ages.
        """
        super().__init__()
        self._found = found
        self._store = store
        self._clock = clock

    @property
    def selected(self) -> GpuProcess | None:
        """The process under the cursor."""
        key = self.key
        return next((row for row in self._found().processes if _key(row) == key), None)

    def row_keys(self) -> Sequence[str]:
        """The processes in their order."""
        return list(map(_key, self._found().processes))

    def row_lines(self, cells: int) -> Sequence[Line]:
        """A line for each: who runs it and what it holds."""
        now, worker = self._clock(), self._store.worker_pid
        return [process_line(row, worker, now, cells) for row in self._found().processes]


def _whose(row: GpuProcess, worker_pid: int | None) -> list[str]:
    """What the end of one of our own processes means."""
    if row.pid == worker_pid:
        return ["It is this workbench's own worker: a run that goes on ends."]
    return ["This workbench started it: what needs it ends."] if row.ours else []


def _key(row: GpuProcess) -> str:
    """The same number may be another process: with its start it is one process."""
    return f"{row.pid} {row.started_at}"


class ProcessesPane(AgingPane):
    """Heading, rows with a cursor, the remainders that make the column add up, the whole row."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.DEVICES, Part.SELECTION, Part.MEMORY})
    HELP = (
        "Who holds the memory of the selected device. On a GPU the list is NVML's; the column adds "
        "up: the processes and what is unattributed make device used, which with the driver's own "
        "part and what is free makes the total. Unattributed is memory of processes that NVML does "
        "not name: in a container it sees the host's processes only with --pid=host, and under MIG "
        "or the Windows driver it does not say how much each holds. On the CPU the sizes are "
        "resident memory, which counts shared pages once for each process. d selects the next "
        "device, s sorts by the next column, t ends the process under the cursor, after asking."
    )

    def __init__(
        self, store: Store, actions: Actions, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(store, clock, id="processes")
        self._actions = actions
        self.order: Order = "memory"
        self._open = False
        self._watched = False
        self._found: Holders = self._look()
        self._title = LineBar(lambda cells: heading(self.order, cells))
        self.table = ProcessList(lambda: self._found, store, clock)
        self._rest = LinesView(lambda cells: remainder_lines(self._found, cells))
        self._whole = LinesView(lambda cells: selected_lines(self.selected, cells))
        self._rest.can_focus = self._whole.can_focus = False
        self._rest.add_class("foot")
        self._whole.add_class("foot")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.table
        yield self._rest
        yield self._whole

    @property
    def selected(self) -> GpuProcess | None:
        """The process under the cursor."""
        return self.table.selected

    def next_order(self) -> None:
        """Sort by the next column."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.store_changed()

    def store_changed(self) -> None:
        """Read the list anew and draw what changed."""
        self._watch()
        self._found = self._look()
        self.retitle(f"Processes {self.store.selected_device.label}, by {self.order}")
        self._title.rebuild()
        self.table.rebuild()
        self._rest.rebuild()
        self._whole.rebuild()

    def opened(self, is_open: bool) -> None:
        """The tab was opened or left."""
        self._open = is_open
        self._watch()

    def _watch(self) -> None:
        """Have the host's processes listed only while they are what is shown."""
        wanted = self._open and self.store.selected == CPU
        if wanted != self._watched:
            self._watched = wanted
            self._actions.watch_host(wanted)

    @on(ProcessList.Moved)
    def _moved(self) -> None:
        self._whole.rebuild()

    def _look(self) -> Holders:
        return holders(self.store.selected_device, self.store.sample, self.order, self.clock())


class ProcessesTab(CommandScreen):
    """The tab that lists the processes and, after asking, ends one."""

    TAB = "processes"
    CSS_PATH = "processes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of_screen(TAB)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.pane = ProcessesPane(program.store, program.actions, program.clock)

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.pane
        yield FooterBar(self.situation)

    def situation(self) -> Situation:
        """With whether the process under the cursor can be sent a signal."""
        return replace(super().situation(), on_process=self._process() is not None)

    def _process(self) -> GpuProcess | None:
        """The process under the cursor, where it can be sent a signal."""
        row = self.pane.selected
        return row if row is not None and refusal(row) is None else None

    def resumed(self, event: events.ScreenResume) -> None:
        """Catch up with what changed while another tab was open."""
        self.pane.opened(True)
        super().resumed(event)

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        self.pane.opened(False)

    def action_sort_processes(self) -> None:
        self.pane.next_order()

    def action_end_process(self) -> None:
        row = self._process()
        if row is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                problem = terminate(row)
                words = problem or f"SIGTERM sent to {row.pid}; it ends when it is ready to"
                self.notify(words, severity="warning" if problem else "information", markup=False)

        words = [
            f"{row.pid}  {row.user or 'unknown user'}  {row.command or 'unknown command'}",
            *_whose(row, self.store.worker_pid),
            "It gets SIGTERM: most programs end, and lose what they have not saved.",
        ]
        self.app.push_screen(ConfirmScreen(f"Terminate process {row.pid}?", words), answered)
