"""Lines of which one is under a cursor, by the key of what it shows: rows may come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.message import Message

from tui.ui.views.lines import Line
from tui.ui.widgets.cursor_view import CursorView

Row = tuple[str, Line]
"""A key that stays the same while the row means the same, and its line."""


class CursorLines(CursorView):
    """Rows with a cursor that stays on what it is on."""

    class Moved(Message):
        """The cursor is on something else."""

    def __init__(
        self,
        build: Callable[[int], Sequence[Row]],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(self._shown, id=id)
        self._rows_of = build
        self._keys: list[str] = []
        self._key: str | None = None
        self._told: str | None = None

    @property
    def key(self) -> str | None:
        """Of the row under the cursor; ``None`` where there are no rows."""
        return None if self.cursor is None else self._keys[self.cursor]

    @property
    def count(self) -> int:
        """Rows that the cursor can stand on."""
        return len(self._keys)

    @property
    def cursor(self) -> int | None:
        """Its place; the first row's where what the cursor was on is gone."""
        if not self._keys:
            return None
        return self._keys.index(self._key) if self._key in self._keys else 0

    def put_cursor(self, index: int) -> None:
        """Have the cursor hold on to another row."""
        self._key = self._keys[index]
        self._tell()

    def _shown(self, cells: int) -> list[Line]:
        rows = self._rows_of(cells)
        self._keys = [key for key, _ in rows]
        self._tell()
        return [line for _, line in rows]

    def _tell(self) -> None:
        if self.key != self._told:
            self._told = self.key
            self.post_message(self.Moved())
