"""Dialogs: the box they stand in, the help, and a question before what cannot be undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from tui.ui.commands.command import Situation
from tui.ui.screens.command_screen import front_of
from tui.ui.views.lines import Line, paragraph
from tui.ui.views.screen_frame import help_lines
from tui.ui.widgets.lines_view import LinesView
from tui.ui.widgets.lists import CursorView
from tui.ui.widgets.pane import Pane

TITLES = {
    "devices": "Devices",
    "memory": "Memory",
    "memory-view": "Memory",
    "processes": "Processes",
    "workloads": "Workloads",
    "backend": "Backends",
    "detail": "Detail",
    "log": "Log",
    "verdict": "Verdict",
    "timeline": "Timeline",
    "sites": "Sites",
    "map": "Map",
    "difference": "Difference",
    "snapshot": "Snapshot",
    "kept-runs": "Runs that are kept",
    "watched-run": "Run",
    "watched-memory": "Memory of a process",
    "watched-output": "Output",
    "results": "Results",
    "comparison": "Results compared",
    "past": "A workload over time",
    "demo": "Demo",
}
"""What each pane is called in the help, by its id."""


def box(title: str, keys: str, *parts: Widget) -> Container:
    """The frame of a dialog.

    Args:
        title: stands above; data in it is text, not markup.
        keys: the keys that lead out of it, below.
        parts: what it holds, from the top down.
    """
    frame = Container(*parts, classes="dialog")
    frame.border_title = Content(title)
    frame.border_subtitle = Content(keys)
    return frame


R = TypeVar("R")


class BesideCursor(ModalScreen[R]):
    """A dialog about what is under the cursor, which it leaves in sight."""

    CSS_PATH = "dialog.tcss"

    @on(events.Mount)
    def _place(self) -> None:
        front = front_of(self.app)
        about = front.focused if front is not None else None
        if about is None:
            return
        row = about.region.y
        if isinstance(about, CursorView) and about.cursor is not None:
            row += about.cursor - about.scroll_offset.y
        self.set_class(2 * row >= self.app.size.height, "-above")


class HelpScreen(ModalScreen[None]):
    """A scrolling text; any of the keys that lead in lead out."""

    CSS_PATH = "dialog.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss_help", show=False)
    ]

    def __init__(self, pane: Pane | None, now: Situation) -> None:
        """Explain where one comes from.

        Args:
            pane: the one that had the focus.
            now: what was on the screen.
        """
        super().__init__()
        self._pane = pane
        self._now = now

    def compose(self) -> ComposeResult:
        """A box around the text."""
        yield box("Help", "escape closes", LinesView(self._help))

    def _help(self, cells: int) -> list[Line]:
        pane = self._pane
        about = (pane.HELP or "") if pane else ""
        title = TITLES.get(pane.id or "", "This pane") if pane else ""
        return help_lines(title, about, cells, self._now)

    def action_dismiss_help(self) -> None:
        self.dismiss()


class ConfirmScreen(BesideCursor[bool]):
    """Only ``y`` says yes; enter does not, because it is pressed without thinking.

    Args:
        question: the title.
        words: what will happen, a paragraph each.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
    ]

    def __init__(self, question: str, words: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._words = tuple(words)

    def compose(self) -> ComposeResult:
        """A box around the words."""
        words = LinesView(self._lines, id="message")
        yield box(self._question, "y yes   n or escape no", words)

    def _lines(self, cells: int) -> list[Line]:
        return [row for text in self._words for row in paragraph(text, cells)]

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
