"""The demo: a group of workloads, a page each, for showing to a room."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.session.actions import Actions
from tui.state.store import Store
from tui.ui.commands.command import Situation
from tui.ui.commands.registry import COMMANDS
from tui.ui.commands.tabs import DEMO
from tui.ui.views.demo import pages, title_line
from tui.ui.views.lines import Line
from tui.ui.widgets.demo_pane import DemoPane
from tui.ui.widgets.footer_bar import FooterBar
from tui.ui.widgets.line_bar import LineBar
from workloads.protocol.inventory import WorkloadInfo


class DemoScreen(Screen[None]):
    """Turns pages; a page runs its workload when it is opened.

    Every page runs with the catalogue's defaults, whatever the user has edited: what its text says
    holds for them, and a demo is the same on each day. What differs in the table is named on the
    page. The runs are the demo's own: the table keeps showing the user's, and takes the demo's
    only where the user has none.

    Runs are done one after the other, so one whose page is left is cancelled for the sake of the
    next page's; the page that follows says so.

    Args:
        store: what is known.
        actions: to run and to cancel.
        situation: for the footer.
        group: whose workloads are shown.
        workload: the first page; ``None`` for the group's first.
        readonly: run nothing.
    """

    CSS_PATH = "demo.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(",".join(command.keys), f"app.{command.action}", show=False)
            for command in COMMANDS
            if command.tabs == DEMO
        ),
        Binding("space", "page_down", show=False),
    ]

    def __init__(
        self,
        store: Store,
        actions: Actions,
        situation: Callable[[], Situation],
        group: str,
        workload: str | None = None,
        *,
        readonly: bool = False,
    ) -> None:
        super().__init__()
        self._store, self._actions, self._situation = store, actions, situation
        self._group, self._readonly = group, readonly
        names = [info.name for info in pages(store, group)]
        self._number = names.index(workload) if workload in names else 0
        self._ran: set[str] = set()
        """Workloads that this demo has run."""
        self._note = ""
        """What became of the run of the page before."""
        self.pane = DemoPane(store, group, lambda: self.info, lambda: self._note)

    @property
    def info(self) -> WorkloadInfo | None:
        """The workload of the page; ``None`` where the group has none."""
        found = pages(self._store, self._group)
        return found[min(self._number, len(found) - 1)] if found else None

    def compose(self) -> ComposeResult:
        """Title, page, keys."""
        yield LineBar(self._title, id="title")
        yield self.pane
        yield FooterBar(self._situation)

    def on_mount(self) -> None:
        """Open the first page."""
        self.pane.body.focus()
        self._open()

    def _title(self, cells: int) -> Line:
        return title_line(self._store, self._group, self._number, cells)

    def _open(self) -> None:
        """Show the page and run what it shows, once."""
        info = self.info
        if info is not None and info.name not in self._ran and not self._readonly:
            self.run_again()
        self.pane.body.scroll_to(y=0, animate=False)
        self._redraw()

    def _redraw(self) -> None:
        self.pane.store_changed()
        for bar in self.query(LineBar):
            bar.rebuild()

    def run_again(self) -> None:
        """Run the page's workload quickly, on the CPU and the GPU column's device."""
        info = self.info
        if info is not None:
            self._ran.add(info.name)
            self._actions.run_for_demo(info.name)
            self._redraw()

    def leave_page(self) -> str:
        """Cancel what the page still waits for; it runs again when the page is opened again.

        Returns:
            A line on what was cancelled; empty where nothing was.
        """
        info = self.info
        pending = [
            run.request.id
            for run in self._store.runs.values()
            if run.demo and not run.ended and info and run.request.workload == info.name
        ]
        if info is None or not pending:
            return ""
        for run_id in pending:
            self._actions.cancel(run_id)
        self._ran.discard(info.name)
        return f"cancelled: the run of {info.name}, because its page was left"

    def turn(self, by: int) -> None:
        """Go to the next page or to the one before; the ends stay where they are."""
        number = max(0, min(len(pages(self._store, self._group)) - 1, self._number + by))
        if number != self._number:
            cancelled = self.leave_page()
            back = "p" if by > 0 else "n"
            self._note = f"{cancelled}; {back} turns back and runs it again" if cancelled else ""
            self._number = number
            self._open()

    def action_page_down(self) -> None:
        """Scroll the page."""
        self.pane.body.scroll_page_down(animate=False)
