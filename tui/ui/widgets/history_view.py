"""The histories of the selected device, drawn as lines that fill the widget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.ui.views.lines import Line, changes
from tui.ui.widgets.styles import strip_of


class HistoryView(Widget):
    """Lines made for the present size, of which only what has changed is drawn."""

    def __init__(self, build: Callable[[int, int], Sequence[Line]]) -> None:
        """Draw what a function makes.

        Args:
            build: is given the cells of a line and how many lines there are.
        """
        super().__init__()
        self._build = build
        self._lines: Sequence[Line] = ()

    def rebuild(self) -> None:
        """Make the lines anew; drawn only where they differ."""
        cells, rows = self.size
        if not cells or not rows or not self.display:
            return
        old, self._lines = self._lines, self._build(cells, rows)
        regions = [
            Region(change.start, change.row, change.end - change.start, 1)
            for change in changes(old, self._lines, cells)
        ]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        spans = self._lines[y] if y < len(self._lines) else ()
        return strip_of(spans, self.size.width, self.rich_style)

    def on_resize(self, _event: events.Resize) -> None:
        """The columns depend on the size."""
        self.rebuild()
