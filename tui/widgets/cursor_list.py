"""A scrolling list of lines with a cursor on one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.views.lines import Line
from tui.widgets.lines_view import LinesView


class CursorList(LinesView):
    """Up and down move the cursor; who owns the list knows what its lines are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-10000000)", show=False),
        Binding("end,G", "move(10000000)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Moved(Message):
        """The cursor stands on another line."""

    class Chosen(Message):
        """Enter, or a click on the line under the cursor."""

    def __init__(
        self,
        build: Callable[[int], list[Line]],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(build, id=id)
        self.index = 0

    @property
    def count(self) -> int:
        """Lines there are."""
        return len(self._lines)

    def line_style(self, index: int) -> Style | None:
        """The cursor's line is reversed where keys arrive, bold elsewhere."""
        if index != self.index:
            return None
        return Style(reverse=True) if self.has_focus else Style(bold=True)

    def rebuild(self) -> None:
        """Make the lines anew; the cursor stays within them."""
        super().rebuild()
        if self.count and self.index >= self.count:
            self.index = self.count - 1

    def action_move(self, by: int) -> None:
        """Move the cursor, as far as there are lines."""
        self.go_to(self.index + by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by what is in view."""
        self.action_move(direction * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        """Do with the line what enter does."""
        self.post_message(self.Chosen())

    def go_to(self, index: int) -> None:
        """Put the cursor on a line and bring it into view."""
        if not self.count:
            return
        before = self.index
        self.index = max(0, min(self.count - 1, index))
        for changed in {before, self.index}:
            self.refresh_line(changed)
        view, offset = self.size.height, self.scroll_offset.y
        if self.index < offset:
            self.scroll_to(y=self.index, animate=False)
        elif self.index >= offset + view:
            self.scroll_to(y=self.index - view + 1, animate=False)
        if self.index != before:
            self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """The first click moves the cursor, one on the cursor chooses."""
        index = event.y + self.scroll_offset.y
        if index >= self.count:
            return
        if index == self.index:
            self.action_choose()
        else:
            self.go_to(index)

    def watch_has_focus(self, value: bool) -> None:
        """The cursor looks different where keys arrive."""
        super().watch_has_focus(value)
        self.refresh_line(self.index)
