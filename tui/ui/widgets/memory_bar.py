"""The bar of a device's memory, one fill a slice."""

from __future__ import annotations

from collections.abc import Callable

from tui.memory import Gauge
from tui.ui.views.lines import Line
from tui.ui.views.memory import bar_line
from tui.ui.widgets.line_bar import LineBar


class MemoryBar(LineBar):
    """A row from nothing to the device's total; the legend beside it names the fills."""

    def __init__(self, gauge: Callable[[], Gauge]) -> None:
        """Draw what the owner worked out.

        Args:
            gauge: the account as it is now.
        """
        super().__init__(self._bar)
        self._gauge = gauge

    def _bar(self, cells: int) -> Line:
        return bar_line(self._gauge(), cells)
