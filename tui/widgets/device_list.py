"""The devices, one a line; the cursor's device is the one that the other panes show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui.session.actions import Actions
from tui.store.store import Store
from tui.views.devices import row
from tui.views.devices_columns import columns
from tui.views.lines import Line
from tui.widgets.lists import KeyedList


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
        """Select another device."""
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
