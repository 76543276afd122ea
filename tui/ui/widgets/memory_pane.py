"""The memory pane: who holds the selected device's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult

from tui.memory import Gauge, account
from tui.state.store import Part, Store
from tui.ui.views.lines import Line
from tui.ui.views.memory import body, title
from tui.ui.widgets.aging_pane import ROOM, AgingPane
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.memory_bar import MemoryBar
from tui.ui.widgets.memory_history import MemoryHistory

HISTORY_FROM, HISTORY_TALL_FROM = 6, 12
"""Rows inside the pane from which the history is shown, and from which it takes two."""


class MemoryPane(AgingPane):
    """Bar, legend, figures and the last minute of the selected device; the screen 2 has it all."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.MEMORY, Part.SELECTION})
    HELP = (
        "Where the selected device's memory is. allocated: live tensors of the worker, by torch. "
        "cached: reserved by torch but not allocated. context: what NVML counts for the worker "
        "less what torch reserved: CUDA context, kernels, libraries. others: other processes. "
        "unattributed: used, but by no process that NVML lists. driver: reserved by the driver. "
        "Peaks of allocated and reserved are torch's and exact; those marked sampled come from "
        "one look a second and may miss a peak. e empties the cache, p starts the peaks anew. "
        "The history runs from zero to the device's total. n/a comes with its reason."
    )

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = "memory",  # noqa: A002 (Textual's name)
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
        self.body = LinesView(self._body)
        self.history = MemoryHistory(store, self.gauge)

    def gauge(self) -> Gauge:
        """The account as it was when the store last changed."""
        return self._gauge

    def compose(self) -> ComposeResult:
        """From the bar down."""
        yield self.bar
        yield self.body
        yield self.history

    def store_changed(self) -> None:
        """Account anew and redraw what changed."""
        # Together: a device that has gone meanwhile has no account by which to be drawn.
        self._view = self.store.selected_device
        self._gauge = account(self.store, self._view, self.clock())
        self.bar.rebuild()
        self.body.rebuild()
        self.history.rebuild()
        self._retitle()

    def on_resize(self, _event: events.Resize) -> None:
        """What there is room for."""
        rows = self.size.height
        self.history.display = rows >= HISTORY_FROM
        self.history.styles.height = 2 if rows >= HISTORY_TALL_FROM else 1
        self.call_after_refresh(self.store_changed)

    def _body(self, cells: int) -> list[Line]:
        return body(self._gauge, self._view, cells)

    def _retitle(self) -> None:
        self.retitle(title(self._gauge, self._view, self.size.width - ROOM))
