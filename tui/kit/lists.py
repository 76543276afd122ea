"""Lists with a cursor, which follows the number or the key of a row; the filter line of a list.

An empty tab has a list of offers; Enter opens the row under the cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker

from tui.kit.lines import Line, Span, TextStyle, fit_line, line
from tui.kit.pane import LinesView, set_height
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
    """Lines with a cursor: its keys, its style, its scrolling. A subclass stores its position."""

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
        """The cursor has moved to another row."""

    class Chosen(_ListMessage):
        """Enter was pressed, or the line under the cursor was clicked."""

    lines_per_row = 1
    """Lines of each row."""
    _drawn_at: int | None = None
    """Position of the cursor at the start of drawing, which each row needs."""
    _was_at: int | None = None
    """Position of the cursor when the lines were last made."""
    _rows_in_view = 0
    """Number of visible rows then."""

    @property
    def count(self) -> int:
        """Number of rows for the cursor."""
        return len(self._lines) // self.lines_per_row

    @property
    def cursor(self) -> int | None:
        """The row under the cursor; ``None`` without rows."""
        raise NotImplementedError

    def put_cursor(self, index: int) -> None:
        """Put the cursor on another row."""
        raise NotImplementedError

    def above(self, index: int) -> int:
        """Return the first row of the view when the cursor comes to a row from below."""
        return index

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw some rows of the viewport."""
        self._drawn_at = self.cursor
        return super().render_lines(crop)

    def line_style(self, index: int) -> Style | None:
        """Return the style of the cursor's row, which depends on the focus."""
        under = index // self.lines_per_row == self._drawn_at
        return cursor_row(focused=self.has_focus) if under else None

    def _refresh_row(self, index: int) -> None:
        """Redraw a row."""
        self.refresh_lines(index * self.lines_per_row, self.lines_per_row)

    def post_own(self, message: Message) -> None:
        """Post a message with the list as its sender.

        Textual names the widget that handles a message at the time as the sender, and delivers a
        message no further than the parent if the parent is the sender: the screen would miss that
        the cursor moves while the user types into a filter beside the list.
        """
        self.post_message(message.set_sender(self))

    def choose(self) -> None:
        """Post :class:`Chosen` for the line under the cursor."""
        self.post_own(self.Chosen(self))

    def action_choose(self) -> None:
        """Choose the line under the cursor."""
        self.choose()

    def action_move(self, by: int) -> None:
        """Move the cursor by some lines, within the list."""
        if self.cursor is not None:
            self.go_to(self.cursor + by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a page."""
        self.action_move(direction * max(1, self.size.height // self.lines_per_row - 1))

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
                self._refresh_row(changed)
        self.bring_into_view(index)

    def rebuild(self) -> None:
        """Rebuild the lines; a cursor that was visible stays visible.

        Rows appear and vanish above the cursor, and the size may change. If the user has scrolled
        away from the cursor, the view stays.
        """
        top, before = self.scroll_offset.y, self._was_at
        place = 0 if before is None else before * self.lines_per_row
        seen = before is None or top <= place < top + self._rows_in_view
        super().rebuild()
        if not self.size.height:
            return
        self._was_at, self._rows_in_view = self.cursor, self.size.height
        if seen and self._was_at is not None:
            self.bring_into_view(self._was_at)

    def bring_into_view(self, index: int) -> None:
        """Scroll until a row is visible."""
        height, view, offset = self.lines_per_row, self.size.height, self.scroll_offset.y
        top, last = self.above(index) * height, (index + 1) * height - 1
        # Forced: Textual refuses to scroll a list whose scroll bar is not laid out yet.
        if top < offset:
            self.scroll_to(y=top, animate=False, force=True)
        elif last >= offset + view:
            self.scroll_to(y=last - view + 1, animate=False, force=True)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; on the cursor, choose."""
        index = (event.y + self.scroll_offset.y) // self.lines_per_row
        if index >= self.count:
            return
        if index == self.cursor:
            self.choose()
        else:
            self.go_to(index)

    def watch_has_focus(self, value: bool) -> None:
        """Redraw the cursor when the focus changes."""
        super().watch_has_focus(value)
        if self.cursor is not None:
            self._refresh_row(self.cursor)


class NumberedList(CursorView):
    """A list whose cursor is a line number; the owner makes the lines."""

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
        """The line under the cursor; ``None`` without lines."""
        return min(self.index, self.count - 1) if self.count else None

    def put_cursor(self, index: int) -> None:
        """Put the cursor on another line."""
        if index != self.index:
            self.index = index
            self.post_own(self.Moved(self))

    def rebuild(self) -> None:
        """Rebuild the lines; the cursor stays within them."""
        super().rebuild()
        if self.count and self.index >= self.count:
            self.index = self.count - 1


class KeyedList(CursorView):
    """A list whose cursor follows a row's key when rows are added, removed or sorted.

    A subclass makes the rows, each with a key that identifies its object.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(self._rows, id=id)
        self._keys: Sequence[str] = ()
        self._attached: str | None = None
        self._posted: str | None = None

    # ---- implemented by subclasses ----

    def row_keys(self) -> Sequence[str]:
        """Return the keys of the rows; called before :meth:`row_lines`."""
        raise NotImplementedError

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return the lines of the same rows."""
        raise NotImplementedError

    def attached_key(self) -> str | None:
        """Return the cursor's key, which need not have a row."""
        return self._attached

    def attach(self, key: str) -> None:
        """Set the cursor's key."""
        self._attached = key

    def find_fallback(self) -> int | None:
        """Return the cursor's position if its key has no row; called only if there are rows."""
        return 0

    # ---- the cursor ----

    @property
    def count(self) -> int:
        """Number of rows that the cursor can stand on."""
        return len(self._keys)

    @property
    def cursor(self) -> int | None:
        """The row under the cursor; ``None`` without rows."""
        if not self._keys:
            return None
        key = self.attached_key()
        return self._keys.index(key) if key in self._keys else self.find_fallback()

    @property
    def key(self) -> str | None:
        """The key of the row under the cursor."""
        index = self.cursor
        return None if index is None else self._keys[index]

    def put_cursor(self, index: int) -> None:
        """Put the cursor on the row at an index."""
        self.attach(self._keys[index])
        self._post_moved()

    def attach_shown(self) -> None:
        """Keep the cursor on its row, which may be the fallback, when other rows come back."""
        if self.key is not None:
            self.attach(self.key)

    def read_keys(self) -> None:
        """Update the keys of the rows."""
        self._keys = self.row_keys()

    def _rows(self, cells: int) -> Sequence[Line]:
        self.read_keys()
        self._post_moved()
        return self.row_lines(cells)

    def _post_moved(self) -> None:
        if self.key != self._posted:
            self._posted = self.key
            self.post_own(self.Moved(self))


class FieldInput(Input):
    """A filter's field; keys that mean nothing in it return to the filtered list.

    Args:
        placeholder: describes the text to type.
        leave: called on the way back to the list; true keeps the filter.
        id: the widget's.
    """

    def __init__(
        self,
        placeholder: str,
        leave: Callable[[bool], None],
        *,
        id: str,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(placeholder=placeholder, id=id)
        self.cursor_blink = False
        self._leave = leave

    async def on_key(self, event: events.Key) -> None:
        """Return to the list on a key that means nothing in one line of text."""
        if event.key not in ("escape", "down", "up", "enter"):
            return
        self._leave(event.key != "escape")
        event.stop()
        event.prevent_default()


class RowFilter:
    """The line for words that the rows of a table must contain.

    Args:
        pane: the table's pane, whose ``on_input_changed`` is called.
        table: the filtered table, which gets the focus back.
        before: the widget below the line, or its selector.
        placeholder: describes the text to type.
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
        """Show the line and focus it."""
        if self._field is None:
            self._field = FieldInput(
                self._placeholder, lambda filtered: self.end(filtered=filtered), id=self._id
            )
            self._pane.mount(self._field, before=self._before)
        self._field.display = True
        # At once: the widget's own focus() comes later, and a key typed meanwhile would be lost.
        self._pane.screen.set_focus(self._field)

    def end(self, *, filtered: bool) -> None:
        """Return to the table, with or without the filter; the cursor stays on its row."""
        if isinstance(self._table, KeyedList):
            self._table.attach_shown()
        self._pane.screen.set_focus(self._table)
        if self._field is not None:
            if not filtered:
                self._field.value = ""
            self._field.display = bool(self._field.value.strip())


@dataclass(frozen=True, slots=True)
class Offer:
    """An item that an empty tab can open."""

    title: str
    """Effect of Enter, such as ``Open the newest OOM``."""
    facts: str
    """A few words about the item."""
    open: Callable[[], object] = field(compare=False)
    is_last: bool = False
    """It stands below those that are what the tab is for."""


def offer_lines(offers: Sequence[Offer], cells: int) -> list[Line]:
    """Return a line for each offer: its title, then its facts."""
    room = max((len(offer.title) for offer in offers), default=0)
    return [
        fit_line(
            line(
                Span(f"  {offer.title.ljust(room)}", TextStyle.KEY),
                Span(f"  {offer.facts}", TextStyle.QUIET),
            ),
            cells,
        )
        for offer in offers
    ]


class OfferList(KeyedList):
    """The offers of a tab, one row each.

    Args:
        at_once: returns the offers that need no file.
        read: searches files for more offers, the most useful first; called in a thread.
        first: returns the offers that stand above all others.
    """

    class Listed(_ListMessage):
        """The offers from files are known."""

    def __init__(
        self,
        at_once: Callable[[], Sequence[Offer]],
        read: Callable[[], Sequence[Offer]],
        first: Callable[[], Sequence[Offer]] = tuple,
    ) -> None:
        super().__init__()
        self._at_once, self._read, self._first = at_once, read, first
        self._offers_in_files: Sequence[Offer] = ()
        self.add_class("offers")

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All offers in the order of the list."""
        offers = (*self._first(), *self._offers_in_files, *self._at_once())
        return tuple(sorted(offers, key=lambda offer: offer.is_last))

    def load(self) -> None:
        """Search the files for offers, in a thread."""
        _: Worker[None] = self.run_worker(self._load, exclusive=True, group="offers")

    async def _load(self) -> None:
        self._offers_in_files = await asyncio.to_thread(self._read)
        self.rebuild()
        self.post_own(self.Listed(self))

    def rebuild(self) -> None:
        """Redraw the offers, and fit the height to them."""
        set_height(self, len(self.offers))
        super().rebuild()

    def row_keys(self) -> Sequence[str]:
        """Return the titles, which are unique."""
        return [offer.title for offer in self.offers]

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return the lines of the offers."""
        return offer_lines(self.offers, cells)

    def choose(self) -> None:
        """Open the offer under the cursor."""
        for offer in self.offers:
            if offer.title == self.key:
                offer.open()
