"""The runs that are kept, the processes of one, and its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult

from tui.state.store import Store
from tui.state.watched_run import WatchedDevice, WatchedRun
from tui.text import glyphs
from tui.ui.commands.watch import KEPT_RUNS
from tui.ui.views.lines import Line, Span, TextStyle, fit, line, verbatim
from tui.ui.views.watched_processes import heading, key_of, missing_lines, row_line
from tui.ui.views.watched_run import (
    KeptRun,
    banner_lines,
    kept_heading,
    kept_lines,
    newest_oom,
    none_lines,
    title_words,
)
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.lists import KeyedList
from tui.ui.widgets.pane import ROOM, Pane
from tui.watch.runs import Run

Read = Callable[[], "WatchedRun | None"]
TABLE_SHARE = 3
"""The table takes at most one in so many rows of the screen, and then scrolls."""
SAID, SAID_SHARE = 4, 8
"""Rows that what is said above the table may have, and what is said below it; or one in so many
rows of the screen, where that is more."""


class KeptList(KeyedList):
    """A line for each run; the cursor stays on it when others come."""

    def __init__(self, runs: Callable[[], Sequence[KeptRun]], clock: Callable[[], float]) -> None:
        super().__init__()
        self._runs = runs
        self._clock = clock

    @property
    def selected(self) -> Run | None:
        """The run under the cursor."""
        return next((each.run for each in self._runs() if each.run.folder.name == self.key), None)

    def row_keys(self) -> Sequence[str]:
        """The runs, the newest first."""
        return [each.run.folder.name for each in self._runs()]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """A line for each."""
        return kept_lines(self._runs(), cells, self._clock())


class KeptPane(Pane):
    """The runs that are kept, the newest first; where there is none, how to have one."""

    HELP = (
        "The runs that were started by gpu-workbench watch, the newest first; the newest 20, or 5 "
        "GiB, are kept. enter opens one: a run that goes on is followed, of one that has ended the "
        "recorded samples are shown. steps: those of the process that made the most. snaps: "
        "snapshots that it has left."
    )

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        super().__init__(store, id=KEPT_RUNS)
        self.runs: tuple[KeptRun, ...] | None = None
        """``None`` while they are read."""
        self.list = KeptList(lambda: self.runs or (), clock)
        self._heading = LineBar(kept_heading)
        self._none = LinesView(self._nothing)

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self.list
        yield self._none

    def _nothing(self, cells: int) -> list[Line]:
        if self.runs is None:
            return [line(f"reading the runs that are kept{glyphs.GLYPHS.ellipsis}")]
        return none_lines(cells)

    def store_changed(self) -> None:
        """Draw the list, or what to do where there is nothing in it."""
        some = bool(self.runs)
        self.retitle(f"Runs under the watch   {len(self.runs or ())} kept")
        self._heading.display = self.list.display = some
        self._none.display = not some
        for part in (self._heading, self.list, self._none):
            part.rebuild()


class DeviceList(KeyedList):
    """A line for each process and device of the run."""

    def __init__(self, read: Read) -> None:
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
        """By rank, then pid, then device."""
        return [key_of(row) for row in self._devices()]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Their figures."""
        return [row_line(row, cells) for row in self._devices()]


class RunPane(Pane):
    """What has to be known of the run, its processes as a table, and why figures are missing."""

    HELP = (
        "The processes of the run, a row for each device that they use. allocated, reserved, peak, "
        "cached and retries (cache flushes) are of torch's allocator, read from outside; process "
        "is what NVML counts for it. step and steps/s are counted by the agent in the process: "
        "steps of all its optimizers. Where a figure cannot be had, a word stands in its place and "
        "the sentence below the table says why and what helps. Above the table stand OOMs, by the "
        "numbers that torch gave its OOM observer, and whether the figures are held still. s, h "
        "and D need the agent. x asks before it ends anything; q leaves the run as it is."
    )

    def __init__(self, store: Store, read: Read, clock: Callable[[], float]) -> None:
        super().__init__(store, id="watched-run")
        self._read = read
        self._clock = clock
        self.table = DeviceList(read)
        self._heading = LineBar(heading)
        self._banner = LinesView(self._said)
        self._missing = LinesView(self._why_missing)
        self._banner.can_focus = self._missing.can_focus = False

    def compose(self) -> ComposeResult:
        yield self._banner
        yield self._heading
        yield self.table
        yield self._missing

    def begin(self, state: WatchedRun) -> None:
        """Put the cursor on the process that ran out of memory, where one did."""
        oom = newest_oom(state.devices)
        if oom is not None:
            self.table.hold(key_of(oom.row))

    def _said(self, cells: int) -> list[Line]:
        state = self._read()
        return banner_lines(state, self.table.selected, cells) if state is not None else []

    def _why_missing(self, cells: int) -> list[Line]:
        row = self.table.selected
        return missing_lines(row, cells) if row is not None else []

    def store_changed(self) -> None:
        """Draw it anew; the table has the rows that it needs, as far as there are any."""
        state = self._read()
        if state is None:
            return
        self.retitle(title_words(state, self._clock(), self.size.width - ROOM))
        self._heading.display = self.table.display = bool(state.devices)
        self.table.read_keys()
        height = self.app.size.height
        said = max(SAID, height // SAID_SHARE)
        most = max(3, height // TABLE_SHARE - SAID)
        self.table.styles.height = max(1, min(len(state.devices), most))
        cells = max(1, self.size.width - 1)
        for view, lines in (
            (self._banner, self._said(cells)),
            (self._missing, self._why_missing(cells)),
        ):
            view.display = bool(lines)
            view.styles.height = max(1, min(len(lines), said))
        for part in (self._banner, self._heading, self.table, self._missing):
            part.rebuild()


class TailView(LinesView):
    """Stays at its end unless it was scrolled up; it is there again once it was scrolled down."""

    follows = True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls up wants to read; a screen that grows only has less above."""
        super().watch_scroll_y(old_value, new_value)
        at_end = new_value >= self.max_scroll_y
        self.follows = at_end or (self.follows and new_value >= old_value)

    def rebuild(self) -> None:
        """Make the lines anew, with the newest in view."""
        super().rebuild()
        if self.follows:
            self.scroll_end(animate=False)


class OutputPane(Pane):
    """The end of what the run has written, which is followed unless it was scrolled up."""

    HELP = (
        "The last lines of what the run has written to standard output and standard error, from "
        "output.log in its folder. It follows the newest line unless it was scrolled up; end "
        "follows again. l shows the memory again."
    )

    def __init__(self, store: Store, read: Read) -> None:
        super().__init__(store, id="watched-output")
        self._read = read
        self.body = TailView(self._lines)

    def compose(self) -> ComposeResult:
        yield self.body

    def store_changed(self) -> None:
        """Draw what was added."""
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
            return [line(Span("it has written nothing", TextStyle.QUIET))]
        return [row for entry in state.output for row in verbatim(entry, cells)]
