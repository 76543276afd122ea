"""The area of the workbench's panes, in which the mouse drags the borders between columns."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.containers import Container
from textual.widget import Widget

from tui.core.borders import BorderName


class PaneArea(Container):
    """All panes; a press on the cell between two columns drags their border.

    Args:
        panes: the rows or columns of panes.
        border_at: returns the border at a cell of the screen, if there is one.
        move: receives a border and the cell that it is dragged to.
    """

    def __init__(
        self,
        *panes: Widget,
        border_at: Callable[[int, int], BorderName | None],
        move: Callable[[BorderName, int], None],
    ) -> None:
        super().__init__(*panes, id="panes")
        self._border_at = border_at
        self._move = move
        self._dragged: BorderName | None = None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag the border under the mouse."""
        self._dragged = self._border_at(event.screen_x, event.screen_y)
        if self._dragged is not None:
            event.stop()
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the border to the mouse."""
        if self._dragged is not None:
            self._move(self._dragged, event.screen_x)

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """Stop dragging."""
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()
