"""The devices, one a line; the cursor's device is the one that the other panes show."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region

from tui.actions import Actions
from tui.store import Store
from tui.views.devices import row
from tui.views.devices_columns import columns
from tui.views.lines import Line, plain
from tui.widgets.lines_view import LinesView


class DeviceList(LinesView):
    """Rows whose changing columns stand side by side, so that a sample redraws one region."""

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

    def redraw(self, old: list[Line], new: list[Line]) -> None:
        """Draw the one region that spans what changed in all rows."""
        region = changed_region(old, new, self.cells)
        if region is not None:
            self.refresh(region.translate((0, -self.scroll_offset.y)))

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


def changed_region(old: list[Line], new: list[Line], cells: int) -> Region | None:
    """The smallest region that holds all cells that differ; ``None`` where none does.

    Args:
        old: the lines that are on the screen.
        new: the lines that are to be.
        cells: width of a line.
    """
    first_row = last_row = None
    left, right = cells, 0
    for index in range(max(len(old), len(new))):
        before = old[index] if index < len(old) else ()
        after = new[index] if index < len(new) else ()
        if before == after:
            continue
        first_row = index if first_row is None else first_row
        last_row = index
        start, end = _changed_cells(before, after, cells)
        left, right = min(left, start), max(right, end)
    if first_row is None or last_row is None:
        return None
    return Region(left, first_row, right - left, last_row - first_row + 1)


def _changed_cells(before: Line, after: Line, cells: int) -> tuple[int, int]:
    """First and last column that differ, the last one excluded."""
    if not (plain(before).isascii() and plain(after).isascii()) and _wide(before, after):
        return 0, cells
    old = [(character, span.tone) for span in before for character in span.text]
    new = [(character, span.tone) for span in after for character in span.text]
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    if start is None:
        return min(len(old), len(new), cells), cells
    if len(old) != len(new):
        return start, cells
    end = next(at for at in range(len(old), 0, -1) if old[at - 1] != new[at - 1])
    return start, min(end, cells)


def _wide(*lines: Line) -> bool:
    """Some character takes other than one cell, so that columns cannot be counted."""
    return any(span.width != len(span.text) for line in lines for span in line)
