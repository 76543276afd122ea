"""The memory tab, and the same account for the memory of another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tui.core.events import Topic
from tui.devices.commands import DEVICES
from tui.devices.memory import Gauge
from tui.devices.memory.others import account_in
from tui.devices.screens.account_panes import AccountPane, explain_title
from tui.devices.screens.device_list import DeviceProgram
from tui.devices.session.process_details import ProcessDetails
from tui.devices.state.devices import DeviceView
from tui.devices.state.machine import MachineState
from tui.devices.state.watched_processes import Allocator
from tui.devices.views.device_detail import device_detail
from tui.devices.views.history import RecentReadings, format_points
from tui.devices.views.memory import legend_lines, memory_title
from tui.devices.views.memory_account import account_details, account_lines
from tui.devices.views.memory_history import account_history, account_rows
from tui.devices.views.process_memory import history_rows, process_history, process_lines
from tui.devices.views.process_page import detail_lines
from tui.kit.command_screen import CommandScreen, bindings_of_screen
from tui.kit.commands.command import PROCESS_MEMORY
from tui.kit.dialogs import TextScreen
from tui.kit.lines import Line
from tui.kit.pane import FittedView, FooterBar, LinesView

SHARE = 0.4
"""The most of the screen's rows for the histories, unless the account leaves more of them empty."""


class MemoryView(AccountPane):
    """The full account: bar, histories, terms with sources or reasons, peaks, processes, device."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset(
        {Topic.MEMORY, Topic.DEVICES, Topic.SELECTION, Topic.ALLOCATORS}
    )
    HELP = (
        "Every figure of the selected device's memory; i gives its source and meaning. Each is "
        "no larger than the next: requested, allocated, active, reserved, this process, device "
        "used, total; if one is, a warning names a likely cause. cached memory is stuck in "
        "segments in use, or releasable. context: this process minus reserved. In the histories"
        " a gap has no reading."
    )

    def __init__(
        self,
        machine: MachineState,
        clock: Callable[[], float],
        *,
        id: str | None = "memory-view",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show the selected device; the arguments are those of :class:`AccountPane`."""
        super().__init__(machine, clock, id=id)
        self.legend = LinesView(self._legend)
        self.legend.can_focus = False
        self.history = FittedView(self.history_lines, self.history_points)

    def compose(self) -> ComposeResult:
        yield self.bar
        yield self.legend
        yield self.history
        yield self.body

    def _legend(self, cells: int) -> list[Line]:
        return legend_lines(self.gauge, cells)

    def history_rows(self, cells: int, most: int) -> int:
        """Return the rows of the histories, at most ``most``."""
        return account_rows(self.view, self.recent, cells, most)

    def history_lines(self, cells: int, rows: int) -> list[Line]:
        """Return the histories in this many rows."""
        return account_history(self.view, self.recent, cells, rows)

    def account_lines(self, cells: int) -> list[Line]:
        """Return every term with its source or its reason, then the facts of the device."""
        facts = device_detail(self.view, self.machine.sample, self.now, self.machine.lost)
        return account_lines(self.gauge, self.view, facts, self.machine.worker_pid, cells)

    def explanation(self) -> TextScreen:
        """Return a dialog with the account in sentences and the meaning of each figure."""
        gauge, view = self.gauge, self.view
        return TextScreen(explain_title(view), lambda cells: account_details(gauge, view, cells))

    def state_changed(self) -> None:
        """Update the account, and the histories, which depend on the device."""
        super().state_changed()
        width, height = self.size
        rows = len(self._legend(max(1, width - 1)))
        self.legend.display = rows > 0
        self.legend.styles.height = max(1, rows)
        self.legend.rebuild()
        below = len(self.body.shown_lines)
        spare = height - 1 - rows - below if below else 0  # the bar has a row
        rows = self.history_rows(width, max(int(height * SHARE), spare))
        self.history.display = rows > 0
        if rows:
            self.history.styles.height = rows
            # A blank line where the account has room below it.
            self.history.styles.margin = (0, 0, int(spare > rows), 0)
        self.history.rebuild()


class MemoryTab(CommandScreen):
    """The tab with the memory account of the selected device."""

    TAB = "memory"
    CSS_PATH = "memory.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of_screen(TAB, *DEVICES)

    def __init__(self, program: DeviceProgram) -> None:
        super().__init__(program)
        self.machine = program.machine
        self.view = MemoryView(program.machine, program.clock)

    def shows_allocators(self) -> bool:
        """Return whether the account splits other processes' memory."""
        return self.machine.shown.has_other_processes()

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.view
        yield FooterBar(self.program.commands, self.situation)

    def action_explain_memory(self) -> None:
        """Explain the account."""
        self.app.push_screen(self.view.explanation())


class ProcessMemoryView(MemoryView):
    """The full account of another process: bar, history, findings, terms with sources."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.MEMORY, Topic.DEVICES, Topic.ALLOCATORS})
    HELP = (
        "torch's allocator in this process, read from outside through /proc/PID/mem: nothing "
        "runs in it, and it is not stopped. The figures match torch.cuda.memory_stats() and "
        "count from the start of the process; allocated includes what torch gives to cuBLAS. "
        "context: the process's NVML figure minus reserved. i explains each figure."
    )

    def __init__(
        self, machine: MachineState, clock: Callable[[], float], allocator: Allocator
    ) -> None:
        """Show one allocator.

        Args:
            machine: the state of the machine.
            clock: returns the present Unix time, to recognize old figures.
            allocator: the process's allocator on its device.
        """
        self.allocator = allocator
        self.details: ProcessDetails | None = None
        """The system's facts about the process; ``None`` while they are read."""
        super().__init__(machine, clock, id=PROCESS_MEMORY)

    def read_account(self) -> tuple[DeviceView, Gauge]:
        """Return the device of the process, if known, and the account."""
        return account_in(self.machine, self.allocator, self.now)

    def title(self, cells: int) -> str:
        """Return the title: the process, and the free memory of the device."""
        return memory_title(self.gauge, self.view, cells, f" of {self.allocator.process.pid}")

    def history_rows(self, cells: int, most: int) -> int:  # noqa: ARG002 (they are in one column)
        """Return the rows of the process's histories, at most ``most``."""
        return history_rows(most)

    def history_lines(self, cells: int, rows: int) -> list[Line]:
        """Return the history of the process's memory in this many rows."""
        recent = RecentReadings(self.allocator.recent, self.machine.sample, self.now)
        return process_history(self.gauge, recent, cells, rows)

    def history_points(self) -> list[str]:
        """Return the readings of the process's memory as lines with tabs."""
        return ["", *format_points(self.allocator.recent)]

    def explanation(self) -> TextScreen:
        """Return the dialog of a device with the findings and their sources."""
        gauge, view, findings = self.gauge, self.view, self.allocator.findings
        return TextScreen(
            explain_title(view), lambda cells: account_details(gauge, view, cells, findings)
        )

    def account_lines(self, cells: int) -> list[Line]:
        """Return the findings, every term, the facts of the process, and its details."""
        lines = process_lines(
            self.allocator, self.gauge, self.view, self.machine.worker_pid, self.now, cells
        )
        return [*lines, *detail_lines(self.details, cells)]
