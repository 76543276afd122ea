"""The panes that are one scrolling text: the detail of a workload, and the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult

from tui.state.store import Part, Store
from tui.ui.views.lines import Line
from tui.ui.views.notices import log_lines
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.pane import Pane

PLOT_HEIGHT = (4, 20)
"""Least and most rows of a plot between its edges."""
AROUND_PLOT = 6


class DetailPane(Pane):
    """What the workload shows, its code, its parameters, and each device's result in full."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.WORKLOADS, Part.SELECTION, Part.BACKEND})
    HELP = (
        "The selected workload in full. median: of blocks of calls, with its 95 % interval by "
        "order statistics. quartiles, min: of the blocks; p95: of calls timed one by one. first "
        "call: apart from the rest, it loads, searches and allocates. stopped by: what ended the "
        "measurement. wall, device, enqueue: time by the host's clock, by the device's events, "
        "and the host's time to launch a call. page faults: on the CPU they can be most of the "
        "time. Share of a limit: with the limit's value and where it comes from. n/a comes with "
        "its reason."
    )

    def __init__(
        self,
        store: Store,
        selected: Callable[[], str | None],
        group: Callable[[], tuple[str, list[str]] | None],
        *,
        id: str | None = "detail",  # noqa: A002 (Textual's name)
    ) -> None:
        """Show a workload.

        Args:
            store: what is known.
            selected: the name of the workload under the table's cursor.
            group: the name and the workloads of the group whose heading that is instead.
            id: the widget's.
        """
        super().__init__(store, id=id)
        self._selected = selected
        self._group = group
        self._workload: str | None = None
        self.roofline = False
        """The page of the device's roofline in place of the workload's."""
        self.body = LinesView(self._detail)

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.store_changed()

    def store_changed(self) -> None:
        """Redraw what changed; another workload is shown from its beginning."""
        workload = self._selected()
        if workload != self._workload:
            self._workload = workload
            self.body.scroll_to(y=0, animate=False)
        self.retitle(self._title(workload))
        self.body.rebuild()

    def turn_to(self, *, roofline: bool) -> None:
        """Show the roofline of the selected device, or the workload, from the beginning."""
        self.roofline = roofline
        self.body.scroll_to(y=0, animate=False)
        self.store_changed()

    def _title(self, workload: str | None) -> str:
        if self.roofline:
            return "Roofline   f workload"
        group = self._group() if workload is None else None
        name = workload or (group[0] if group else "")
        return f"Detail   {name}   f roofline" if name else "Detail"

    def _detail(self, cells: int) -> list[Line]:
        # Imported when it is first drawn: where there is no room for it, never.
        from tui.ui.views.detail import detail_lines

        # A plot and what stands around it fill the pane, where that is not too low for one.
        height = max(PLOT_HEIGHT[0], min(PLOT_HEIGHT[1], self.body.size.height - AROUND_PLOT))
        if self.roofline:
            from tui.ui.views.detail_plots import device_of, roofline_lines

            device = device_of(self.store)
            return roofline_lines(self.store, device, self._workload, cells, height)
        group = self._group()
        if group is not None:
            from tui.ui.views.detail_plots import group_lines

            return group_lines(self.store, *group, cells)
        return detail_lines(self.store, self._workload, cells, height)


class LogPane(Pane):
    """The newest lines stay in view unless it was scrolled up."""

    SHOWS: ClassVar[frozenset[Part]] = frozenset({Part.LOG})
    HELP = (
        "What the runner and the monitor wrote to their standard error and what the workbench "
        "did, oldest first. It follows the newest line unless it was scrolled up; end follows "
        "again."
    )

    def __init__(self, store: Store, *, id: str | None = "log") -> None:  # noqa: A002 (Textual's name)
        super().__init__(store, id=id)
        self.body = LinesView(self._log, stick_to_end=True)

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.retitle("Log")
        self.store_changed()

    def store_changed(self) -> None:
        self.body.rebuild()

    def _log(self, cells: int) -> list[Line]:
        return log_lines(self.store, cells)
