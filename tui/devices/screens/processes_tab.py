"""The processes tab: processes on the GPUs or the host, and unattributed memory."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input
from textual.worker import Worker

from tui.core.events import Topic
from tui.core.text import numbers as text
from tui.devices.commands import DEVICES
from tui.devices.screens.account_panes import DeviceHistory
from tui.devices.screens.device_list import DeviceActions, DeviceProgram
from tui.devices.screens.memory_tab import ProcessMemoryView
from tui.devices.session.process_details import ProcessDetails, read_process_details
from tui.devices.session.terminate import explain_unmatched, refusal, send_signal
from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.hosts import HERE
from tui.devices.state.jobs import find_host_jobs
from tui.devices.state.machine import MachineState
from tui.devices.state.watched_processes import Allocator
from tui.devices.views.history import read_recent
from tui.devices.views.holder_bars import (
    HolderKey,
    choose_colors,
    count_bar_rows,
    divide_memory,
    holder_bars,
)
from tui.devices.views.holders import Holders, add_holders, holders, remainder_lines
from tui.devices.views.jobs import job_notes
from tui.devices.views.process_page import process_page
from tui.devices.views.process_rows import ORDERS, Order, ProcessRow, process_rows
from tui.devices.views.processes import (
    columns,
    explain_no_rows,
    find_order,
    heading,
    process_line,
    selected_lines,
    selected_torch_lines,
    unread_notes,
)
from tui.kit.command_screen import CommandScreen, bindings_of_screen
from tui.kit.commands.command import Situation
from tui.kit.dialogs import EndScreen, LiveTextScreen
from tui.kit.lines import Line
from tui.kit.lists import KeyedList, RowFilter
from tui.kit.pane import AgingPane, FittedView, FooterBar, LineBar, LinesView
from tui.monitor.messages import GpuProcess

LEAST_TABLE = 3
"""Least rows of the table."""


class ProcessList(KeyedList):
    """A list with a line per process, whose cursor follows the process."""

    def __init__(self, pane: ProcessesPane) -> None:
        super().__init__()
        self._pane = pane

    @property
    def selected(self) -> ProcessRow | None:
        """The row under the cursor."""
        key = self.key
        return next((row for row in self._pane.rows if row.key == key), None)

    def row_keys(self) -> Sequence[str]:
        """Return the keys of the rows in order."""
        return [row.key for row in self._pane.rows]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return a line per process with its user and its memory, or why there is none."""
        pane = self._pane
        if not pane.rows:
            return explain_no_rows(
                pane.machine.nvml_devices, pane.pattern, cells, of_host=pane.of_host
            )
        now, of_host, torch, colors = pane.now, pane.of_host, pane.torch, pane.job_colors
        return [
            process_line(
                row, now, cells, of_host=of_host, torch=torch, color=colors.get(row.job or 0)
            )
            for row in pane.rows
        ]


class ProcessesHeading(LineBar):
    """The names of the columns; a click on one sorts by it."""

    def __init__(self, pane: ProcessesPane) -> None:
        super().__init__(self._heading)
        self._pane = pane

    def _heading(self, cells: int) -> Line:
        pane = self._pane
        cells = pane.table.cells or cells
        return heading(pane.order, cells, of_host=pane.of_host, torch=pane.torch)

    def on_click(self, event: events.Click) -> None:
        """Sort by the column under the mouse."""
        pane = self._pane
        order = find_order(event.x, pane.table.cells, of_host=pane.of_host, torch=pane.torch)
        if order is not None:
            self._pane.sort_by(order)


def _describe_consequences(row: GpuProcess, worker_pid: int | None) -> list[str]:
    """Return the consequences of ending one of our own processes."""
    if row.pid == worker_pid:
        return ["It is this workbench's runner: its active run will end."]
    return ["This workbench started it and needs it."] if row.ours else []


class ProcessesPane(AgingPane):
    """The heading, the list, the account of the device, and details of the process."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset(
        {Topic.DEVICES, Topic.SELECTION, Topic.MEMORY, Topic.ALLOCATORS}
    )
    HELP = (
        "NVML's processes on the GPUs; with the CPU selected, those of the host by resident "
        "memory, which counts shared pages once per process. sm: share of time on "
        "multiprocessors. cpu: 100% is one core. host: resident memory. A launcher's row has "
        "the sums of its ranks. allocated to ooms: torch's allocator, read from outside; where "
        "it cannot be read, a word says why, and the line below what helps. The bars divide each "
        "GPU's memory by process, the selected one marked; a job has the color before its PID. "
        "unattributed: "
        "memory of processes that NVML does not name, as in a container without --pid=host; it "
        "gives no sizes under MIG. Below: the account of the process's GPU. Sorted by sm or "
        "cpu, a row moves up once it is 10 points ahead."
    )

    def __init__(
        self, machine: MachineState, actions: DeviceActions, clock: Callable[[], float]
    ) -> None:
        super().__init__(clock, id="processes")
        self._machine = machine
        self._actions = actions
        self.order: Order = "memory"
        self.flat = False
        """List the processes flat, not as a tree."""
        self.pattern = ""
        self._open = False
        self._watched = (False, "")
        """If the processes of a host are requested, and of which machine."""
        self.rows: tuple[ProcessRow, ...] = ()
        """The rows in order."""
        self.table = ProcessList(self)
        self._account = self._read_rows()
        self._title = ProcessesHeading(self)
        self.filter_line = RowFilter(
            self, self.table, self._title, "words of a GPU, user or command", id="process-filter"
        )
        self._held = divide_memory(machine.shown.devices, machine.shown.worker_pid)
        self.bars = FittedView(self._bar_lines)
        self.bars.can_focus = False
        self.history = DeviceHistory()
        self._rest = LinesView(self._remainders)
        self._whole = LinesView(lambda cells: selected_lines(self.table.selected, cells))
        self._rest.can_focus = self._whole.can_focus = False
        self._rest.add_class("foot")
        self._whole.add_class("foot")

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.table
        yield self.bars
        yield self.history
        yield self._rest
        yield self._whole

    @property
    def machine(self) -> MachineState:
        """The machine of the selected device: this one, or another host."""
        return self._machine.shown

    @property
    def now(self) -> float:
        """Unix time of that machine's clock."""
        return self.machine.now(self.clock())

    @property
    def job_colors(self) -> Mapping[int, int]:
        """The numbers of the jobs' colors by PID; empty while there are no bars."""
        return choose_colors(self._held) if self.bars.display else {}

    @property
    def of_host(self) -> bool:
        """The pane lists the host's processes instead of the GPUs' processes."""
        return self.machine.selected == CPU

    @property
    def torch(self) -> bool:
        """A listed process is known to use torch."""
        return any(row.torch for row in self.rows)

    @property
    def allocator(self) -> Allocator | None:
        """The allocator of the process under the cursor; ``None`` if it is not read."""
        row, known = self.table.selected, self.machine.allocators
        key = row.torch.key if row and row.torch else None
        return known.find(key) if known is not None and key is not None else None

    @property
    def selected(self) -> GpuProcess | None:
        """The process under the cursor; ``None`` on a row that is no process of NVML's list."""
        row = self.table.selected
        return row.process if row else None

    def sort_by(self, order: Order) -> None:
        """Sort by a column."""
        self.order, self.rows = order, ()
        self.state_changed()

    def toggle_tree(self) -> None:
        """Switch between a tree of processes and a flat list."""
        self.flat, self.rows = not self.flat, ()
        self.state_changed()

    def next_order(self) -> None:
        """Sort by the next visible column."""
        shown = [
            placed.column.order
            for placed in columns(self.table.cells, of_host=self.of_host, torch=self.torch)
        ]
        orders = [order for order in ORDERS if order in shown]
        index = orders.index(self.order) if self.order in orders else -1
        self.sort_by(orders[(index + 1) % len(orders)])

    def state_changed(self) -> None:
        """Update the list and redraw the changes."""
        self._update_host_watch()
        self._account = self._read_rows()
        self.retitle(self._format_title())
        self._title.rebuild()
        self.table.rebuild()
        self._rest.rebuild()
        self._whole.rebuild()
        self._share_rows()

    def on_resize(self, _event: events.Resize) -> None:
        """Share the rows of the new size."""
        self.call_after_refresh(self._share_rows)

    def _share_rows(self) -> None:
        """Draw bars and a history in the rows that table and foot leave, if there are enough."""
        machine = self.machine
        before = self.job_colors
        self._held = () if self.of_host else divide_memory(machine.devices, machine.worker_pid)
        foot = sum(1 + len(view.shown_lines) for view in (self._rest, self._whole))
        free = self.size.height - 2 - len(self.rows) - foot
        of_bars = count_bar_rows(self._held, free)
        fits = bool(of_bars)
        bar_rows = 1 + sum(of_bars)
        of_history = self._fit_history(free - bar_rows if fits else 0)
        self.bars.display = fits
        self.bars.styles.height = bar_rows if of_history else "1fr"
        if self.job_colors != before:
            self.table.rebuild()
        self.table.styles.height = max(LEAST_TABLE, len(self.rows) + 1) if fits else "1fr"
        self.bars.rebuild()

    def _fit_history(self, free: int) -> int:
        """Show the history of the process's GPU in at most so many rows; return its rows."""
        view, *others = self._find_devices()
        free = 0 if others or view.key == CPU else free  # several GPUs have none
        recent = read_recent(self.machine, view.key, self.now)
        return self.history.fit(view, recent, self.size.width, free)

    def set_open(self, is_open: bool) -> None:
        """Record whether the tab is open."""
        self._open = is_open
        self._update_host_watch()

    # ---- the filter ----

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the table by the typed words."""
        event.stop()
        self.pattern = event.value.strip()
        self.state_changed()

    # ---- contents ----

    def _format_title(self) -> str:
        """Return the title."""
        title = "Processes on cpu" if self.of_host else "Processes"
        if self.machine.host:
            title += f" {'of' if self.of_host else 'on'} {self.machine.host}"
        filtered = f"   filter: {self.pattern} ({len(self.rows)})" if self.pattern else ""
        return f"{title}   {'flat' if self.flat else 'tree'} by {self.order}{filtered}"

    def _bar_lines(self, cells: int, rows: int) -> list[Line]:
        return holder_bars(self._held, cells, rows, self._find_chosen())

    def _find_chosen(self) -> frozenset[HolderKey]:
        """Return the process under the cursor, or all processes of a launcher."""
        row = self.table.selected
        if row is None or row.pid is None:
            return frozenset()
        if row.kind != "launcher":
            return frozenset({(row.pid, row.started_at)})
        parent = row.pid, row.started_at
        return frozenset(
            (item.pid, item.started_at)
            for device in self.machine.nvml_devices
            for item in device.processes or ()
            if item.parent and (item.parent.pid, item.parent.started_at) == parent
        )

    def _remainders(self, cells: int) -> list[Line]:
        devices = self._find_devices()
        label = devices[0].label if len(devices) == 1 else text.count(len(devices), "GPU")
        return remainder_lines(self._account, label, cells)

    def _update_host_watch(self) -> None:
        """Request the host's processes only while the tab shows them."""
        watched_host = (self._open and self.of_host, self.machine.host)
        if watched_host != self._watched:
            self._watched = watched_host
            self._actions.watch_host(watched_host[0])

    def _read_rows(self) -> Holders:
        machine = self.machine
        self.rows = process_rows(
            machine.devices,
            machine.sample,
            of_host=self.of_host,
            worker_pid=machine.worker_pid,
            pattern=self.pattern,
            order=self.order,
            before=[row.key for row in self.rows],
            allocators=machine.allocators,
            now=self.now,
            flat=self.flat,
        )
        return self._read_account()

    def _find_devices(self) -> Sequence[DeviceView]:
        """Return the GPU of the row under the cursor, a launcher's GPUs, or the selected device."""
        machine, row = self.machine, self.table.selected
        # A process that NVML does not list has the position after the last device.
        if self.of_host or row is None or row.position >= len(machine.devices):
            return [machine.selected_device]
        chosen = self._find_chosen() if row.kind == "launcher" else frozenset()
        of_launcher = [
            view
            for view in machine.devices
            if any(
                (item.pid, item.started_at) in chosen
                for item in (view.nvml.processes if view.nvml else None) or ()
            )
        ]
        return of_launcher or [machine.devices[row.position]]

    def _read_account(self) -> Holders:
        machine = self.machine
        holding = add_holders(
            [
                holders(view, machine.sample, self.now, machine.lost, simulated=machine.simulated)
                for view in self._find_devices()
            ]
        )
        if machine.allocators is None or self.of_host:
            return holding
        jobs = job_notes(find_host_jobs(self._machine), machine.host or HERE)
        shown = self._machine.hosts.selected_host
        ooms = shown.oom_notes if shown is not None else ()
        return replace(
            holding, notes=(*ooms, *jobs, *holding.notes, *unread_notes(machine.allocators))
        )

    @on(ProcessList.Moved)
    def _moved(self) -> None:
        self._account = self._read_account()
        self._rest.rebuild()
        self._whole.rebuild()
        self._share_rows()


class ProcessesTab(CommandScreen):
    """The tab that lists the processes, shows one, and ends one after a confirmation."""

    TAB = "processes"
    CSS_PATH = "processes.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of_screen(TAB, *DEVICES)

    def __init__(self, program: DeviceProgram) -> None:
        super().__init__(program)
        self.machine = program.machine
        self.pane = ProcessesPane(program.machine, program.actions, program.clock)
        self.memory: ProcessMemoryView | None = None
        """The view of the chosen process's memory, which replaces the table."""

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.pane
        yield FooterBar(self.program.commands, self.situation)

    def shows_allocators(self) -> bool:
        """Return whether the rows show allocator figures, as rows of GPU processes do."""
        return self.memory is not None or not self.pane.of_host

    @on(ProcessList.Chosen)
    def _chosen(self) -> None:
        """Show all that is known of the process under the cursor."""
        allocator, row = self.pane.allocator, self.pane.table.selected
        if row is None:
            return
        if row.process is None:
            self.notify(_explain_no_page(row), markup=False)
        elif allocator is None:
            self._open_page(row, row.process)
        else:
            self._open_memory(allocator, row.process)

    def _open_page(self, row: ProcessRow, process: GpuProcess) -> None:
        details: list[ProcessDetails] = []

        def build(cells: int) -> list[Line]:
            read = details[0] if details else None
            now = self.machine.shown.now(self.program.clock())
            torch = selected_torch_lines(row, cells)
            return [*torch, *process_page(process, row.gpu, read, now, cells)]

        page = ProcessScreen(f"Process {process.pid}", build, self._make_end(process))
        self.app.push_screen(page)

        def apply(read: ProcessDetails) -> None:
            details.append(read)
            page.rebuild()

        self._read_details(process, apply)

    def _open_memory(self, allocator: Allocator, process: GpuProcess) -> None:
        memory = self.memory = ProcessMemoryView(self.pane.machine, self.program.clock, allocator)
        self.mount(memory, after=self.pane)
        self.pane.display = False
        # The body scrolls. Focus it at once, so that it receives the next key.
        self.set_focus(memory.body)
        self.rebuild_footer()

        def apply(read: ProcessDetails) -> None:
            memory.details = read
            if memory.is_attached:
                memory.state_changed()

        self._read_details(process, apply)

    def _read_details(self, process: GpuProcess, apply: Callable[[ProcessDetails], object]) -> None:
        """Read a process's details beside the loop: the tree of a busy machine takes a while."""
        if self.program.replay:
            # The PIDs of a recording mean nothing on the machine that plays it.
            reason = "a recording has no details of processes"
            apply(ProcessDetails(process.pid, unavailable={"process": reason}))
            return
        if self.machine.shown.host:
            reason = f"it runs on {self.machine.shown.host}: details are read on this machine only"
            apply(ProcessDetails(process.pid, unavailable={"process": reason}))
            return
        unmatched = explain_unmatched(process)
        if unmatched is not None:
            apply(ProcessDetails(process.pid, unavailable={"process": unmatched}))
            return

        async def read() -> None:
            apply(await asyncio.to_thread(read_process_details, process))

        _: Worker[None] = self.run_worker(
            read, name="process details", group="process-details", exclusive=True
        )

    def _make_end(self, process: GpuProcess) -> Callable[[], None] | None:
        """Return the function that opens the signal dialog; ``None`` if no signal may be sent."""
        if self.program.readonly or self.machine.shown.host or refusal(process) is not None:
            return None
        return lambda: self._confirm_signal(process)

    @on(ProcessList.Moved)
    def _moved(self) -> None:
        self.rebuild_footer()

    def situation(self) -> Situation:
        """Add the filter, and whether the process under the cursor can receive a signal."""
        now = super().situation()
        return replace(
            now,
            pane=now.pane if self.memory is None else self.memory.id,
            on_process=self._process() is not None,
            can_go_back=bool(self.pane.pattern) or self.memory is not None,
        )

    def _process(self) -> GpuProcess | None:
        """Return the process under the cursor, or shown, if it can receive a signal."""
        row = self.pane.selected
        if self.pane.machine.host:
            return None  # a signal never goes to another host
        if self.memory is not None and (
            row is None or row.pid != self.memory.allocator.process.pid
        ):
            return None  # the shown process has ended, and the cursor is on another
        return row if row is not None and refusal(row) is None else None

    def resumed(self, event: events.ScreenResume) -> None:
        """Apply the changes since another tab was open."""
        self.pane.set_open(True)
        super().resumed(event)

    @on(events.ScreenSuspend)
    def _suspended(self) -> None:
        # Around a dialog the list stays visible.
        self.pane.set_open(self in self.app.screen_stack)

    def action_sort_processes(self) -> None:
        self.pane.next_order()

    def action_toggle_tree(self) -> None:
        self.pane.toggle_tree()

    def action_explain_memory(self) -> None:
        """Explain the memory of the chosen process."""
        if self.memory is not None:
            self.app.push_screen(self.memory.explanation())

    def action_filter(self) -> None:
        if self.memory is None:
            self.pane.filter_line.begin()

    def action_go_back(self) -> None:
        """Go back to the table from a process's memory, or drop the filter."""
        if self.memory is not None:
            memory, self.memory = self.memory, None
            self.pane.display = True
            self.set_focus(self.pane.table)
            memory.remove()
            self.pane.state_changed()
            self.rebuild_footer()
            return
        self.pane.filter_line.end(filtered=False)

    def action_end_process(self) -> None:
        row = self._process()
        if row is not None:
            self._confirm_signal(row)

    def _confirm_signal(self, row: GpuProcess) -> None:
        def on_answer(number: signal.Signals | None) -> None:
            if number is not None:
                problem = send_signal(row, number)
                words = problem or f"{number.name} sent to {row.pid}"
                self.notify(words, severity="warning" if problem else "information", markup=False)

        words = [
            f"{row.pid}  {row.user or 'unknown user'}  {row.command or 'unknown command'}",
            *_describe_consequences(row, self.machine.worker_pid),
        ]
        self.app.push_screen(EndScreen(f"End process {row.pid}?", words), on_answer)


def _explain_no_page(row: ProcessRow) -> str:
    if row.kind == "launcher":
        return "it started several processes: select one"
    return "not a process: it has no details"


class ProcessScreen(LiveTextScreen):
    """The page of one process, from which a signal can be sent."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "end", show=False)]

    def __init__(
        self, title: str, build: Callable[[int], Sequence[Line]], end: Callable[[], None] | None
    ) -> None:
        """Show lines.

        Args:
            title: of the page.
            build: returns the lines for a width in cells.
            end: opens the dialog of signals; ``None`` where none may be sent.
        """
        super().__init__(title, build, "x end it   escape close" if end else "escape close")
        self._end = end

    def action_end(self) -> None:
        """Close, and ask for the signal."""
        if self._end is not None:
            self.dismiss()
            self._end()
