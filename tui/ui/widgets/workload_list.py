"""The table of workloads: lines with a cursor that holds on to a workload by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.state.store import Store
from tui.ui.views.lines import Line, LinesOnDemand
from tui.ui.views.table_layout import columns_for, entry_line, heading
from tui.ui.views.workload_order import ORDERS, Order, ordered
from tui.ui.views.workload_table import Entry, Group, Row, entries, entry_key
from tui.ui.widgets.cursor_view import CursorView


class WorkloadList(CursorView):
    """Groups and workloads; up and down move the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
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
    def count(self) -> int:
        """Entries."""
        return len(self.found)

    @property
    def cursor(self) -> int | None:
        """Where the cursor stands: on the entry it holds on to, else on the first workload."""
        keys = [entry_key(entry) for entry in self.found]
        if self._key in keys:
            return keys.index(self._key)
        rows = [place for place, entry in enumerate(self.found) if isinstance(entry, Row)]
        return rows[0] if rows else (0 if keys else None)

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor."""
        at = self.cursor
        return None if at is None else self.found[at]

    @property
    def workload(self) -> str | None:
        """The workload under the cursor; ``None`` on the heading of a group."""
        entry = self.entry
        return entry.workload if isinstance(entry, Row) else None

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

    def _table(self, cells: int) -> Sequence[Line]:
        found = self.found = self._entries()
        chosen = columns_for(self._store, found, cells)
        at = self.cursor
        key = None if at is None else entry_key(found[at])
        if key != self._told:
            self._told = key
            self.post_message(self.Moved())
        return LinesOnDemand(
            len(found), lambda place: entry_line(found[place], chosen, under_cursor=place == at)
        )

    def heading(self, _cells: int) -> Line:
        """The line above the table, as wide as the table's lines."""
        # It is drawn before the table is.
        self.found = self.found or self._entries()
        return heading(self._store, columns_for(self._store, self.found, max(1, self.cells)))

    def hidden_columns(self) -> tuple[str, ...]:
        """Columns for which there is no room."""
        return columns_for(self._store, self.found, max(1, self.cells)).hidden

    # ---- moving ----

    def put_cursor(self, index: int) -> None:
        """Have the cursor hold on to another entry."""
        self._key = entry_key(self.found[index])
        self.rebuild()

    def above(self, index: int) -> int:
        """The heading of a group comes into view with its first workload."""
        return index - 1 if index and isinstance(self.found[index - 1], Group) else index

    def choose(self) -> None:
        """Do with the entry what enter does."""
        self.post_message(self.Chosen())

    def action_choose(self) -> None:
        """Enter."""
        self.choose()

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
