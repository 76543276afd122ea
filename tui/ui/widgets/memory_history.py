"""The last minute of one figure of memory, on a scale that never moves."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.memory import Gauge
from tui.state.reading import value_of
from tui.state.store import Store
from tui.ui.views.changes import changes
from tui.ui.views.lines import Line
from tui.ui.views.memory import history_lines
from tui.ui.widgets.styles import strip_of


class MemoryHistory(Widget):
    """A column a second, from zero to the device's total."""

    def __init__(self, store: Store, gauge: Callable[[], Gauge], figure: str = "used") -> None:
        """Show one figure of the selected device.

        Args:
            store: holds the history.
            gauge: the account as it is now, whose total is the scale.
            figure: which of a :class:`~tui.state.history.MemoryPoint`.
        """
        super().__init__()
        self._store = store
        self._gauge = gauge
        self._figure = figure
        self._lines: list[Line] = []

    def rebuild(self) -> None:
        """Make the lines anew; drawn only if they differ."""
        points = self._store.history.points(self._store.selected)
        total = value_of(self._gauge().total)
        new = history_lines(points, self._figure, total, self.size.width, self.size.height)
        old, self._lines = self._lines, new
        regions = [
            Region(change.start, change.row, change.end - change.start, 1)
            for change in changes(old, new, self.size.width)
        ]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        spans = self._lines[y] if y < len(self._lines) else ()
        return strip_of(spans, self.size.width, self.rich_style)

    def on_resize(self, _event: events.Resize) -> None:
        """The columns depend on the size."""
        self.rebuild()
