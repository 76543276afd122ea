"""Choose a snapshot file: a path with completion, and what the folder holds."""

from __future__ import annotations

import os
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from tui.ui.screens.dialogs import box
from tui.ui.views.lines import Line, Span, TextStyle, line
from tui.ui.views.snapshot.overview import (
    FoundFile,
    completed_path,
    found_line,
    matching_files,
    split_path,
)
from tui.ui.widgets.lists import NumberedList


class PathInput(Input):
    """Arrows go through the list, tab completes; a whole path takes the place of what is there."""

    def __init__(self, value: str) -> None:
        super().__init__(value, id="path", select_on_focus=False)
        self.cursor_blink = False

    async def on_key(self, event: events.Key) -> None:
        """Send the list its keys; a path from the root or from home begins anew."""
        screen = self.screen
        assert isinstance(screen, FileScreen)
        at_end = self.cursor_position == len(self.value)
        if event.character in ("/", "~") and self.value.endswith("/") and at_end:
            self.value = "" if event.character == "~" else "/"
            if event.character == "/":
                event.stop()
                event.prevent_default()
            self.cursor_position = len(self.value)
            return
        if event.key in ("up", "down", "pageup", "pagedown"):
            screen.move(event.key)
        elif event.key == "tab":
            screen.complete()
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """A path from the root is not meant to follow another."""
        if event.text.startswith(("/", "~")):
            self.value = ""


class FileScreen(ModalScreen["str | None"]):
    """Gives back a path, or ``None``."""

    CSS_PATH = "snapshot.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, title: str, start: str | None = None) -> None:
        """Begin in a folder.

        Args:
            title: what the file is for.
            start: a folder; by default where the program runs.
        """
        super().__init__()
        folder = start or os.getcwd()  # noqa: PTH109 (a text to be edited)
        self._title = title
        self.field = PathInput(folder if folder.endswith("/") else f"{folder}/")
        self.list = NumberedList(self._lines, id="files")
        self._found: tuple[FoundFile, ...] = ()
        self._why = ""

    def compose(self) -> ComposeResult:
        """The path over the list."""
        self.list.can_focus = False
        yield box(self._title, "enter opens   tab completes   escape leaves", self.field, self.list)

    def on_mount(self) -> None:
        self.field.focus()
        self._look()

    def _lines(self, cells: int) -> list[Line]:
        if self._why:
            return [line(Span(self._why, TextStyle.NOTE))]
        return [found_line(item, cells) for item in self._found]

    @on(Input.Changed, "#path")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._look()

    def _look(self) -> None:
        self._found, self._why = matching_files(self.field.value)
        self.list.index = 0
        self.list.scroll_to(y=0, animate=False)
        self.list.rebuild()

    def move(self, key: str) -> None:
        """Move the list's cursor as a key asks that was typed into the path."""
        page = max(1, self.list.size.height - 1)
        self.list.action_move({"up": -1, "down": 1, "pageup": -page, "pagedown": page}[key])

    def complete(self) -> None:
        """As far as all that is listed agrees; else take what is under the cursor."""
        longer = completed_path(self.field.value, self._found)
        if longer == self.field.value and self._found:
            longer = self._under_cursor()
        self._put(longer)

    def _under_cursor(self) -> str:
        item = self._found[self.list.index]
        folder, _ = split_path(self.field.value)
        return folder + item.name + ("/" if item.folder else "")

    def _put(self, value: str) -> None:
        self.field.value = value
        self.field.cursor_position = len(value)

    @on(NumberedList.Chosen)
    @on(Input.Submitted, "#path")
    def _chosen(self, event: NumberedList.Chosen | Input.Submitted) -> None:
        event.stop()
        typed = os.path.expanduser(self.field.value)  # noqa: PTH111 (a text)
        if os.path.isfile(typed):  # noqa: PTH113
            self.dismiss(typed)
        elif self._found:
            path = self._under_cursor()
            if path.endswith("/"):
                self._put(path)
            else:
                self.dismiss(os.path.expanduser(path))  # noqa: PTH111

    def action_cancel(self) -> None:
        self.dismiss(None)
