"""The workloads pane: notes on the runner, the table and its filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from tui.core.events import Topic
from tui.kit.lines import Line, LinesOnDemand
from tui.kit.lists import KeyedList, RowFilter
from tui.kit.pane import LineBar, LinesView, text_cells
from tui.kit.table import heading_line
from tui.runs.screens.detail_panes import RunsPane
from tui.runs.state.state import RunsState
from tui.runs.views.queue import build_queue, queue_line
from tui.runs.views.runner_notes import NOT_STARTED, runner_notes
from tui.runs.views.search import build_entries
from tui.runs.views.workload_columns import (
    draw_entry,
    fit_workload_columns,
    has_figures,
    list_hidden_columns,
)
from tui.runs.views.workload_table import (
    ORDERS,
    Entry,
    Group,
    Order,
    WorkloadRow,
    explain_no_match,
    find_next_order,
    format_no_gpu,
    format_not_run,
    format_order,
    get_entry_key,
    sort_entries,
)
from workloads.protocol.groups import FIRST_STEPS


class WorkloadList(KeyedList):
    """The list of groups and workloads; up and down move the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "toggle_group", show=False)]

    blanks_before_bar = 1

    def __init__(self, state: RunsState) -> None:
        super().__init__()
        self._runs = state
        self.pattern = ""
        self.folded = frozenset({FIRST_STEPS})
        self.order: Order = ORDERS[0]
        self.entries: list[Entry] = []

    @property
    def _state(self) -> RunsState:
        """The runs on the machine of the selected row."""
        return self._runs.shown

    # ---- the row under the cursor ----

    def find_fallback(self) -> int:
        """Return the first workload, else the first group."""
        rows = (place for place, entry in enumerate(self.entries) if isinstance(entry, WorkloadRow))
        return next(rows, 0)

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor."""
        at = self.cursor
        return None if at is None else self.entries[at]

    @property
    def workload(self) -> str | None:
        """The workload under the cursor; ``None`` on the heading of a group."""
        entry = self.entry
        return entry.workload if isinstance(entry, WorkloadRow) else None

    @property
    def group(self) -> tuple[str, list[str]] | None:
        """The group whose heading is under the cursor, with its workloads."""
        entry = self.entry
        return (entry.name, self.under_cursor()) if isinstance(entry, Group) else None

    def under_cursor(self) -> list[str]:
        """Return the workload under the cursor, or the workloads of the group under it."""
        entry = self.entry
        if isinstance(entry, Group):
            return [info.name for info in self._state.catalogue if info.group == entry.name]
        return [entry.workload] if entry else []

    def listed(self) -> list[str]:
        """Return all workloads of the table in its order, including those in folded groups."""
        shown = sort_entries(self._state, build_entries(self._state, self.pattern), self.order)
        return [entry.workload for entry in shown if isinstance(entry, WorkloadRow)]

    # ---- drawing ----

    def row_keys(self) -> list[str]:
        """Return the keys of the entries in their order."""
        entries = build_entries(self._state, self.pattern, self.folded)
        self.entries = sort_entries(self._state, entries, self.order)
        return list(map(get_entry_key, self.entries))

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return the table's lines, each rendered on access."""
        entries, at = self.entries, self.cursor
        if not entries and self.pattern.strip():
            return explain_no_match(self.pattern, cells)
        chosen = fit_workload_columns(self._state, entries, cells)

        def draw(place: int) -> Line:
            return draw_entry(entries[place], chosen, under_cursor=place == at)

        return LinesOnDemand(len(entries), draw)

    def heading(self, _cells: int) -> Line:
        """Return the heading line, as wide as the table's lines."""
        if not self.entries:
            self.read_keys()  # the heading is drawn before the table
        return heading_line(fit_workload_columns(self._state, self.entries, max(1, self.cells)))

    def hidden_columns(self) -> tuple[str, ...]:
        """Return the names of the columns that do not fit."""
        layout = fit_workload_columns(self._state, self.entries, max(1, self.cells))
        return list_hidden_columns(self._state, layout)

    # ---- moving ----

    def put_cursor(self, index: int) -> None:
        """Move the cursor to another entry, and redraw the lines."""
        super().put_cursor(index)
        self.rebuild()

    def above(self, index: int) -> int:
        """Include a group's heading when scrolling to its first workload."""
        return index - 1 if index and isinstance(self.entries[index - 1], Group) else index

    def sort_by(self, order: Order) -> None:
        """Change the order; the cursor stays on its workload."""
        self.order = order
        if self.workload is not None:
            self.attach(self.workload)

    def reveal(self, workload: str) -> None:
        """Put the cursor on a workload, and unfold its group."""
        groups = {info.group for info in self._state.catalogue if info.name == workload}
        self.folded = self.folded - groups
        self.attach(workload)
        self.rebuild()
        # The rows of the group are scrolled to once the list is as long as they make it.
        self.call_after_refresh(self._scroll_to_cursor)

    def _scroll_to_cursor(self) -> None:
        if self.cursor is not None:
            self.bring_into_view(self.cursor)

    def action_toggle_group(self) -> None:
        """Fold or unfold the group under the cursor."""
        if isinstance(self.entry, Group):
            group = self.entry
            self.folded = self.folded ^ {group.name}
            self.attach(group.key)
            self.rebuild()


SHOWN_FROM = 4
"""Least number of requested runs that get a progress line. The header shows fewer, such as one
workload on the CPU and a GPU."""
NOTE_ROWS = 6
"""Most rows of notes; longer notes scroll."""


class WorkloadsPane(RunsPane):
    """The table of workloads, with the newest runs on the CPU and on the selected GPU."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.WORKLOADS, Topic.SELECTION, Topic.RUNNER})
    HELP = (
        "Each workload's newest run; rate and peak memory are the GPU's if it ran there. cpu, "
        "cuda:0: the median time of a call. speed-up: the CPU's time over the GPU's. rate: bytes "
        "or operations a second. of limit: the rate as a share of the hardware's. peak memory: the "
        "most at a time. state: ok with half of the 95% interval, or what happened. '*': "
        "parameters changed. '!': warnings (i). 'other flags': flags changed since. n/a: it "
        "cannot run there."
    )

    def __init__(
        self,
        state: RunsState,
        *,
        first_start: bool = False,
        offers_demo: bool = False,
        not_started: str = NOT_STARTED,
    ) -> None:
        """Show the table over a state.

        Args:
            state: the runner and its runs.
            first_start: nothing was ever measured here: say which keys to press first.
            offers_demo: empty tabs offer to play the demo.
            not_started: note about a ``{host}`` without runs.
        """
        super().__init__(state, id="workloads")
        self._first_start, self._offers_demo = first_start, offers_demo
        self._not_started = not_started
        self.table = WorkloadList(state)
        # Not found by a query: the app may end before the pane has its children.
        self._heading = LineBar(self.table.heading, id="heading")
        self._note_view: LinesView | None = None
        """The notes; created with the first note."""
        self.filter_line = RowFilter(
            self,
            self.table,
            "#heading",
            "name, group or meaning: sdpa, gemm, pcie, oom",
            id="filter",
        )
        self._queue: LineBar | None = None
        """The progress line; created with the first large request."""
        self._minute = 0
        """The minute of the last call of :meth:`have_aged`."""

    @property
    def keys_go_to(self) -> Widget | None:
        """The table, even with a filter; a key moves the focus to the filter."""
        return self.table

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self.table

    def state_changed(self) -> None:
        self._place_notes()
        self._place_queue()
        self.table.rebuild()
        # Names and titles alone need no heading.
        self._heading.display = has_figures(self.table.entries)
        self._heading.rebuild()
        self._retitle()

    def have_aged(self) -> bool:
        """Return whether earlier results have aged by a minute, by the newest sample's time."""
        if not self.state.earlier or self.state.machine.sample is None:
            return False
        before, self._minute = self._minute, int(self.state.machine.sample.at // 60)
        return before != self._minute

    def on_resize(self, _event: events.Resize) -> None:
        """Choose the columns again for the new width."""
        self.call_after_refresh(self.state_changed)

    def _notes(self, cells: int) -> list[Line]:
        return runner_notes(
            self.state,
            cells,
            first_start=self._first_start,
            offers_demo=self._offers_demo,
            not_started=self._not_started,
        )

    def _place_notes(self) -> None:
        # The pane's width, because a hidden view has none.
        rows = len(self._notes(text_cells(self.size.width)))
        if self._note_view is None:
            if not rows or not self.is_attached:
                return
            self._note_view = LinesView(self._notes, id="notes")
            self._note_view.can_focus = False
            self.mount(self._note_view, before=0)
        self._note_view.display = rows > 0
        self._note_view.styles.height = min(rows, NOTE_ROWS)
        self._note_view.rebuild()

    def _place_queue(self) -> None:
        """Show the progress of the runs below the table."""
        shown = len(self.state.requested) >= SHOWN_FROM and self._queue_line(1) != ()
        if self._queue is None:
            if not shown or not self.is_attached:
                return
            self._queue = LineBar(self._queue_line, id="queue")
            self.mount(self._queue)
        self._queue.display = shown
        self._queue.rebuild()

    def _queue_line(self, cells: int) -> Line:
        queue = build_queue(self.state)
        return () if queue is None else queue_line(queue, cells, label=" queue: ")

    def _retitle(self) -> None:
        host = self.state.machine.host
        words = [f"Workloads on {host}" if host else "Workloads"]
        if self.table.pattern:
            matching = f"{len(self.table.listed())} of {len(self.state.catalogue)}"
            words.append(f"filter: {self.table.pattern} ({matching})")
        if self.table.order != ORDERS[0]:
            words.append(format_order(self.table.order))
        words += filter(None, (format_not_run(self.state), format_no_gpu(self.state)))
        hidden = self.table.hidden_columns() if self.state.catalogue else ()
        if hidden:
            words.append(f"more (i): {', '.join(hidden)}")
        self.retitle("   ".join(words))

    def next_order(self) -> None:
        """Sort the table by the next column that has a value."""
        self.table.sort_by(find_next_order(self.state, self.table.order))
        self.state_changed()

    # ---- the filter ----

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the table by the typed text."""
        event.stop()
        self.table.pattern = event.value
        self.state_changed()
