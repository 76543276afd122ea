"""A scrolling view of lines that a function makes for the present width.

Only the cells that changed are drawn anew: a redraw costs the link what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from tui.ui.views.lines import Line, changes
from tui.ui.widgets.styles import strip_of


class LinesView(ScrollView, can_focus=True):
    """Draws lines and scrolls them; how they come about is the owner's business."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(
        self,
        build: Callable[[int], Sequence[Line]],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
        stick_to_end: bool = False,
    ) -> None:
        super().__init__(id=id)
        self._build = build
        self._stick_to_end = stick_to_end
        self._was_left = False
        """Somebody has scrolled away from the end."""
        self._lines: Sequence[Line] = []
        self._cells = 0
        self._base = Style()

    @property
    def cells(self) -> int:
        """Width of a line; the scroll bar's column is kept free."""
        return self.scrollable_content_region.width

    def rebuild(self) -> None:
        """Make the lines anew and redraw those that differ."""
        cells = self.cells
        if cells <= 0:
            return
        old, old_cells = self._lines, self._cells
        self._lines, self._cells = self._build(cells), cells
        if self.virtual_size != Size(cells, len(self._lines)):
            self.virtual_size = Size(cells, len(self._lines))
        if self._stick_to_end and not self._was_left:
            self.scroll_end(animate=False)
        if old_cells != cells:
            self.refresh()
            return
        top = self.scroll_offset.y
        view = slice(top, top + self.size.height)
        regions = [
            Region(change.start, change.row, change.end - change.start, 1)
            for change in changes(old[view], self._lines[view], cells)
        ]
        if regions:
            self.refresh(*regions)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whether the end is looked at; what is not laid out yet has none to be away from."""
        super().watch_scroll_y(old_value, new_value)
        self._was_left = new_value < self.max_scroll_y

    def line_style(self, _index: int) -> Style | None:
        """What is laid over a whole line."""
        return None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the rows of a part of the viewport."""
        # Worked out once for all of them: it is the most costly part of a row.
        self._base = self.rich_style
        if self._cells != self.cells:
            # The frame that follows a new width is drawn before the event that tells of it.
            self._cells = self.cells
            self._lines = self._build(self.cells)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one row of the viewport."""
        index = y + self.scroll_offset.y
        spans = self._lines[index] if index < len(self._lines) else ()
        return strip_of(spans, self.size.width, self._base, self.line_style(index))

    def on_resize(self, _event: events.Resize) -> None:
        """Lines depend on the width."""
        self.rebuild()

    def on_mount(self) -> None:
        """The first lines, where the width is known already."""
        self.rebuild()


class AsciiScrollBar(ScrollBarRender):
    """The thumb moves by whole cells and is told apart by its background."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8
    BLANK_GLYPH: ClassVar[str] = " "
