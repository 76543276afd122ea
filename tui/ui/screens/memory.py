"""The memory screen: the full account of the selected device's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal

from tui.memory import Gauge, account
from tui.state.pairing import CPU
from tui.state.store import Part, Store
from tui.ui.views.device_detail import device_detail
from tui.ui.views.lines import Line
from tui.ui.views.memory import title
from tui.ui.views.memory_account import account_lines
from tui.ui.widgets.aging_pane import ROOM, AgingPane
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.memory_bar import MemoryBar
from tui.ui.widgets.memory_history import MemoryHistory

BESIDE_FROM = 110
"""Cells from which a second history stands beside the first."""
HISTORY = ((24, 4), (16, 2), (0, 1))
"""Rows of the screen, and the rows that its histories take from there on."""


class MemoryView(AgingPane):
    """Bar, history, every term with its source or its reason, peaks, processes, the device."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.MEMORY, Part.DEVICES, Part.SELECTION})
    HELP = (
        "Every figure of the selected device's memory with where it comes from. torch's allocator: "
        "requested by tensors, rounded up to allocated; freed but perhaps still in use by a stream "
        "(pending); freed parts of segments in use (stuck) and whole free segments (releasable) "
        "make the cache; all of it is reserved. context is this process by NVML less reserved. "
        "Each figure must not be larger than the next of requested, allocated, active, reserved, "
        "this process, device used, total; where one is, a warning says what may be the cause. d "
        "selects the next device, e empties the cache, p starts the peaks anew."
    )

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = "memory-view",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show the selected device of a store.

        Args:
            store: what is known.
            clock: Unix time now, to tell old figures.
            id: the widget's.
        """
        super().__init__(store, clock, id=id)
        self._view = store.selected_device
        self._gauge = account(store, self._view, clock())
        self.bar = MemoryBar(self.gauge)
        self.used = MemoryHistory(store, self.gauge, "used")
        self.reserved = MemoryHistory(store, self.gauge, "reserved")
        self.histories = Horizontal(self.used, self.reserved)
        self.body = LinesView(self._body)

    def gauge(self) -> Gauge:
        """The account as it was when the store last changed."""
        return self._gauge

    def compose(self) -> ComposeResult:
        """From the bar down."""
        yield self.bar
        yield self.histories
        yield self.body

    def store_changed(self) -> None:
        """Account anew and redraw what changed."""
        # Together: a device that has gone meanwhile has no account by which to be drawn.
        self._view = self.store.selected_device
        self._gauge = account(self.store, self._view, self.clock())
        self._arrange()
        self.bar.rebuild()
        self.used.rebuild()
        self.reserved.rebuild()
        self.body.rebuild()
        self._retitle()

    def on_resize(self, _event: events.Resize) -> None:
        """What there is room for."""
        self._arrange()
        self.call_after_refresh(self.store_changed)

    def _arrange(self) -> None:
        rows = next(taken for least, taken in HISTORY if self.size.height >= least)
        self.histories.styles.height = rows
        self.reserved.display = self.size.width >= BESIDE_FROM and self.store.selected != CPU

    def _body(self, cells: int) -> list[Line]:
        facts = device_detail(self._view, self.store.sample, self.clock())
        return account_lines(self._gauge, self._view, facts, self.store.worker_pid, cells)

    def _retitle(self) -> None:
        self.retitle(title(self._gauge, self._view, self.size.width - ROOM))
