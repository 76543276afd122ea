"""The panes of the results tab: the list, a comparison of two sets, one workload over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from tui.kit.empty_page import EmptyPage
from tui.kit.lines import Line, LinesOnDemand, TextStyle, fit_line, paragraph, title_line
from tui.kit.lists import KeyedList, OfferList, RowFilter
from tui.kit.pane import (
    FittedView,
    LineBar,
    LinesView,
    Pane,
    set_height,
    set_width,
    text_cells,
)
from tui.kit.table import Layout, heading_line, row_line
from tui.results.store.compare import Question
from tui.results.store.queries import EnvironmentComparison, Listing, WorkloadHistory
from tui.results.store.records import StoredRow
from tui.results.views import comparison
from tui.results.views import result_list as listing
from tui.results.views.result_list import ORDERS, ListedRow, Order

LIST, COMPARISON, PAST = "results", "comparison", "past"
"""The ids of the panes."""
_AROUND_LIST = 4
"""Rows of a comparison beside its list, descriptions and pictures: the heading, and blank ones."""
LEAST_TABLE = 3
"""Least rows of the list."""
_MOST_OF_ONE = 8
"""Most rows of the selected result in full, unless the list leaves more of them empty."""
_LEAST_PICTURES = 2
"""Least rows of a comparison's pictures."""
LEAST_BESIDE = 60
"""Cells that the list must leave for the times of the chosen workload beside it."""
LEAST_BELOW = 12
"""Rows that the list must leave for those times below it, where none are beside it."""
_GAP, _SCROLL_BAR = 2, 1
"""Cells between the list and what is beside it, and of its scroll bar."""


def _copy_nothing() -> Sequence[str]:
    """Return the text to copy of a picture whose figures stand beside it."""
    return ()


class ResultList(KeyedList):
    """A line for each result; its cursor stays on the result."""

    def __init__(self, pane: ResultsPane, clock: Callable[[], float]) -> None:
        super().__init__()
        self._pane = pane
        self._clock = clock
        self._columns: Layout[ListedRow] | None = None
        self._fitted: tuple[list[StoredRow], int] = ([], 0)
        """The results and the width for which the columns were computed."""

    @property
    def selected(self) -> StoredRow | None:
        """The result under the cursor."""
        at, rows = self.cursor, self._pane.rows
        return rows[at] if at is not None and at < len(rows) else None

    def row_keys(self) -> Sequence[str]:
        """Return the ids of the results in their order."""
        return [row.id for row in self._pane.rows]

    def columns(self) -> Layout[ListedRow] | None:
        """Return the columns that fit; computed again for other results or another width."""
        pane, cells = self._pane, max(1, self.cells)
        if pane.listing is None:
            return None
        rows, width = self._fitted
        if self._columns is None or rows is not pane.rows or width != cells:
            self._fitted = (pane.rows, cells)
            self._columns = self.fit(cells)
        return self._columns

    def fit(self, cells: int) -> Layout[ListedRow]:
        """Return the columns that fit a width; none without a listing."""
        pane = self._pane
        if pane.listing is None:
            return ()
        by_session = pane.order == ORDERS[0]
        now = self._clock()
        return listing.fit_list_columns(pane.listing, pane.rows, cells, now, by_session=by_session)

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return the lines of the list, each rendered when it is shown."""
        pane, chosen = self._pane, self.columns()
        if chosen is None or pane.listing is None:
            return []
        rows = pane.rows
        if not rows and pane.pattern.strip() and pane.listing.all:
            return listing.render_no_match(pane.pattern, pane.listing.all, cells)
        return LinesOnDemand(
            len(rows), lambda at: row_line(chosen, ListedRow(at, rows[at], pane.letter(rows[at])))
        )


class ResultsPane(Pane):
    """The stored results, newest first, and below them the selected result in full."""

    HELP = (
        "Earlier results, of this machine and imported. / filters: box=alpha, device=cuda, "
        "driver=580, torch=2.12, tag=nightly, workload=matmul, since:7d, before:2026-01-31; any"
        " other word must occur in the name, device, status, tag or id. space marks A, then B; "
        "c compares their environments over their common workloads. The facts below the "
        "list make an environment; within one, c compares sessions."
    )

    class Narrowed(Message):
        """The text of the filter changed."""

    class Widened(Message):
        """There is room beside the list, or no longer."""

    def __init__(self, clock: Callable[[], float], offers: OfferList, *, stores: bool) -> None:
        """Show nothing yet.

        Args:
            clock: Unix time now.
            offers: what can be opened where no results are stored.
            stores: this session stores its results.
        """
        super().__init__(id=LIST)
        self._stores = stores
        self.listing: Listing | None = None
        self.rows: list[StoredRow] = []
        self.marked: list[StoredRow] = []
        """At most two marked results: A, then B."""
        self.order: Order = ORDERS[0]
        self.pattern = ""
        self._sentence: tuple[str, TextStyle] = ("reading the stored results", TextStyle.QUIET)
        self.table = ResultList(self, clock)
        self.offers = offers
        self.offers.display = False
        self._past: WorkloadHistory | None = None
        """The history of the result under the cursor, once it is read."""
        self.page = EmptyPage(self._sentence_lines, offers)
        self.page.show(words=False)
        self.beside = FittedView(self._past_lines, _copy_nothing)
        self.below = FittedView(self._past_lines, _copy_nothing)
        self.below.add_class("below")
        self._heading = LineBar(self._heading_line)
        self._message = LinesView(self._sentence_lines)
        self._whole = LinesView(
            lambda cells: listing.render_selected(self.table.selected, self.listing, cells)
        )
        self._message.can_focus = self._whole.can_focus = False
        self._message.add_class("foot")
        self._whole.add_class("foot")
        self.filter_line = RowFilter(
            self,
            self.table,
            self._message,
            "words, or box=… driver=… torch=… tag=… since:7d before:DATE",
            id="result-filter",
        )

    def compose(self) -> ComposeResult:
        yield self._message
        with Container(classes="row"):
            with Container(classes="list"):
                yield self._heading
                yield self.table
                yield self._whole
                yield self.below
            yield self.beside
        # After the list: the framework focuses the first part, displayed or not.
        yield self.page

    @property
    def shows_past(self) -> bool:
        """There is room for the times of the chosen workload."""
        return self.beside.display or self.below.display

    @property
    def keys_go_to(self) -> Widget:
        """The list, even with a filter, or the offers; a key moves the focus to the filter."""
        return self.offers if self.offers.display else self.table

    def on_mount(self) -> None:
        self.redraw()

    def _sentence_lines(self, cells: int) -> list[Line]:
        return paragraph(self._sentence[0], cells, self._sentence[1])

    def show_sentence(self, text: str, style: TextStyle = TextStyle.PLAIN) -> None:
        """Show a sentence above the list; an empty one removes it."""
        self._sentence = (text, style)
        self.redraw()

    def show(self, listing: Listing) -> None:
        """List other results; the marks stay."""
        self.listing = listing
        self._sort()

    def clear(self) -> None:
        """Clear the list, because the store cannot be read."""
        self.listing, self.rows = None, []
        self.redraw()

    def next_order(self) -> None:
        """Sort by the next of the orders."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self._sort()

    def _sort(self) -> None:
        self.rows = listing.sort_rows(self.listing.rows, self.order) if self.listing else []
        self.redraw()

    def letter(self, row: StoredRow) -> str:
        """Return the letter of a marked result, or an empty string."""
        for letter, marked in zip(listing.LETTERS, self.marked, strict=False):
            if marked.id == row.id:
                return letter
        return ""

    def mark(self) -> None:
        """Mark or unmark the result under the cursor, and move the cursor on."""
        row = self.table.selected
        if row is None:
            return
        remaining = [result for result in self.marked if result.id != row.id]
        # A third mark replaces the second, and the first stays.
        self.marked = remaining if len(remaining) < len(self.marked) else [*remaining[:1], row]
        self.table.action_move(1)
        self.redraw()

    def chosen(self) -> list[StoredRow]:
        """Return the marked results, or the one under the cursor."""
        row = self.table.selected
        return list(self.marked) or ([row] if row is not None else [])

    def redraw(self) -> None:
        """Redraw the whole pane."""
        if not self.is_attached:
            return
        self.retitle(
            listing.format_list_title(
                self.listing, self.order, self.pattern, self.marked, stores=self._stores
            )
        )
        has_list = self.listing is not None and self.listing.all > 0
        self._heading.display = self._whole.display = has_list
        empty = self.listing is not None and not self.listing.all
        self._message.display = bool(self._sentence[0]) and not empty
        if self.offers.display != empty:
            self.page.show(words=empty, offers=empty)
            self.query_one(".row").display = self.table.display = not empty
            if self.table.has_focus or self.offers.has_focus:
                self.screen.set_focus(self.keys_go_to)
        self._share_room()
        for part in (self._message, self.page, self._heading, self.table, self._whole):
            part.rebuild()

    def _share_room(self) -> None:
        """Show the times of the chosen workload beside the list or below it, if there is room."""
        before = self.shows_past
        self._share_width()
        self._share_height()
        if self.shows_past and not before:
            self.post_message(self.Widened())

    def _share_height(self) -> None:
        """Let the result in full follow a short list, and below it its times."""
        cells = max(1, self.table.cells)
        around = 2 + len(self._message.shown_lines) * self._message.display
        whole = listing.render_selected(self.table.selected, self.listing, cells)
        left = self.size.height - around - len(self.rows) - min(len(whole), _MOST_OF_ONE)
        set_height(self.table, max(LEAST_TABLE, len(self.rows)) if self.rows and left > 0 else None)
        self.below.display = left >= LEAST_BELOW and not self.beside.display and bool(self.rows)
        spare = max(0, left - LEAST_BELOW * self.below.display)
        self._whole.styles.max_height = _MOST_OF_ONE + spare

    def _share_width(self) -> None:
        """Show the times of the chosen workload beside the list, if all its columns leave room."""
        whole = self.table.fit(self.size.width) if self.rows else ()
        needed = whole[-1].end + _SCROLL_BAR + _GAP if whole else self.size.width
        wide = self.size.width - needed >= LEAST_BESIDE
        set_width(self.beside, self.size.width - needed if wide else None)
        self.beside.display = wide

    def on_resize(self, _event: events.Resize) -> None:
        """Share the new size."""
        self._share_room()

    def show_past(self, history: WorkloadHistory | None) -> None:
        """Show the history of the result under the cursor beside the list; ``None`` for none."""
        self._past = history
        for part in (self.beside, self.below):
            part.rebuild()

    def _past_lines(self, cells: int, rows: int) -> list[Line]:
        if self._past is None:
            return []
        title = title_line(comparison.format_history_title(self._past))
        history = comparison.render_history(self._past, cells, rows - 2)
        return [fit_line(title, cells), (), *history]

    def _heading_line(self, _cells: int) -> Line:
        chosen = self.table.columns()
        return heading_line(chosen) if chosen is not None else ()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the list by the typed text."""
        event.stop()
        self.pattern = event.value
        self.post_message(self.Narrowed())

    @on(KeyedList.Moved, "ResultList")
    def _moved(self) -> None:
        self._whole.rebuild()


class QuestionList(KeyedList):
    """A line for each workload that both sides have."""

    def __init__(self, comparison: EnvironmentComparison) -> None:
        super().__init__()
        self._comparison = comparison

    @property
    def question(self) -> Question | None:
        """The workload under the cursor."""
        at = self.cursor
        return None if at is None else self._comparison.compared.questions[at]

    def row_keys(self) -> Sequence[str]:
        """Return the keys of the workloads in their order."""
        return list(map(comparison.build_question_key, self._comparison.compared.questions))

    def row_lines(self, cells: int) -> Sequence[Line]:
        """Return lines with both times, the verdict and the interval."""
        questions = self._comparison.compared.questions
        if not questions:
            return paragraph(comparison.NONE_SHARED, cells, TextStyle.NOTE)
        chosen = comparison.fit_comparison_columns(self._comparison, cells)
        return [row_line(chosen, question) for question in questions]


class ComparisonPane(Pane):
    """A line for each workload with its ratio and interval drawn; below them the differences."""

    HELP = (
        "B vs A, one line for each common workload: medians, runs, verdict, and the"
        " ratio with its 95% interval. Right of 1, B is faster. The unit is the run: with "
        "fewer than three on a side the verdict is unclear. '!': some runs have warnings, which"
        " stand below."
    )

    def __init__(self, environments: EnvironmentComparison) -> None:
        super().__init__(id=COMPARISON)
        self.environments = environments
        self.table = QuestionList(environments)
        self._sides = LinesView(lambda cells: comparison.render_sides(environments, cells))
        self._foot = LinesView(
            lambda cells: comparison.render_foot(environments, self.table.question, cells)
        )
        for part in (self._sides, self._foot):
            part.can_focus = False
            part.add_class("foot")
        self._pictures = FittedView(
            lambda cells, rows: comparison.render_pictures(
                environments, self.table.question, cells, rows
            ),
            _copy_nothing,
        )

    @property
    def keys_go_to(self) -> Widget:
        """The list, from the first on."""
        return self.table

    def compose(self) -> ComposeResult:
        yield self._sides
        yield LineBar(self._heading_line)
        yield self.table
        yield self._pictures
        yield self._foot

    def on_mount(self) -> None:
        self.retitle(comparison.format_comparison_title(self.environments))
        if not self.environments.compared.questions:
            # The list's one sentence says so: a heading and notes would be about no rows.
            self.query_one(LineBar).display = self._foot.display = False

    def on_resize(self, _event: events.Resize) -> None:
        """Draw runs, or bars, in the rows that the list leaves, if there are enough."""
        many = len(self.environments.compared.questions)
        cells = text_cells(self.size.width)
        sides = len(comparison.render_sides(self.environments, cells))
        foot = len(comparison.render_foot(self.environments, self.table.question, cells))
        left = self.size.height - sides - foot - many - _AROUND_LIST
        pictures = comparison.render_pictures(self.environments, self.table.question, cells, left)
        self._pictures.display = len(pictures) >= _LEAST_PICTURES
        set_height(self.table, many if self._pictures.display else None)

    def _heading_line(self, cells: int) -> Line:
        room = self.table.cells or cells
        return heading_line(comparison.fit_comparison_columns(self.environments, room))

    @on(KeyedList.Moved, "QuestionList")
    def _moved(self) -> None:
        self._foot.rebuild()
        self._pictures.rebuild()


class HistoryPane(Pane):
    """The runs of one workload over time, and where driver or torch changed."""

    HELP = (
        "Each run of this workload with the same GPU, parameters and flags: its median over "
        "time. A line marks a new driver or torch. Below: the median and the spread under each."
    )

    def __init__(self, history: WorkloadHistory) -> None:
        super().__init__(id=PAST)
        self.history = history
        self.body = LinesView(
            lambda cells: comparison.render_history(history, cells, self.body.size.height)
        )

    @property
    def keys_go_to(self) -> Widget:
        """The scrolling part."""
        return self.body

    def compose(self) -> ComposeResult:
        yield self.body

    def on_mount(self) -> None:
        self.retitle(comparison.format_history_title(self.history))
