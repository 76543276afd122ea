"""The area of the workbench's panes: widths of its columns, and the borders between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from textual import events
from textual.containers import Container
from textual.widget import Widget

from tui.core.borders import STEP, BorderName
from tui.kit.pane import set_width
from tui.runs.screens.program import RunProgram


class PaneArea(Container):
    """All panes; a press on the cell between two columns drags their border.

    Args:
        program: has the borders.
        top: devices and memory.
        table: the workloads.
        bottom: switches, and the detail or the log.
        firsts: the panes at the left of top and bottom.
        moved: called when a border has moved.
    """

    def __init__(
        self,
        program: RunProgram,
        top: Widget,
        table: Widget,
        bottom: Widget,
        *,
        firsts: tuple[Widget, Widget],
        moved: Callable[[], None],
    ) -> None:
        super().__init__(top, table, bottom, id="panes")
        self._program = program
        self._top, self._table = top, table
        self._devices, self._backend = firsts
        self._moved = moved
        self._layout: Literal["columns", "grid", "stack"] = "stack"
        self._dragged: BorderName | None = None

    def fit_columns(self, layout: Literal["columns", "grid", "stack"]) -> None:
        """Give the columns their widths.

        Args:
            layout: top, table and bottom are three columns; top and bottom have two each; or all
                panes stand below one another.
        """
        self._layout = layout
        borders, cells = self._program.borders, self.app.size.width
        columns, grid = layout == "columns", layout == "grid"
        left, right = cells * borders.left // 100, cells * borders.right // 100
        middle = cells * borders.middle // 100
        set_width(self._top, left if columns else None)
        set_width(self._table, right - left if columns else None)
        beside = grid and not self._backend.has_class("-folded")
        set_width(self._devices, middle if grid else None)
        set_width(self._backend, middle if beside else None)

    def step_border(self, focused: str | None, direction: int) -> None:
        """Move the border to the right of the focused pane, or the only one beside it.

        Args:
            focused: id of the focused pane.
            direction: -1 to the left, 1 to the right.
        """
        borders = self._program.borders
        step = direction * STEP
        if self._layout == "grid":
            self._move("middle", borders.middle + step)
        elif self._layout != "columns":
            return
        elif focused in ("devices", "memory"):
            self._move("left", borders.left + step)
        else:
            self._move("right", borders.right + step)

    def _move(self, border: BorderName, to: int) -> None:
        """Move a border to a percentage of the width, within the columns' least widths."""
        moved = self._program.borders.moved(border, to)
        if moved != self._program.borders:
            self._program.borders = moved
            self._moved()

    def _border_at(self, x: int, y: int) -> BorderName | None:
        """Return the border between two columns at a cell of the screen."""
        if self._layout == "columns":
            if x == self._top.region.right:
                return "left"
            return "right" if x == self._table.region.right else None
        row = self._devices.region
        beside = self._layout == "grid" and x == row.right and row.y <= y < row.bottom
        return "middle" if beside else None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag the border under the mouse."""
        self._dragged = self._border_at(event.screen_x, event.screen_y)
        if self._dragged is not None:
            event.stop()
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the border to the mouse."""
        if self._dragged is not None:
            self._move(self._dragged, round(100 * event.screen_x / max(1, self.app.size.width)))

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """Stop dragging."""
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()
