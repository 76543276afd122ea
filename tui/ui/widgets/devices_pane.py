"""The devices pane: what is in this box and what it is doing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult

from tui.session.actions import Actions
from tui.state.store import Part, Store
from tui.ui.views.devices import columns, devices_title, notice_lines, row
from tui.ui.views.lines import Line
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.lists import KeyedList
from tui.ui.widgets.pane import ROOM, AgingPane


class DeviceList(KeyedList):
    """Rows whose changing columns stand side by side, so that a sample redraws few cells."""

    def __init__(self, store: Store, actions: Actions, clock: Callable[[], float]) -> None:
        """Show a store's devices.

        Args:
            store: what is known.
            actions: is asked to select a device.
            clock: Unix time now.
        """
        super().__init__()
        self._store = store
        self._actions = actions
        self._clock = clock
        self._seen: int | None = None

    def held(self) -> str:
        """The selected device, which another pane may have selected too."""
        return self._store.selected

    def hold(self, key: str) -> None:
        """Have the session select another device."""
        if key != self._store.selected:
            self._actions.select_device(key)

    def otherwise(self) -> None:
        """Nowhere: no other device is selected because one has gone."""

    def row_keys(self) -> Sequence[str]:
        """The devices in their order."""
        return [view.key for view in self._store.devices]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """A line for each device."""
        store, now = self._store, self._clock()
        plan = columns(store.devices, cells)
        return [
            row(view, store.sample, now, plan, selected=view.key == store.selected)
            for view in store.devices
        ]

    def rebuild(self) -> None:
        """Make the lines anew; a device selected elsewhere comes into view."""
        super().rebuild()
        if self.cursor != self._seen:
            self._seen = self.cursor
            if self.cursor is not None:
                self.bring_into_view(self.cursor)


class DevicesPane(AgingPane):
    """Every device with torch's name beside NVML's figures, the CPU as one of them."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.DEVICES, Part.SELECTION})
    HELP = (
        "One line per device; up and down select the one that the memory pane and the table's GPU "
        "column show. The name is torch's (cuda:0) where torch sees the device, else NVML's; they "
        "are paired by UUID. Then: share of time in which it was busy, temperature, power "
        "drawn and allowed, memory used and total, clocks of the multiprocessors and of the "
        "memory. 'throttled' names NVML's reason for holding the clocks back; where there is no "
        "room it stands in place of the name. 'lost': the device no longer answers. '12 s old': "
        "these are old figures. n/a: not known; the memory screen (2) has the reason of each."
    )

    def __init__(
        self,
        store: Store,
        actions: Actions,
        clock: Callable[[], float] = time.time,
        *,
        id: str | None = "devices",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show a store's devices.

        Args:
            store: what is known.
            actions: is asked to select a device.
            clock: Unix time now, to tell old figures.
            id: the widget's.
        """
        super().__init__(store, clock, id=id)
        self.list = DeviceList(store, actions, clock)
        self.notice = LinesView(self._notice)
        self.notice.can_focus = False

    def compose(self) -> ComposeResult:
        """What is wrong with looking itself, then the devices."""
        yield self.notice
        yield self.list

    def store_changed(self) -> None:
        rows = len(self._notice(max(1, self.size.width - 1)))
        self.notice.display = rows > 0
        self.notice.styles.height = max(1, rows)
        self.notice.rebuild()
        self.list.rebuild()
        self._retitle()

    def on_resize(self, _event: events.Resize) -> None:
        """Another width has room for other columns."""
        self.call_after_refresh(self.store_changed)

    def notice_rows(self, most: int) -> int:
        """Rows that what is wrong with looking takes.

        Args:
            most: that there are for it.
        """
        return len(self._notice_in(max(1, self.size.width - 1), most))

    def _notice(self, cells: int) -> list[Line]:
        # Devices come first: without a GPU there are empty rows below them.
        return self._notice_in(cells, max(1, self.size.height - len(self.store.devices)))

    def _notice_in(self, cells: int, rows: int) -> list[Line]:
        return notice_lines(self.store.sample, self.store.monitor, self.clock(), cells, rows)

    def _retitle(self) -> None:
        folded = self.has_class("-folded")
        width = self.size.width - ROOM
        self.retitle(devices_title(self.store, self.clock(), width, folded=folded))
