"""A scrolling list of lines with a cursor on one of them, by its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.ui.views.lines import Line
from tui.ui.widgets.cursor_view import CursorView


class CursorList(CursorView):
    """Who owns the list knows what its lines are."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", show=False)]

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
    def cursor(self) -> int | None:
        """The line under the cursor; ``None`` where there are no lines."""
        return self.index if self.count else None

    def put_cursor(self, index: int) -> None:
        """Have the cursor stand on another line."""
        if index != self.index:
            self.index = index
            self.post_message(self.Moved())

    def choose(self) -> None:
        """Do with the line what enter does."""
        self.post_message(self.Chosen())

    def action_choose(self) -> None:
        """Enter."""
        self.choose()

    def rebuild(self) -> None:
        """Make the lines anew; the cursor stays within them."""
        super().rebuild()
        if self.count and self.index >= self.count:
            self.index = self.count - 1
