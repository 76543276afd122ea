"""The timeline: a chart with a cursor, and the state at the cursor below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.core.text.commands import RECORDING
from tui.kit.empty_page import EmptyPage
from tui.kit.lines import Line, paragraph
from tui.kit.pane import FittedView, LinesView
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.calls import (
    PART,
    STATE,
    TIMELINE,
    Need,
    PartArguments,
    StateArguments,
    TimelineArguments,
)
from tui.snapshots.model.pictures import Stacking, Timeline
from tui.snapshots.model.results import Part, State
from tui.snapshots.screens.panes import SnapshotPane
from tui.snapshots.session.snapshot_session import SnapshotSession
from tui.snapshots.views import layers
from tui.snapshots.views.shared_lines import (
    clamp_range,
    find_column,
    state_lines,
    timeline_heading,
    zoom_range,
)
from tui.snapshots.views.timeline_edges import GUTTER

LEGEND_SHARE = 5
"""Divisor that limits the legend's height: at most one row in this many of the pane."""
PAGE = 10
"""Columns per page: an eighth of a narrow screen."""

NO_HISTORY = (
    "The file has no history of the memory, only its state at the end, which is below. With "
    f"`{RECORDING}` this view shows who allocated what, and when."
)


class TimelineChart(FittedView, can_focus=True):
    """Columns of events; the cursor moves by columns or by single events."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", show=False),
        Binding("right", "step(1)", show=False),
        Binding("comma", "event(-1)", show=False),
        Binding("full_stop", "event(1)", show=False),
        Binding("pageup", f"step(-{PAGE})", show=False),
        Binding("pagedown", f"step({PAGE})", show=False),
        Binding("home,g", "start", show=False),
        Binding("end,G", "end", show=False),
        Binding("up,k", "layer(1)", show=False),
        Binding("down,j", "layer(-1)", show=False),
    ]

    def __init__(self, pane: TimelinePane) -> None:
        # The copied text has the legend and the state, without the picture.
        super().__init__(lambda _cells, rows: pane.chart(rows), points=tuple)
        self.id = "chart"
        self._pane = pane

    def on_resize(self, _event: events.Resize) -> None:
        """Request another number of columns for another width."""
        self._pane.state_changed()
        self._pane.change_needs()

    def action_step(self, columns: int) -> None:
        self._pane.step(columns)

    def action_event(self, by: int) -> None:
        self._pane.move(by)

    def action_start(self) -> None:
        self._pane.session.go_to(0)

    def action_end(self) -> None:
        self._pane.session.go_to(None)

    def action_layer(self, by: int) -> None:
        """Move to the layer above or below."""
        self._pane.next_layer(by)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the column and the layer under the mouse."""
        self._pane.put(event.x, event.y, self.size.height)


class TimelinePane(SnapshotPane):
    """The device's live bytes over all events, in layers, and its reserved bytes."""

    NAME = "Timeline"

    HELP = (
        "Live memory over the events of the trace, in layers: the largest sites, each with a "
        "letter and a color; a line above them is reserved memory. A column shows its highest "
        "moment, the legend the cursor's; columns are events, so equal times differ in width. P "
        "marks the peak, X an OOM, ^ the cursor. left and right move by a column, comma and full "
        "stop by an event, page up and down by ten columns; up and down choose a layer. Below: the "
        "cursor's event or the layer, with its stack. A category comes from the file, from the "
        "stack (a .to, a forward or backward pass, an optimizer's step) or from an annotation; "
        "otherwise it is unknown."
    )

    def __init__(self, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(session, id=id)
        self.drawn = TimelineChart(self)
        self.legend = LinesView(self._legend_lines, id="legend")
        self.legend.can_focus = False
        self.state = LinesView(self._state_lines, id="state")
        self.page = EmptyPage(self._state_lines)
        self._chosen: str | None = None
        """The key of the layer under the cursor; ``None`` for none."""
        self._stacking: Stacking = session.stacking
        self._window: tuple[int, int] | None = None
        self._device: object = None
        self._event: object = None

    def compose(self) -> ComposeResult:
        self.page.show(words=False)
        yield self.page
        yield self.drawn
        yield self.legend
        yield self.state

    def focus_first(self) -> None:
        (self.drawn if self.drawn.display else self.page.words).focus()

    def state_changed(self) -> None:
        focus = self.session.focus
        device = (self.session.main.store.paths, focus and focus.device)
        if device != self._device:
            self._device, self._window, self._chosen = device, None, None
        if self.session.stacking != self._stacking:
            self._stacking, self._chosen = self.session.stacking, None
        self._show_cursor()
        if focus is not None and focus.event != self._event:
            self._event = focus.event
            self.state.scroll_to(y=0, animate=False)
        self._show_parts()
        self._size_legend()
        self.drawn.rebuild()
        self.legend.rebuild()
        self.state.rebuild()
        self._retitle()

    def _show_parts(self) -> None:
        """Show the chart, or without a history the state at the end and how to record one."""
        known = not self.lacks_history
        if known != self.drawn.display:
            parts = self.drawn, self.legend, self.state
            had_focus = self.page.words.has_focus or any(part.has_focus for part in parts)
            for part in parts:
                part.display = known
            self.page.show(words=not known)
            if had_focus:
                self.focus_first()
        self.page.rebuild()

    # ---- requests ----

    def needs(self) -> Sequence[Need[Any, Any] | None]:
        """Return requests for the timeline, the state at the cursor, and the chosen layer there."""
        needs = self._timeline_need(), self._state_need(), self._part_need()
        return *needs, self.sizes_need(self.session.stacking)

    def _timeline_need(self) -> Need[TimelineArguments, Timeline] | None:
        focus = self.session.focus
        cells = self.drawn.size.width - GUTTER
        if focus is None or cells < 1:
            return None
        first, last = self._window or (0, None)
        stacking = self.session.stacking
        return Need(TIMELINE, TimelineArguments(focus.device, cells, first, last, stacking))

    def _state_need(self) -> Need[StateArguments, State] | None:
        focus = self.session.focus
        return None if focus is None else Need(STATE, StateArguments(focus.device, focus.event))

    def _part_need(self) -> Need[PartArguments, Part] | None:
        focus, layer = self.session.focus, self._chosen
        if focus is None or layer is None:
            return None
        return Need(PART, PartArguments(focus.device, focus.event, self.session.stacking, layer))

    def timeline(self) -> Timeline | None:
        """Return the newest timeline of this device, or ``None`` if there is none."""
        return self.value(self._timeline_need())

    @property
    def _letters(self) -> bool:
        """True on a display without colors, where letters fill the layers."""
        return self.app.no_color

    def chart(self, height: int) -> list[Line]:
        """Draw the chart."""
        shown = self.timeline()
        if shown is None or not shown.buckets:
            return []
        event = self.session.focus.event if self.session.focus else None
        return layers.chart_lines(shown, height, event, self._chosen, letters=self._letters)

    def _legend_lines(self, cells: int) -> list[Line]:
        shown = self.timeline()
        if shown is None or not shown.buckets:
            return []
        moment = self.moment_of(self.sizes_need(self.session.stacking))
        return layers.legend_lines(shown, cells, moment, self._chosen, letters=self._letters)

    def _size_legend(self) -> None:
        """Fit the legend's height to its rows; longer legends scroll."""
        rows = len(self._legend_lines(max(1, self.drawn.size.width)))
        height = max(1, min(rows, self.size.height // LEGEND_SHARE))
        if self.legend.styles.height is None or self.legend.styles.height.value != height:
            self.legend.styles.height = height

    def stack_shown(self) -> Sequence[Frame]:
        part, state = self.value(self._part_need()), self.value(self._state_need())
        if part is not None:
            return part.stack
        return state.entry.stack if state is not None and state.entry is not None else ()

    def _state_lines(self, cells: int) -> list[Line]:
        need, summary = self._state_need(), self.session.summary
        if need is None or summary is None:
            return []
        shown, events = self.timeline(), summary.events
        begin, part = shown.begin_us if shown else None, self.value(self._part_need())
        why = [*paragraph(NO_HISTORY, cells), ()] if self.lacks_history else []
        return why + self.answer_lines(
            need, cells, lambda state, cells: state_lines(state, events, begin, cells, part=part)
        )

    def _retitle(self) -> None:
        focus, need, shown = self.session.focus, self._state_need(), self.timeline()
        if focus is None or need is None or shown is None:
            self.retitle(self.NAME)
            return
        self.retitle(f"{timeline_heading(shown, focus.device)}{self.waiting(need)}")

    # ---- the cursor ----

    def move(self, by: int) -> None:
        """Move the cursor by single events, starting from the end if it has no event."""
        summary, focus = self.session.summary, self.session.focus
        if summary is None or focus is None or not summary.events:
            return
        event = summary.events if focus.event is None else focus.event
        self.session.go_to(event + by)

    def step(self, columns: int) -> None:
        """Move by columns, to the first event of a column."""
        shown, focus = self.timeline(), self.session.focus
        if shown is None or focus is None or not shown.buckets:
            return
        at = find_column(shown, focus.event)
        length = max(1, (shown.last - shown.first + 1) // len(shown.buckets))
        if at is None or not 0 <= at + columns < len(shown.buckets) or focus.event is None:
            self.move(columns * length if at is not None else 0)
            return
        self.session.go_to(shown.buckets[at + columns].first)

    def put(self, x: int, y: int, height: int) -> None:
        """Move the cursor to the event and layer in one cell of a chart of a given height."""
        shown = self.timeline()
        column = x - GUTTER
        if shown is not None and 0 <= column < len(shown.buckets):
            self._choose(layers.layer_at(shown, height, x, y))
            self.session.go_to(shown.buckets[column].moment)

    def next_layer(self, by: int) -> None:
        """Choose the layer above or below in the cursor's column."""
        shown, focus = self.timeline(), self.session.focus
        if shown is not None and focus is not None:
            self._choose(layers.next_layer(shown, focus.event, self._chosen, by))
            self.state_changed()
            self.change_needs()

    def _choose(self, layer: str | None) -> None:
        self._chosen = layer
        self.state.scroll_to(y=0, animate=False)

    def zoom(self, factor: float) -> None:
        """Zoom in or out around the cursor."""
        shown, summary, focus = self.timeline(), self.session.summary, self.session.focus
        if shown is None or summary is None or focus is None or not shown.buckets:
            return
        first, last = zoom_range(shown, focus.event, factor)
        self._window = clamp_range(first, last, summary.events)
        if self._window == (0, summary.events - 1):
            self._window = None
        self.state_changed()
        self.change_needs()

    def _show_cursor(self) -> None:
        """Scroll or shift the range to keep the cursor in view."""
        summary, focus = self.session.summary, self.session.focus
        if self._window is None or summary is None or focus is None:
            return
        first, last = self._window
        event = summary.events - 1 if focus.event is None else max(0, focus.event)
        if not first <= event <= last:
            half = (last - first + 1) // 2
            self._window = clamp_range(event - half, event - half + last - first, summary.events)
