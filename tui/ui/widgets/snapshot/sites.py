"""The tree of sites, its filter, and the stack of the node under the cursor."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.session.snapshot.session import SnapshotSession
from tui.snapshots.model.results import SiteListing
from tui.snapshots.reader.messages import AskSites, AskStack, Refused, SitesAre, StackIs
from tui.state.store import Store
from tui.text import glyphs
from tui.ui.views.lines import Line, line
from tui.ui.views.snapshot import sites as view
from tui.ui.views.snapshot.words import moment_words, refused_lines, stack_lines
from tui.ui.widgets.fields import FieldInput
from tui.ui.widgets.line_bar import LineBar
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.lists import NumberedList
from tui.ui.widgets.snapshot.pane import SnapshotPane


class SitesTree(NumberedList):
    """Right unfolds a node, left folds it or goes to its parent."""

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
        """Hide them, or go to the parent."""
        self._pane.set_open(False)

    def action_choose(self) -> None:
        self._pane.set_open(None)


class SitesPane(SnapshotPane):
    """Who held the memory at the moment that is looked at."""

    HELP = (
        "Who held the memory at this moment, by the innermost line of your own code; p shows the "
        "peak, n the next OOM, e the end, and the timeline's cursor any other. right or "
        "space unfolds the callers of a line, left folds them. b groups by the next of site, "
        "function, file, annotation, size class, stream, pool and context; S sorts by the next of "
        "bytes, count and name. / searches all frames for text, for a pattern in slashes, or for "
        "the allocation that holds an address like 0x7f1200. Below stands the whole stack of most "
        "bytes under the cursor, innermost first; frames that are not yours are dim, and those of "
        "C++ are counted. tab goes there to scroll it."
    )

    def __init__(self, store: Store, session: SnapshotSession) -> None:
        super().__init__(store, session, id="sites")
        self.search = FieldInput(
            "text, /regex/ or 0xaddress", lambda keep: self.end_search(keep=keep), id="search"
        )
        self.tree_list = SitesTree(self)
        self.stack = LinesView(self._stack_lines, id="stack")
        self._open: dict[view.Path, bool] = {}
        self._lines_shown: list[view.SiteLine] = []
        self._question: object = None

    def compose(self) -> ComposeResult:
        self.search.display = False
        yield self.search
        yield LineBar(self._heading, id="heading")
        yield self.tree_list
        yield self.stack

    def focus_first(self) -> None:
        self.tree_list.focus()

    def store_changed(self) -> None:
        """Redraw what changed; another question is answered from its top."""
        focus = self.session.focus
        question = (focus and focus.device, self.session.grouping, self.session.search)
        if question != self._question:
            self._question = question
            self._open = {}
            self.tree_list.index = 0
            self.tree_list.scroll_to(y=0, animate=False)
        self.tree_list.rebuild()
        self.query_one("#heading", LineBar).rebuild()
        self.stack.rebuild()
        self._retitle()

    # ---- what is asked ----

    def _request(self, path: view.Path) -> AskSites | None:
        focus = self.session.focus
        if focus is None:
            return None
        search, regex = view.search_of(self.session.search)
        return AskSites(
            id=0,
            device=focus.device,
            event=focus.event,
            path=path,
            grouping=self.session.grouping,
            order=self.session.order,
            search=search,
            regex=regex,
        )

    def _listing(self, path: view.Path) -> SiteListing | None:
        request = self._request(path)
        answer = None if request is None else self.ask(request)
        if not isinstance(answer, SitesAre):
            return None
        newest = self.session.main.store.newest(request) if request else None
        if newest is None or not isinstance(newest.request, AskSites) or request is None:
            return None
        # Rows of another grouping under the heading of this one would mislead.
        alike = newest.request.grouping == request.grouping
        return answer.listing if alike else None

    def tree_lines(self, cells: int) -> list[Line]:
        """The tree as far as it is unfolded and known."""
        request = self._request(())
        if request is None:
            return []
        answer = self.ask(request)
        if isinstance(answer, Refused):
            self._lines_shown = []
            return refused_lines(answer, cells)
        self._lines_shown = view.nodes(self._listing, self._open)
        return [
            view.node_line(node, unfolded=bool(self._open.get(node.path)), cells=cells)
            for node in self._lines_shown
        ]

    def _heading(self, cells: int) -> Line:
        return view.tree_heading(self.session.grouping, self.session.order, cells)

    @property
    def node(self) -> view.SiteLine | None:
        """The node under the cursor."""
        index = self.tree_list.index
        return self._lines_shown[index] if index < len(self._lines_shown) else None

    def _stack_lines(self, cells: int) -> list[Line]:
        node = self.node
        if node is None or node.row is None:
            return []
        answer = self.ask(AskStack(0, node.row.stack))
        if isinstance(answer, Refused):
            return refused_lines(answer, cells)
        if not isinstance(answer, StackIs):
            return [line(glyphs.GLYPHS.ellipsis)]
        return stack_lines(answer.frames, cells)

    def _retitle(self) -> None:
        focus, summary, request = self.session.focus, self.session.summary, self._request(())
        if focus is None or summary is None or request is None:
            self.retitle("Sites")
            return
        words = f"Sites   {moment_words(focus, summary)}"
        if self.session.search:
            words += f"   search: {self.session.search}"
        self.retitle(words + self.waiting(request))

    # ---- keys ----

    def set_open(self, wanted: bool | None) -> None:
        """Unfold or fold the node under the cursor; ``None`` does what it is not."""
        node = self.node
        if node is None:
            return
        is_open = bool(self._open.get(node.path))
        wanted = not is_open if wanted is None else wanted
        if wanted and node.row is not None and node.row.children:
            self._open[node.path] = True
        elif not wanted and is_open:
            del self._open[node.path]
        elif not wanted and len(node.path) > 1:
            paths = [other.path for other in self._lines_shown]
            self.tree_list.go_to(paths.index(node.path[:-1]))
            return
        self.store_changed()

    @on(NumberedList.Moved)
    def _moved(self) -> None:
        self.stack.scroll_to(y=0, animate=False)
        self.stack.rebuild()

    def begin_search(self) -> None:
        """Show the search and type into it."""
        self.search.value = self.session.search
        self.search.display = True
        self.search.focus()

    def end_search(self, *, keep: bool) -> None:
        """Go back to the tree, with what was typed or without a search."""
        typed = self.search.value if keep else ""
        self.search.display = False
        self.tree_list.focus()
        self.session.search_for(typed)
