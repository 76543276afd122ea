"""The memory pane: who holds the selected device's memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.memory import Gauge, account
from tui.state.reading import value_of
from tui.state.store import Part, Store
from tui.ui.views.lines import Line, changes
from tui.ui.views.memory import bar_line, body, history_lines, title
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import ROOM, AgingPane
from tui.ui.widgets.styles import strip_of

HISTORY_FROM, HISTORY_TALL_FROM = 6, 12
"""Rows inside the pane from which the history is shown, and from which it takes two."""


class MemoryHistoryView(Widget):
    """A column a second, from zero to the device's total."""

    def __init__(self, store: Store, gauge: Callable[[], Gauge], figure: str = "used") -> None:
        """Show one figure of the selected device.

        Args:
            store: holds the history.
            gauge: the account as it is now, whose total is the scale.
            figure: which of a :class:`~tui.state.history.MemoryPoint`.
        """
        super().__init__()
        self._store = store
        self._gauge = gauge
        self._figure = figure
        self._lines: list[Line] = []

    def rebuild(self) -> None:
        """Make the lines anew; drawn only if they differ."""
        points = self._store.history.points(self._store.selected)
        total = value_of(self._gauge().total)
        new = history_lines(points, self._figure, total, self.size.width, self.size.height)
        old, self._lines = self._lines, new
        regions = [
            Region(change.start, change.row, change.end - change.start, 1)
            for change in changes(old, new, self.size.width)
        ]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        spans = self._lines[y] if y < len(self._lines) else ()
        return strip_of(spans, self.size.width, self.rich_style)

    def on_resize(self, _event: events.Resize) -> None:
        """The columns depend on the size."""
        self.rebuild()


class AccountPane(AgingPane):
    """The account of the selected device's memory, as it was when the store last changed.

    Args:
        store: what is known.
        clock: Unix time now, to tell old figures.
        id: the widget's.
        figures: of a :class:`~tui.state.history.MemoryPoint` whose last minute is shown.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        *,
        id: str | None,  # noqa: A002 (Textual's name)
        figures: Sequence[str],
    ) -> None:
        super().__init__(store, clock, id=id)
        self.view = store.selected_device
        self.gauge = account(store, self.view, clock())
        self.bar = LineBar(lambda cells: bar_line(self.gauge, cells))
        self.histories = [MemoryHistoryView(store, lambda: self.gauge, each) for each in figures]
        self.body = LinesView(self.account_lines)

    def account_lines(self, cells: int) -> list[Line]:
        """The figures in words; a subclass says which."""
        raise NotImplementedError

    def make_room(self) -> None:
        """Give the histories the room that there is; a subclass says how much."""
        raise NotImplementedError

    def store_changed(self) -> None:
        """Account anew and redraw what changed."""
        # Together: a device that has gone meanwhile has no account by which to be drawn.
        self.view = self.store.selected_device
        self.gauge = account(self.store, self.view, self.clock())
        self.bar.rebuild()
        for history in self.histories:
            history.rebuild()
        self.body.rebuild()
        self.retitle(title(self.gauge, self.view, self.size.width - ROOM))

    def on_resize(self, _event: events.Resize) -> None:
        """Another size has another room for the histories."""
        self.make_room()
        self.call_after_refresh(self.store_changed)


class MemoryPane(AccountPane):
    """Bar, legend, figures and the last minute of the selected device; the screen 2 has it all."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.MEMORY, Part.SELECTION})
    HELP = (
        "Where the selected device's memory is. allocated: live tensors of the worker, by torch. "
        "cached: reserved by torch but not allocated. context: what NVML counts for the worker "
        "less what torch reserved: CUDA context, kernels, libraries. cuBLAS: the workspace that "
        "torch gives it while a run lasts. ours: what else this program started, as ranks. others: "
        "other processes. moving: torch reserved or gave back memory since NVML was read, so that "
        "the two figures are not subtracted. "
        "unattributed: used, but by no process that NVML lists. driver: reserved by the driver. "
        "Peaks of allocated and reserved are torch's and exact; those marked sampled come from "
        "one look a second and may miss a peak. e empties the cache, p resets the peaks. "
        "pinned on the host: host memory that torch keeps locked for copies, no part of the bar. "
        "The history runs from zero to the device's total. n/a comes with its reason."
    )

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = "memory",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show the selected device of a store; arguments as of :class:`AccountPane`."""
        super().__init__(store, clock, id=id, figures=("used",))

    def compose(self) -> ComposeResult:
        yield self.bar
        yield self.body
        yield from self.histories

    def account_lines(self, cells: int) -> list[Line]:
        """The legend and the figures, shortened to fit."""
        return body(self.gauge, self.view, cells)

    def make_room(self) -> None:
        """A row or two for the history, where the rest has enough."""
        rows = self.size.height
        for history in self.histories:
            history.display = rows >= HISTORY_FROM
            history.styles.height = 2 if rows >= HISTORY_TALL_FROM else 1
