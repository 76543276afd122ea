"""Lines of which one is under a cursor: how it moves, how it looks, how it stays in view."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.strip import Strip

from tui.ui.widgets.lines_view import LinesView


class CursorView(LinesView):
    """Up and down move the cursor; a subclass knows where it stands and puts it elsewhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-10000000)", show=False),
        Binding("end,G", "move(10000000)", show=False),
    ]

    _drawn_at: int | None = None
    """Where the cursor was when the rows began to be drawn: each of them asks."""

    @property
    def count(self) -> int:
        """Lines that the cursor can stand on."""
        return len(self._lines)

    @property
    def cursor(self) -> int | None:
        """The line under the cursor; ``None`` where there are no lines."""
        raise NotImplementedError

    def put_cursor(self, index: int) -> None:
        """Have the cursor stand on another line."""
        raise NotImplementedError

    def choose(self) -> None:
        """The line under the cursor was clicked once more."""

    def above(self, index: int) -> int:
        """The line from which on there is to be a view if the cursor comes to a line from below."""
        return index

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the rows of a part of the viewport."""
        self._drawn_at = self.cursor
        return super().render_lines(crop)

    def line_style(self, index: int) -> Style | None:
        """The cursor's line is reversed where keys arrive, bold elsewhere."""
        if index != self._drawn_at:
            return None
        return Style(reverse=True) if self.has_focus else Style(bold=True)

    def action_move(self, by: int) -> None:
        """Move the cursor, as far as there are lines."""
        if self.cursor is not None:
            self.go_to(self.cursor + by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by what is in view."""
        self.action_move(direction * max(1, self.size.height - 1))

    def go_to(self, index: int) -> None:
        """Put the cursor on a line and bring it into view."""
        if not self.count:
            return
        index = max(0, min(self.count - 1, index))
        before = self.cursor
        self.put_cursor(index)
        for changed in (before, index):
            if changed is not None:
                self.refresh_line(changed)
        self.bring_into_view(index)

    def bring_into_view(self, index: int) -> None:
        """Scroll as far as a line asks for."""
        top, view, offset = self.above(index), self.size.height, self.scroll_offset.y
        if top < offset:
            self.scroll_to(y=top, animate=False)
        elif index >= offset + view:
            self.scroll_to(y=index - view + 1, animate=False)

    def on_click(self, event: events.Click) -> None:
        """The first click moves the cursor, one on the cursor chooses."""
        index = event.y + self.scroll_offset.y
        if index >= self.count:
            return
        if index == self.cursor:
            self.choose()
        else:
            self.go_to(index)

    def watch_has_focus(self, value: bool) -> None:
        """The cursor looks different where keys arrive."""
        super().watch_has_focus(value)
        if self.cursor is not None:
            self.refresh_line(self.cursor)
