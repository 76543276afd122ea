"""The list of devices with its headings, and what the device screens need of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from textual import events
from textual.message import Message

from tui.devices.state.devices import CPU, DeviceView
from tui.devices.state.history import (
    Order,
    compute_sort_value,
    mean_since,
    sort_devices,
)
from tui.devices.state.hosts import HERE
from tui.devices.state.jobs import find_host_jobs
from tui.devices.state.machine import MachineState
from tui.devices.views.device_columns import (
    TOTAL_FROM,
    DeviceColumns,
    columns,
    deep_columns,
    find_order,
    heading,
    shorten_name,
)
from tui.devices.views.devices import (
    NO_HISTORY,
    device_row,
    split_row,
)
from tui.devices.views.history import (
    DrawnLoads,
    RecentReadings,
    draw_loads,
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
    machine_rows,
    more_row,
)
from tui.devices.views.jobs import rank_spans
from tui.devices.views.large_history import (
    LEAST_ROWS,
)
from tui.kit.command_screen import Program
from tui.kit.lines import Line
from tui.kit.lists import KeyedList
from tui.kit.pane import LineBar, text_cells

ALL_ROWS = 10**6
"""Room for every row."""
LEAST_BAR = 8
"""Least cells of the bars of rows that have two lines."""


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
        plan = self.choose_columns(cells)
        loads = self.draw_loads(plan.trace)
        is_deep = self.lines_per_row > 1
        lines: list[Line] = []
        for row in self._host_rows:
            if row.view is None:
                lines += [more_row(row, cells), ()] if is_deep else [more_row(row, cells)]
                continue
            drawn = device_row(
                row.view,
                machine.sample,
                now,
                plan,
                selected=row.key == machine.selected,
                history=loads.rows[row.key] if loads else NO_HISTORY,
            )
            lines += split_row(drawn, row.view, plan) if is_deep else [drawn]
        return lines

    def choose_columns(self, cells: int) -> DeviceColumns:
        """Return the columns of the rows of one machine."""
        views = self._machine.devices
        return deep_columns(views, cells) if self.lines_per_row > 1 else columns(views, cells)

    def fit_lines(self, height: int) -> None:
        """Give each row two lines where one would be narrow and the pane is high enough.

        Args:
            height: rows of the pane, of which two pictures of a history keep theirs.
        """
        machine, rows = self._machine, len(self._build_machine_rows())
        # Unlike GPUs need a column for their names.
        names = {shorten_name(view) for view in machine.devices if view.key != CPU}
        alike = not machine.hosts and len(names) < 2
        cells = text_cells(self.size.width)
        narrow = cells < TOTAL_FROM and deep_columns(machine.devices, cells).load >= LEAST_BAR
        fits = 2 * rows + 1 + 2 * (LEAST_ROWS + 1) <= height
        self.lines_per_row = 2 if alike and narrow and fits else 1

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
        return heading(plan, self._devices.order, self._devices.draw_loads(plan.trace))

    def _plan(self) -> DeviceColumns:
        machine, cells = self._machine, self._devices.cells or self.size.width
        if machine.hosts:
            return columns(host_views(host_groups(machine)), cells, hosts=True)
        return self._devices.choose_columns(cells)

    def on_click(self, event: events.Click) -> None:
        """Sort by the column under the mouse."""
        order = find_order(self._plan(), event.x)
        if order is not None:
            self._sort(order)
