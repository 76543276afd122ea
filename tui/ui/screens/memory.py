"""The memory tab: the full account of the selected device's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tui.state.store import Part, Store
from tui.ui.commands import bindings
from tui.ui.screens.command_screen import CommandScreen, Program, has_others
from tui.ui.views.device_detail import device_detail
from tui.ui.views.history import whole_lines, whole_rows
from tui.ui.views.lines import Line
from tui.ui.views.memory import legend
from tui.ui.views.memory_account import account_lines
from tui.ui.widgets.history_view import HistoryView
from tui.ui.widgets.line_bar import FooterBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.memory_pane import AccountPane

SHARE = 3
"""The histories take at most one in so many rows of the screen."""


class MemoryView(AccountPane):
    """Bar, history, every term with its source or its reason, peaks, processes, the device."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset(
        {Part.MEMORY, Part.DEVICES, Part.SELECTION, Part.ALLOCATORS}
    )
    HELP = (
        "Every figure of the selected device's memory with where it comes from. torch's allocator: "
        "requested by tensors, rounded up to allocated; freed but perhaps still in use by a stream "
        "(pending); freed parts of segments in use (stuck) and whole free segments (releasable) "
        "make the cache; all of it, with the workspace that cuBLAS is given, is reserved. context "
        "is this process by NVML less reserved. pinned host memory is not the device's. "
        "Each figure must not be larger than the next of requested, allocated, active, reserved, "
        "this process, device used, total; where one is, a warning says what may be the cause. The "
        "histories are on fixed scales: a column of dots is the highest reading of its seconds, a "
        "gap is where nothing was read. d selects the next device, e empties the cache, p resets "
        "the peaks."
    )

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = "memory-view",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show the selected device of a store; arguments as of :class:`AccountPane`."""
        super().__init__(store, clock, id=id)
        self.legend = LinesView(self._legend)
        self.legend.can_focus = False
        self.history = HistoryView(self._history)

    def compose(self) -> ComposeResult:
        yield self.bar
        yield self.legend
        yield self.history
        yield self.body

    def _legend(self, cells: int) -> list[Line]:
        return legend(self.gauge, cells)

    def _history(self, cells: int, rows: int) -> list[Line]:
        store = self.store
        points = store.history.points(store.selected)
        return whole_lines(self.view, points, store.sample, self.clock(), cells, rows)

    def account_lines(self, cells: int) -> list[Line]:
        """Every term with its source or its reason, then the device."""
        facts = device_detail(self.view, self.store.sample, self.clock())
        return account_lines(self.gauge, self.view, facts, self.store.worker_pid, cells)

    def store_changed(self) -> None:
        """Account anew; another device may have other histories."""
        super().store_changed()
        width, height = self.size
        rows = len(self._legend(max(1, width - 1)))
        self.legend.display = rows > 0
        self.legend.styles.height = max(1, rows)
        self.legend.rebuild()
        rows = whole_rows(self.view, self.store.sample, width, height // SHARE)
        self.history.display = rows > 0
        if rows:
            self.history.styles.height = rows
        self.history.rebuild()


class MemoryTab(CommandScreen):
    """The tab that shows where the memory of the selected device is."""

    TAB = "memory"
    CSS_PATH = "memory.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of_screen(TAB)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.view = MemoryView(program.store, program.clock)

    def looks_at_torch(self) -> bool:
        """The account splits what other processes hold."""
        return has_others(self.store)

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.view
        yield FooterBar(self.situation)
