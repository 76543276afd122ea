"""The panes of a device's memory: the account, and the memory pane of the workbench."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult

from tui.core.events import Topic
from tui.core.text import numbers as text
from tui.devices.memory import Gauge, account
from tui.devices.state.devices import DeviceView
from tui.devices.state.machine import MachineState
from tui.devices.views.history import RecentReadings, format_points, read_recent
from tui.devices.views.large_history import MEMORY, fitting_rows, large_lines
from tui.devices.views.memory import bar_line, choose_sizes, draw_body, explain_lines, memory_title
from tui.devices.views.memory_history import account_history, account_rows
from tui.kit.dialogs import TextScreen
from tui.kit.lines import Line, plain
from tui.kit.pane import ROOM, AgingPane, FittedView, LineBar, LinesView, text_cells

LEAST_HISTORY = 5
"""Least empty rows for the history of the memory pane, with its heading."""
LEAST_HISTORIES = 8
"""Least empty rows for the histories of the device of a process."""
COPIED_CELLS = 100
"""Cells of a line of copied sentences."""


def explain_title(view: DeviceView) -> str:
    """Return the title of a dialog that explains a device's memory."""
    return f"Memory of {view.label}"


class AccountPane(AgingPane):
    """The account of the selected device's memory at the last change of the state.

    Args:
        machine: the state of the machine.
        clock: returns the present Unix time, to recognize old figures.
        id: the widget's id.
    """

    def __init__(
        self,
        machine: MachineState,
        clock: Callable[[], float],
        *,
        id: str | None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(clock, id=id)
        self.program_machine = machine
        self.view, self.gauge = self.read_account()
        self.bar = LineBar(lambda cells: bar_line(self.gauge, cells))
        self.bar.add_class("gauge")
        self.body = LinesView(self.account_lines)

    @property
    def machine(self) -> MachineState:
        """The machine of the selected device: this one, or another host."""
        return self.program_machine.shown

    @property
    def now(self) -> float:
        """Unix time of that machine's clock."""
        return self.machine.now(self.clock())

    def read_account(self) -> tuple[DeviceView, Gauge]:
        """Return the device and the account of its memory."""
        view = self.machine.selected_device
        return view, account(self.machine, view, self.now)

    def title(self, cells: int) -> str:
        """Return the title in the border."""
        return memory_title(self.gauge, self.view, cells)

    def account_lines(self, cells: int) -> list[Line]:
        """Return the figures in words; subclasses implement this."""
        raise NotImplementedError

    @property
    def recent(self) -> RecentReadings:
        """The readings of the device."""
        return read_recent(self.machine, self.machine.selected, self.now)

    def history_points(self) -> list[str]:
        """Return the readings of the device as lines with tabs."""
        return ["", self.view.label, *format_points(self.recent.points)]

    def state_changed(self) -> None:
        """Update the account and redraw the changes."""
        # Read both together: a device that has disappeared meanwhile has no account to draw.
        self.view, self.gauge = self.read_account()
        self.bar.rebuild()
        self.body.rebuild()
        self.retitle(self.title(self.size.width - ROOM))

    def on_resize(self, _event: events.Resize) -> None:
        """Rebuild the lines for the new size."""
        self.call_after_refresh(self.state_changed)


class DeviceHistory(FittedView):
    """The histories of one device, in rows that would stay empty."""

    def __init__(self) -> None:
        super().__init__(self._history_lines)
        self.can_focus = False
        self._drawn: tuple[DeviceView, RecentReadings] | None = None

    def fit(self, view: DeviceView, recent: RecentReadings, cells: int, free: int) -> int:
        """Show the histories of a device, or nothing in too few rows; return the rows.

        Args:
            view: the device.
            recent: its readings.
            cells: width of a line.
            free: the most rows.
        """
        rows = account_rows(view, recent, cells, free) if free >= LEAST_HISTORIES else 0
        self._drawn = view, recent
        self.display = rows > 0
        self.styles.height = rows
        self.rebuild()
        return rows

    def _history_lines(self, cells: int, rows: int) -> list[Line]:
        return account_history(*self._drawn, cells, rows) if self._drawn else []


class MemoryPane(AccountPane):
    """Bar, legend and figures of the selected device; screen 2 shows the full account."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.MEMORY, Topic.SELECTION, Topic.ALLOCATORS})
    HELP = (
        "The selected device's memory. allocated: live tensors of the runner. cached: reserved "
        "by torch, not allocated. context: CUDA context, kernels, libraries. cuBLAS: its "
        "workspace. other runners: this workbench's, such as ranks. others: all other processes, "
        "split if their torch can be read. changing: torch reserved or released memory since "
        "NVML was read. unattributed: of no listed process. driver: its reserve. Peaks are "
        "torch's own and exact. pinned: host memory locked for copies, not in the bar. i "
        "explains the figures."
    )

    def __init__(self, machine: MachineState, clock: Callable[[], float]) -> None:
        """Show the selected device; the arguments are those of :class:`AccountPane`."""
        super().__init__(machine, clock, id="memory")
        self.history = FittedView(self._history, self.history_points)
        self.history.can_focus = False

    def compose(self) -> ComposeResult:
        yield self.bar
        yield self.body
        yield self.history

    def state_changed(self) -> None:
        """Update the account, and draw the history of the memory where rows would stay empty."""
        super().state_changed()
        free = self.size.height - 1 - len(self.body.shown_lines)
        cells = self.body.cells or text_cells(self.size.width)
        fits = free >= LEAST_HISTORY
        rows = fitting_rows(self.view, self.recent, cells, free) if fits else 0
        self.history.display = rows > 0
        if rows:
            self.history.styles.height = rows
            self.history.rebuild()

    @property
    def drawn_figure(self) -> str | None:
        """The name of the figure whose history the pane draws; ``None`` for none."""
        return MEMORY if self.display and self.history.display else None

    def _history(self, cells: int, rows: int) -> list[Line]:
        sizes = self._choose_sizes()
        # The lines above have the present value.
        return large_lines(
            self.view,
            self.recent,
            MEMORY,
            cells,
            rows,
            valued=False,
            zoomed=True,
            format_size=sizes,
        )

    def _choose_sizes(self) -> text.SizeFormat:
        """Return how all sizes of the pane are written: as in the body."""
        return choose_sizes(self.body.cells or text_cells(self.size.width))

    def title(self, cells: int) -> str:
        """Return the title, with sizes in the units of the lines below."""
        return memory_title(self.gauge, self.view, cells, format_size=self._choose_sizes())

    def count_rows(self, width: int) -> int:
        """Count the rows of the pane, ``width`` cells wide, with its title and its bar."""
        return 2 + len(self.account_lines(text_cells(width)))

    def account_lines(self, cells: int) -> list[Line]:
        """Return the legend and the figures, shortened to fit."""
        return draw_body(self.gauge, self.view, cells, self.machine.worker_pid)

    def clipboard_text(self) -> str:
        """Return the figures, then the account in sentences."""
        rows = [plain(row) for row in explain_lines(self.gauge, COPIED_CELLS)]
        return "\n".join([super().clipboard_text(), *rows]) + "\n"

    def explanation(self) -> TextScreen:
        """Return a dialog with the account in sentences, as it is now."""
        gauge = self.gauge
        return TextScreen(explain_title(self.view), lambda cells: explain_lines(gauge, cells))
