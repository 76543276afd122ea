"""Lists with a cursor, which stays on a row by its number or its key.

Also the line in which the user types words that narrow a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.kit.fields import FieldInput
from tui.kit.lines import Line
from tui.kit.pane import LinesView
from tui.kit.styles import cursor_row


class _ListMessage(Message):
    """A message of a list, which ``@on(KeyedList.Moved, "ResultList")`` matches by its class."""

    def __init__(self, sender: CursorView) -> None:
        super().__init__()
        self._list = sender

    @property
    def control(self) -> CursorView:
        """The list that posted the message."""
        return self._list


class CursorView(LinesView):
    """How a cursor moves, how it looks, how it stays in view; a subclass knows where it stands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-10000000)", show=False),
        Binding("end,G", "move(10000000)", show=False),
    ]

    class Moved(_ListMessage):
        """The cursor is on something else."""

    class Chosen(_ListMessage):
        """Enter was pressed, or the line under the cursor was clicked."""

    _drawn_at: int | None = None
    """Where the cursor was when the rows began to be drawn: each of them asks."""
    _was_at: int | None = None
    """Where the cursor was when the lines were last made."""
    _rows_in_view = 0
    """How many there were then."""

    @property
    def count(self) -> int:
        """Number of lines that the cursor can stand on."""
        return len(self._lines)

    @property
    def cursor(self) -> int | None:
        """The line under the cursor; ``None`` where there are no lines."""
        raise NotImplementedError

    def put_cursor(self, index: int) -> None:
        """Put the cursor on another line."""
        raise NotImplementedError

    def above(self, index: int) -> int:
        """Return the first line of the view when the cursor comes to a line from below."""
        return index

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the rows of a part of the viewport."""
        self._drawn_at = self.cursor
        return super().render_lines(crop)

    def line_style(self, index: int) -> Style | None:
        """Return the style of the cursor's row, which shows whether keys go to the list."""
        return cursor_row(focused=self.has_focus) if index == self._drawn_at else None

    def post_own(self, message: Message) -> None:
        """Post a message with the list as its sender.

        Textual names the widget that handles a message at the time as the sender, and delivers a
        message no further than the parent if the parent is the sender: the screen would miss that
        the cursor moves while the user types into a filter beside the list.
        """
        self.post_message(message.set_sender(self))

    def choose(self) -> None:
        """Post that the line under the cursor was chosen."""
        self.post_own(self.Chosen(self))

    def action_choose(self) -> None:
        """Do with the line under the cursor what enter does."""
        self.choose()

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
        self._was_at = index
        for changed in (before, index):
            if changed is not None:
                self.refresh_line(changed)
        self.bring_into_view(index)

    def rebuild(self) -> None:
        """Make the lines anew; a cursor that was in view stays there.

        Rows come and go above it, and another size has room for fewer of them. Who has scrolled
        away from the cursor is left where they are.
        """
        top, before = self.scroll_offset.y, self._was_at
        seen = before is None or top <= before < top + self._rows_in_view
        super().rebuild()
        if not self.size.height:
            return
        self._was_at, self._rows_in_view = self.cursor, self.size.height
        if seen and self._was_at is not None:
            self.bring_into_view(self._was_at)

    def bring_into_view(self, index: int) -> None:
        """Scroll as far as a line asks for."""
        top, view, offset = self.above(index), self.size.height, self.scroll_offset.y
        if top < offset:
            self.scroll_to(y=top, animate=False)
        elif index >= offset + view:
            self.scroll_to(y=index - view + 1, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; on the cursor, choose."""
        index = event.y + self.scroll_offset.y
        if index >= self.count:
            return
        if index == self.cursor:
            self.choose()
        else:
            self.go_to(index)

    def watch_has_focus(self, value: bool) -> None:
        """Draw the cursor anew when the focus changes."""
        super().watch_has_focus(value)
        if self.cursor is not None:
            self.refresh_line(self.cursor)


class NumberedList(CursorView):
    """The cursor stands on a line by its number; who owns the list knows what its lines are."""

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
        return min(self.index, self.count - 1) if self.count else None

    def put_cursor(self, index: int) -> None:
        """Put the cursor on another line."""
        if index != self.index:
            self.index = index
            self.post_own(self.Moved(self))

    def rebuild(self) -> None:
        """Make the lines anew; the cursor stays within them."""
        super().rebuild()
        if self.count and self.index >= self.count:
            self.index = self.count - 1


class KeyedList(CursorView):
    """The cursor stays on what it is on while rows come, go and are sorted.

    A subclass makes the rows; each has a key that stays the same while the row means the same.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(self._rows, id=id)
        self._keys: Sequence[str] = ()
        self._attached: str | None = None
        self._posted: str | None = None

    # ---- what a subclass knows ----

    def row_keys(self) -> Sequence[str]:
        """Return the keys of the present rows; called before :meth:`row_lines`."""
        raise NotImplementedError

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return the lines of the same rows."""
        raise NotImplementedError

    def attached_key(self) -> str | None:
        """Return the key that the cursor is attached to, which need not have a row."""
        return self._attached

    def attach(self, key: str) -> None:
        """Attach the cursor to another key."""
        self._attached = key

    def otherwise(self) -> int | None:
        """Return the cursor's place if its key has no row; called only if there are other rows."""
        return 0

    # ---- the cursor ----

    @property
    def count(self) -> int:
        """Number of rows that the cursor can stand on."""
        return len(self._keys)

    @property
    def cursor(self) -> int | None:
        """The row under the cursor; ``None`` where there is none."""
        if not self._keys:
            return None
        key = self.attached_key()
        return self._keys.index(key) if key in self._keys else self.otherwise()

    @property
    def key(self) -> str | None:
        """The key of the row under the cursor."""
        at = self.cursor
        return None if at is None else self._keys[at]

    def put_cursor(self, index: int) -> None:
        """Attach the cursor to the row in a place."""
        self.attach(self._keys[index])
        self._post_moved()

    def read_keys(self) -> None:
        """Read the keys of the present rows."""
        self._keys = self.row_keys()

    def _rows(self, cells: int) -> Sequence[Line]:
        self.read_keys()
        self._post_moved()
        return self.row_lines(cells)

    def _post_moved(self) -> None:
        if self.key != self._posted:
            self._posted = self.key
            self.post_own(self.Moved(self))


class RowFilter:
    """The line into which words are typed that a table's rows must have.

    Args:
        pane: that the table is in; it hears of what is typed by ``on_input_changed``.
        table: that is narrowed, and gets the focus back.
        before: what the line stands above: a widget, or a selector of it.
        placeholder: what may be typed.
        id: of the line.
    """

    def __init__(
        self,
        pane: Widget,
        table: Widget,
        before: Widget | str,
        placeholder: str,
        *,
        id: str,  # noqa: A002 (Textual's name)
    ) -> None:
        self._pane, self._table, self._before = pane, table, before
        self._placeholder, self._id = placeholder, id
        self._field: FieldInput | None = None
        """Made when it is first typed into."""

    def begin(self) -> None:
        """Show the line and type into it."""
        if self._field is None:
            self._field = FieldInput(
                self._placeholder, lambda keep: self.end(keep=keep), id=self._id
            )
            self._pane.mount(self._field, before=self._before)
        self._field.display = True
        # At once: the widget's own focus() comes later, and a key typed meanwhile goes astray.
        self._pane.screen.set_focus(self._field)

    def end(self, *, keep: bool) -> None:
        """Go back to the table, with the filter or without."""
        self._pane.screen.set_focus(self._table)
        if self._field is not None:
            if not keep:
                self._field.value = ""
            self._field.display = bool(self._field.value.strip())
