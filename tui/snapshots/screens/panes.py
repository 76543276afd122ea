"""Shared base of the snapshot tab's panes, and the text panes: the start page and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.message import Message

from tui.core.text import glyphs
from tui.kit.dialogs import TextScreen
from tui.kit.empty_page import EmptyPage
from tui.kit.lines import TITLE_GAP, Line, Span, TextStyle, line, width
from tui.kit.lists import OfferList
from tui.kit.pane import PADDING, ROOM, FittedView, LineBar, LinesView, Pane
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.calls import (
    LAYER_SIZES,
    MAP,
    TIMELINE,
    VERDICT,
    Arguments,
    LayerSizesArguments,
    MapArguments,
    MapPage,
    Need,
    TimelineArguments,
    Value,
    VerdictArguments,
)
from tui.snapshots.model.pictures import LayerSize, Stacking, Timeline
from tui.snapshots.model.results import FileInfo, Summary, Verdict
from tui.snapshots.session.snapshot_reader import Answered, Refused, SnapshotReader
from tui.snapshots.session.snapshot_session import Focus, SnapshotSession
from tui.snapshots.views import layers
from tui.snapshots.views import map as segments
from tui.snapshots.views.opening import start_lines
from tui.snapshots.views.overview import (
    exception_lines,
    explain_lines,
    file_lines,
    fit_title,
    oom_title,
    peculiarity_lines,
    remark_lines,
    summary_lines,
    verdict_lines,
    verdict_title,
)
from tui.snapshots.views.shared_lines import (
    bar_line,
    format_moment,
    refused_lines,
    stack_lines,
    view_at,
    waiting_mark,
)
from tui.snapshots.views.timeline_edges import GUTTER

LEAST_PICTURE_ROWS, MOST_PICTURE_ROWS = 8, 40
"""Rows of the timeline below the verdict with its legend; with fewer empty rows, there is none."""
LEAST_CHART_ROWS = 6
"""Rows of its columns: with fewer, layers that share a cell alternate from column to column."""
MORE_LAYERS = "   L names the others"
"""Ends a legend that has no room for all layers."""
INDENT = "  "
"""The text above the legend begins as far from the frame."""
STILL_JUDGING = "the verdict is not ready yet: press i again when it is shown"
NO_STACK = "no stack is shown here"
NO_OOM = "nothing to explain: no allocation failed"


class SnapshotBar(LineBar):
    """The bar of views; a click opens one."""

    class Picked(Message):
        """The user clicked a view."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    def __init__(self, session: SnapshotSession) -> None:
        super().__init__(lambda cells: bar_line(session, cells))
        self._session = session

    def on_click(self, event: events.Click) -> None:
        """Switch to the view under the mouse."""
        view = view_at(event.x)
        if view is not None and self._session.ready:
            self.post_message(self.Picked(view))


class SnapshotPane(Pane):
    """One view of the session's file: declares its requests and draws the answers."""

    NAME: ClassVar[str] = "Snapshot"
    """Name of the view, which the bar of views marks, so that the title has the facts alone."""

    class NeedsChanged(Message):
        """The pane's requests may have changed: another row, another width."""

    def __init__(self, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self.session = session

    @property
    def reader(self) -> SnapshotReader:
        """The reader that answers the pane's requests."""
        return self.session.main

    @property
    def lacks_history(self) -> bool:
        """True if the file is known to have no history of the memory."""
        summary = self.session.summary
        return summary is not None and summary.lacks_history

    def clipboard_text(self) -> str:
        """Return the pane as text, which begins with the view's name: the bar shows it here."""
        return f"{self.NAME}{TITLE_GAP}{super().clipboard_text()}"

    def needs(self) -> Sequence[Need[Any, Any] | None]:
        """Return the requests for the pane's present state; the screen sends those that exist."""
        return ()

    def change_needs(self) -> None:
        """Ask the screen to send the current requests, after layout has set the sizes."""
        self.call_after_refresh(self.post_message, self.NeedsChanged())

    def on_resize(self, _event: events.Resize) -> None:
        """Update the requests: another size shows another number of rows and columns."""
        self.change_needs()

    def arrived(self, need: Need[Arguments, Value]) -> Answered[Arguments, Value] | None:
        """Return the answer or, until it arrives, the newest one of its kind."""
        return self.reader.store.find_newest_answer(need)

    def answer(self, need: Need[Arguments, Value] | None) -> Value | Refused | None:
        """Return the newest value, or why it was refused; ``None`` until there is one."""
        answered = None if need is None else self.arrived(need)
        return None if answered is None else answered.value

    def value(self, need: Need[Arguments, Value] | None) -> Value | None:
        """Return the newest value; ``None`` until there is one, and if it was refused."""
        answer = self.answer(need)
        return None if isinstance(answer, Refused) else answer

    def answer_lines(
        self,
        need: Need[Arguments, Value],
        cells: int,
        render: Callable[[Value, int], Sequence[Line]],
    ) -> list[Line]:
        """Render an answer; until it arrives, an ellipsis, and the reason if it was refused."""
        answer = self.answer(need)
        if answer is None:
            return [line(glyphs.GLYPHS.ellipsis)]
        if isinstance(answer, Refused):
            return refused_lines(answer, cells)
        return [*render(answer, cells)]

    def waiting(self, need: Need[Any, Any]) -> str:
        """Return the title's mark for an answer that has not arrived."""
        return waiting_mark(self.reader.store, need)

    def sizes_need(
        self, stacking: Stacking, oom: int | None = None
    ) -> Need[LayerSizesArguments, tuple[LayerSize, ...]] | None:
        """Return the request for the sizes of the timeline's layers, at an OOM or the cursor."""
        focus = self.session.focus
        if focus is None or self.lacks_history:
            return None
        event = focus.event if oom is None else oom
        return Need(LAYER_SIZES, LayerSizesArguments(focus.device, event, stacking))

    def moment_of(
        self, need: Need[LayerSizesArguments, tuple[LayerSize, ...]] | None
    ) -> layers.Moment | None:
        """Return the newest sizes of the same layers, and the moment that they are of."""
        answer, summary = None if need is None else self.arrived(need), self.session.summary
        if need is None or answer is None or summary is None or isinstance(answer.value, Refused):
            return None
        asked, got = need.arguments, answer.need.arguments
        if (asked.device, asked.stacking) != (got.device, got.stacking):
            return None
        words = format_moment(Focus(got.device, got.event), summary)
        return layers.Moment(words, answer.value)

    def explanation(self) -> TextScreen | str:
        """Return a dialog with the whole stack that the pane shows, or why there is none."""
        stack = self.stack_shown()
        if not stack:
            return NO_STACK
        return TextScreen("Stack", lambda cells: stack_lines(stack, cells, whole=True))

    def stack_shown(self) -> Sequence[Frame]:
        """Return the stack that the pane shows, without the frames of libraries."""
        return ()

    def zoom(self, factor: float) -> None:
        """Zoom in or out, if the pane shows a range."""

    def focus_first(self) -> None:
        """Focus the pane's main part."""
        raise NotImplementedError


class VerdictPane(SnapshotPane):
    """The cause of the failure and the device's memory, then what is unusual about the file."""

    NAME = "Verdict"

    HELP = (
        "Why an allocation failed: the cause, your line and the step. Without the cause, this "
        "request and the next steps would have fit. Below it: an account of the used memory, whose "
        "rows add up; what would help; your lines by bytes at that moment. i gives the reasons. "
        "live: requested bytes of live allocations. cached: reserved and not live. device free: "
        "of the whole GPU. The file has neither the device's total nor other processes: paste the "
        "exception's text (key I): it has both."
    )

    def __init__(self, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(session, id=id)
        self.body = LinesView(self._lines_of)
        # The copied text has the verdict, without the picture.
        self.picture = FittedView(self._picture_lines, points=tuple)
        self._shown: object = None

    def compose(self) -> ComposeResult:
        yield self.body
        yield self.picture

    def focus_first(self) -> None:
        self.body.focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the title, and draw the picture if the rows below the text suffice."""
        super().on_resize(event)
        self._retitle()
        self.call_after_refresh(self._size_picture)

    @property
    def oom(self) -> int | None:
        """The OOM to show: the one at the current moment, else the last."""
        focus, summary = self.session.focus, self.session.summary
        if focus is None or summary is None or not summary.ooms:
            return None
        return focus.event if focus.event in summary.ooms else summary.ooms[-1]

    def state_changed(self) -> None:
        """Redraw the pane, and scroll to the top for another OOM."""
        focus = self.session.focus
        shown = (self.session.main.store.paths, focus and focus.device, self.oom)
        if shown != self._shown:
            self._shown = shown
            self.body.scroll_to(y=0, animate=False)
        self._retitle()
        self.body.rebuild()
        self._size_picture()

    def _retitle(self) -> None:
        self.retitle(TITLE_GAP.join(self._facts()))

    def _facts(self) -> tuple[str, ...]:
        """Return the facts of the title: which OOM, and the source of the exception's text."""
        event, summary, source = self.oom, self.session.summary, self.session.text_source
        if event is None or summary is None:
            return ("no OOM",)
        verdict = self.value(self._need())
        known = verdict is not None and verdict.event == event
        whose = (f"exception's text: {source}",) if source else ()
        if verdict is None or not known:
            return (*oom_title(event, summary), *whose)
        *first, clock = verdict_title(verdict, summary)
        return fit_title((*first, *whose, clock), self.outer_size.width - ROOM - PADDING)

    # ---- the picture of the memory until the failure, or of the segments ----

    def _timeline_need(self) -> Need[TimelineArguments, Timeline] | None:
        focus, cells = self.session.focus, self.size.width - GUTTER
        if focus is None or cells < 1 or self.size.height < LEAST_PICTURE_ROWS:
            return None
        if self.session.summary is None or self.lacks_history:
            return None
        return Need(TIMELINE, TimelineArguments(focus.device, cells))

    def _map_need(self) -> Need[MapArguments, MapPage] | None:
        """Return the request for the segments, which a file without a history has too."""
        focus = self.session.focus
        cells = self.size.width - 2 * len(INDENT) - segments.LABEL_CELLS
        if focus is None or cells < 1 or self.size.height < LEAST_PICTURE_ROWS:
            return None
        if not self.lacks_history:
            return None
        return Need(MAP, MapArguments(focus.device, focus.event, 0, MOST_PICTURE_ROWS, cells, ()))

    def _size_picture(self) -> None:
        """Give the picture the rows that the text leaves empty, or hide it if they are few."""
        timeline, page = self.value(self._timeline_need()), self.value(self._map_need())
        rows = min(self.size.height - len(self.body.shown_lines), MOST_PICTURE_ROWS)
        shown = False
        if timeline is not None and timeline.buckets and rows >= LEAST_PICTURE_ROWS:
            legend = self._legend(timeline, self.size.width, rows)
            shown = layers.rows_of(timeline, rows - len(legend)) >= LEAST_CHART_ROWS
        elif page is not None and page.rows:
            shown = rows >= LEAST_PICTURE_ROWS
        self.picture.display = shown
        if shown:
            self.picture.styles.height = rows
            self.picture.rebuild()

    def _picture_lines(self, cells: int, rows: int) -> list[Line]:
        timeline, page = self.value(self._timeline_need()), self.value(self._map_need())
        if timeline is None and page is not None:
            room = max(1, cells - 2 * len(INDENT))
            lines = segments.page_lines(page, room, rows, marks=self.app.no_color)
            return [line(INDENT, *row) for row in lines]
        if timeline is None:
            return []
        legend = self._legend(timeline, cells, rows)
        letters = self.app.no_color
        focus = self.session.focus
        event = focus.event if self.oom is None and focus is not None else self.oom
        chart = layers.chart_lines(timeline, rows - len(legend), event, letters=letters)
        return [*chart, *legend]

    def _legend(self, timeline: Timeline, cells: int, rows: int) -> list[Line]:
        """Draw the legend of a picture with a number of rows, or the first lines of it that fit."""
        moment = self.moment_of(self.sizes_need("site", self.oom))
        if moment is not None and self.oom is not None:
            moment = replace(moment, words="")  # the title has the event
        legend = layers.legend_lines(
            timeline,
            max(1, cells - 2 * len(INDENT)),
            moment,
            letters=self.app.no_color,
            least=layers.least_drawn(timeline, rows),
            purposes=False,
        )
        # The largest layers stand first.
        whole = len(legend)
        while len(legend) > 1 and layers.rows_of(timeline, rows - len(legend)) < LEAST_CHART_ROWS:
            legend.pop()
        if len(legend) < whole and width(legend[-1]) + len(MORE_LAYERS) <= cells - 2 * len(INDENT):
            legend[-1] = line(*legend[-1], Span(MORE_LAYERS, TextStyle.QUIET))
        return [line(INDENT, *row) for row in legend]

    def _lines_of(self, cells: int) -> list[Line]:
        summary, loaded = self.session.summary, self.session.main.store.loaded
        if loaded is None:
            return []
        if summary is None:
            rows = [line(Span("no device in this file", TextStyle.STRONG))]
        else:
            rows = self._verdict(summary, cells)
            judged = self.value(self._need()) is not None
            if judged:
                rows += remark_lines(summary, cells)
                return rows + self._of_file(peculiarity_lines, cells)
            rows += summary_lines(summary, cells)
        return rows + self._of_file(file_lines, cells)

    def _of_file(self, draw: Callable[[FileInfo, int], list[Line]], cells: int) -> list[Line]:
        """Draw the first file, if one is open."""
        loaded = self.session.main.store.loaded
        return [row for info in (loaded.files[:1] if loaded else ()) for row in draw(info, cells)]

    def _need(self) -> Need[VerdictArguments, Verdict] | None:
        event, focus = self.oom, self.session.focus
        if event is None or focus is None:
            return None
        return Need(VERDICT, VerdictArguments(focus.device, event))

    def needs(self) -> Sequence[Need[Any, Any] | None]:
        """Return requests for the verdict and for the picture below it."""
        sizes = self.sizes_need("site", self.oom) if self._timeline_need() else None
        return self._need(), self._timeline_need(), self._map_need(), sizes

    def explanation(self) -> TextScreen | str:
        """Return a dialog with the reasons for the verdict, or why there is none."""
        need, summary = self._need(), self.session.summary
        if need is None or summary is None:
            return NO_OOM
        verdict = self.answer(need)
        if verdict is None:
            return STILL_JUDGING
        if isinstance(verdict, Refused):
            return f"there is no verdict: {verdict.reason}"

        def draw(cells: int) -> list[Line]:
            return [*explain_lines(verdict, summary, cells), *self._of_file(file_lines, cells)]

        return TextScreen("Why", draw)

    def _verdict(self, summary: Summary, cells: int) -> list[Line]:
        need = self._need()
        if need is None:
            return []
        verdict = self.answer(need)
        if verdict is None:
            return [line(f"judging the OOM {glyphs.GLYPHS.ellipsis}")]
        if isinstance(verdict, Refused):
            return refused_lines(verdict, cells)
        text, source = self.session.main.store.oom_text, self.session.text_source
        return [
            *verdict_lines(verdict, summary, cells, explained=False),
            *(exception_lines(text, source, cells) if text and source else ()),
        ]


class StartPane(SnapshotPane):
    """The page without an open file: nothing chosen, still reading, or unreadable."""

    HELP = (
        "enter opens what is under the cursor; o opens another snapshot file. While the file is "
        "read, this pane shows the memory used, the bytes read and the time left; x cancels. A "
        "file that cannot be read ends with one line."
    )

    def __init__(self, session: SnapshotSession, offers: OfferList) -> None:
        super().__init__(session, id="snapshot")
        self.offers = offers
        self.page = EmptyPage(lambda cells: start_lines(session.main.store, cells), offers)

    def compose(self) -> ComposeResult:
        yield self.page

    def focus_first(self) -> None:
        (self.offers if self.offers.display else self.page.words).focus()

    def state_changed(self) -> None:
        self.retitle("Snapshot")
        shown = self.reader.store.status != "loading"
        if shown != self.offers.display:
            self.page.show(words=True, offers=shown)
            if self.display:
                # A drawing may be due from before a view replaced this page.
                self.focus_first()
        self.page.rebuild()
