"""The devices, one a line; the cursor's device is the one that the other panes show."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType

from tui.session.actions import Actions
from tui.store.store import Store
from tui.views.devices import row
from tui.views.devices_columns import columns
from tui.views.lines import Line
from tui.widgets.lines_view import LinesView


class DeviceList(LinesView):
    """Rows whose changing columns stand side by side, so that a sample redraws few cells."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("home,g", "move(-1000)", show=False),
        Binding("end,G", "move(1000)", show=False),
    ]

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

    @property
    def index(self) -> int | None:
        """Where the selected device stands; ``None`` while there are no devices."""
        keys = [view.key for view in self._store.devices]
        return keys.index(self._store.selected) if self._store.selected in keys else None

    def _rows(self, cells: int) -> list[Line]:
        store, now = self._store, self._clock()
        plan = columns(store.devices, cells)
        return [
            row(view, store.sample, now, plan, selected=view.key == store.selected)
            for view in store.devices
        ]

    def line_style(self, index: int) -> Style | None:
        """The selected row is reversed where keys arrive, bold elsewhere."""
        if index != self.index:
            return None
        return Style(reverse=True) if self.has_focus else Style(bold=True)

    def action_move(self, by: int) -> None:
        """Select the device that many rows further, as far as there are rows."""
        if self.index is not None:
            self.go_to(self.index + by)

    def go_to(self, index: int) -> None:
        """Select the device in a row and bring it into view."""
        devices = self._store.devices
        index = max(0, min(len(devices) - 1, index))
        if index != self.index:
            self._actions.select_device(devices[index].key)
        view, offset = self.size.height, self.scroll_offset.y
        if index < offset:
            self.scroll_to(y=index, animate=False)
        elif index >= offset + view:
            self.scroll_to(y=index - view + 1, animate=False)

    def on_click(self, event: events.Click) -> None:
        """A click selects."""
        index = event.y + self.scroll_offset.y
        if index < len(self._store.devices):
            self.go_to(index)

    def on_focus(self) -> None:
        """The cursor looks different where keys arrive."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor looks different where keys arrive."""
        self.refresh()
