"""The dialog that shows the theme under its cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.core.settings import OWN_PALETTE, THEME
from tui.kit.dialogs import Dialog, dialog
from tui.kit.lines import Line, Span, TextStyle
from tui.kit.lists import NumberedList

ABOUT = {
    THEME: "the default",
    OWN_PALETTE: "terminal colors",
    "ansi-light": "terminal colors on white",
}


class ThemeScreen(Dialog[str]):
    """A list of themes beside the screen, which shows the theme under the cursor.

    Args:
        names: the themes in their order.
        present: the current theme.
        preview: draws the screen in a theme.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,T", "cancel", show=False)]

    def __init__(self, names: Sequence[str], present: str, preview: Callable[[str], None]) -> None:
        super().__init__()
        self._names = names
        self._present = present
        self._preview = preview
        self.table = NumberedList(self._lines)
        self.table.index = names.index(present) if present in names else 0

    def compose(self) -> ComposeResult:
        """Yield a box around the list."""
        yield from dialog("Theme", "enter save   escape cancel", self.table)

    def _lines(self, _cells: int) -> list[Line]:
        lines: list[Line] = []
        for name in self._names:
            in_use = "in use" if name == self._present else ""
            about = ", ".join(filter(None, [in_use, ABOUT.get(name, "")]))
            lines.append((Span(name), Span(f"  {about}" if about else "", TextStyle.QUIET)))
        return lines

    @on(NumberedList.Moved)
    def _moved(self) -> None:
        self._preview(self._names[self.table.index])

    @on(NumberedList.Chosen)
    def _chosen(self) -> None:
        self.dismiss(self._names[self.table.index])

    def action_cancel(self) -> None:
        """Restore the previous theme."""
        self._preview(self._present)
        self.dismiss(self._present)
