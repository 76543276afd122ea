"""The memory of one process, as the processes tab opens it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tui.memory import Gauge
from tui.memory.others import account_of
from tui.state.allocators import Allocator
from tui.state.pairing import DeviceView
from tui.state.store import Part, Store
from tui.ui.commands.workbench import PROCESS_MEMORY
from tui.ui.screens.memory import MemoryView
from tui.ui.views.lines import Line
from tui.ui.views.memory import title
from tui.ui.views.memory_account import history_rows, process_history, process_lines


class ProcessMemoryView(MemoryView):
    """Bar, history, what the figures tell, every term with its source: of another process."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.MEMORY, Part.DEVICES, Part.ALLOCATORS})
    HELP = (
        "What torch's allocator holds in this process, read from outside: the statistics in its "
        "memory, through /proc/PID/mem opened for reading. Nothing runs in the process and nothing "
        "stops it. The figures are those of torch.cuda.memory_stats() since the process began; "
        "what torch has given to cuBLAS is among the allocated. context is what NVML counts for "
        "the process less reserved. Sentences tell what the figures carry over the time that they "
        "were read. escape goes back to the processes."
    )

    def __init__(self, store: Store, clock: Callable[[], float], allocator: Allocator) -> None:
        """Show one allocator.

        Args:
            store: what is known.
            clock: Unix time now, to tell old figures.
            allocator: of the process on its device.
        """
        self.allocator = allocator
        super().__init__(store, clock, id=PROCESS_MEMORY)

    def look(self) -> tuple[DeviceView, Gauge]:
        """The device that the process is on, as far as that can be told, and the account."""
        store, placed = self.store, self.allocator.placed
        view = next((each for each in store.devices if each.key == placed.id), None)
        peak = store.history.sampled_peak(view.key if view else "")
        gauge = account_of(self.allocator, view, store.sample, peak, self.clock())
        return view or DeviceView(self.allocator.figures.device), gauge

    def title(self, cells: int) -> str:
        """Whose memory it is, and what is free of the device."""
        return title(self.gauge, self.view, cells, f" of {self.allocator.process.pid}")

    def history_rows(self, cells: int, most: int) -> int:  # noqa: ARG002 (they stand in one column)
        """Rows of the process's histories, at most so many."""
        return history_rows(most)

    def history_lines(self, cells: int, rows: int) -> list[Line]:
        """What the process held, in so many rows."""
        points = self.allocator.points
        return process_history(points, self.gauge, self.store.sample, self.clock(), cells, rows)

    def account_lines(self, cells: int) -> list[Line]:
        """What the figures tell, then every term, then the process."""
        return process_lines(
            self.allocator, self.gauge, self.view, self.store.worker_pid, self.clock(), cells
        )
