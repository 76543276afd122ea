"""The presentation: a group of workloads, one page each, for an audience."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer

from tui.core.events import Topic
from tui.kit.command_screen import CommandScreen, bindings_of_screen
from tui.kit.commands.command import Situation
from tui.kit.dialogs import ClosesOnce
from tui.kit.lines import Line
from tui.kit.pane import FooterBar, LineBar, LinesView, Pane, text_cells
from tui.kit.terminal.clipboard import copy
from tui.runs.commands import PRESENT_PAGES, RUNS
from tui.runs.screens.program import RunProgram
from tui.runs.state.state import RunsState
from tui.runs.views.present import (
    Page,
    compose_page,
    explain_no_group,
    is_waiting,
    list_pages,
    title_line,
)
from workloads.protocol.results import WorkloadInfo

SPINNER_S = 0.125
"""Seconds between two glyphs of the spinner."""


class PresentPane(Pane):
    """A page that presents one workload to an audience."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset({Topic.WORKLOADS, Topic.SELECTION, Topic.RUNNER})
    HELP = (
        "One workload of the group on a page: the speed-up, the time on each device with its "
        "rate and share of the limit, what to look for, the timed code, and what its study "
        "found. A page runs its workload quickly, with the catalogue's defaults and the current "
        "flags; these results are not stored, and your own stay. A page of the first steps ends "
        "with a question."
    )

    def __init__(
        self,
        state: RunsState,
        group: str,
        page: Callable[[], WorkloadInfo | None],
        note: Callable[[], str] = str,
    ) -> None:
        """Show a page.

        Args:
            state: the state of the runs.
            group: the group whose workloads have pages.
            page: the workload of the open page.
            note: a remark on the page, shown with its run.
        """
        super().__init__(id="present")
        self.state = state
        self._group = group
        self._page = page
        self._note = note
        self.answered: frozenset[str] = frozenset()
        """Workloads whose answer is shown."""
        self.top = LinesView(lambda cells: self._compose_page(cells).top, id="top")
        self.top.can_focus = False
        self._tick = 0
        self._spinner: Timer | None = None
        self.body = LinesView(lambda cells: self._compose_page(cells).body)

    def compose(self) -> ComposeResult:
        yield self.top
        yield self.body

    def on_mount(self) -> None:
        """Start the spinner, which turns only while a run is pending and animation is allowed."""
        if self.app.animation_level != "none":
            self._spinner = self.set_interval(SPINNER_S, self._turn, pause=True)
        self.state_changed()

    def _turn(self) -> None:
        self._tick += 1
        self.top.rebuild()

    def on_resize(self, _event: events.Resize) -> None:
        """Rebuild the figures for the new size."""
        self.state_changed()

    def state_changed(self) -> None:
        info = self._page()
        page = self._compose_page(text_cells(self.size.width))
        self.top.display = bool(page.top)
        room = self.size.height - min(len(page.body), self.size.height // 3)
        self.top.styles.height = min(len(page.top), max(1, room))
        if self._spinner is not None:
            turns = info is not None and is_waiting(self.state, info)
            (self._spinner.resume if turns else self._spinner.pause)()
        self.top.rebuild()
        self.body.rebuild()

    def _compose_page(self, cells: int) -> Page:
        info = self._page()
        if info is None:
            return Page([], explain_no_group(self.state, self._group, cells))
        return compose_page(
            self.state,
            info,
            cells,
            self.size.height,
            note=self._note(),
            tick=self._tick,
            answered=info.name in self.answered,
        )


class PresentScreen(ClosesOnce[None], CommandScreen):
    """The screen that turns pages; opening a page runs its workload.

    Every page runs with the catalogue's defaults and ignores the user's edits: its text describes
    the defaults, and is the same every day. The page lists settings that differ in the table. The
    runs belong to the page: the table shows the user's runs, and a page's only if the user has
    none.

    Runs execute one after the other, so leaving a page cancels its run in favor of the next
    page's; the next page reports that.

    Args:
        program: the app; a readonly app runs nothing.
        group: the group whose workloads are shown.
        workload: the first page; ``None`` for the group's first.
    """

    TAB = "present"
    CSS_PATH = "present.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of_screen(TAB, *PRESENT_PAGES, *RUNS),
        Binding("space", "page_down", show=False),
    ]

    def __init__(self, program: RunProgram, group: str, workload: str | None = None) -> None:
        super().__init__(program)
        self.state, self.actions = program.runs, program.actions
        self._group = group
        names = [info.name for info in list_pages(self.state, group)]
        self._number = names.index(workload) if workload in names else 0
        self._ran: set[str] = set()
        """Workloads that this presentation already ran."""
        self._note = ""
        """The outcome of the previous page's run."""
        self.pane = PresentPane(self.state, group, lambda: self.info, self._remark)

    @property
    def info(self) -> WorkloadInfo | None:
        """The workload of the page; ``None`` if the group has none."""
        pages = list_pages(self.state, self._group)
        return pages[min(self._number, len(pages) - 1)] if pages else None

    def situation(self) -> Situation:
        """Return the situation, including whether the page's question waits for its answer."""
        info = self.info
        asks = info is not None and bool(info.question) and info.name not in self.pane.answered
        return replace(super().situation(), has_question=asks)

    def compose(self) -> ComposeResult:
        yield LineBar(self._title, id="title")
        yield self.pane
        yield FooterBar(self.program.commands, self.situation)

    def on_mount(self) -> None:
        # Messages of the screen below would lie over the page.
        self.app.clear_notifications()
        self.pane.body.focus()
        self._open()

    def _title(self, cells: int) -> Line:
        return title_line(self.state, self._group, self._number, cells)

    def _open(self) -> None:
        """Show the page, and run its workload once."""
        info = self.info
        if info is not None and info.name not in self._ran and not self.program.readonly:
            self.action_run_selected()
        self.pane.body.scroll_to(y=0, animate=False)
        self.catch_up()

    def action_run_selected(self) -> None:
        """Run the page's workload quickly, on the CPU and the GPU column's device."""
        info = self.info
        if info is not None:
            self._ran.add(info.name)
            self.actions.run_to_present(info.name)
            self.catch_up()

    def action_copy(self) -> None:
        """Copy the script of the page's workload, or the page if there is none."""
        info = self.info
        if info is not None and info.script:
            copy(self.app, f"{info.name}.py", info.script)
        else:
            super().action_copy()

    def _remark(self) -> str:
        """Return the outcome of the previous page's run until this page's run has ended."""
        info = self.info
        runs = [
            run for run in self.state.book.values() if info and run.request.workload == info.name
        ]
        return "" if runs and all(run.ended for run in runs) else self._note

    def _leave_page(self) -> str:
        """Cancel the page's pending run; it runs again when the page is opened again.

        Returns:
            A line on the cancelled run; empty if there was none.
        """
        info = self.info
        pending = [
            run.request.id
            for run in self.state.book.values()
            if run.demo and not run.ended and info and run.request.workload == info.name
        ]
        if info is None or not pending:
            return ""
        for run_id in pending:
            self.actions.cancel(run_id)
        self._ran.discard(info.name)
        return f"{info.name} cancelled: you left its page"

    def action_present_next(self) -> None:
        self._turn(1)

    def action_present_previous(self) -> None:
        self._turn(-1)

    def action_present_answer(self) -> None:
        """Show the answer at the end of the page."""
        info = self.info
        if info is not None:
            self.pane.answered |= {info.name}
            self.pane.body.rebuild()
            self.pane.body.scroll_end(animate=False)
            self.catch_up()

    def action_present_leave(self) -> None:
        """Return to the screen below."""
        cancelled = self._leave_page()
        self.dismiss()
        if cancelled:
            self.app.notify(cancelled, markup=False)

    def _turn(self, by: int) -> None:
        """Go to the next or previous page; stop at the first and last page."""
        number = max(0, min(len(list_pages(self.state, self._group)) - 1, self._number + by))
        if number != self._number:
            cancelled = self._leave_page()
            back = "left" if by > 0 else "right"
            self._note = f"{cancelled}; {back} turns back and runs it again" if cancelled else ""
            self._number = number
            self._open()

    def action_page_down(self) -> None:
        self.pane.body.scroll_page_down(animate=False)
