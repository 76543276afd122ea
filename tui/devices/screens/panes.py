"""The panes above the table: the machine's devices, and the selected device's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message

from tui.core.events import Topic
from tui.devices.state.devices import DeviceView
from tui.devices.state.history import (
    ORDERS,
    Order,
    compute_sort_value,
    mean_since,
    sort_devices,
)
from tui.devices.state.hosts import HERE
from tui.devices.state.jobs import find_host_jobs
from tui.devices.state.machine import MachineState
from tui.devices.views.device_columns import DeviceColumns, columns, find_order, heading
from tui.devices.views.device_page import device_page
from tui.devices.views.devices import NO_HISTORY, device_row, devices_title, notice_lines
from tui.devices.views.history import (
    DrawnLoads,
    RecentReadings,
    block_lines,
    block_rows,
    draw_loads,
    format_points,
)
from tui.devices.views.host_rows import (
    MORE,
    HostGroup,
    HostRow,
    find_differing_drivers,
    find_group_overlaps,
    heading_row,
    host_groups,
    host_rows,
    host_views,
    hosts_title,
    machine_rows,
    more_row,
)
from tui.devices.views.jobs import rank_spans
from tui.devices.views.large_history import (
    CRAMPED_ROWS,
    FOR_GPUS,
    LEAST_ROWS,
    MOST_STACKED_ROWS,
    count_pictures,
    large_lines,
    large_rows,
    next_figure,
    stacked_lines,
)
from tui.kit.command_screen import Program
from tui.kit.dialogs import LiveTextScreen
from tui.kit.lines import Line
from tui.kit.lists import KeyedList
from tui.kit.pane import ROOM, AgingPane, FittedView, LineBar, LinesView, text_cells

ALL_ROWS = 10**6
"""Room for every row."""


class DeviceActions(Protocol):
    """Requests of the front ends. None of them waits; results arrive as events."""

    def select_device(self, key: str) -> None:
        """Select the device with this key for the gauge and the timing column."""

    def empty_cache(self, key: str) -> None:
        """Release the unused reserved memory of the device's allocator."""

    def reset_peaks(self, key: str) -> None:
        """Reset the device's peaks, both torch's and the sampled ones."""

    def set_refresh(self, seconds: float) -> None:
        """Set the interval between samples of the devices, in seconds."""

    def sample_hosts(self, *, often: bool) -> None:
        """Sample the hosts that are not selected as often as the selected one, or seldom."""

    def watch_host(self, enabled: bool) -> None:
        """Start or stop listing the host's processes with each sample."""

    def watch_device(self, *, detail: bool) -> None:
        """Read the costly figures of the selected GPU with each sample from now on.

        Args:
            detail: not only the traffic of its PCIe link, but all that its details show.
        """

    def watch_torch(self, enabled: bool) -> None:
        """Read the allocators of other torch processes often, or seldom.

        The first call with ``enabled`` starts the watch.
        """


class DeviceProgram(Program, Protocol):
    """The app's interface for the device screens."""

    @property
    def machine(self) -> MachineState:
        """The state of the machine."""

    @property
    def actions(self) -> DeviceActions:
        """The requests that a screen can make."""


class DeviceList(KeyedList):
    """A list of devices with adjacent changing columns, so that a sample redraws few cells."""

    class Folded(Message):
        """Rows were folded or unfolded: the list needs another height."""

    def __init__(
        self, machine: MachineState, actions: DeviceActions, clock: Callable[[], float]
    ) -> None:
        """Show the devices of a machine.

        Args:
            machine: the state of the machine.
            actions: receives requests to select a device.
            clock: returns the present Unix time.
        """
        super().__init__()
        self._machine = machine
        self._actions = actions
        self._clock = clock
        self._seen: int | None = None
        self.order: Order = "index"
        self._shown: tuple[str, ...] = ()
        self._shown_of: dict[str, tuple[str, ...]] = {}
        """The displayed order of each host's devices, by its name."""
        self._sorted_at: dict[str, float] = {}
        """Unix time of each host's newest sample when the user asked for the order, by name."""
        self._host_rows: tuple[HostRow, ...] = ()
        """The rows: of the machine's devices, or of the hosts and theirs."""
        self._on_more = ""
        """Key of the row for more devices that the cursor is on; empty on any other row."""
        self._selected_on_more = ""
        """Key of the device that was selected when the cursor came to that row."""
        self.room = 0
        """Rows that the screen has for the list of one machine, which folds idle GPUs otherwise."""
        self._folds: dict[str, bool] = {}
        """The hosts, by name, that the user has folded or unfolded."""
        self._drawn_loads: tuple[int, float, tuple[DeviceView, ...], DrawnLoads] | None = None
        """The rows' histories, after the width, the time and the devices that they are of."""

    def sort_by(self, order: Order) -> None:
        """Change the sort order, with effect at once."""
        self.order, self._shown = order, ()
        self._shown_of.clear()
        self._sorted_at.clear()
        self.rebuild()

    def attached_key(self) -> str:
        """Return the selected device, which another pane can also change."""
        return self._on_more or self._machine.selected_key

    def attach(self, key: str) -> None:
        """Request another selected device from the session."""
        self._on_more = key if key.endswith(MORE) else ""
        self._selected_on_more = self._machine.selected_key
        if key != self._machine.selected_key and not self._on_more:
            self._actions.select_device(key)

    def read_keys(self) -> None:
        """Read the keys of the present rows.

        The cursor goes to the selected device if its row for more devices is gone, or if another
        pane has selected a device.
        """
        super().read_keys()
        reselected = self._machine.selected_key != self._selected_on_more
        if reselected or self._on_more not in self._keys:
            self._on_more = ""

    def find_fallback(self) -> int | None:
        """Return the heading of a selected device without a row; select no other device."""
        attached = self.attached_key()
        for index, row in enumerate(self._host_rows):
            if row.kind == "heading" and any(key == attached for key, _ in row.group.gpus):
                return index
        return None

    def choose(self) -> None:
        """Fold or unfold the host under the cursor, or show the rest of its devices."""
        index = self.cursor
        row = self._host_rows[index] if index is not None and self._host_rows else None
        if row is None or row.kind == "device":
            super().choose()
            return
        if row.kind == "fold":
            self._folds.pop(row.group.name, None)
        else:
            self._folds[row.group.name] = row.kind == "heading" and not row.folded
        self._on_more = ""
        self.rebuild()
        self.post_own(self.Folded())

    def _build_machine_rows(self, order: Sequence[str] | None = None) -> tuple[HostRow, ...]:
        """Return the rows of the one machine's devices.

        Args:
            order: the keys in the order of the list; ``None`` for the machine's own order, where
                only the number of rows matters.
        """
        machine = self._machine
        keys = order if order is not None else [view.key for view in machine.devices]
        unfolded = self._folds.get(HERE) is False
        return machine_rows(machine, keys, unfolded=unfolded, room=self.room)

    def count_rows(self) -> int:
        """Count the rows of all devices and hosts that the user has not folded."""
        machine = self._machine
        if not machine.hosts:
            return len(self._build_machine_rows())
        return len(host_rows(host_groups(machine), self._folds, ALL_ROWS, self.attached_key()))

    def count_gpu_rows(self) -> int:
        """Count the GPUs that have a row of their own."""
        rows = self._build_machine_rows()
        return sum(row.view is not None and row.view.nvml is not None for row in rows)

    def row_keys(self) -> Sequence[str]:
        """Return the devices in order; close figures do not change the displayed order."""
        machine = self._machine
        if machine.hosts:
            return self._host_keys()
        self._shown = self._sort(machine, self._shown)
        self._host_rows = self._build_machine_rows(self._shown)
        return [row.key for row in self._host_rows]

    def _sort(self, machine: MachineState, before: Sequence[str]) -> tuple[str, ...]:
        """Return the keys of a machine's devices in the order of the list.

        Args:
            machine: this one, or another host.
            before: the displayed order.
        """
        figures: dict[str, float | None] = {}
        if self.order != "index" and machine.sample:
            newest = machine.sample.at
            since = mean_since(newest, self._sorted_at.setdefault(machine.host, newest))
            figures = {
                view.key: compute_sort_value(
                    view, machine.history.points_since(view.key, since), self.order
                )
                for view in machine.devices
            }
        return sort_devices(machine.devices, figures, before, self.order)

    def _sort_groups(self) -> tuple[HostGroup, ...]:
        """Return the hosts in their order, each with its devices in the order of the list."""
        groups = []
        for group in host_groups(self._machine):
            order = self._sort(group.machine, self._shown_of.get(group.name, ()))
            self._shown_of[group.name] = order
            gpus = sorted(group.gpus, key=lambda gpu: order.index(gpu[1].key))
            groups.append(group._replace(gpus=tuple(gpus)))
        return tuple(groups)

    def _host_keys(self) -> Sequence[str]:
        groups = self._sort_groups()
        room = self.size.height or ALL_ROWS
        self._host_rows = host_rows(groups, self._folds, room, self._machine.selected_key)
        return [row.key for row in self._host_rows]

    def _host_lines(self, cells: int) -> Sequence[Line]:
        now, chosen = self._clock(), self._machine.selected_key
        groups = [row.group for row in self._host_rows if row.kind == "heading"]
        plan = columns(host_views(groups), cells, hosts=True)
        differing, overlaps = find_differing_drivers(groups), find_group_overlaps(groups)
        on_gpus = {(row.group.name, row.view.key) for row in self._host_rows if row.view}
        ranks = rank_spans(find_host_jobs(self._machine), on_gpus)
        lines = []
        for row in self._host_rows:
            if row.kind == "heading":
                overlap = overlaps.get(row.group.name)
                lines.append(heading_row(row, now, cells, differing, overlap))
            elif row.view is None:
                lines.append(more_row(row, cells))
            else:
                selected = row.key == chosen
                rank = ranks.get((row.group.name, row.view.key))
                sample, host_now = row.group.machine.sample, row.group.machine.now(now)
                line = device_row(row.view, sample, host_now, plan, selected=selected, rank=rank)
                lines.append(line)
        return lines

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return a line for each device."""
        machine, now = self._machine, self._clock()
        if machine.hosts:
            return self._host_lines(cells)
        plan = columns(machine.devices, cells)
        loads = self.draw_loads(plan.history)
        return [
            more_row(row, cells)
            if row.view is None
            else device_row(
                row.view,
                machine.sample,
                now,
                plan,
                selected=row.key == machine.selected,
                history=loads.rows[row.key] if loads else NO_HISTORY,
            )
            for row in self._host_rows
        ]

    def draw_loads(self, cells: int) -> DrawnLoads | None:
        """Return the load of each device over the last minutes, drawn once for each sample.

        Args:
            cells: width of a history; 0 if the rows have none.
        """
        machine = self._machine
        if machine.hosts or not cells:
            return None
        end = RecentReadings((), machine.sample, self._clock()).end
        drawn = self._drawn_loads
        if drawn is None or drawn[:3] != (cells, end, machine.devices):
            loads = draw_loads(machine, end, cells)
            self._drawn_loads = drawn = (cells, end, machine.devices, loads)
        return drawn[3]

    def rebuild(self) -> None:
        """Rebuild the lines, and scroll to a device that another pane selected."""
        super().rebuild()
        if self.cursor != self._seen:
            self._seen = self.cursor
            if self.cursor is not None:
                self.bring_into_view(self.cursor)


class DevicesHeading(LineBar):
    """The names of the columns; a click on one sorts by it."""

    def __init__(
        self, devices: DeviceList, machine: MachineState, sort: Callable[[Order], None]
    ) -> None:
        """Show the headings of a list.

        Args:
            devices: the list, which has the same width as the headings.
            machine: the state of the machine.
            sort: receives the new sort order.
        """
        super().__init__(self._draw)
        self._devices = devices
        self._machine = machine
        self._sort = sort

    def _draw(self, _cells: int) -> Line:
        plan = self._plan()
        return heading(plan, self._devices.order, self._devices.draw_loads(plan.history))

    def _plan(self) -> DeviceColumns:
        machine, cells = self._machine, self._devices.cells or self.size.width
        if machine.hosts:
            return columns(host_views(host_groups(machine)), cells, hosts=True)
        return columns(machine.devices, cells)

    def on_click(self, event: events.Click) -> None:
        """Sort by the column under the mouse."""
        order = find_order(self._plan(), event.x)
        if order is not None:
            self._sort(order)


class DevicesPane(AgingPane):
    """Every device with torch's name beside NVML's figures, the CPU as one of them."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.DEVICES, Topic.HOSTS, Topic.SELECTION})
    HELP = (
        "One line per device, with torch's name (cuda:0) or NVML's. The bars show time busy and"
        " memory used. A mark and a color warn of memory from 95%, of a temperature within 10 "
        "degrees of the slowdown, and of power at its cap. A red ! means that heat or a fault "
        "limits the clocks. throttled is NVML's reason for lower clocks. A lost device does not "
        "answer. '12 s old' marks old figures. Tab 2 gives the reason for n/a. s sorts by the "
        "figures shown. Later, a row moves up once its mean since then, of at most ten seconds, "
        "is 10 points of load, 2 of memory or 3 degrees ahead. Plots have fixed scales; a gap "
        "has no reading. A column is one reading until the plot is full; then columns become "
        "longer. An area is solid up to the mean and shaded up to the highest. With "
        "--host, each host has a heading with its driver (\u2260: not that of most), round-trip"
        " time, CPU and memory. Enter folds a host. Without room for all, idle GPUs that are "
        "alike share a row, as do busy ones of several hosts. Enter unfolds it."
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
        points = machine.history.points(machine.selected)
        return RecentReadings(points, machine.sample, machine.now(self.clock()))

    def _share_rows(self, notice: int) -> None:
        """Distribute the rows: devices first, then the headings, then the history.

        Args:
            notice: rows of the notice on the monitor.
        """
        devices = self.list.count_rows()
        free = self.size.height - notice - devices if devices else 0
        self.heading.display = free > 0
        pictures = count_pictures(self._view, self._recent, free - 1)
        self._stacked = pictures > 1
        if self._stacked:
            rows = min(free - 1, pictures * (MOST_STACKED_ROWS + 1))
        elif self._is_large:
            rows = large_rows(free - 1)
        else:
            fitting = (rows for rows in (3, 2, 1) if block_rows(self._view, rows) < free)
            rows = block_rows(self._view, next(fitting, 0))
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
