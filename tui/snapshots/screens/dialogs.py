"""The dialogs of the snapshot tab: choose a file, paste the text of an exception."""

from __future__ import annotations

import os
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from tui.kit.dialogs import Dialog, dialog
from tui.kit.lines import Line, Span, TextStyle, line, paragraph
from tui.kit.lists import NumberedList
from tui.kit.pane import LinesView
from tui.snapshots.views.opening import (
    FileEntry,
    complete_path,
    file_line,
    find_files,
    first_file,
    split_path,
)

ABOUT_OOM_TEXT = (
    "Paste the message of torch.OutOfMemoryError, or the log that contains it. It states the "
    "device's total, the memory of this process and the memory of other processes."
)


class PathInput(Input):
    """The path field: tab completes, arrow keys move in the list, an absolute path replaces it."""

    def __init__(self, value: str) -> None:
        super().__init__(value, id="path", select_on_focus=False)
        self.cursor_blink = False

    async def on_key(self, event: events.Key) -> None:
        """Pass list keys to the list; a path from the root or home directory replaces the text."""
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
        """Replace the typed path when the pasted one starts at the root or home directory."""
        if event.text.startswith(("/", "~")):
            self.value = ""


class FileScreen(Dialog["str | None"]):
    """A dialog to choose a file; returns its path, or ``None`` if canceled."""

    CSS_PATH = "snapshot.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, title: str, start: str | None = None) -> None:
        """Open the dialog in a folder.

        Args:
            title: purpose of the file.
            start: a folder; by default the current directory.
        """
        super().__init__()
        folder = start or os.getcwd()  # noqa: PTH109 (a text to be edited)
        self._title = title
        self.field = PathInput(folder if folder.endswith("/") else f"{folder}/")
        self.list = NumberedList(self._lines, id="files")
        self._files: tuple[FileEntry, ...] = ()
        self._why = ""

    def compose(self) -> ComposeResult:
        """Yield the path field above the list of files."""
        self.list.can_focus = False
        yield from dialog(
            self._title, "enter open   tab complete   escape cancel", self.field, self.list
        )

    def on_mount(self) -> None:
        self.field.focus()
        self._list_files()

    def _lines(self, cells: int) -> list[Line]:
        if self._why:
            return [line(Span(self._why, TextStyle.NOTE))]
        return [file_line(item, cells) for item in self._files]

    @on(Input.Changed, "#path")
    def _path_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._list_files()

    def _list_files(self) -> None:
        self._files, self._why = find_files(self.field.value)
        self.list.index = 0
        self.list.scroll_to(y=0, animate=False)
        self.list.rebuild()
        self.list.go_to(first_file(self._files))

    def move(self, key: str) -> None:
        """Move the list's cursor for a key typed into the path field."""
        page = max(1, self.list.size.height - 1)
        self.list.action_move({"up": -1, "down": 1, "pageup": -page, "pagedown": page}[key])

    def complete(self) -> None:
        """Complete the path with the start common to all listed files, else use the selection."""
        longer = complete_path(self.field.value, self._files)
        if longer == self.field.value and self._files:
            longer = self._under_cursor()
        self._set_path(longer)

    def _under_cursor(self) -> str:
        item = self._files[self.list.index]
        folder, _ = split_path(self.field.value)
        return folder + item.name + ("/" if item.folder else "")

    def _set_path(self, value: str) -> None:
        self.field.value = value
        self.field.cursor_position = len(value)

    @on(NumberedList.Chosen)
    @on(Input.Submitted, "#path")
    def _chosen(self, event: NumberedList.Chosen | Input.Submitted) -> None:
        event.stop()
        typed = os.path.expanduser(self.field.value)  # noqa: PTH111 (a text)
        if os.path.isfile(typed):  # noqa: PTH113
            self.dismiss(typed)
        elif self._files:
            path = self._under_cursor()
            if path.endswith("/"):
                self._set_path(path)
            else:
                self.dismiss(os.path.expanduser(path))  # noqa: PTH111

    def action_cancel(self) -> None:
        self.dismiss(None)


class OomTextScreen(Dialog["str | None"]):
    """A dialog for the text of an OOM; returns the text, or ``None`` if canceled."""

    CSS_PATH = "snapshot.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False, priority=True),
        Binding("ctrl+s,f2", "apply", show=False, priority=True),
    ]

    def __init__(self, present: str) -> None:
        super().__init__()
        self.area: TextArea = TextArea(present)
        self.area.cursor_blink = False

    def compose(self) -> ComposeResult:
        """Yield the box with the explanation and the text field."""
        words = LinesView(
            lambda cells: paragraph(ABOUT_OOM_TEXT, cells, TextStyle.QUIET), id="words"
        )
        words.can_focus = False
        yield from dialog("Text of the exception", "F2 apply   escape cancel", words, self.area)

    def on_mount(self) -> None:
        """Focus the text field."""
        self.area.focus()

    def action_apply(self) -> None:
        self.dismiss(self.area.text)

    def action_cancel(self) -> None:
        """Close the dialog without a change."""
        self.dismiss(None)
