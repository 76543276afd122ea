"""The table of workloads: lines with a cursor that holds on to a workload by its name."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.store.store import Store
from tui.views.lines import Line
from tui.views.table_layout import columns_for, entry_line, heading
from tui.views.workload_order import ORDERS, Order, ordered
from tui.views.workload_table import Entry, Group, Row, entries, entry_key
from tui.widgets.lines_view import LinesView


class WorkloadList(LinesView):
    """Groups and workloads; up and down move the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-100000)", show=False),
        Binding("end,G", "move(100000)", show=False),
        Binding("enter", "choose", show=False),
        Binding("space", "toggle_group", show=False),
    ]

    class Moved(Message):
        """The cursor stands on another entry."""

    class Chosen(Message):
        """Enter, or a click on the entry under the cursor."""

    def __init__(self, store: Store) -> None:
        super().__init__(self._table)
        self._store = store
        self.pattern = ""
        self.folded: frozenset[str] = frozenset()
        self.order: Order = ORDERS[0]
        self.found: list[Entry] = []
        self._key: str | None = None
        self._told: str | None = None

    # ---- what is under the cursor ----

    @property
    def index(self) -> int | None:
        """Where the cursor stands: on the entry it holds on to, else on the first workload."""
        keys = [entry_key(entry) for entry in self.found]
        if self._key in keys:
            return keys.index(self._key)
        rows = [place for place, entry in enumerate(self.found) if isinstance(entry, Row)]
        return rows[0] if rows else (0 if keys else None)

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor."""
        return None if self.index is None else self.found[self.index]

    @property
    def workload(self) -> str | None:
        """The workload under the cursor; ``None`` on the heading of a group."""
        return self.entry.workload if isinstance(self.entry, Row) else None

    def under_cursor(self) -> list[str]:
        """The workload under the cursor, or those of the group whose heading it is."""
        entry = self.entry
        if isinstance(entry, Group):
            return [info.name for info in self._store.catalogue if info.group == entry.name]
        return [entry.workload] if entry else []

    def listed(self) -> list[str]:
        """All workloads that the table lists, in its order; a folded group's too."""
        shown = ordered(self._store, entries(self._store, self.pattern), self.order)
        return [entry.workload for entry in shown if isinstance(entry, Row)]

    # ---- drawing ----

    def _entries(self) -> list[Entry]:
        found = entries(self._store, self.pattern, self.folded)
        return ordered(self._store, found, self.order)

    def _table(self, cells: int) -> list[Line]:
        self.found = self._entries()
        chosen = columns_for(self._store, self.found, cells)
        at = self.index
        key = None if at is None else entry_key(self.found[at])
        if key != self._told:
            self._told = key
            self.post_message(self.Moved())
        return [
            entry_line(entry, chosen, under_cursor=place == at)
            for place, entry in enumerate(self.found)
        ]

    def heading(self, _cells: int) -> Line:
        """The line above the table, as wide as the table's lines."""
        found = self._entries()
        return heading(self._store, columns_for(self._store, found, max(1, self.cells)))

    def hidden_columns(self) -> tuple[str, ...]:
        """Columns for which there is no room."""
        return columns_for(self._store, self.found, max(1, self.cells)).hidden

    def line_style(self, index: int) -> Style | None:
        """The cursor's line is reversed where keys arrive, bold elsewhere."""
        if index != self.index:
            return None
        return Style(reverse=True) if self.has_focus else Style(bold=True)

    # ---- moving ----

    def action_move(self, by: int) -> None:
        """Move the cursor, as far as there are entries."""
        if self.index is not None:
            self.go_to(self.index + by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by what is in view."""
        self.action_move(direction * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        """Do with the entry what enter does."""
        self.post_message(self.Chosen())

    def go_to(self, index: int) -> None:
        """Put the cursor on an entry and bring it into view."""
        if not self.found:
            return
        before = self.index
        index = max(0, min(len(self.found) - 1, index))
        self._key = entry_key(self.found[index])
        self.rebuild()
        for changed in (before, index):
            if changed is not None:
                self.refresh_line(changed)
        # The heading of a group comes into view with its first workload.
        top = index - 1 if index and isinstance(self.found[index - 1], Group) else index
        view = self.size.height
        offset = self.scroll_offset.y
        if top < offset:
            self.scroll_to(y=top, animate=False)
        elif index >= offset + view:
            self.scroll_to(y=index - view + 1, animate=False)

    def sort_by(self, order: Order) -> None:
        """Change the order; the cursor stays on its workload."""
        self._key = self.workload or self._key
        self.order = order

    def action_toggle_group(self) -> None:
        """Fold or unfold the group under the cursor."""
        if isinstance(self.entry, Group):
            self.folded = self.folded ^ {self.entry.name}
            self._key = self.entry.key
            self.rebuild()

    def on_click(self, event: events.Click) -> None:
        """The first click moves the cursor, one on the cursor chooses."""
        index = event.y + self.scroll_offset.y
        if index >= len(self.found):
            return
        if index == self.index:
            self.action_choose()
        else:
            self.go_to(index)

    def watch_has_focus(self, value: bool) -> None:
        """The cursor looks different where keys arrive."""
        super().watch_has_focus(value)
        if self.index is not None:
            self.refresh_line(self.index)
