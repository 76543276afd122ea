"""The panes above the table: the machine's devices, and the selected device's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult

from tui.core.events import Topic
from tui.devices.screens.device_list import DeviceActions, DeviceList, DevicesHeading
from tui.devices.state.devices import DeviceView
from tui.devices.state.history import ORDERS, Order
from tui.devices.state.machine import MachineState
from tui.devices.views.device_page import device_page
from tui.devices.views.devices import devices_title, notice_lines
from tui.devices.views.history import (
    RecentReadings,
    block_lines,
    block_rows,
    format_points,
    read_recent,
)
from tui.devices.views.host_rows import hosts_title
from tui.devices.views.large_history import (
    CRAMPED_ROWS,
    FOR_GPUS,
    LEAST_ROWS,
    count_pictures,
    large_lines,
    large_rows,
    next_figure,
    plan_pictures,
    stacked_lines,
)
from tui.kit.dialogs import LiveTextScreen
from tui.kit.lines import Line
from tui.kit.pane import ROOM, AgingPane, FittedView, LinesView, text_cells


class DevicesPane(AgingPane):
    """Every device with torch's name beside NVML's figures, the CPU as one of them."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.DEVICES, Topic.HOSTS, Topic.SELECTION})
    HELP = (
        "One line per device, with torch's name (cuda:0) or NVML's. The bars show time busy and "
        "memory used. A mark and a color warn of memory from 95%, of a temperature within 10 "
        "degrees of the slowdown, and of power at its cap. A red ! means that heat or a fault "
        "limits the clocks. throttled is NVML's reason for lower clocks. A lost device does not "
        "answer. '12 s old' marks old figures. Tab 2 gives the reason for n/a. s sorts by the "
        "figures shown. Later, a row moves up once its mean since then, of at most ten seconds, "
        "is 10 points of load, 2 of memory or 3 degrees ahead. Plots have fixed scales; that of a "
        "memory area ends above its highest. A gap has no reading. A column is one reading until "
        "the plot is full; then columns become longer. An area is solid up to the mean and shaded "
        "up to the highest. With --host, each host has a heading with its driver (\u2260: not "
        "that of most), round-trip time, CPU and memory. Enter folds a host. Without room for "
        "all, idle GPUs that are alike share a row, as do busy ones of several hosts. Enter "
        "unfolds it."
    )

    def __init__(
        self,
        machine: MachineState,
        actions: DeviceActions,
        clock: Callable[[], float],
    ) -> None:
        """Show the devices of a machine.

        Args:
            machine: the state of the machine.
            actions: receives requests to select a device.
            clock: returns the present Unix time, to recognize old figures.
        """
        super().__init__(clock, id="devices")
        self.machine = machine
        self._actions = actions
        self.list = DeviceList(machine, actions, clock)
        self.notice = LinesView(self._notice)
        self.notice.can_focus = False
        self.heading = DevicesHeading(self.list, machine, self.sort_by)
        self.history = FittedView(self._history, self._points)
        self._stacked = False
        """There is room for several large figures."""
        self.beside: Callable[[], str | None] = lambda: None
        """Returns the name of the figure that another pane draws; ``None`` for none."""
        self.figure = ""
        """Name of the figure that is drawn large; empty for the load of few GPUs, or for a row of
        each figure."""

    def compose(self) -> ComposeResult:
        """Yield the error of the monitor, the devices, and the history of the selected device."""
        yield self.notice
        yield self.heading
        yield self.list
        yield self.history

    def count_rows(self, history: int, notice: int = 1) -> int:
        """Count the pane's rows with its title, its headings and all devices.

        Args:
            history: rows of each figure of the history; 0 for no history.
            notice: the available rows for a notice on the monitor.
        """
        devices = 2 + self.count_notice_rows(notice) + self.list.count_rows()
        if self._is_large and history:
            # Without a GPU, the history has the rows that the notice does not need.
            spare = 0 if self.list.count_gpu_rows() else notice - self.count_notice_rows(notice)
            return devices + 1 + LEAST_ROWS + spare
        return devices + block_rows(self._view, history)

    def count_least_rows(self, notice: int = 1) -> int:
        """Count the pane's rows with its lowest history; see :meth:`count_rows`."""
        lowest = 1 + CRAMPED_ROWS if self._is_large else block_rows(self._view, 1)
        return self.count_rows(0, notice) + lowest

    @property
    def _has_few_rows(self) -> bool:
        """True if so few GPUs have rows that one figure is always drawn large."""
        return not self.machine.hosts and self.list.count_gpu_rows() <= FOR_GPUS

    @property
    def _is_large(self) -> bool:
        """True if one figure of the selected device is drawn large."""
        return self._has_few_rows or bool(self.figure)

    @on(DeviceList.Chosen)
    def _chosen(self, event: DeviceList.Chosen) -> None:
        """Show all that is known of the device under the cursor."""
        event.stop()
        self.open_details()

    def open_details(self) -> None:
        """Show all that is known of the selected device; the monitor reads more meanwhile."""
        key = self._view.key
        title = f"{self._view.label}  {self._view.name}"

        def build(cells: int) -> list[Line]:
            machine = self.machine.shown
            view = next((device for device in machine.devices if device.key == key), self._view)
            now = machine.now(self.clock())
            return device_page(view, machine.sample, now, cells, machine.lost)

        def closed(_result: None) -> None:
            self._actions.watch_device(detail=False)

        self._actions.watch_device(detail=True)
        self.app.push_screen(LiveTextScreen(title, build), closed)

    def _find_next(self) -> str:
        """Return the name of the next figure, which no other pane draws."""
        few = self._has_few_rows or self._stacked
        sample = self.machine.shown.sample
        return next_figure(self._view, sample, self.figure, few=few, drawn=self.beside())

    def next_figure(self) -> None:
        """Draw another figure's history, but not one that another pane draws."""
        self.figure = self._find_next()
        self.state_changed()
        # A zoom just before has not been laid out yet.
        self.call_after_refresh(self._explain_no_history)

    def _explain_no_history(self) -> None:
        if not self.history.display:
            self.notify("h history: no room; v, then Z zooms the devices", markup=False)

    def sort_by(self, order: Order) -> None:
        """Sort the rows; hosts stay in their order, with the devices of each sorted."""
        self.list.sort_by(order)
        self.state_changed()

    def next_order(self) -> None:
        """Sort by the next order."""
        self.sort_by(ORDERS[(ORDERS.index(self.list.order) + 1) % len(ORDERS)])

    def state_changed(self) -> None:
        rows = len(self._notice(text_cells(self.size.width)))
        self.notice.display = rows > 0
        self.notice.styles.height = max(1, rows)
        self._share_rows(rows)
        self.notice.rebuild()
        self.heading.rebuild()
        self.list.rebuild()
        self.history.rebuild()
        self._retitle()

    def on_resize(self, _event: events.Resize) -> None:
        """Choose the columns for the new width."""
        self.call_after_refresh(self.state_changed)

    @property
    def _view(self) -> DeviceView:
        return self.machine.shown.selected_device

    @property
    def _recent(self) -> RecentReadings:
        machine = self.machine.shown
        return read_recent(machine, machine.selected, machine.now(self.clock()))

    def _share_rows(self, notice: int) -> None:
        """Distribute the rows: devices first, then the headings, then the history.

        Args:
            notice: rows of the notice on the monitor.
        """
        self.list.fit_lines(self.size.height - notice)
        devices = self.list.count_rows() * self.list.lines_per_row
        free = self.size.height - notice - devices if devices else 0
        self.heading.display = free > 0
        pictures = count_pictures(self._view, self._recent, free - 1)
        self._stacked = pictures > 1
        if self._stacked:
            cells = self.size.width
            planned = plan_pictures(self._view, self._recent, self.figure, cells, free - 1)
            rows = sum(height for _, height in planned)
        elif self._is_large:
            rows = large_rows(free - 1)
        else:
            fitting = (rows for rows in (3, 2, 1) if block_rows(self._view, rows) < free)
            rows = block_rows(self._view, next(fitting, 0))
        # The rest of the pane stays empty below pictures that would be almost empty themselves.
        self.list.styles.height = devices if self._stacked else "1fr"
        self.history.display = rows > 0
        if rows:
            self.history.styles.height = rows

    def _history(self, cells: int, rows: int) -> list[Line]:
        view, recent = self._view, self._recent
        if self._stacked:
            return stacked_lines(view, recent, self.figure, cells, rows, self._find_next())
        if self._is_large:
            following = self._find_next()
            return large_lines(view, recent, self.figure, cells, rows, following=following)
        return block_lines(view, recent, cells, rows)

    def _points(self) -> list[str]:
        return ["", self._view.label, *format_points(self._recent.points)]

    def count_notice_rows(self, most: int) -> int:
        """Count the rows of the notice on the monitor.

        Args:
            most: the available rows.
        """
        return len(self._notice(text_cells(self.size.width), most))

    def _notice(self, cells: int, most: int | None = None) -> list[Line]:
        machine = self.machine
        if machine.hosts:
            return []  # the rows of the hosts have it
        if most is None:
            # Devices and headings have priority: without a GPU there are empty rows below them.
            most = max(1, self.size.height - self.list.count_rows() - 1)
        return notice_lines(machine.sample, machine.monitor, self.clock(), cells, most)

    def _retitle(self) -> None:
        folded = self.has_class("-folded")
        width = self.size.width - ROOM
        order = self.list.order
        if self.machine.hosts:
            self.retitle(hosts_title(self.machine, self.clock(), width, order, folded=folded))
            return
        self.retitle(devices_title(self.machine, self.clock(), width, folded=folded, order=order))
