"""Panes, and the widgets in them, whose lines a function makes for the present size.

A pane shows topics of the states and is redrawn when they change. :class:`LineBar` has one line
(headings, the header, the footer), :class:`LinesView` scrolls its lines, and :class:`FittedView`
fills its area. Only changed cells are redrawn, because output over a slow link takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from tui.core.events import Topic
from tui.kit.commands.command import CommandRegistry, Situation
from tui.kit.key_help import command_at, footer, shows_caption
from tui.kit.lines import TITLE_GAP, Line, cell_len, changes, plain, title_line
from tui.kit.styles import strip_of, title_content
from tui.kit.themes import find_frame_color

if TYPE_CHECKING:
    from typing_extensions import Self

ROOM = 4
"""Cells of the top border beside the title: corners, rules and blanks."""
PADDING = 2
"""Cells of the blanks around a title."""


TEXT_MARGIN = 3
"""Cells of a text view beside its lines: the padding at the left and the scroll bar's column."""


def text_cells(width: int) -> int:
    """Return the width of a line of text in a pane that is ``width`` cells wide."""
    return max(1, width - TEXT_MARGIN)


@runtime_checkable
class HasLines(Protocol):
    """A widget that draws lines of text."""

    @property
    def shown_lines(self) -> Sequence[Line]:
        """All lines, including invisible ones."""


class Pane(Container):
    """A bordered, focusable part of a screen that shows topics of the states."""

    SHOWS: ClassVar[frozenset[Topic]] = frozenset()

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._shown_title = ""
        self._framed = False
        """The title that is drawn is between the corners of a frame."""
        self._retitled = 0
        """Cells of the top border that a new title changes; 0 except while it is set."""

    def on_mount(self) -> None:
        """Draw the title again in another theme, whose colors its text has."""
        self.app.theme_changed_signal.subscribe(self, self._draw_in_theme)

    def notify_style_update(self) -> None:
        """Draw the title again if the pane has got or lost its frame, which changes its blanks.

        A hidden pane gets the style of a new size when it is shown, after its new size.
        """
        super().notify_style_update()
        if self._shown_title and self._framed != self._has_frame:
            self._draw_title(self._shown_title)

    @property
    def _has_frame(self) -> bool:
        return self.styles.border_left[0] != ""

    def _draw_in_theme(self, _theme: Theme) -> None:
        if self._shown_title:
            self._draw_title(self._shown_title)

    @property
    def short_title(self) -> str:
        """The title's name, without its facts; empty before it has a title."""
        return self._shown_title.partition(TITLE_GAP)[0].strip()

    def retitle(self, title: str) -> None:
        """Write the title into the border; data in it is text, not markup.

        Args:
            title: the name and the facts, as :func:`~tui.kit.lines.title_line` reads them.
        """
        if title != self._shown_title:
            self._draw_title(title)

    def _draw_title(self, title: str) -> None:
        # The rule behind both titles stays as it is.
        self._retitled = ROOM + PADDING + max(cell_len(title), cell_len(self._shown_title))
        self._shown_title = title
        self._framed = self._has_frame
        folded = self.has_class("-folded") and self.screen.has_class("-framed")
        rule = find_frame_color(self.app.current_theme) if folded else ""
        self.border_title = title_content(title_line(title), framed=self._framed, rule=rule)
        self._retitled = 0

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Redraw; for a new title, only its part of the top border."""
        if self._retitled and not regions:
            left, top = self.content_offset
            regions = (Region(-left, -top, min(self._retitled, self.outer_size.width), 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    @property
    def keys_go_to(self) -> Widget | None:
        """The part that gets the focus of the pane; ``None`` until its parts are made."""
        parts: list[Widget] = [self, *self.query(Widget)]
        return next((part for part in parts if part.can_focus and part.display), None)

    def state_changed(self) -> None:
        """Redraw the parts that depend on the states; called a few times a second at most."""

    def clipboard_text(self) -> str:
        """Return the pane as text: its title, then all lines, or the points of a plot."""
        shown = [part for part in self.query(Widget) if part.display and isinstance(part, HasLines)]
        rows = [row for part in shown for row in _copied_rows(part)]
        return "\n".join([self._shown_title.strip(), *rows]).rstrip() + "\n"


def _copied_rows(part: HasLines) -> Sequence[str]:
    """Return the text of a widget: the points of a plot, else its lines."""
    if isinstance(part, FittedView) and part.points is not None:
        return part.points()
    return [plain(line).rstrip() for line in part.shown_lines]


class AgingPane(Pane):
    """A pane that redraws when its figures become old."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        """Show figures with their age.

        Args:
            clock: returns the Unix time, to recognize old figures.
            id: the widget's.
        """
        super().__init__(id=id)
        self.clock = clock

    def on_mount(self) -> None:
        self.state_changed()


class PaneRow(Container):
    """Panes that share a row of a screen; the row is ``-open`` if one of them is."""

    def __init__(self, *panes: Pane, id: str) -> None:  # noqa: A002 (Textual's name)
        """Start with the visible panes, so that the first frame does not wait for the others."""
        super().__init__(*(pane for pane in panes if pane.display), id=id, classes="row")
        self._panes = panes
        self.mark_open()

    def add_rest(self) -> None:
        """Add the panes that the first frame did not show."""
        for index, pane in enumerate(self._panes):
            if not pane.is_attached:
                self.mount(pane, before=index if index < len(self.children) else None)

    def mark_open(self) -> bool:
        """Set ``-open`` if a pane is open, without computing styles; return whether it changed."""
        return switch_classes(self, {"-open": any(pane.has_class("-open") for pane in self._panes)})


def pane_of(widget: Widget | None) -> Pane | None:
    """Return the pane that is or contains a widget."""
    if widget is None:
        return None
    return next((node for node in widget.ancestors_with_self if isinstance(node, Pane)), None)


def switch_classes(node: Widget, classes: dict[str, bool]) -> bool:
    """Set classes without computing the styles; return whether any has changed."""
    before = set(node.classes)
    node.update_classes(classes, update=False)
    return before != set(node.classes)


def set_height(widget: Widget, rows: int | None) -> None:
    """Set a widget's height in rows; ``None`` leaves the height to the style sheet."""
    _set_rule(widget, "height", rows)


def set_width(widget: Widget, cells: int | None) -> None:
    """Set a widget's width in cells; ``None`` leaves the width to the style sheet."""
    _set_rule(widget, "width", cells)


def _set_rule(widget: Widget, rule: Literal["height", "width"], cells: int | None) -> None:
    if cells is not None:
        setattr(widget.styles, rule, cells)
    elif widget.styles.clear_rule(rule):
        widget.refresh(layout=True)  # Textual does not do so for a cleared rule


def _changed_regions(old: Sequence[Line], new: Sequence[Line], cells: int) -> list[Region]:
    """Return the differing cells of some rows, the first of which is row 0."""
    return [
        Region(change.start, change.row, change.end - change.start, 1)
        for change in changes(old, new, cells)
    ]


class LineBar(Widget):
    """A widget of one line, which redraws only changed cells."""

    def __init__(
        self,
        build: Callable[[int], Line],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(id=id)
        self._build = build
        self._line: Line = ()
        self._cells = 0
        """Width that the line was built for."""

    @property
    def shown_lines(self) -> Sequence[Line]:
        """The line."""
        return (self._line,)

    def rebuild(self) -> None:
        """Rebuild the line; redraw it only if it differs."""
        if not self.size.width:
            return
        old, self._line = self._line, self._build(self.size.width)
        self._cells = self.size.width
        for region in _changed_regions([old], [self._line], self.size.width):
            self.refresh(region)

    def render_line(self, y: int) -> Strip:
        if self._cells != self.size.width:
            # The first frame of a new width is drawn before the resize event.
            self._cells = self.size.width
            self._line = self._build(self._cells)
        return strip_of(self._line if y == 0 else (), self.size.width, self.rich_style)

    def on_resize(self, _event: events.Resize) -> None:
        """Rebuild the line for the new width."""
        self.rebuild()


class HeaderBar(LineBar):
    """The header: hardware, state of the runner, and the tabs; a click on a tab opens it."""

    def __init__(
        self, build: Callable[[int], Line], tab_at: Callable[[int, int], str | None]
    ) -> None:
        """Create the bar.

        Args:
            build: makes the line; receives its width.
            tab_at: returns the tab at a column for a width, or ``None``.
        """
        super().__init__(build)
        self._tab_at = tab_at

    async def on_click(self, event: events.Click) -> None:
        """Open the tab under the mouse."""
        tab = self._tab_at(event.x, self.size.width)
        if tab is not None:
            await self.app.action_switch_mode(tab)


class FooterBar(LineBar):
    """The keys of the valid commands; a click on one runs it."""

    def __init__(self, registry: CommandRegistry, situation: Callable[[], Situation]) -> None:
        super().__init__(self._footer)
        self._registry = registry
        self._situation = situation

    def _footer(self, cells: int) -> Line:
        return footer(self._registry, self._situation(), cells)

    async def on_click(self, event: events.Click) -> None:
        """Run the command under the mouse."""
        now = self._situation()
        if shows_caption(now):
            return  # a caption takes the place of most keys
        commands = self._registry.in_footer(now)
        command = command_at(event.x, commands, self.size.width)
        if command is not None:
            await self.app.run_action(command.action)


class LinesView(ScrollView, can_focus=True):
    """Draws and scrolls lines that a function makes."""

    blanks_before_bar = 0
    """Cells that stay empty before the scroll bar, for lines that reach the right edge. A padding
    would be beyond the bar."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(
        self,
        build: Callable[[int], Sequence[Line]],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
        stick_to_end: bool = False,
    ) -> None:
        super().__init__(id=id)
        self._build = build
        self._stick_to_end = stick_to_end
        self._was_left = False
        """Somebody has scrolled away from the end."""
        self._lines: Sequence[Line] = []
        self._cells = 0
        self._base = Style()

    @property
    def shown_lines(self) -> Sequence[Line]:
        """All lines, including invisible ones."""
        return self._lines

    @property
    def cells(self) -> int:
        """Width of a line, without the scroll bar's column and the blanks before it."""
        return self.scrollable_content_region.width - self.blanks_before_bar

    def get_content_height(
        self,
        container: Size,  # noqa: ARG002 (Textual calls it so)
        viewport: Size,  # noqa: ARG002
        width: int,
    ) -> int:
        """Return the number of lines, which a view of that height needs before it is drawn."""
        beside = self.styles.scrollbar_size_vertical + self.blanks_before_bar
        known = self._lines or self._build(max(1, width - beside))
        return len(known)

    def rebuild(self) -> None:
        """Rebuild the lines and redraw the changed ones."""
        cells = self.cells
        if cells <= 0:
            return
        old, old_cells = self._lines, self._cells
        self._lines, self._cells = self._build(cells), cells
        if self.virtual_size != Size(cells, len(self._lines)):
            self.virtual_size = Size(cells, len(self._lines))
        if self.scroll_y > self.max_scroll_y:
            # Textual checks the offset only when the size of the view changes.
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        if self._stick_to_end and not self._was_left:
            # Textual refuses to scroll until the scroll bar is laid out.
            self.scroll_end(animate=False, force=True)
        if old_cells != cells:
            self.refresh()
            return
        top = self.scroll_offset.y
        view = slice(top, top + self.size.height)
        regions = _changed_regions(old[view], self._lines[view], cells)
        if regions:
            self.refresh(*regions)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end of the lines until the user scrolls up, and again from the end."""
        super().watch_scroll_y(old_value, new_value)
        # Textual leaves the thumb of a scroll bar that is hidden or not laid out yet.
        self.vertical_scrollbar.position = new_value
        before_end = new_value < self.max_scroll_y
        self._was_left = before_end and (self._was_left or new_value < old_value)

    def line_style(self, _index: int) -> Style | None:
        """Return the style that a whole line adds."""
        return None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the rows of a part of the viewport."""
        # Computed once for all rows: it is the most costly part of a row.
        self._base = self.rich_style
        if self._cells != self.cells:
            # The first frame of a new width is drawn before the resize event.
            self._cells = self.cells
            self._lines = self._build(self.cells)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one row of the viewport."""
        index = y + self.scroll_offset.y
        spans = self._lines[index] if index < len(self._lines) else ()
        return strip_of(spans, self.size.width, self._base, self.line_style(index))

    def on_resize(self, _event: events.Resize) -> None:
        """Rebuild the lines for the new width."""
        self.rebuild()

    def on_mount(self) -> None:
        """Build the first lines if the width is known already."""
        self.rebuild()


class AsciiScrollBar(ScrollBarRender):
    """A scroll bar whose thumb moves by whole cells and is distinguished by its background."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8
    BLANK_GLYPH: ClassVar[str] = " "


class FittedView(Widget):
    """Lines made for the present size; redraws only changed cells."""

    def __init__(
        self,
        build: Callable[[int, int], Sequence[Line]],
        points: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """Create the view.

        Args:
            build: makes the lines; receives the width of a line and their number.
            points: returns the text to copy for a plot; ``None`` to copy the lines.
        """
        super().__init__()
        self._build = build
        self.points = points
        self._lines: Sequence[Line] = ()
        self._built = Size()
        """Size that the lines were built for."""
        self._base = Style()

    @property
    def shown_lines(self) -> Sequence[Line]:
        """The lines."""
        return self._lines

    def rebuild(self) -> None:
        """Rebuild the lines; redraw only cells that differ."""
        cells, rows = self.size
        if not cells or not rows or not self.display:
            return
        old, self._lines = self._lines, self._build(cells, rows)
        self._built = self.size
        regions = _changed_regions(old, self._lines, cells)
        if regions:
            self.refresh(*regions)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw some rows."""
        # Computed once for all rows, as in :class:`LinesView`.
        self._base = self.rich_style
        if self._built != self.size:
            # The first frame of a new size is drawn before the resize event.
            self._built = self.size
            self._lines = self._build(*self.size)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        spans = self._lines[y] if y < len(self._lines) else ()
        return strip_of(spans, self.size.width, self._base)

    def on_resize(self, _event: events.Resize) -> None:
        """Rebuild the columns for the new size."""
        self.rebuild()
