"""One of a few values in a row; left and right choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from tui import glyphs
from tui.views.lines import Line, Span, Tone, fit_line, width
from tui.widgets.line_bar import LineBar


class ChoiceField(LineBar, can_focus=True):
    """All values with the chosen one marked, or what fits around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", show=False),
        Binding("right,space", "step(1)", show=False),
    ]

    def __init__(self, values: Sequence[str], chosen: str) -> None:
        super().__init__(self._choices)
        self._values = tuple(values)
        self._index = self._values.index(chosen) if chosen in self._values else 0

    @property
    def value(self) -> str:
        """The chosen one."""
        return self._values[self._index]

    def action_step(self, by: int) -> None:
        """Choose the next value or the one before, round the end."""
        self._index = (self._index + by) % len(self._values)
        self.rebuild()

    def choose(self, value: str) -> None:
        """Choose a value by its text; one that there is not changes nothing."""
        if value in self._values:
            self._index = self._values.index(value)
            self.rebuild()

    def _choices(self, cells: int) -> Line:
        tone = Tone.CURSOR if self.has_focus else Tone.STRONG
        spans: list[Span] = []
        for place, value in enumerate(self._values):
            chosen = place == self._index
            spans.append(
                Span(f"[{value}]" if chosen else f" {value} ", tone if chosen else Tone.QUIET)
            )
        if width(tuple(spans)) <= cells:
            return tuple(spans)
        count = f"{self._index + 1} of {len(self._values)}"
        dash = glyphs.GLYPHS.dash
        return fit_line(
            (Span(f"[{self.value}]", tone), Span(f" {dash} {count}", Tone.QUIET)), cells
        )

    def watch_has_focus(self, value: bool) -> None:
        """The mark shows where keys arrive."""
        super().watch_has_focus(value)
        self.rebuild()

    def on_click(self, _event: events.Click) -> None:
        """A click goes to the next value."""
        self.action_step(1)
