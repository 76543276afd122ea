"""The difference of two files, site by site."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult

from tui.session.snapshot.session import SnapshotSession
from tui.snapshots.model.results import Difference, DiffRow
from tui.snapshots.reader.messages import AskDifference, DifferenceIs, Refused
from tui.state.store import Store
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, line, paragraph
from tui.ui.views.snapshot import sites as view
from tui.ui.views.snapshot.overview import loading_lines
from tui.ui.views.snapshot.words import refused_lines, state_or_reason
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.lists import NumberedList
from tui.ui.widgets.snapshot.pane import SnapshotPane

ASK_FOR_SECOND = (
    "c chooses the file to compare with: this file is A, the other one B, and what B has more than "
    "A has grown. Two snapshots of one run, some steps apart, show what leaks."
)


class DifferencePane(SnapshotPane):
    """What has grown, is new, is gone or has shrunk from this file to another."""

    HELP = (
        "This file (A) against another (B), by who held the memory: new and grown are more in B, "
        "gone and shrunk less; the largest change comes first. p compares the peaks of both, e "
        "their ends; b groups by another thing; c chooses the other file. Sites that did not "
        "change are left out. A line of the program that moved between two versions of it is gone "
        "and new; group by function to see past that."
    )

    def __init__(self, store: Store, session: SnapshotSession) -> None:
        super().__init__(store, session, id="difference")
        self.head = LinesView(self._head, id="head")
        self.head.can_focus = False
        self.rows = NumberedList(self._rows, id="changes")
        self.body = LinesView(self._detail, id="change")

    def compose(self) -> ComposeResult:
        """What is compared, the changes, the one under the cursor."""
        yield self.head
        yield LineBar(view.difference_heading, id="heading")
        yield self.rows
        yield self.body

    def focus_first(self) -> None:
        self.rows.focus()

    def store_changed(self) -> None:
        known = self._difference() is not None
        for part in (self.query_one("#heading"), self.body):
            part.display = known
        rows = len(self._head(max(1, self.size.width - 1)))
        self.head.styles.height = rows
        self.head.rebuild()
        self.rows.rebuild()
        self.body.rebuild()
        at = "at their peaks" if self.session.compared_at_peak else "at their ends"
        self.retitle(f"Difference   {at}   by {self.session.grouping}" if known else "Difference")

    def _answer(self) -> DifferenceIs | Refused | None:
        focus = self.session.focus
        if focus is None:
            return None
        request = AskDifference(
            0, focus.device, self.session.compared_at_peak, self.session.grouping
        )
        self.session.both.want(request)
        answer = state_or_reason(self.session.both.store, request)
        return answer if isinstance(answer, (DifferenceIs, Refused)) else None

    def _difference(self) -> Difference | None:
        answer = self._answer()
        return answer.difference if isinstance(answer, DifferenceIs) else None

    def _head(self, cells: int) -> list[Line]:
        store = self.session.both.store
        if store.status == "empty":
            return paragraph(ASK_FOR_SECOND, cells)
        if store.status == "loading":
            return loading_lines(store, cells)
        answer = self._answer()
        if isinstance(answer, DifferenceIs):
            return view.difference_head(answer.difference, cells)
        if isinstance(answer, Refused):
            return refused_lines(answer, cells)
        return paragraph(store.reason or glyphs.GLYPHS.ellipsis, cells, TextStyle.NOTE)

    def _rows(self, cells: int) -> list[Line]:
        answer = self._answer()
        if not isinstance(answer, DifferenceIs):
            return []
        rows = [view.difference_line(row, cells) for row in answer.difference.rows]
        if answer.more:
            rows.append(
                line(Span(f"and {text.count(answer.more)} smaller changes", TextStyle.QUIET))
            )
        return rows

    @property
    def _selected(self) -> DiffRow | None:
        found = self._difference()
        if found is None or self.rows.index >= len(found.rows):
            return None
        return found.rows[self.rows.index]

    def _detail(self, cells: int) -> list[Line]:
        return [] if self._selected is None else view.difference_detail(self._selected, cells)

    @on(NumberedList.Moved)
    def _moved(self) -> None:
        self.body.scroll_to(y=0, animate=False)
        self.body.rebuild()
