"""The flame view: an icicle of frames to walk into, and the frame under the cursor below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.kit.empty_page import EmptyPage
from tui.kit.lines import Line, Span, TextStyle, line, paragraph
from tui.kit.pane import FittedView, LinesView
from tui.snapshots.explain.frames import Frame
from tui.snapshots.model.calls import (
    FLAME,
    SIZES,
    STACK,
    FlameArguments,
    Need,
    SizesArguments,
    StackArguments,
)
from tui.snapshots.model.pictures import AllocationSize, Flame, FlameFrame
from tui.snapshots.screens.panes import SnapshotPane
from tui.snapshots.session.snapshot_reader import Refused
from tui.snapshots.session.snapshot_session import SnapshotSession
from tui.snapshots.views import flame as view
from tui.snapshots.views.shared_lines import NO_STACKS, format_moment, refused_lines

LEAST_LEVELS = 2
"""Levels of a picture with one level of frames below all live memory."""

MOST_DETAIL = 14
"""Rows that what is below the picture needs; levels get what is left of a higher pane."""


class FlameChart(FittedView, can_focus=True):
    """The picture: arrows move the cursor, enter gives a frame the whole width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move('left')", show=False),
        Binding("right", "move('right')", show=False),
        Binding("down,j", "move('in')", show=False),
        Binding("up,k", "move('out')", show=False),
        Binding("enter", "walk_in", show=False),
        Binding("backspace", "walk_out", show=False),
        Binding("home,g", "start", show=False),
    ]

    def __init__(self, pane: FlamePane) -> None:
        super().__init__(pane.chart)
        self.id = "flame-chart"
        self._pane = pane

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; on the cursor, walk in."""
        self._pane.click(event.x, event.y)

    def action_move(self, direction: view.Direction) -> None:
        self._pane.move(direction)

    def action_walk_in(self) -> None:
        if self._pane.chosen == self._pane.root:
            self.notify("this frame has the whole width: down goes inwards", markup=False)
        self._pane.walk_to(self._pane.chosen)

    def action_walk_out(self) -> None:
        self._pane.walk_to(self._pane.root[:-1])

    def action_start(self) -> None:
        self._pane.walk_to(())


class FlamePane(SnapshotPane):
    """The code that allocated the memory that is live at the current moment."""

    NAME = "Flame"

    HELP = (
        "Who allocated what is live: a frame is as wide as the memory allocated below it. down "
        "goes to the largest call, up to the caller, left and right along the level; enter gives a "
        "frame the whole width, backspace goes back. Below: the stack of most bytes with the share "
        "of each frame, the sizes of the allocations below the frame, and what each line allocated "
        "itself; what is quiet lies elsewhere. A gap: allocated by the frame itself, or too small "
        "to draw. Frames of libraries are left out; b shows all."
    )

    def __init__(self, session: SnapshotSession, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(session, id=id)
        self.drawn = FlameChart(self)
        self.stack = LinesView(self._stack_lines, id="stack")
        self.stack.can_focus = False
        self.page = EmptyPage(lambda cells: paragraph(NO_STACKS, cells))
        self.root: view.Path = ()
        """Path of the frame that has the whole width."""
        self.chosen: view.Path = ()
        """Path of the frame under the cursor."""
        self._top = 0
        """Levels scrolled out of view."""
        self._outside = 0
        """Levels that are out of view at first."""
        self._heights: tuple[int, ...] = ()
        """Rows of each level."""
        self._rows = 1
        """Rows of the picture."""
        self._question: object = None
        self._is_placed = False
        """The cursor has its first place in the present picture."""
        self._widened: object = None
        """The file and device for which all frames were considered."""

    def compose(self) -> ComposeResult:
        self.page.show(words=False)
        yield self.page
        yield self.drawn
        yield self.stack

    def focus_first(self) -> None:
        (self.drawn if self.drawn.display else self.page.words).focus()

    def state_changed(self) -> None:
        """Redraw the pane; another device or other frames start anew."""
        self._show_parts()
        focus = self.session.focus
        place = (self.session.main.store.paths, focus and focus.device)
        question = (*place, self.session.all_frames)
        if question != self._question:
            self._question = question
            self.root = self.chosen = ()
            self._top = self._outside = 0
            self._is_placed = False
        if not self._is_placed:
            self._place_first(place)
        self._fit_levels()
        self._scroll()
        self.drawn.rebuild()
        self.stack.rebuild()
        self._retitle()

    def _show_parts(self) -> None:
        """Show the picture, or how to record stacks if the file has none."""
        known = self.session.has_stacks
        if known != self.drawn.display:
            had_focus = self.drawn.has_focus or self.page.words.has_focus
            self.drawn.display = self.stack.display = known
            self.page.show(words=not known)
            if had_focus:
                self.focus_first()
        self.page.rebuild()

    def _place_first(self, place: object) -> None:
        """Put the cursor on the first fork, with the frames outside it out of view.

        Your own code of a single level has nothing to walk into: all frames are shown then, once
        for each file and device, so that ``b`` can return.
        """
        flame = self.flame()
        if not isinstance(flame, Flame) or not flame.total_bytes:
            return
        is_first, self._widened = place != self._widened, place
        if is_first and not self.session.all_frames and view.depth_of(flame) <= LEAST_LEVELS:
            self.session.all_frames = True
            return
        self._is_placed = True
        fork = view.find_fork(flame)
        if len(fork) > 1:
            self.chosen = fork
            self._top = len(fork) if len(fork) + 1 < view.depth_of(flame) else 0
            self._outside = self._top

    def on_resize(self, event: events.Resize) -> None:
        """Fit the levels into the new height."""
        super().on_resize(event)
        self.call_after_refresh(self.state_changed)

    def _fit_levels(self) -> None:
        """Give few levels several rows each, and the rows that remain to the stack."""
        most = max(1, self.size.height * 2 // 3, self.size.height - MOST_DETAIL)
        flame = self.flame()
        if isinstance(flame, Flame):
            self._heights = view.arrange_levels(flame, self._outside, most)
            most = max(1, min(most, sum(self._heights[self._outside :])))
        self._rows = most
        if self.drawn.styles.height is None or self.drawn.styles.height.value != most:
            self.drawn.styles.height = most

    # ---- requests ----

    def needs(self) -> Sequence[Need[Any, Any] | None]:
        """Return requests for the frames, and for the stack and the sizes under the cursor."""
        return self._need(), self._stack_need(), self._sizes_need()

    def _need(self) -> Need[FlameArguments, Flame] | None:
        focus, cells = self.session.focus, self.drawn.size.width
        if focus is None or cells < 1:
            return None
        every = self.session.all_frames
        return Need(FLAME, FlameArguments(focus.device, focus.event, cells, self.root, every))

    def flame(self) -> Flame | Refused | None:
        """Return the newest answer for these frames; ``None`` until there is one."""
        need = self._need()
        answer = None if need is None else self.arrived(need)
        if need is None or answer is None:
            return None
        before, now = answer.need.arguments, need.arguments
        alike = before.device == now.device and before.all_frames == now.all_frames
        return answer.value if alike else None

    @property
    def frame(self) -> FlameFrame | None:
        """The frame under the cursor, or its caller if another moment lacks it."""
        flame = self.flame()
        return view.find_frame(flame, self.chosen) if isinstance(flame, Flame) else None

    def _stack_need(self) -> Need[StackArguments, tuple[Frame, ...]] | None:
        frame = self.frame
        return None if frame is None else Need(STACK, StackArguments(frame.stack))

    def _sizes_need(self) -> Need[SizesArguments, tuple[AllocationSize, ...]] | None:
        frame, focus = self.frame, self.session.focus
        if frame is None or focus is None:
            return None
        every = self.session.all_frames
        return Need(SIZES, SizesArguments(focus.device, focus.event, frame.path, every))

    def _sizes(self) -> Sequence[AllocationSize]:
        """Return the sizes under the cursor, once they are those of its frame."""
        need = self._sizes_need()
        answer = None if need is None else self.arrived(need)
        if need is None or answer is None or isinstance(answer.value, Refused):
            return ()
        return answer.value if answer.need == need else ()

    # ---- drawing ----

    def chart(self, cells: int, rows: int) -> Sequence[Line]:
        """Draw the picture, or a line with the reason for its absence."""
        flame = self.flame()
        if flame is None:
            return [line(glyphs.GLYPHS.ellipsis)]
        if isinstance(flame, Refused):
            return refused_lines(flame, cells)
        if not flame.total_bytes:
            return [line(Span("nothing is live at this moment", TextStyle.QUIET))]
        frame = self.frame
        return view.flame_lines(
            flame,
            cells,
            rows,
            frame.path if frame else (),
            self._heights,
            self._top,
            outlined=self.app.no_color,
        )

    def _scroll(self) -> None:
        """Keep the level under the cursor in view."""
        depth = len(self.frame.path) if self.frame is not None else 0
        self._top = view.scroll_levels(self._heights, self._top, depth, self._rows)

    def stack_shown(self) -> Sequence[Frame]:
        return self.value(self._stack_need()) or ()

    def _stack_lines(self, cells: int) -> list[Line]:
        flame, frame, need = self.flame(), self.frame, self._stack_need()
        if not isinstance(flame, Flame) or frame is None or need is None:
            return []
        room = view.stack_cells(cells)

        def draw(stack: Sequence[Frame], cells: int) -> list[Line]:
            return view.chain_lines(flame, frame, stack, cells)

        return view.detail_lines(
            flame,
            frame,
            self.answer_lines(need, room, draw),
            self._sizes(),
            cells,
            picture=self.drawn.size.width,
            rows=self.stack.size.height,
        )

    def _retitle(self) -> None:
        focus, summary, need = self.session.focus, self.session.summary, self._need()
        if focus is None or summary is None or need is None:
            self.retitle(self.NAME)
            return
        words = format_moment(focus, summary)
        flame = self.flame()
        if isinstance(flame, Flame):
            if self.root:
                words += f"   {text.size(flame.bytes)} of {text.size(flame.total_bytes)}"
            frame = self.frame
            level = len(frame.path) if frame is not None else 0
            words += f"   level {level} of {view.depth_of(flame) - 1}"
            if self._top > 1:
                words += f"   {text.count(self._top - 1, 'outer frame')} above"
        words += "   all frames" if self.session.all_frames else "   your code"
        self.retitle(words + self.waiting(need))

    # ---- the cursor ----

    def move(self, direction: view.Direction) -> None:
        """Move the cursor to the next frame in a direction."""
        flame, frame = self.flame(), self.frame
        if isinstance(flame, Flame) and frame is not None:
            self._choose(view.next_frame(flame, frame.path, direction))

    def _choose(self, path: view.Path) -> None:
        self.chosen = path
        self.stack.scroll_to(y=0, animate=False)
        self.state_changed()
        self.change_needs()

    def walk_to(self, path: view.Path) -> None:
        """Give a frame the whole width, and put the cursor on it."""
        self.root = path
        self._choose(path)

    def click(self, x: int, y: int) -> None:
        """Move the cursor to the frame in a cell; if it is there already, walk in."""
        flame = self.flame()
        if not isinstance(flame, Flame):
            return
        level, _ = view.level_at(self._heights, self._top, y)
        path = view.frame_at(flame, self.drawn.size.width, x, level)
        if path is None:
            return
        if path == self.chosen:
            self.walk_to(path)
        else:
            self._choose(path)
