"""The memory of one process of a run: bar, what the figures tell, plot, account."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container

from tui.memory import Gauge
from tui.memory.others import account_of
from tui.monitor.messages import Sample
from tui.state.allocators import Allocator
from tui.state.pairing import DeviceView
from tui.state.store import Part, Store
from tui.state.watched_run import WatchedDevice, WatchedRun
from tui.ui.views.lines import Line
from tui.ui.views.memory import bar_line, legend, title
from tui.ui.views.memory_account import account_lines, process_facts
from tui.ui.views.watched_processes import AROUND, LEAST_ROWS, Over, key_of, plot_of
from tui.ui.views.watched_run import told_lines
from tui.ui.widgets.history_view import HistoryView
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import ROOM, Pane
from tui.watch.pairing import Placed

WIDE_FROM = 110
"""Cells from which the plot stands beside the account, not above it."""
LEAST_ACCOUNT = 3
"""Rows of the account that stay in view below a plot."""
MOST_TOLD = 4
FROM_FOLDER = "these are the figures that were recorded"
NOT_OF_THEN = "the figures are recorded ones, and NVML tells of the present"


class WatchedMemoryPane(Pane):
    """The bar, what the figures tell over time, the plot and the account of one device."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.DEVICES, Part.MEMORY})
    HELP = (
        "What torch's allocator holds in the process under the cursor, read from outside, and on "
        "the GPU that it uses. growth: of what is allocated, by the least of each part of the time "
        "or of the steps; the median of slopes with its 95 % interval (Sen 1968). An interval that "
        "takes in zero leaves open whether it grows. In the plot a line straight up marks an OOM, "
        "a snapshot or a cache flush; t plots over steps or over time. context is what NVML counts "
        "for the process less reserved. j and k scroll the account."
    )

    def __init__(
        self,
        store: Store,
        selected: Callable[[], WatchedDevice | None],
        clock: Callable[[], float],
    ) -> None:
        """Show one device of a process.

        Args:
            store: what is known of the devices.
            selected: the row under the cursor.
            clock: Unix time now.
        """
        super().__init__(store, id="watched-memory")
        self._selected = selected
        self._clock = clock
        self.over: Over = "time"
        self.row: WatchedDevice | None = None
        self._held_at: float | None = None
        """Unix time since which the figures are held still."""
        self._known: dict[str, Allocator] = {}
        self._sample: Sample | None = None
        self._view = DeviceView("")
        self._gauge: Gauge | None = None
        self._bar = LineBar(lambda cells: bar_line(self._gauge, cells) if self._gauge else ())
        self._legend = LinesView(lambda cells: legend(self._gauge, cells) if self._gauge else [])
        self._told = LinesView(self._told_lines)
        self._legend.can_focus = self._told.can_focus = False
        self._plot = HistoryView(self._plot_lines)
        self.body = LinesView(self._account)

    def compose(self) -> ComposeResult:
        yield self._bar
        yield self._legend
        yield self._told
        with Container(classes="row"):
            yield self._plot
            yield self.body

    # ---- what is known ----

    def follow(self, state: WatchedRun) -> None:
        """Take over the newest figures of all the run's devices."""
        self._held_at = state.frozen_at
        now = {key_of(row): row for row in state.devices}
        self._known = {key: each for key, each in self._known.items() if key in now}
        for key, row in now.items():
            if row.figures is None:
                continue
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = Allocator(row.process, row.figures)
                known.take(row.figures)
                if self._sample is not None:
                    known.take_sample(self._sample)
            elif row.figures.at != known.figures.at:
                known.take(row.figures)
            known.process = row.process
            placed = row.placed
            if state.replayed:
                # What others hold now says nothing of what was free then.
                placed = Placed(None, None, NOT_OF_THEN, NOT_OF_THEN)
            known.place(placed)
            known.ended = row.ended or (FROM_FOLDER if state.replayed else "")
        self.store_changed()

    def _look(self) -> None:
        """Account for the row under the cursor as it is now."""
        sample = self.store.sample
        if sample is not None and sample is not self._sample:
            self._sample = sample
            for each in self._known.values():
                each.take_sample(sample)
        self.row = self._selected()
        known = self._known.get(key_of(self.row)) if self.row is not None else None
        self._gauge = None
        if known is None:
            return
        store, placed = self.store, known.placed
        view = next((each for each in store.devices if each.key == placed.id), None)
        peak = store.history.sampled_peak(view.key if view else "")
        now = self._clock() if self._held_at is None else self._held_at
        self._gauge = account_of(known, view, sample, peak, now)
        self._view = view or DeviceView(known.figures.device)

    # ---- what is drawn ----

    def store_changed(self) -> None:
        """Account anew and draw what changed; the parts have the rows that there are for them."""
        self._look()
        width, height = self.size
        cells = max(1, width - 1)
        self.retitle(self._title(width - ROOM))
        legend_rows = len(legend(self._gauge, cells)) if self._gauge else 0
        told_rows = min(MOST_TOLD, len(self._told_lines(cells)))
        for view, rows in ((self._legend, legend_rows), (self._told, told_rows)):
            view.display = rows > 0
            view.styles.height = max(1, rows)
        self._bar.display = self._gauge is not None
        wide = width >= WIDE_FROM
        self.set_class(wide, "-wide")
        left = height - 1 - legend_rows - told_rows
        least = AROUND + LEAST_ROWS
        fits = self.row is not None and bool(self.row.points) and left >= least
        self._plot.display = fits
        if fits:
            # Below it, where it is not beside, the account keeps some rows.
            rows = left if wide else max(least, left - max(LEAST_ACCOUNT, left // 3))
            self._plot.styles.height = rows
        for part in (self._bar, self._legend, self._told, self._plot, self.body):
            part.rebuild()

    def on_resize(self, _event: events.Resize) -> None:
        """Another size has other lines."""
        self.call_after_refresh(self.store_changed)

    def _title(self, cells: int) -> str:
        if self.row is None:
            return "Memory"
        whose = f" of {self.row.process.pid}"
        if self._gauge is None:
            return f"Memory{whose}"
        if self._view.nvml is None:
            return f"Memory{whose}   {self._view.label}"
        return title(self._gauge, self._view, cells, whose)

    def _told_lines(self, cells: int) -> list[Line]:
        if self.row is None or self.row.figures is None:
            return []
        return told_lines(self.row, cells)

    def _plot_lines(self, cells: int, rows: int) -> list[Line]:
        return plot_of(self.row, self.over, cells, rows) if self.row is not None else []

    def _account(self, cells: int) -> list[Line]:
        if self.row is None or self._gauge is None:
            return []
        facts = process_facts(self.row.process, self._clock())
        return account_lines(self._gauge, self._view, facts, None, cells, "process")
