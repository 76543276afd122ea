"""The devices, one a line; the cursor's device is the one that the other panes show."""

from __future__ import annotations

from collections.abc import Callable

from tui.session.actions import Actions
from tui.state.store import Store
from tui.ui.views.devices import row
from tui.ui.views.devices_columns import columns
from tui.ui.views.lines import Line
from tui.ui.widgets.cursor_view import CursorView


class DeviceList(CursorView):
    """Rows whose changing columns stand side by side, so that a sample redraws few cells."""

    def __init__(self, store: Store, actions: Actions, clock: Callable[[], float]) -> None:
        """Show a store's devices.

        Args:
            store: what is known.
            actions: is asked to select a device.
            clock: Unix time now.
        """
        super().__init__(self._rows)
        self._store = store
        self._actions = actions
        self._clock = clock
        self._seen: int | None = None

    @property
    def count(self) -> int:
        """Devices."""
        return len(self._store.devices)

    @property
    def cursor(self) -> int | None:
        """Where the selected device stands; ``None`` while there are no devices."""
        keys = [view.key for view in self._store.devices]
        return keys.index(self._store.selected) if self._store.selected in keys else None

    def put_cursor(self, index: int) -> None:
        """Select the device in a row."""
        if index != self.cursor:
            self._actions.select_device(self._store.devices[index].key)

    def _rows(self, cells: int) -> list[Line]:
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
