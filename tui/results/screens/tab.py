"""The results tab: stored results, a comparison of two environments, a workload over time.

A thread reads and writes the store, so neither its size nor a lock by another program blocks the
screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input
from textual.worker import Worker

from tui.core.text.numbers import count
from tui.kit.command_screen import CommandScreen, Program, bindings_of_screen
from tui.kit.commands.command import Situation
from tui.kit.dialogs import DIALOG_STYLES, BesideCursor, ConfirmScreen, dialog
from tui.kit.lines import TextStyle
from tui.kit.lists import KeyedList
from tui.kit.pane import FooterBar, Pane
from tui.results.commands import RESULTS_COMMANDS
from tui.results.screens.panes import ComparisonPane, HistoryPane, ResultsPane
from tui.results.store import StoreError, queries, store_path
from tui.results.store.records import Kind, StoredRow
from tui.results.store.selection import SelectionError
from tui.results.views.result_list import NO_STORE, NONE_STORED, READONLY, REPLAY
from tui.results.views.row_texts import format_date, format_outcome

T = TypeVar("T")
READING, WRITING = "reading the stored results", "writing"
"""Messages during access to the store."""
_NO_TIMING: Mapping[Kind, str] = {
    "comparison": "only runs have a history; the row has both times of a comparison",
    "run": "this run has no timing to plot",
}
"""Messages about a result without a history."""
_NO_SIDE = "this row compares a flag on and off, so it cannot be A or B; mark a run"
DELETED_FOR_GOOD = "You cannot undo this; gpu-workbench results export keeps a copy."
_MOST_NAMED = 5
"""Results that a question before a deletion names."""


class ResultsTab(CommandScreen):
    """The list; in its place a comparison or a history."""

    TAB = "results"
    CSS_PATH = "results.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of_screen(TAB, *RESULTS_COMMANDS)

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        stores = program.stores_results or program.readonly
        self.pane = ResultsPane(program.clock, self.offers(), stores=stores)
        self._over: list[Pane] = []
        """Panes that replace the list, the last one on top."""
        self._place = store_path()

    def compose(self) -> ComposeResult:
        yield self.header()
        yield self.pane
        yield FooterBar(self.program.commands, self.situation)

    def situation(self) -> Situation:
        """Add whether a result is under the cursor, and whether there is a way back."""
        now = super().situation()
        offers = not self._over and self.pane.offers.display
        row = None if self._over else self.pane.table.selected
        return replace(
            now,
            pane="offers" if offers else self._top_pane.id,
            has_selection=row is not None,
            has_result=row is not None and row.median_s is not None,
            can_go_back=bool(self._over) or bool(self.pane.pattern),
        )

    # ---- reading ----

    def resumed(self, event: events.ScreenResume) -> None:
        """Reload the list, which may have grown since the tab was left."""
        super().resumed(event)
        self.load()

    def on_mount(self) -> None:
        self.pane.offers.load()

    def load(self) -> None:
        """Load the list, and cancel an earlier load."""
        if self.program.replay:
            self.pane.show_sentence(REPLAY)
            return
        # A function and no coroutine, which would stay unawaited if the program ends first.
        _: Worker[None] = self.run_worker(self._load, group="list", exclusive=True)

    async def _load(self) -> None:
        pattern = self.pane.pattern
        try:
            listing = await asyncio.to_thread(
                lambda: queries.read_listing(
                    self._place, pattern, self.program.clock(), traceless=self.program.readonly
                )
            )
        except SelectionError as error:
            # The typed text is unfinished, so the list does not change.
            self.pane.show_sentence(str(error), TextStyle.QUIET)
            return
        except StoreError as error:
            self.pane.clear()
            self.pane.show_sentence(str(error), TextStyle.NOTE)
            return
        self.pane.show(listing)
        self.pane.show_sentence("" if listing.all else self._why_empty())
        self.rebuild_footer()

    def _why_empty(self) -> str:
        program = self.program
        words = READONLY if program.readonly else NONE_STORED
        words = words if program.stores_results or program.readonly else NO_STORE
        return words.format(place=self._place)

    async def _query_or_warn(self, query: Callable[[], T], doing: str) -> T | None:
        """Return a query's result, or warn and return ``None`` if it fails.

        Args:
            query: function to call in a thread.
            doing: the text to show meanwhile.
        """
        self.pane.show_sentence(doing, TextStyle.QUIET)
        try:
            return await asyncio.to_thread(query)
        except (StoreError, SelectionError) as error:
            self.notify(str(error), severity="warning", markup=False)
            return None
        finally:
            self.pane.show_sentence("")

    @on(ResultsPane.Narrowed)
    def _narrowed(self) -> None:
        self.load()

    @on(KeyedList.Moved, "ResultList")
    def _moved(self) -> None:
        self.rebuild_footer()
        self._load_beside()

    @on(ResultsPane.Widened)
    def _load_beside(self) -> None:
        """Read the times of the result under the cursor, if there is room for them."""
        if self.pane.shows_past:
            _: Worker[None] = self.run_worker(self._read_beside, group="beside", exclusive=True)

    async def _read_beside(self) -> None:
        row, readonly = self.pane.table.selected, self.program.readonly
        history = None
        if row is not None and row.median_s is not None:
            try:
                history = await asyncio.to_thread(
                    lambda: queries.read_history(self._place, row, traceless=readonly)
                )
            except (StoreError, SelectionError):
                history = None  # the list below says so at its next query
        self.pane.show_past(history)

    # ---- panes in place of the list ----

    @property
    def _top_pane(self) -> Pane:
        return self._over[-1] if self._over else self.pane

    async def _put_over(self, pane: Pane) -> None:
        below = self._top_pane
        self._over.append(pane)
        # A key may close the pane while it is being mounted.
        below.display = False
        await self.mount(pane, after=below)
        if self._top_pane is pane:
            self.set_focus(pane.keys_go_to)
        self.rebuild_footer()

    @on(KeyedList.Chosen, "ResultList")
    def _result_chosen(self) -> None:
        row = self.pane.table.selected
        if row is not None and not self._over:
            self._show_past(row)

    @on(KeyedList.Chosen, "QuestionList")
    def _question_chosen(self) -> None:
        top = self._top_pane
        if isinstance(top, ComparisonPane) and (question := top.table.question) is not None:
            self._show_past(question.b.rows[-1])

    def _show_past(self, row: StoredRow) -> None:
        if row.median_s is None:
            self.notify(_NO_TIMING[row.kind], markup=False)
            return
        readonly = self.program.readonly
        self._open(lambda: queries.read_history(self._place, row, traceless=readonly), HistoryPane)

    def _open(self, query: Callable[[], T], make: Callable[[T], Pane]) -> None:
        """Query the store, and put a pane that shows the answer over the list."""

        async def show() -> None:
            answer = await self._query_or_warn(query, READING)
            if answer is not None:
                await self._put_over(make(answer))

        _: Worker[None] = self.run_worker(show, group="over", exclusive=True)

    def action_compare_results(self) -> None:
        """Compare the environments of the two marked results."""
        if len(self.pane.marked) < 2:
            words = "mark two results with space; c compares their environments"
            self.notify(words, markup=False)
            return
        a, b = self.pane.marked
        readonly = self.program.readonly
        self._open(
            lambda: queries.compare_environments(self._place, a, b, traceless=readonly),
            ComparisonPane,
        )

    async def action_go_back(self) -> None:
        """Return to the previous pane, or clear the filter."""
        # Drop results that are still being read.
        self.workers.cancel_group(self, "over")
        if not self._over:
            self.pane.filter_line.end(filtered=False)
            return
        top = self._over.pop()
        self._top_pane.display = True
        self.set_focus(self._top_pane.keys_go_to)
        self.rebuild_footer()
        # The next pane here may be of the same kind, and two widgets cannot share an id.
        await top.remove()

    # ---- the list ----

    def action_filter(self) -> None:
        if not self._over:
            self.pane.filter_line.begin()

    def action_sort_results(self) -> None:
        """Sort by the next of the orders."""
        self.pane.next_order()

    def action_mark_result(self) -> None:
        """Mark the run under the cursor; a comparison is no side of another one."""
        row = self.pane.table.selected
        if row is not None and row.kind == "comparison":
            self.notify(_NO_SIDE, markup=False)
            return
        self.pane.mark()
        self.rebuild_footer()

    def action_tag_results(self) -> None:
        """Tag the marked results, or the one under the cursor."""
        rows = self.pane.chosen()

        def answered(name: str | None) -> None:
            if name is not None:
                notice = f"{count(len(rows), 'result')} tagged {name}"
                self._change(lambda: queries.tag_results(self._place, rows, name), notice)

        if rows:
            marked = bool(self.pane.marked)
            self.app.push_screen(TagScreen(rows, marked=marked), answered)

    def action_delete_results(self) -> None:
        """Delete the marked results, or the one under the cursor, after a confirmation."""
        rows = self.pane.chosen()

        def answered(yes: bool | None) -> None:
            if yes:
                gone = {row.id for row in rows}
                self.pane.marked = [row for row in self.pane.marked if row.id not in gone]
                notice = f"{count(len(rows), 'result')} deleted"
                self._change(lambda: queries.delete_results(self._place, rows), notice)

        if rows:
            words = [*_format_rows(rows), DELETED_FOR_GOOD]
            question = f"Delete {count(len(rows), 'result')}?"
            self.app.push_screen(ConfirmScreen(question, words), answered)

    def _change(self, change: Callable[[], None], sentence: str) -> None:
        async def work() -> None:
            def done() -> bool:
                change()
                return True

            if await self._query_or_warn(done, WRITING):
                self.notify(sentence, markup=False)
                self.load()

        _: Worker[None] = self.run_worker(work, group="change")


def _format_rows(rows: Sequence[StoredRow]) -> list[str]:
    """List the first results, a line each, and count the rest."""
    words = [
        f"{format_date(row.at)}  {row.workload} on {row.device}  {format_outcome(row)}"
        for row in rows[:_MOST_NAMED]
    ]
    return [*words, f"and {len(rows) - _MOST_NAMED} more"] if len(rows) > _MOST_NAMED else words


class TagScreen(BesideCursor["str | None"]):
    """Returns the name of a tag, or ``None``.

    Args:
        rows: the results to tag.
        marked: they were marked, and the cursor may be on another.
    """

    CSS_PATH = DIALOG_STYLES
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, rows: Sequence[StoredRow], *, marked: bool) -> None:
        super().__init__()
        self._title = f"Tag {count(len(rows), 'marked result' if marked else 'result')}"
        if len(rows) == 1:
            self._title += f": {rows[0].workload}, {format_date(rows[0].at)}"
        self.field = Input(placeholder="tag, such as before-upgrade")
        self.field.cursor_blink = False

    def compose(self) -> ComposeResult:
        """Yield the input field in a box."""
        yield from dialog(self._title, "enter tag   escape cancel", self.field)

    def on_mount(self) -> None:
        """Focus the field."""
        self.field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the name."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        """Close without a name."""
        self.dismiss(None)
