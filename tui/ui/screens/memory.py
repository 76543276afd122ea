"""The memory tab: the full account of the selected device's memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from tui.state.pairing import CPU
from tui.state.store import Part, Store
from tui.ui.commands import bindings
from tui.ui.screens.command_screen import CommandScreen, Program
from tui.ui.views.device_detail import device_detail
from tui.ui.views.lines import Line
from tui.ui.views.memory_account import account_lines
from tui.ui.widgets.line_bar import FooterBar
from tui.ui.widgets.memory_pane import AccountPane

BESIDE_FROM = 110
"""Cells from which a second history stands beside the first."""
HISTORY = ((24, 4), (16, 2), (0, 1))
"""Rows of the screen, and the rows that its histories take from there on."""


class MemoryView(AccountPane):
    """Bar, history, every term with its source or its reason, peaks, processes, the device."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.MEMORY, Part.DEVICES, Part.SELECTION})
    HELP = (
        "Every figure of the selected device's memory with where it comes from. torch's allocator: "
        "requested by tensors, rounded up to allocated; freed but perhaps still in use by a stream "
        "(pending); freed parts of segments in use (stuck) and whole free segments (releasable) "
        "make the cache; all of it, with the workspace that cuBLAS is given, is reserved. context "
        "is this process by NVML less reserved. pinned host memory is not the device's. "
        "Each figure must not be larger than the next of requested, allocated, active, reserved, "
        "this process, device used, total; where one is, a warning says what may be the cause. d "
        "selects the next device, e empties the cache, p resets the peaks."
    )

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = "memory-view",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show the selected device of a store; arguments as of :class:`AccountPane`."""
        super().__init__(store, clock, id=id, figures=("used", "reserved"))
        _, self.reserved = self.histories
        self.row = Horizontal(*self.histories)

    def compose(self) -> ComposeResult:
        yield self.bar
        yield self.row
        yield self.body

    def account_lines(self, cells: int) -> list[Line]:
        """Every term with its source or its reason, then the device."""
        facts = device_detail(self.view, self.store.sample, self.clock())
        return account_lines(self.gauge, self.view, facts, self.store.worker_pid, cells)

    def store_changed(self) -> None:
        """Account anew; another device may have another number of histories."""
        self.make_room()
        super().store_changed()

    def make_room(self) -> None:
        """More rows on a higher screen, a second history on a wide one."""
        rows = next(taken for least, taken in HISTORY if self.size.height >= least)
        self.row.styles.height = rows
        self.reserved.display = self.size.width >= BESIDE_FROM and self.store.selected != CPU


class MemoryTab(CommandScreen):
    """The tab that shows where the memory of the selected device is."""

    TAB = "memory"
    CSS_PATH = "memory.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of_screen(TAB)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.view = MemoryView(program.store, program.clock)

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.view
        yield FooterBar(self.situation)
