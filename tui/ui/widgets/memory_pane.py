"""The memory pane: who holds the selected device's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult

from tui.memory import Gauge, account
from tui.state.pairing import DeviceView
from tui.state.store import Part, Store
from tui.ui.views.lines import Line
from tui.ui.views.memory import bar_line, body, title
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import ROOM, AgingPane


class AccountPane(AgingPane):
    """The account of the selected device's memory, as it was when the store last changed.

    Args:
        store: what is known.
        clock: Unix time now, to tell old figures.
        id: the widget's.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        *,
        id: str | None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(store, clock, id=id)
        self.view, self.gauge = self.look()
        self.bar = LineBar(lambda cells: bar_line(self.gauge, cells))
        self.body = LinesView(self.account_lines)

    def look(self) -> tuple[DeviceView, Gauge]:
        """The device whose memory is accounted for, and the account."""
        view = self.store.selected_device
        return view, account(self.store, view, self.clock())

    def title(self, cells: int) -> str:
        """What stands in the border."""
        return title(self.gauge, self.view, cells)

    def account_lines(self, cells: int) -> list[Line]:
        """The figures in words; a subclass says which."""
        raise NotImplementedError

    def store_changed(self) -> None:
        """Account anew and redraw what changed."""
        # Together: a device that has gone meanwhile has no account by which to be drawn.
        self.view, self.gauge = self.look()
        self.bar.rebuild()
        self.body.rebuild()
        self.retitle(self.title(self.size.width - ROOM))

    def on_resize(self, _event: events.Resize) -> None:
        """Another size has other lines."""
        self.call_after_refresh(self.store_changed)


class MemoryPane(AccountPane):
    """Bar, legend and figures of the selected device; the screen 2 has it all."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.MEMORY, Part.SELECTION, Part.ALLOCATORS})
    HELP = (
        "Where the selected device's memory is. allocated: live tensors of the worker, by torch. "
        "cached: reserved by torch but not allocated. context: what NVML counts for the worker "
        "less what torch reserved: CUDA context, kernels, libraries. cuBLAS: the workspace that "
        "torch gives it while a run lasts. ours: what else this program started, as ranks. others: "
        "other processes; those that use torch and may be read from outside are split below the "
        "legend, and in the bar where there is room. moving: torch reserved or gave back memory "
        "since NVML was read, so that the two figures are not subtracted. unattributed: used, but "
        "by no process that NVML lists. driver: reserved by the driver. Peaks of allocated and "
        "reserved are torch's and exact; those marked sampled come from one look a second and may "
        "miss a peak. e empties the cache, p resets the peaks. pinned on the host: host memory "
        "that torch keeps locked for copies, no part of the bar. n/a comes with its reason."
    )

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = "memory",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show the selected device of a store; arguments as of :class:`AccountPane`."""
        super().__init__(store, clock, id=id)

    def compose(self) -> ComposeResult:
        yield self.bar
        yield self.body

    def account_lines(self, cells: int) -> list[Line]:
        """The legend and the figures, shortened to fit."""
        return body(self.gauge, self.view, cells, self.store.worker_pid)
