"""A page of the demo: figures that stay in view above the explanation, which scrolls."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult

from tui.state.store import Part, Store
from tui.ui.views.demo import headline_lines, no_such_group, page_lines
from tui.ui.views.lines import Line
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import Pane
from workloads.protocol.inventory import WorkloadInfo


class DemoPane(Pane):
    """Shows one workload to a room."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.WORKLOADS, Part.SELECTION, Part.RUNNER})
    HELP = (
        "One workload of the group on a page: above, its parameters and the time on each device, "
        "with the rate and the share of the limit, or how far the run is; below, what it shows, "
        "what to look for, the code that is timed, and what its study found. A page runs its "
        "workload quickly when it is opened, with the catalogue's defaults and the present flags; "
        "your own results stay in the table as they are. A run that still goes on when its page "
        "is left is cancelled, so that the next page's can begin; the page says so, and the run "
        "begins anew when its page is opened again."
    )

    def __init__(
        self,
        store: Store,
        group: str,
        page: Callable[[], WorkloadInfo | None],
        note: Callable[[], str] = str,
    ) -> None:
        """Show a page.

        Args:
            store: what is known.
            group: whose pages there are.
            page: the workload of the open one.
            note: what is to be said of it beside its run.
        """
        super().__init__(store, id="demo")
        self._group = group
        self._page = page
        self._note = note
        self.headline = LinesView(self._headline, id="headline")
        self.headline.can_focus = False
        self.body = LinesView(self._body)

    def compose(self) -> ComposeResult:
        """Figures over text."""
        yield self.headline
        yield self.body

    def on_mount(self) -> None:
        """The first lines."""
        self.store_changed()

    def on_resize(self, _event: events.Resize) -> None:
        """The figures may take more rows."""
        self.store_changed()

    def store_changed(self) -> None:
        """Redraw what changed."""
        rows = len(self._headline(max(1, self.size.width - 1)))
        self.headline.display = rows > 0
        self.headline.styles.height = min(rows, max(1, self.size.height // 2))
        self.headline.rebuild()
        self.body.rebuild()

    def _headline(self, cells: int) -> list[Line]:
        info = self._page()
        return headline_lines(self.store, info, cells, self._note()) if info else []

    def _body(self, cells: int) -> list[Line]:
        info = self._page()
        if info is None:
            return no_such_group(self.store, self._group, cells)
        return page_lines(self.store, info, cells)
