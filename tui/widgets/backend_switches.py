"""The backend pane's body: switches with a cursor, and the comparisons that switching started."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.store.store import Store
from tui.views.backend import newest, switches, view
from tui.views.lines import Line
from tui.widgets.lines_view import LinesView


class BackendSwitches(LinesView):
    """Left and right move among the switches; up and down scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", show=False),
        Binding("right", "move(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """Enter on the switch under the cursor."""

    def __init__(self, store: Store) -> None:
        super().__init__(self._view)
        self._store = store
        self._flag: str | None = None

    @property
    def flag(self) -> str | None:
        """The switch under the cursor."""
        names = [flag.name for flag in switches(self._store)]
        return self._flag if self._flag in names else next(iter(names), None)

    def comparing(self) -> list[str]:
        """Ids of the comparisons that have not ended."""
        states = self._store.comparisons.values()
        return [state.request.id for state in states if not state.done]

    def compared_on(self, flag: str) -> list[str]:
        """The workloads that a flag was compared on, else all on which it can be."""
        compared = [state.request for state in newest(self._store) if state.request.flag == flag]
        names = list(dict.fromkeys(request.workload for request in reversed(compared)))
        return names or [info.name for info in self._store.catalogue if info.compared]

    def _view(self, cells: int) -> list[Line]:
        rows = self.size.height
        return view(self._store, self.flag, cells, focused=self.has_focus, rows=rows).lines

    def action_move(self, by: int) -> None:
        """Put the cursor on another switch and bring it into view."""
        names = [flag.name for flag in switches(self._store)]
        if self.flag is None:
            return
        index = max(0, min(len(names) - 1, names.index(self.flag) + by))
        self._flag = names[index]
        self.rebuild()
        line = view(self._store, self._flag, max(1, self.cells)).cursor_line
        top, height = self.scroll_offset.y, self.size.height
        if not top <= line < top + height:
            self.scroll_to(y=line, animate=False)

    def action_choose(self) -> None:
        """Do with the switch what enter does."""
        self.post_message(self.Chosen())

    def watch_has_focus(self, value: bool) -> None:
        """The mark shows where keys arrive."""
        super().watch_has_focus(value)
        self.rebuild()
