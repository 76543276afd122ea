"""The segment map: one row per segment, and the piece at one address of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.core.text import glyphs
from tui.kit.lines import Line, line
from tui.kit.lists import NumberedList
from tui.kit.pane import FittedView, LinesView, set_height
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.calls import (
    MAP,
    PINNING,
    STRETCH,
    MapArguments,
    MapPage,
    Need,
    PinningArguments,
    Stretch,
    StretchArguments,
)
from tui.snapshots.model.pictures import Pinning, RowPicture
from tui.snapshots.screens.panes import SnapshotPane
from tui.snapshots.session.snapshot_reader import Refused
from tui.snapshots.session.snapshot_session import SnapshotSession
from tui.snapshots.views import map as view
from tui.snapshots.views.shared_lines import format_moment, refused_lines

LEAST_BYTES = 512
"""Minimum bytes per cell: no block is smaller."""


class MapRows(NumberedList):
    """The list of segments: up and down change the segment, left and right the address."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "along(-1)", show=False),
        Binding("right", "along(1)", show=False),
        Binding("shift+left", "along(-10)", show=False),
        Binding("shift+right", "along(10)", show=False),
    ]

    def __init__(self, pane: MapPane) -> None:
        super().__init__(pane.row_lines, id="rows")
        self._pane = pane

    def action_along(self, by: int) -> None:
        """Move the cursor's address by a number of cells."""
        self._pane.along(by)

    def action_choose(self) -> None:
        """Unfold or fold a group of segments; zoom into any other segment."""
        if not self._pane.toggle():
            self._pane.zoom(0.25)

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Request the rows that scrolling brought into view."""
        super().watch_scroll_y(old, new)
        if int(old) != int(new):
            self.call_after_refresh(self.rebuild)
            self._pane.change_needs()


class MapPane(SnapshotPane):
    """The memory layout at the current moment."""

    NAME = "Map"

    HELP = (
        "One row per segment, the most fragmented first; full ones of a size share a row, and so "
        "do free ones, which enter unfolds: size, share in use, S small or L large pool, e "
        "expandable, P private pool, s another stream, and its addresses. A high cell is in use, a "
        "dot free, others partly in use; the colors are those of the sites in the timeline, and a "
        "block beside another one of its site is darker; p: freed, but a stream may still use it. "
        "The bar at the top is all reserved memory. Below: the segment under the cursor, enlarged, "
        "and the block that holds it open: releasing it frees the longest span; #2 is the second "
        "allocation at its address. left and right move there."
    )

    def __init__(self, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(session, id=id)
        self.overview = FittedView(self._overview_lines)
        self.overview.id = "overview"
        self.rows = MapRows(self)
        self.body = LinesView(self._detail, id="piece")
        self._pictures: dict[int, RowPicture] = {}
        self._page: MapPage | None = None
        self._total = 0
        self._segments = 0
        self._unfolded: frozenset[int] = frozenset()
        """Groups of segments that are unfolded, by the index of their first."""
        self._moment: object = None
        self._stretch: tuple[int, int] | None = None
        """Address range of the detail picture; ``None`` shows the whole segment."""
        self._cell = 0

    def compose(self) -> ComposeResult:
        """Yield all memory in one bar, the rows, and the details at the cursor."""
        yield self.overview
        yield self.rows
        yield self.body

    def focus_first(self) -> None:
        self.rows.focus()

    def state_changed(self) -> None:
        focus = self.session.focus
        moment = (self.session.main.store.paths, focus)
        if moment != self._moment:
            self._moment = moment
            self._pictures, self._stretch, self._unfolded = {}, None, frozenset()
        self.rows.rebuild()
        above = len(self._overview_lines(max(1, self.size.width), 1))
        set_height(self.overview, above)
        # Few lines leave their rows to the segment below.
        set_height(self.rows, min(self._total, (self.size.height - above) // 2) or None)
        self.overview.rebuild()
        self.body.rebuild()
        self._retitle()

    def needs(self) -> Sequence[Need[Any, Any] | None]:
        """Return requests for the visible rows, the selected segment, and its pinning blocks."""
        return self._rows_need(), self._stretch_need(), self._pinning_need()

    def _overview_lines(self, cells: int, _rows: int) -> list[Line]:
        marks = self.app.no_color
        if self._page is None:
            return [()]
        return view.overview_lines(self._page, cells, self.size.height, marks=marks)

    # ---- rows ----

    def _rows_need(self) -> Need[MapArguments, MapPage] | None:
        focus = self.session.focus
        height = max(1, self.rows.size.height)
        cells = self.rows.cells - view.LABEL_CELLS
        if focus is None or cells < 1:
            return None
        # Request whole screens, so that small movements need no new request.
        first = max(0, self.rows.scroll_offset.y // height - 1) * height
        unfolded = tuple(sorted(self._unfolded))
        count = 3 * height
        return Need(MAP, MapArguments(focus.device, focus.event, first, count, cells, unfolded))

    def row_lines(self, cells: int) -> list[Line]:
        """Draw a line for each segment, with an ellipsis until its data arrives."""
        need = self._rows_need()
        if need is None:
            return []
        answer = self.arrived(need)
        if answer is None:
            return [line(glyphs.GLYPHS.ellipsis)]
        if isinstance(answer.value, Refused):
            return refused_lines(answer.value, cells)
        if answer.need == need or not self._pictures:
            self._page = answer.value
            self._total, self._segments = answer.value.total, answer.value.segments
            first = answer.need.arguments.first
            self._pictures = {first + at: item for at, item in enumerate(answer.value.rows)}
        return [self._row(index, cells) for index in range(self._total)]

    def _row(self, index: int, cells: int) -> Line:
        picture = self._pictures.get(index)
        if picture is None:
            return line(f"{glyphs.GLYPHS.ellipsis:>9}")
        unfolded = picture.row.index in self._unfolded
        return view.map_line(picture, cells, unfolded=unfolded, marks=self.app.no_color)

    @property
    def selected(self) -> RowPicture | None:
        """The segment under the cursor, or the first of a group."""
        return self._pictures.get(self.rows.index)

    # ---- the segment under the cursor ----

    def _find_ends(self) -> tuple[int, int] | None:
        selection = self.selected
        if selection is None:
            return None
        return self._stretch or (selection.row.address, selection.row.address + selection.row.size)

    @property
    def _cells(self) -> int:
        return view.strip_cells(self.body.cells, self._strips)

    @property
    def _strips(self) -> int:
        return view.strip_count(self.body.size.height)

    def _address(self, start: int, end: int) -> int:
        return start + (end - start) * min(self._cell, self._cells - 1) // self._cells

    def _stretch_need(self) -> Need[StretchArguments, Stretch] | None:
        focus, ends, selection = self.session.focus, self._find_ends(), self.selected
        if focus is None or ends is None or selection is None:
            return None
        start, end = ends
        arguments = StretchArguments(
            focus.device,
            focus.event,
            selection.row.index,
            start,
            end,
            width=self._cells,
            address=self._address(start, end),
        )
        return Need(STRETCH, arguments)

    def stack_shown(self) -> Sequence[Frame]:
        stretch = self.value(self._stretch_need())
        return () if stretch is None else stretch.frames

    def _pinning_need(self) -> Need[PinningArguments, Pinning | None] | None:
        focus, selection = self.session.focus, self.selected
        if focus is None or selection is None:
            return None
        return Need(PINNING, PinningArguments(focus.device, focus.event, selection.row.index))

    def _detail(self, cells: int) -> list[Line]:
        stretch, pinning = self._stretch_need(), self._pinning_need()
        if stretch is None or pinning is None:
            return []
        drawn, pinned = self.answer(stretch), self.arrived(pinning)
        about: list[Line] = []
        if pinned is not None and not isinstance(pinned.value, Refused):
            about = view.pinning_lines(pinned.value, view.about_cells(cells))
        if drawn is None:
            return about
        if isinstance(drawn, Refused):
            return [*refused_lines(drawn, cells), *about]
        return view.detail_lines(
            drawn,
            about,
            (stretch.arguments.start, stretch.arguments.end),
            min(self._cell, self._cells - 1),
            cells,
            rows=self.body.size.height,
            strips=self._strips,
            marks=self.app.no_color,
        )

    @on(NumberedList.Moved)
    def _moved(self) -> None:
        self._stretch, self._cell = None, 0
        self.body.scroll_to(y=0, animate=False)
        self.body.rebuild()
        self._retitle()
        self.change_needs()

    def toggle(self) -> bool:
        """Unfold or fold the group under the cursor; return whether there is one."""
        selection = self.selected
        if selection is None or not selection.group:
            return False
        self._unfolded ^= {selection.row.index}
        self.rows.rebuild()
        self.change_needs()
        return True

    def along(self, by: int) -> None:
        """Move along the segment; at the edge of a magnified range, shift the range."""
        ends, selection = self._find_ends(), self.selected
        if ends is None or selection is None:
            return
        cell = self._cell + by
        if 0 <= cell < self._cells:
            self._cell = cell
        elif self._stretch is not None:
            start, end = ends
            low, high = selection.row.address, selection.row.address + selection.row.size
            shift = (end - start) * by // self._cells
            shift = max(low - start, min(high - end, shift))
            self._stretch = (start + shift, end + shift)
        self.body.rebuild()
        self.change_needs()

    def zoom(self, factor: float) -> None:
        """Zoom in or out at the cursor's address."""
        ends, selection = self._find_ends(), self.selected
        if ends is None or selection is None:
            return
        start, end = ends
        address = self._address(start, end)
        low, high = selection.row.address, selection.row.address + selection.row.size
        length = max(int((end - start) * factor), min(LEAST_BYTES * self._cells, high - low))
        if length >= high - low:
            self._stretch = None
            self._cell = (address - low) * self._cells // (high - low)
        else:
            first = max(low, min(high - length, address - length // 2))
            self._stretch = (first, first + length)
            self._cell = (address - first) * self._cells // length
        self.body.rebuild()
        self.change_needs()

    def _retitle(self) -> None:
        focus, summary, selection = self.session.focus, self.session.summary, self.selected
        if focus is None or summary is None:
            self.retitle(self.NAME)
            return
        words = format_moment(focus, summary)
        if selection is not None:
            words += f"   {view.describe_line(selection, self._segments)}"
        self.retitle(words)
