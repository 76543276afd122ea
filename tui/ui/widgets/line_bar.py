"""One line that a function makes for the present width: header, footer, headings."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.ui.views.changes import changes
from tui.ui.views.lines import Line
from tui.ui.widgets.styles import strip_of


class LineBar(Widget):
    """A row of text."""

    def __init__(
        self,
        build: Callable[[int], Line],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(id=id)
        self._build = build
        self._line: Line = ()

    def rebuild(self) -> None:
        """Make the line anew; drawn only if it differs."""
        if not self.size.width:
            return
        old, self._line = self._line, self._build(self.size.width)
        for change in changes([old], [self._line], self.size.width):
            self.refresh(Region(change.start, 0, change.end - change.start, 1))

    def render_line(self, y: int) -> Strip:
        """Draw it."""
        if not self._line:
            # The first frame is drawn before the event that tells of the width.
            self._line = self._build(self.size.width)
        return strip_of(self._line if y == 0 else (), self.size.width, self.rich_style)

    def on_resize(self, _event: events.Resize) -> None:
        """The line depends on the width."""
        self.rebuild()
