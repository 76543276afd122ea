"""A line to type into above a list: escape drops what was typed, enter and the arrows keep it."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.widgets import Input


class FieldInput(Input):
    """Leaves for the list that it narrows.

    Args:
        placeholder: what may be typed.
        leave: is called with whether what was typed is kept.
        id: the widget's.
    """

    def __init__(
        self,
        placeholder: str,
        leave: Callable[[bool], None],
        *,
        id: str,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(placeholder=placeholder, id=id)
        self.cursor_blink = False
        self._leave = leave

    async def on_key(self, event: events.Key) -> None:
        """Leave for the list."""
        if event.key not in ("escape", "down", "up", "enter"):
            return
        self._leave(event.key != "escape")
        event.stop()
        event.prevent_default()
