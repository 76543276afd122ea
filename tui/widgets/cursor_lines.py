"""Lines of which one is under a cursor, by the key of what it shows: rows may come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.views.lines import Line
from tui.widgets.lines_view import LinesView

Row = tuple[str, Line]
"""A key that stays the same while the row means the same, and its line."""


class CursorLines(LinesView):
    """Rows with a cursor that stays on what it is on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]

    class Moved(Message):
        """The cursor is on something else."""

    def __init__(
        self,
        build: Callable[[int], Sequence[Row]],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(self._shown, id=id)
        self._rows_of = build
        self._keys: list[str] = []
        self._key: str | None = None
        self._told: str | None = None

    @property
    def key(self) -> str | None:
        """Of the row under the cursor; ``None`` where there are no rows."""
        return None if self.index is None else self._keys[self.index]

    @property
    def index(self) -> int | None:
        """Its place; the first row's where what the cursor was on is gone."""
        if not self._keys:
            return None
        return self._keys.index(self._key) if self._key in self._keys else 0

    def _shown(self, cells: int) -> list[Line]:
        rows = self._rows_of(cells)
        self._keys = [key for key, _ in rows]
        if self.key != self._told:
            self._told = self.key
            self.post_message(self.Moved())
        return [line for _, line in rows]

    def line_style(self, index: int) -> Style | None:
        """The cursor's line is reversed where keys arrive, bold elsewhere."""
        if index != self.index:
            return None
        return Style(reverse=True) if self.has_focus else Style(bold=True)

    def action_move(self, by: int) -> None:
        """Move the cursor, as far as there are rows."""
        if self.index is not None:
            self.go_to(self.index + by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by what is in view."""
        self.action_move(direction * max(1, self.size.height - 1))

    def go_to(self, index: int) -> None:
        """Put the cursor on a row and bring it into view."""
        if not self._keys:
            return
        index = max(0, min(len(self._keys) - 1, index))
        before, self._key = self.index, self._keys[index]
        for changed in (before, index):
            if changed is not None:
                self.refresh_line(changed)
        view, offset = self.size.height, self.scroll_offset.y
        if index < offset:
            self.scroll_to(y=index, animate=False)
        elif index >= offset + view:
            self.scroll_to(y=index - view + 1, animate=False)
        if self.key != self._told:
            self._told = self.key
            self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor."""
        index = event.y + self.scroll_offset.y
        if index < len(self._keys):
            self.go_to(index)

    def watch_has_focus(self, value: bool) -> None:
        """The cursor looks different where keys arrive."""
        super().watch_has_focus(value)
        if self.index is not None:
            self.refresh_line(self.index)
