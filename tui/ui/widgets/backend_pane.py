"""The backend pane: cuDNN's and oneDNN's switches and what switching them did."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.state.store import Part, Store
from tui.ui.views.backend import backend, newest, switches, view
from tui.ui.views.lines import Line
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import Pane


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


class BackendPane(Pane):
    """Switches of torch's backends, with the verdict on each."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.BACKEND, Part.SELECTION, Part.RUNNER})
    HELP = (
        "Switches of the libraries that do convolutions: cuDNN on the GPU, oneDNN on the CPU. "
        "Switching one queues a comparison of each convolution workload, old setting against new, "
        "in alternating pairs. The verdict: faster or slower where the 95 % interval of the ratio "
        "excludes 1 and the change is at least 1 %, same where the whole interval lies within "
        "2 % of 1, else unclear: c runs more pairs; these two are told as the new setting's speed "
        "over the old one's. Then the medians of both settings, their "
        "first calls, and after how many calls a longer first call has paid for itself. A flag "
        "that a process keeps once it has run a convolution is compared in fresh processes."
    )

    def __init__(self, store: Store, *, id: str | None = "backend") -> None:  # noqa: A002 (Textual's name)
        super().__init__(store, id=id)
        self.body = BackendSwitches(store)

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.store_changed()

    def rows_wanted(self, cells: int, most: int) -> int:
        """Rows that it takes with its title while keys go elsewhere.

        Args:
            cells: width of the pane.
            most: rows that there are for it.
        """
        shown = view(self.store, self.body.flag, cells, focused=False, rows=most - 1)
        return 1 + max(1, min(most - 1, len(shown.lines)))

    def store_changed(self) -> None:
        self.body.rebuild()
        names = dict.fromkeys(backend(flag.name) for flag in switches(self.store))
        going = sum(not state.done for state in self.store.comparisons.values())
        title = f"Backends: {', '.join(names)}" if names else "Backends"
        title += f"   {going} to compare" if going else ""
        self.retitle(title)
