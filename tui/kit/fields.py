"""One-line fields: a choice among values, and a filter for a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from tui.core.text import glyphs
from tui.kit.lines import Line, Span, TextStyle, fit_line, width
from tui.kit.pane import LineBar


class ChoiceField(LineBar, can_focus=True):
    """A row of values with the chosen one in brackets; shows the values around it that fit.

    The field's value is all values marked with space; without a mark, the chosen one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", show=False),
        Binding("right", "step(1)", show=False),
        Binding("space", "mark", show=False),
    ]

    class Changed(Message):
        """Another value is chosen or marked."""

    def __init__(self, values: Sequence[str], chosen: str) -> None:
        super().__init__(self._choices)
        self._values = tuple(values)
        self._marked: set[str] = set()
        self._index = 0
        self.choose(chosen)

    @property
    def value(self) -> str:
        """The chosen value, or the marked values separated by commas."""
        marked = [value for value in self._values if value in self._marked]
        return ",".join(marked) or self._values[self._index]

    def action_step(self, by: int) -> None:
        """Choose the next or the previous value, cyclically."""
        self._index = (self._index + by) % len(self._values)
        self._show()

    def action_mark(self) -> None:
        """Mark or unmark the chosen value."""
        self._marked ^= {self._values[self._index]}
        self._show()

    def choose(self, value: str) -> None:
        """Choose a value by its text, or mark several; ignore unknown values."""
        self._marked = set()
        several = list(self._values) if value == "*" else value.split(",")
        if value in self._values:
            self._index = self._values.index(value)
        elif len(several) > 1 and set(several) <= set(self._values):
            self._marked, self._index = set(several), self._values.index(several[0])
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        self.rebuild()
        self.post_message(self.Changed())

    def _choices(self, cells: int) -> Line:
        style = TextStyle.CURSOR if self.has_focus else TextStyle.STRONG
        spans: list[Span] = []
        for index, value in enumerate(self._values):
            chosen = index == self._index
            words = f"{'+' if value in self._marked else ''}{value}"
            shown = f"[{words}]" if chosen else f" {words} "
            marked = TextStyle.STRONG if value in self._marked else TextStyle.QUIET
            spans.append(Span(shown, style if chosen else marked))
        if width(tuple(spans)) <= cells:
            return tuple(spans)
        count = f"{self._index + 1} of {len(self._values)}"
        dash = glyphs.GLYPHS.dash
        return fit_line(
            (
                Span(f"[{self._values[self._index]}]", style),
                Span(f" {dash} {count}", TextStyle.QUIET),
            ),
            cells,
        )

    def watch_has_focus(self, value: bool) -> None:
        """Mark the field that has the focus."""
        super().watch_has_focus(value)
        self.rebuild()

    def on_click(self, _event: events.Click) -> None:
        """Go to the next value."""
        self.action_step(1)


class FieldInput(Input):
    """A filter's field; keys that mean nothing in it return to the filtered list.

    Args:
        placeholder: describes the text to type.
        leave: called on the way back to the list; true keeps the filter.
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
        """Return to the list on a key that means nothing in one line of text."""
        if event.key not in ("escape", "down", "up", "enter"):
            return
        self._leave(event.key != "escape")
        event.stop()
        event.prevent_default()
