"""The owners of a snapshot's memory as a tree of sites, and two files compared by site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.empty_page import EmptyPage
from tui.kit.lines import Line, Span, TextStyle, line, paragraph
from tui.kit.lists import FieldInput, NumberedList
from tui.kit.pane import FittedView, LineBar, LinesView, set_height, text_cells
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.calls import (
    DIFFERENCE,
    SITE_HISTORY,
    SITES,
    STACK,
    Changes,
    DifferenceArguments,
    Need,
    SiteHistoryArguments,
    SitesArguments,
    StackArguments,
)
from tui.snapshots.model.pictures import SiteHistory
from tui.snapshots.model.results import (
    Difference,
    DiffRow,
    SiteListing,
)
from tui.snapshots.screens.panes import SnapshotPane
from tui.snapshots.session.snapshot_reader import Refused, SnapshotReader
from tui.snapshots.session.snapshot_session import SnapshotSession
from tui.snapshots.views import sites as view
from tui.snapshots.views.opening import loading_lines
from tui.snapshots.views.shared_lines import (
    NAMED_BY_VERDICT,
    NO_STACKS,
    format_moment,
    refused_lines,
    stack_lines,
)
from tui.snapshots.views.site_growth import growth_lines

WIDE_FROM = 110
"""Least width in cells for the plot of a site beside its stack."""


class SitesTree(NumberedList):
    """The tree of sites: right unfolds a node, left folds it or moves to its parent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "unfold", show=False),
        Binding("left,h", "fold", show=False),
        Binding("space", "choose", show=False),
    ]

    def __init__(self, pane: SitesPane) -> None:
        super().__init__(pane.tree_lines, id="tree")
        self._pane = pane

    def action_unfold(self) -> None:
        """Show the callers of the node under the cursor."""
        self._pane.set_open(True)

    def action_fold(self) -> None:
        """Hide the callers, or move to the parent."""
        self._pane.set_open(False)

    def action_choose(self) -> None:
        self._pane.set_open(None)


class SitesPane(SnapshotPane):
    """The owners of memory at the current moment."""

    NAME = "Sites"

    HELP = (
        "Memory at this moment by your innermost line. A letter is the site's layer in the "
        "timeline. right or space unfolds its callers, left"
        " folds them. / searches all frames: a text, a /pattern/, or an address such as "
        "0x7f1200. Below: the stack with the most bytes under the cursor, innermost first; "
        "frames outside your code are dim. tab goes there. In a wide terminal, beside it: the "
        "site's memory over the events, with the moment as a line."
    )

    def __init__(self, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(session, id=id)
        self.search = FieldInput(
            "text, /regex/ or 0xaddress", lambda keep: self.end_search(keep=keep), id="search"
        )
        self.tree_list = SitesTree(self)
        self.stack = LinesView(self._stack_lines, id="stack")
        self.growth = FittedView(self._growth_lines)
        self.growth.id = "growth"
        self.growth.can_focus = False
        self._open: dict[view.Path, bool] = {}
        self._lines_shown: list[view.SiteLine] = []
        self._question: object = None

    def compose(self) -> ComposeResult:
        self.search.display = False
        yield self.search
        yield LineBar(self._heading, id="heading")
        yield self.tree_list
        with Container(id="below"):
            yield self.stack
            yield self.growth

    def focus_first(self) -> None:
        self.tree_list.focus()

    def state_changed(self) -> None:
        """Redraw the pane, and scroll to the top if the query changed."""
        focus = self.session.focus
        question = (focus and focus.device, self.session.grouping, self.session.search)
        if question != self._question:
            self._question = question
            self._open = {}
            self.tree_list.index = 0
            self.tree_list.scroll_to(y=0, animate=False)
        self.tree_list.rebuild()
        self.query_one("#heading", LineBar).rebuild()
        self._draw_below()
        self._retitle()

    def _draw_below(self) -> None:
        """Draw the stack, and beside it the memory over the events if there is room."""
        with_growth = self._history_need() is not None
        self.set_class(with_growth, "-with-growth")
        # Few lines leave their rows to what is below.
        rows, most = len(self._lines_shown), self.size.height * (3 if with_growth else 4) // 6
        set_height(self.tree_list, rows if 0 < rows < most else None)
        self.growth.display = with_growth
        self.stack.rebuild()
        self.growth.rebuild()

    def on_resize(self, event: events.Resize) -> None:
        """Request the site's history if the new width has room for it, or draw without it."""
        super().on_resize(event)
        self._draw_below()

    # ---- requests ----

    def needs(self) -> Sequence[Need[Any, Any] | None]:
        """Return requests for the children of unfolded nodes and for the stack at the cursor."""
        paths: list[view.Path] = []

        def listing(path: view.Path) -> SiteListing | None:
            paths.append(path)
            return self._listing(path)

        view.nodes(listing, self._open)
        return *map(self._need, paths), self._stack_need(), self._history_need()

    def _need(self, path: view.Path) -> Need[SitesArguments, SiteListing] | None:
        focus = self.session.focus
        if focus is None:
            return None
        search, regex = view.parse_search(self.session.search)
        arguments = SitesArguments(
            device=focus.device,
            event=focus.event,
            path=path,
            grouping=self.session.grouping,
            order=self.session.order,
            search=search,
            regex=regex,
        )
        return Need(SITES, arguments)

    def _listing(self, path: view.Path) -> SiteListing | None:
        need = self._need(path)
        answer = None if need is None else self.arrived(need)
        if need is None or answer is None or isinstance(answer.value, Refused):
            return None
        # Rows of one grouping under the heading of another would mislead.
        alike = answer.need.arguments.grouping == need.arguments.grouping
        return answer.value if alike else None

    def tree_lines(self, cells: int) -> list[Line]:
        """Draw the unfolded and known part of the tree."""
        need = self._need(())
        if need is None:
            return []
        answer = self.answer(need)
        if isinstance(answer, Refused):
            self._lines_shown = []
            return refused_lines(answer, cells)
        self._lines_shown = view.nodes(self._listing, self._open)
        most = max((node.row.share for node in self._lines_shown if node.row), default=1.0)
        lettered = view.has_letters(self.session.grouping)
        return [
            view.node_line(
                node,
                unfolded=bool(self._open.get(node.path)),
                cells=cells,
                most=most or 1.0,
                lettered=lettered,
            )
            for node in self._lines_shown
        ]

    def _heading(self, cells: int) -> Line:
        return view.tree_heading(self.session.grouping, self.session.order, cells)

    @property
    def node(self) -> view.SiteLine | None:
        """The node under the cursor."""
        index = self.tree_list.index
        return self._lines_shown[index] if index < len(self._lines_shown) else None

    def _stack_need(self) -> Need[StackArguments, tuple[Frame, ...]] | None:
        node = self.node
        if node is None or node.row is None:
            return None
        return Need(STACK, StackArguments(node.row.stack))

    def _history_need(self) -> Need[SiteHistoryArguments, SiteHistory] | None:
        """Return the request for the site under the cursor; ``None`` where no plot has room.

        Below a site are its callers, whose memory is that of the site.
        """
        focus, cells, node = self.session.focus, self.size.width, self.node
        if focus is None or cells < WIDE_FROM or self.session.grouping != "site":
            return None
        if node is None or node.row is None or self.lacks_history:
            return None
        return Need(SITE_HISTORY, SiteHistoryArguments(focus.device, node.path[0], cells // 2))

    def _growth_lines(self, cells: int, rows: int) -> list[Line]:
        need = self._history_need()
        answer = None if need is None else self.arrived(need)
        if need is None or answer is None or isinstance(answer.value, Refused):
            return []
        if answer.need.arguments.site != need.arguments.site:
            return []
        rows_of = (node.row for node in self._lines_shown if node.path == (need.arguments.site,))
        site = next((row for row in rows_of if row is not None), None)
        if site is None:
            return []
        event = self.session.focus.event if self.session.focus else None
        return growth_lines(answer.value, site.label, site.rank, event, cells, rows)

    def stack_shown(self) -> Sequence[Frame]:
        return self.value(self._stack_need()) or ()

    def _stack_lines(self, cells: int) -> list[Line]:
        need = self._stack_need()

        def draw(stack: Sequence[Frame], cells: int) -> list[Line]:
            # Without a history, torch may still record the stack of each block.
            if self.lacks_history and not stack:
                by_verdict = NAMED_BY_VERDICT if self.session.has_ooms else ""
                return paragraph(f"{NO_STACKS}{by_verdict}", cells)
            return stack_lines(stack, cells)

        return [] if need is None else self.answer_lines(need, cells, draw)

    def _retitle(self) -> None:
        focus, summary, need = self.session.focus, self.session.summary, self._need(())
        if focus is None or summary is None or need is None:
            self.retitle(self.NAME)
            return
        words = format_moment(focus, summary)
        if self.session.search:
            words += f"   search: {self.session.search}"
        self.retitle(words + self.waiting(need))

    # ---- keys ----

    def set_open(self, opened: bool | None) -> None:
        """Unfold or fold the node under the cursor; ``None`` toggles it."""
        node = self.node
        if node is None:
            return
        is_open = bool(self._open.get(node.path))
        opened = not is_open if opened is None else opened
        if opened and node.row is not None and node.row.children:
            self._open[node.path] = True
        elif opened:
            self.notify("no callers to show below this row", markup=False)
            return
        elif not opened and is_open:
            del self._open[node.path]
        elif not opened and len(node.path) > 1:
            paths = [other.path for other in self._lines_shown]
            self.tree_list.go_to(paths.index(node.path[:-1]))
            return
        self.state_changed()
        self.change_needs()

    @on(NumberedList.Moved)
    def _moved(self) -> None:
        self.stack.scroll_to(y=0, animate=False)
        self._draw_below()
        self.change_needs()

    def begin_search(self) -> None:
        """Show the search field and focus it."""
        self.search.value = self.session.search
        self.search.display = True
        self.search.focus()

    def end_search(self, *, keep: bool) -> None:
        """Return to the tree, and keep or clear the search."""
        typed = self.search.value if keep else ""
        self.search.display = False
        self.tree_list.focus()
        self.session.search_for(typed)


ASK_FOR_SECOND = (
    "c chooses the file to compare with: this file is A, the other one B, and whatever is larger "
    "in B has grown. Two snapshots of one run, some steps apart, show what leaks."
)


class DifferencePane(SnapshotPane):
    """Sites that have grown, appeared, disappeared or shrunk between two files."""

    NAME = "Difference"

    HELP = (
        "What changed from file A to file B, by site, the largest change first: new and grown "
        "are larger in B, gone and shrunk smaller. p compares the peaks, E the ends. A line "
        "that moved between two versions appears as gone and new: group by function."
    )

    def __init__(self, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(session, id=id)
        self.page = EmptyPage(self._head)
        self.head = LinesView(self._head, id="head")
        self.head.can_focus = False
        self.rows = NumberedList(self._rows, id="changes")
        self.body = LinesView(self._detail, id="change")

    def compose(self) -> ComposeResult:
        """Yield the compared files, the changes, and details of the selected change."""
        yield self.page
        yield self.head
        yield LineBar(view.difference_heading, id="heading")
        yield self.rows
        yield self.body

    def focus_first(self) -> None:
        (self.rows if self.rows.display else self.page.words).focus()

    def state_changed(self) -> None:
        known = self._difference() is not None
        had_focus = self.rows.has_focus or self.page.words.has_focus
        for part in (self.query_one("#heading"), self.head, self.rows, self.body):
            part.display = known
        self.page.show(words=not known)
        if had_focus:
            self.focus_first()
        self.page.rebuild()
        rows = len(self._head(text_cells(self.size.width)))
        self.head.styles.height = rows
        self.head.rebuild()
        self.rows.rebuild()
        self.body.rebuild()
        at = "at their peaks" if self.session.compared_at_peak else "at their ends"
        self.retitle(f"{at}   by {self.session.grouping}" if known else self.NAME)

    @property
    def reader(self) -> SnapshotReader:
        """The reader that has loaded both files."""
        return self.session.both

    def _need(self) -> Need[DifferenceArguments, Changes] | None:
        focus = self.session.focus
        if focus is None:
            return None
        at_peak, grouping = self.session.compared_at_peak, self.session.grouping
        return Need(DIFFERENCE, DifferenceArguments(focus.device, at_peak, grouping))

    def needs(self) -> Sequence[Need[Any, Any] | None]:
        return (self._need(),)

    def _difference(self) -> Difference | None:
        changes = self.value(self._need())
        return None if changes is None else changes.difference

    def _head(self, cells: int) -> list[Line]:
        store = self.session.both.store
        if store.status == "empty":
            return paragraph(ASK_FOR_SECOND, cells)
        if store.status == "loading":
            return loading_lines(store, cells)
        answer = self.answer(self._need())
        if isinstance(answer, Changes):
            return view.difference_head(answer.difference, cells)
        if isinstance(answer, Refused):
            return refused_lines(answer, cells)
        return paragraph(store.reason or glyphs.GLYPHS.ellipsis, cells, TextStyle.NOTE)

    def _rows(self, cells: int) -> list[Line]:
        changes = self.value(self._need())
        if changes is None:
            return []
        rows = [view.difference_line(row, cells) for row in changes.difference.rows]
        if changes.more:
            rest = f"and {text.count(changes.more)} smaller changes"
            rows.append(line(Span(rest, TextStyle.QUIET)))
        return rows

    @property
    def _selected(self) -> DiffRow | None:
        difference = self._difference()
        if difference is None or self.rows.index >= len(difference.rows):
            return None
        return difference.rows[self.rows.index]

    def _detail(self, cells: int) -> list[Line]:
        return [] if self._selected is None else view.difference_detail(self._selected, cells)

    @on(NumberedList.Moved)
    def _moved(self) -> None:
        self.body.scroll_to(y=0, animate=False)
        self.body.rebuild()
