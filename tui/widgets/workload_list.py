"""The table of workloads: lines with a cursor that holds on to a workload by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.store.store import Store
from tui.views.lines import Line, LinesOnDemand
from tui.views.table_layout import columns_for, entry_line, heading
from tui.views.workload_order import ORDERS, Order, ordered
from tui.views.workload_table import Entry, Group, Row, entries, entry_key
from tui.widgets.lists import KeyedList


class WorkloadList(KeyedList):
    """Groups and workloads; up and down move the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "toggle_group", show=False)]

    class Moved(KeyedList.Moved):
        """The cursor stands on another entry."""

    class Chosen(KeyedList.Chosen):
        """Enter, or a click on the entry under the cursor."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.pattern = ""
        self.folded: frozenset[str] = frozenset()
        self.order: Order = ORDERS[0]
        self.found: list[Entry] = []

    # ---- what is under the cursor ----

    def otherwise(self) -> int:
        """The first workload, else the first group."""
        rows = (place for place, entry in enumerate(self.found) if isinstance(entry, Row))
        return next(rows, 0)

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

    def row_keys(self) -> list[str]:
        """The entries in their order."""
        found = entries(self._store, self.pattern, self.folded)
        self.found = ordered(self._store, found, self.order)
        return list(map(entry_key, self.found))

    def row_lines(self, cells: int) -> Sequence[Line]:
        """The table's lines, each made when it is looked at."""
        found, at = self.found, self.cursor
        chosen = columns_for(self._store, found, cells)
        return LinesOnDemand(
            len(found), lambda place: entry_line(found[place], chosen, under_cursor=place == at)
        )

    def heading(self, _cells: int) -> Line:
        """The line above the table, as wide as the table's lines."""
        if not self.found:
            self.read_keys()  # it is drawn before the table is
        return heading(self._store, columns_for(self._store, self.found, max(1, self.cells)))

    def hidden_columns(self) -> tuple[str, ...]:
        """Columns for which there is no room."""
        return columns_for(self._store, self.found, max(1, self.cells)).hidden

    # ---- moving ----

    def put_cursor(self, index: int) -> None:
        """Have the cursor hold on to another entry; the lines show where it is."""
        super().put_cursor(index)
        self.rebuild()

    def above(self, index: int) -> int:
        """The heading of a group comes into view with its first workload."""
        return index - 1 if index and isinstance(self.found[index - 1], Group) else index

    def sort_by(self, order: Order) -> None:
        """Change the order; the cursor stays on its workload."""
        self.order = order
        if self.workload is not None:
            self.hold(self.workload)

    def action_toggle_group(self) -> None:
        """Fold or unfold the group under the cursor."""
        if isinstance(self.entry, Group):
            group = self.entry
            self.folded = self.folded ^ {group.name}
            self.hold(group.key)
            self.rebuild()
