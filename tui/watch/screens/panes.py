"""Panes of the watch tab: the stored runs, a run's processes and output, a process's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from tui.core.events import Topic
from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.devices.memory import Gauge
from tui.devices.memory.others import account_in
from tui.devices.state.devices import DeviceView
from tui.devices.state.machine import MachineState
from tui.devices.views.history import format_points
from tui.devices.views.memory import bar_line, legend_lines, memory_title
from tui.devices.views.memory_account import account_details, account_lines
from tui.devices.views.process_memory import process_facts
from tui.kit.dialogs import TextScreen
from tui.kit.empty_page import EmptyPage
from tui.kit.lines import Line, Span, TextStyle, cell_len, fit, line, plain, verbatim
from tui.kit.lists import KeyedList, OfferList
from tui.kit.pane import ROOM, FittedView, LineBar, LinesView, Pane, text_cells
from tui.watch.commands import STORED_RUNS
from tui.watch.runs.rehearsals import RehearsalNote
from tui.watch.runs.runs import StartedRun
from tui.watch.session.run_folder import StoredRun
from tui.watch.session.stored_ooms import StoredOoms
from tui.watch.state.explained import newest_oom
from tui.watch.state.processes import NOT_LISTED
from tui.watch.state.run import WatchedDevice, WatchedRun
from tui.watch.views.memory_plot import (
    AROUND_PLOT,
    LEAST_PLOT,
    LEGIBLE_PLOT,
    Over,
    choose_axis,
    host_plot,
    plot_of,
    plots_host_memory,
)
from tui.watch.views.processes import (
    choose_columns,
    column_names,
    device_line,
    heading,
    is_on_cpu,
    key_of,
    missing_lines,
)
from tui.watch.views.run import (
    banner_lines,
    format_run_title,
    has_memory,
    host_lines,
    trend_lines,
)
from tui.watch.views.stored_runs import (
    none_lines,
    stored_run_heading,
    stored_run_lines,
    stored_run_summary,
)
from workloads.protocol.messages import TorchMemory
from workloads.protocol.results import TorchDevice

ReadState = Callable[[], "WatchedRun | None"]
TABLE_SHARE = 3
"""The table takes at most one in this many rows of the screen, and then scrolls."""
NOTE_ROWS, NOTE_SHARE = 4, 8
"""Rows for the text above the table and for the text below it, at most: this many, or one in this
many rows of the screen, whichever is more."""
OOM_SHARE, OOM_FROM = 4, 24
"""An OOM and its account above the table may have one in so many rows of a screen of at least so
many: they are the answer, and the plot is the evidence."""


class StoredRunList(KeyedList):
    """A line for each run; the cursor stays on its run when others arrive."""

    def __init__(self, runs: Callable[[], Sequence[StoredRun]], clock: Callable[[], float]) -> None:
        super().__init__()
        self._runs = runs
        self._clock = clock

    @property
    def stored(self) -> StoredRun | None:
        """The run under the cursor, with what its processes left."""
        return next((run for run in self._runs() if run.run.folder.name == self.key), None)

    @property
    def selected(self) -> StartedRun | None:
        """The run under the cursor."""
        return self.stored.run if self.stored is not None else None

    def row_keys(self) -> Sequence[str]:
        """Return the keys of the runs, newest first."""
        return [run.run.folder.name for run in self._runs()]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return one line for each run."""
        return stored_run_lines(self._runs(), cells, self._clock())


LEAST_SUMMARY = 6
"""Least rows for what is known of the run under the cursor, below the list."""


class StoredRunsPane(Pane):
    """The stored runs, newest first; if there are none, how to create one."""

    HELP = (
        "The newest 20 runs of gpu-workbench watch, up to 5 GiB. enter follows a live run or "
        "replays an ended one. steps: of the process with the most. Below the list: how the run "
        "under the cursor ended, its processes, and the last lines of its output."
    )

    def __init__(self, clock: Callable[[], float], offers: OfferList) -> None:
        super().__init__(id=STORED_RUNS)
        self.offers = offers
        self.offers.display = False
        self.runs: tuple[StoredRun, ...] | None = None
        """``None`` while they are being read."""
        self.ooms = StoredOoms()
        self.list = StoredRunList(lambda: self.runs or (), clock)
        self._clock = clock
        self._heading = LineBar(lambda cells: stored_run_heading(self.runs or (), cells, clock()))
        self._summary = FittedView(self._summary_lines)
        self._summary.can_focus = False
        self.page = EmptyPage(self._empty_lines, offers)

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self.list
        yield self._summary
        yield self.page

    @property
    def keys_go_to(self) -> Widget:
        """The list of stored runs, else the offers of the empty tab."""
        return self.list if self.runs else self.offers

    def _summary_lines(self, cells: int, rows: int) -> list[Line]:
        stored = self.list.stored
        if stored is None:
            return []
        return stored_run_summary(stored, self.ooms.find(stored), cells, rows, self._clock())

    @on(KeyedList.Moved, "StoredRunList")
    def _moved(self) -> None:
        self._share_rows()

    def on_resize(self, _event: events.Resize) -> None:
        """Share the rows of the new size."""
        self.call_after_refresh(self._share_rows)

    def _share_rows(self) -> None:
        """Show what is known of the run under the cursor in the rows that the list leaves."""
        rows = len(self.runs or ())
        self._summary.display = rows > 0 and self.size.height - 2 - rows >= LEAST_SUMMARY
        self.list.styles.height = rows if self._summary.display else "1fr"
        self.call_after_refresh(self._summary.rebuild)

    def _empty_lines(self, cells: int) -> list[Line]:
        if self.runs is None:
            return [line(f"reading the stored runs{glyphs.GLYPHS.ellipsis}")]
        return none_lines(cells)

    def state_changed(self) -> None:
        """Draw the list, or instructions if it is empty."""
        has_runs = bool(self.runs)
        self.retitle("Watched runs" + (f"   {len(self.runs)} stored" if self.runs else ""))
        has_focus = self.list.has_focus or self.offers.has_focus or self.screen.focused is None
        before = self.list.display, self.offers.display
        self._heading.display = self.list.display = has_runs
        self.page.show(words=not has_runs, offers=self.runs is not None and not has_runs)
        # A hidden widget accepts no focus: the run may have been left before the list was read.
        if has_focus and before != (self.list.display, self.offers.display):
            self.screen.set_focus(self.keys_go_to)
        for part in (self._heading, self.list, self.page):
            part.rebuild()
        self._share_rows()


class WatchedDeviceList(KeyedList):
    """A line for each process and device of the run."""

    # k moves up in other lists; here it shows the stack of each rank.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("k", "screen.watch_stacks", show=False)]

    def __init__(self, read: ReadState) -> None:
        super().__init__()
        self._read = read

    def _devices(self) -> Sequence[WatchedDevice]:
        state = self._read()
        return state.devices if state is not None else ()

    @property
    def selected(self) -> WatchedDevice | None:
        """The row under the cursor."""
        return next((row for row in self._devices() if key_of(row) == self.key), None)

    def row_keys(self) -> Sequence[str]:
        """Return the keys by rank, then pid, then device."""
        return [key_of(row) for row in self._devices()]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return the lines with their figures."""
        devices = self._devices()
        columns = choose_columns(devices)
        return [device_line(row, cells, columns) for row in devices]


class RunPane(Pane):
    """A summary of the run, its processes as a table, and reasons for missing figures."""

    HELP = (
        "One row for each device of each process. allocated to retries (cache flushes): torch's"
        " allocator, read from outside. process: NVML's figure. host memory: resident (RSS). step, "
        "steps/s: of all optimizers, counted by the agent in the process; M and H need the agent, "
        "too. Below the table: why a figure is missing, and what helps. Above it: OOMs, with the "
        "numbers that torch passed to its OOM observer."
    )

    def __init__(self, read: ReadState, clock: Callable[[], float]) -> None:
        super().__init__(id="watched-run")
        self._read = read
        self._clock = clock
        self.table = WatchedDeviceList(read)
        self._heading = LineBar(self._heading_line)
        self._banner = LinesView(self._banner_lines)
        self._missing = LinesView(self._why_missing)
        self._banner.can_focus = self._missing.can_focus = False

    def compose(self) -> ComposeResult:
        yield self._banner
        yield self._heading
        yield self.table
        yield self._missing

    def begin(self, state: WatchedRun) -> None:
        """Put the cursor on the process that ran out of memory, if there is one."""
        oom = newest_oom(state.devices)
        if oom is not None:
            self.table.attach(key_of(oom.row))

    def _heading_line(self, cells: int) -> Line:
        state = self._read()
        return heading(cells, choose_columns(state.devices if state is not None else ()))

    def _banner_lines(self, cells: int) -> list[Line]:
        state = self._read()
        if state is None:
            return []
        return banner_lines(state, self.table.selected, cells, self.table.cells or cells)

    def _why_missing(self, cells: int) -> list[Line]:
        state, row = self._read(), self.table.selected
        if state is None or row is None:
            return []
        oom = newest_oom(state.devices)
        has_banner = oom is not None and oom.row.process.pid == row.process.pid
        on_cpu = is_on_cpu(state.devices)
        return missing_lines(row, cells, has_banner=has_banner, on_cpu=on_cpu)

    def state_changed(self) -> None:
        """Redraw the pane; the table gets the rows that it needs, up to its share."""
        state = self._read()
        if state is None:
            return
        self.retitle(format_run_title(state, self._clock(), self.size.width - ROOM))
        self._heading.display = self.table.display = bool(state.devices)
        self.table.read_keys()
        height = self.app.size.height
        log_rows = max(NOTE_ROWS, height // NOTE_SHARE)
        most = max(3, height // TABLE_SHARE - NOTE_ROWS)
        self.table.styles.height = max(1, min(len(state.devices), most))
        has_oom = newest_oom(state.devices) is not None and height >= OOM_FROM
        cells = text_cells(self.size.width)
        for view, lines, rows in (
            (self._banner, self._banner_lines(cells), height // OOM_SHARE if has_oom else log_rows),
            (self._missing, self._why_missing(cells), log_rows),
        ):
            view.display = bool(lines)
            view.styles.height = max(1, min(len(lines), rows))
        for part in (self._banner, self._heading, self.table, self._missing):
            part.rebuild()


class OutputPane(Pane):
    """The end of the run's output, which the view follows unless it was scrolled up."""

    HELP = (
        "The last lines of output.log: standard output and standard error. The pane follows the"
        " newest line until you scroll up; end follows again."
    )

    def __init__(self, read: ReadState) -> None:
        super().__init__(id="watched-output")
        self._read = read
        self.body = LinesView(self._lines, stick_to_end=True)

    def compose(self) -> ComposeResult:
        yield self.body

    def state_changed(self) -> None:
        """Draw the lines that were added."""
        state = self._read()
        if state is not None:
            words = f"Output   {state.run.log}"
            self.retitle(fit(words, max(1, self.size.width - ROOM)))
            self.body.rebuild()

    def _lines(self, cells: int) -> list[Line]:
        state = self._read()
        if state is None:
            return []
        if not state.output:
            return [line(Span("no output", TextStyle.QUIET))]
        return [row for entry in state.output for row in verbatim(entry, cells)]


WIDE_FROM = 110
"""Least width in cells for the plot beside the account, not above it."""
LEAST_ACCOUNT = 3
"""Rows of the account that stay visible below a plot."""
MOST_FINDINGS = 4
"""Most rows for the findings about a process."""
SHOWN_BESIDE = frozenset({"out of memory"})
"""Counters of the account that the process's row always has."""
SHOWN_IN_COLUMN = {"allocated_peak": "peak", "alloc retries": "retries"}
"""Peaks and counters that the process's row has where its column fits, with that column."""
FACTS_SHOWN_BESIDE = ("pid", "rank", "command")
"""Facts of the process in its row or the title of the run."""
NOT_OF_THEN = "the figures are recorded, and NVML reports only the present"


class WatchedMemoryPane(Pane):
    """The memory bar, the trend over time, the plot and the account of one device."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.DEVICES, Topic.MEMORY})
    HELP = (
        "torch's allocator in the process under the cursor, read from outside, and its GPU. "
        "growth: the median of slopes with its 95% interval (Sen 1968), from the lowest "
        "values; if the interval includes zero, growth is not certain. A line in the plot marks"
        " an OOM, a snapshot or a cache flush. i explains each figure."
    )

    def __init__(
        self,
        machine: MachineState,
        selected: Callable[[], WatchedDevice | None],
        clock: Callable[[], float],
    ) -> None:
        """Set up the display of one device of a process.

        Args:
            machine: state of the machine.
            selected: returns the row under the cursor.
            clock: returns the current Unix time.
        """
        super().__init__(id="watched-memory")
        self.machine = machine
        self._selected = selected
        self._clock = clock
        self._over: Over | None = None
        """The user's choice; ``None`` before."""
        self.row: WatchedDevice | None = None
        self._frozen_at: float | None = None
        """Unix time since which the figures are frozen."""
        self._replayed = False
        self._rehearsal: RehearsalNote | None = None
        self._is_idle = False
        """No process of the run has memory to show."""
        self._view = DeviceView("")
        self._gauge: Gauge | None = None
        self._bar = LineBar(lambda cells: bar_line(self._gauge, cells) if self._gauge else ())
        self._bar.add_class("gauge")
        self._legend = LinesView(
            lambda cells: legend_lines(self._gauge, cells) if self._gauge else []
        )
        self._findings_view = LinesView(self._finding_lines)
        self._legend.can_focus = self._findings_view.can_focus = False
        self._plot = FittedView(self._plot_lines, self._plot_points)
        self.body = LinesView(self._account)

    def compose(self) -> ComposeResult:
        yield self._bar
        yield self._legend
        yield self._findings_view
        with Container(classes="row"):
            yield self._plot
            yield self.body

    def explanation(self) -> TextScreen | None:
        """Return a dialog that explains the account; ``None`` if there is none."""
        gauge, view, row = self._gauge, self._view, self.row
        if row is None or gauge is None:
            return None
        return TextScreen(
            f"Memory of {row.process.pid}",
            lambda cells: account_details(gauge, view, cells, row.findings),
        )

    # ---- state ----

    @property
    def over(self) -> Over:
        """The quantity along the lower edge of the plot."""
        return self._over or ("time" if self.row is None else choose_axis(self.row))

    def toggle_axis(self) -> None:
        """Plot over steps instead of time, or the other way around, from now on."""
        self._over = "steps" if self.over == "time" else "time"
        self.state_changed()

    def follow(self, state: WatchedRun) -> None:
        """Show the newest state of the run."""
        self._frozen_at = state.frozen_at
        self._replayed = state.replayed
        self._rehearsal = state.rehearsal
        self._is_idle = not has_memory(state)
        self.set_class(self._is_idle, "-idle")
        self.state_changed()

    def _update_account(self) -> None:
        """Compute the account of the row under the cursor from its present figures."""
        self.row = self._selected()
        allocator = None if self.row is None else self.row.allocator
        self._gauge = None
        if allocator is not None:
            now = self._clock() if self._frozen_at is None else self._frozen_at
            # The present memory of other processes says nothing about the free memory back then.
            unpaired = NOT_OF_THEN if self._replayed else ""
            device = None
            if self._rehearsal is not None:
                unpaired = NOT_LISTED
                name = allocator.figures.device
                device = TorchDevice(name, self._rehearsal.card, total_memory=self._rehearsal.total)
            self._view, self._gauge = account_in(
                self.machine, allocator, now, unpaired, device, self._read_oom(allocator.figures)
            )

    def _read_oom(self, last: TorchMemory) -> TorchMemory | None:
        """Return the figures of the OOM that ended the process, if torch kept its memory since.

        The exception frees tensors before the last reading.
        """
        oom = self.row.at_oom if self.row is not None else None
        if oom is None or oom.reserved != last.reserved:
            return None
        return replace(last, allocated=oom.allocated, requested=oom.requested or 0)

    # ---- drawing ----

    def state_changed(self) -> None:
        """Update the account and draw what changed; the parts share the available rows."""
        self._update_account()
        width, height = self.size
        cells = max(1, width - 1)
        findings = self._finding_lines(cells)
        finding_rows = min(MOST_FINDINGS, len(findings))
        least, legible = AROUND_PLOT + LEAST_PLOT, AROUND_PLOT + LEGIBLE_PLOT
        plots_host = self.row is not None and plots_host_memory(self.row)
        has_plot = plots_host or (self.row is not None and bool(self.row.points))
        # The present memory of the device says nothing about a process that has ended.
        alone = has_plot and self._is_over() and height - finding_rows >= least
        shown = None if alone else self._gauge
        title = self._title(width - ROOM, shown)
        if alone and finding_rows == 1 and height - finding_rows < legible:
            told = f"Memory of {self.row.process.pid}   {plain(findings[0])}" if self.row else ""
            if told and cell_len(told) <= width - ROOM:
                title, finding_rows = told, 0
        self.retitle(title)
        legend_rows = len(legend_lines(shown, cells)) if shown else 0
        for view, rows in ((self._legend, legend_rows), (self._findings_view, finding_rows)):
            view.display = rows > 0
            view.styles.height = max(1, rows)
        self._bar.display = shown is not None
        wide = width >= WIDE_FROM
        self.set_class(wide, "-wide")
        left = height - (shown is not None) - legend_rows - finding_rows
        fits = has_plot and left >= least
        # If the plot stands above it, the account keeps some rows, unless the plot needs them: i
        # explains all figures.
        above = left - max(LEAST_ACCOUNT, left // 3)
        alone = alone or plots_host or (fits and not wide and above < legible)
        self.body.display = not alone
        self._plot.display = fits
        if fits:
            # A header that grows takes rows at once, before this pane shares out the rest.
            self._plot.styles.height = "1fr" if wide or alone else above
        for part in (self._bar, self._legend, self._findings_view, self._plot, self.body):
            part.rebuild()

    def on_resize(self, _event: events.Resize) -> None:
        """Rebuild the lines for the new size."""
        self.call_after_refresh(self.state_changed)

    def _is_over(self) -> bool:
        return self.row is not None and bool(self.row.ended)

    def _title(self, cells: int, gauge: Gauge | None) -> str:
        if self.row is None:
            return "Memory"
        whose = f" of {self.row.process.pid}"
        if self._gauge is None:
            return f"Memory{whose}"
        if gauge is None or self._view.nvml is None:
            return f"Memory{whose}   {self._view.label}"
        return memory_title(gauge, self._view, cells, whose)

    def _finding_lines(self, cells: int) -> list[Line]:
        if self.row is not None and (self._is_idle or plots_host_memory(self.row)):
            return host_lines(self.row, cells)
        if self.row is None or self.row.figures is None:
            return []
        return trend_lines(self.row, cells)

    def _plot_lines(self, cells: int, rows: int) -> list[Line]:
        if self.row is None:
            return []
        if plots_host_memory(self.row):
            return host_plot(self.row, cells, rows)
        return plot_of(self.row, self.over, cells, rows)

    def _plot_points(self) -> list[str]:
        if self.row is None:
            return []
        points = self.row.host_points if plots_host_memory(self.row) else self.row.points
        return ["", *format_points(points)]

    def _account(self, cells: int) -> list[Line]:
        if self.row is None or self._gauge is None:
            return []
        facts = [
            (label, value)
            for label, value in process_facts(self.row.process, self._clock())
            if label not in FACTS_SHOWN_BESIDE and not value.startswith(f"{text.NA}: ")
        ]
        columns = column_names(max(1, self.size.width - 1))
        beside = SHOWN_BESIDE | {
            key for key, column in SHOWN_IN_COLUMN.items() if column in columns
        }
        return account_lines(self._gauge, self._view, facts, None, cells, "process", beside)
