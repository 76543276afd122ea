"""Dialogs: their frame, the help, the command palette, and confirmations."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.containers import Container
from textual.content import Content
from textual.fuzzy import Matcher
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList
from textual.worker import Worker, WorkerState

from tui.kit.command_screen import front_of
from tui.kit.commands.command import Command, CommandRegistry, Situation, key_text
from tui.kit.key_help import KEY_CELLS, help_lines
from tui.kit.lines import Line, Span, TextStyle, fit_line, paragraph
from tui.kit.lists import CursorView, RowFilter
from tui.kit.pane import LineBar, LinesView, Pane
from tui.kit.styles import key_content

R = TypeVar("R")


class ClosesOnce(Screen[R]):
    """A screen that closes once, with its first answer.

    The app hands each key to the screen that is on top when the key arrives, and that screen
    handles it later. Of two quick keys that both close a dialog, the second reaches the dialog
    after it has closed. Textual's ``dismiss`` then pops whichever screen is on top: the one below.
    """

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        """Close with a result; do nothing if another screen is on top, as it is after closing."""
        return super().dismiss(result) if self.is_active else AwaitComplete()


DIALOG_STYLES = Path(__file__).with_name("dialog.tcss")


class Dialog(ClosesOnce[R], ModalScreen[R]):
    """A box over a screen that receives all keys."""

    CSS_PATH: ClassVar[str | PurePath | list[str | PurePath] | None] = DIALOG_STYLES

    @on(events.Mount)
    def _clear_messages(self) -> None:
        """Remove earlier messages: they would cover the text."""
        self.app.clear_notifications()


class Palette(CommandPalette):
    """Textual's palette, limited to one command however often Enter is pressed.

    :class:`ClosesOnce` cannot be one of its bases: Textual looks for a class's parts in the first.
    """

    _is_enter_due = False
    """Enter waits for the commands that match the typed words."""
    _is_stray = False
    """The palette was not on top when it was mounted."""

    def compose(self) -> ComposeResult:
        """Yield the framework's parts, and the keys in the place of the footer."""
        yield from super().compose()
        yield KeysBar("enter run   escape close")

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close, once mounted; do nothing if another screen is on top, as it is after closing."""
        if not self.is_mounted:
            # A key was faster. Textual's palette expects to be on top when it is mounted.
            self.call_later(self._close)
            return AwaitComplete()
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def _close(self) -> None:
        """Close without waiting for the end: a screen must not wait for its own."""
        self.dismiss()

    def on_mount(self, event: events.Mount) -> None:
        """Stop the cursor from blinking, which costs frames over a slow link."""
        self.query_one(Input).cursor_blink = False
        # A command has opened another tab meanwhile. The framework expects the palette on top.
        if self.app.screen is not self:
            event.prevent_default()
            self._is_stray = True

    def on_screen_resume(self) -> None:
        """Close if another tab was opened before the palette was mounted."""
        if self._is_stray:
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible: no page is turned before the list is laid out."""
        if action == "command_list" and not self.query_one(OptionList).scrollable_content_region:
            return False
        return super().check_action(action, parameters)

    @on(Input.Submitted)
    def _await_matches(self, event: Input.Submitted) -> None:
        """Run nothing before the list has the matches of all typed words: Enter may be faster."""
        if any(worker.node is self and not worker.is_finished for worker in self.workers):
            self._is_enter_due = True
            event.stop()
            event.prevent_default()

    @on(Input.Changed)
    def _search_while_open(self, event: Input.Changed) -> None:
        """Search for nothing that is typed after Enter, nor once the palette has closed."""
        if self._is_enter_due or not self.is_active:
            event.stop()
            event.prevent_default()

    async def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Let Enter act once the matches are listed."""
        if event.state is WorkerState.SUCCESS and self._is_enter_due and self.is_active:
            self._is_enter_due = False
            await self.query_one(Input).action_submit()

    @on(Input.Submitted)
    @on(Button.Pressed)
    @on(OptionList.OptionSelected)
    def _select_once(
        self, event: Input.Submitted | Button.Pressed | OptionList.OptionSelected
    ) -> None:
        """Skip the framework's handler once the palette has closed."""
        if not self.is_active:
            event.stop()
            event.prevent_default()


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
    "flame": "Flame",
    "map": "Map",
    "difference": "Difference",
    "snapshot": "Snapshot",
    "kept-runs": "Watched runs",
    "watched-run": "Run",
    "watched-memory": "Memory of a process",
    "watched-output": "Output",
    "results": "Results",
    "comparison": "Results compared",
    "past": "A workload over time",
    "present": "Presentation",
}
"""Titles of the panes in the help, by id."""


class KeysBar(LineBar):
    """The keys of a dialog, in the place of the footer, whose keys wait until it is closed.

    Args:
        keys: each key with what it does, three blanks apart: ``enter applies   escape cancels``.
    """

    def __init__(self, keys: str) -> None:
        super().__init__(lambda cells: fit_line(self.spans, cells))
        pairs = [words.partition(" ") for words in keys.split("   ")]
        self.spans: Line = tuple(
            span
            for key, _, label in pairs
            for span in (Span(" "), Span(key, TextStyle.KEY), Span(f" {label} "))
        )


def dialog(title: str, keys: str, *parts: Widget) -> ComposeResult:
    """Yield the frame of a dialog and the bar of its keys.

    Args:
        title: of the dialog; data in it is text, not markup.
        keys: the keys that lead out of it, as in :class:`KeysBar`.
        parts: its widgets, from the top down.
    """
    frame = Container(*parts, classes="dialog")
    frame.border_title = Content(title)
    yield frame
    yield KeysBar(keys)


class BesideCursor(Dialog[R]):
    """A dialog beside the row under the cursor, which stays visible.

    At the top of the screen, its keys are on its frame, and the footer is blank.
    """

    @on(events.Mount)
    def _place(self) -> None:
        front = front_of(self.app)
        about = front.focused if front is not None else None
        if about is None:
            return
        row = about.region.y
        if isinstance(about, CursorView) and about.cursor is not None:
            row += about.cursor - about.scroll_offset.y
        if 2 * row < self.app.size.height:
            return
        self.add_class("-above")
        keys = self.query_one(KeysBar)
        self.query_one(".dialog").border_subtitle = key_content(keys.spans)
        keys.spans = ()
        keys.rebuild()


WIDE_HELP = 160
"""Cells of a screen from which the help has two columns."""


class HelpScreen(Dialog[None]):
    """The help as a scrolling text; the keys that open it also close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss_help", show=False),
        Binding("slash", "search", show=False, priority=True),
    ]

    def __init__(self, registry: CommandRegistry, pane: Pane | None, now: Situation) -> None:
        """Explain the keys of the screen from which the help was opened.

        Args:
            registry: all commands.
            pane: the pane that had the focus.
            now: the situation on that screen.
        """
        super().__init__()
        self._registry = registry
        self._pane = pane
        self._now = now
        self._pattern = ""
        self._lines = LinesView(self._help)
        self._search = RowFilter(
            self, self._lines, self._lines, "words of a key's help", id="help-search"
        )

    def compose(self) -> ComposeResult:
        """Yield a box around the text."""
        yield from dialog("Help", "/ search   escape close", self._lines)

    def on_mount(self) -> None:
        """Focus the text, so that its keys scroll."""
        self._lines.focus()

    def on_resize(self, event: events.Resize) -> None:
        """Make room for two columns."""
        self.set_class(event.size.width >= WIDE_HELP, "-wide")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the keys whose help contains the typed words."""
        event.stop()
        self._pattern = event.value
        self._lines.scroll_to(y=0, animate=False)
        self._lines.rebuild()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Type a slash into the search while it has the focus."""
        if action == "search" and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        """Focus the search."""
        self._search.begin()

    def _help(self, cells: int) -> list[Line]:
        pane = self._pane
        about = (pane.HELP or "") if pane else ""
        title = TITLES.get(pane.id or "", "This pane") if pane else ""
        return help_lines(self._registry, title, about, cells, self._now, self._pattern)

    def action_dismiss_help(self) -> None:
        self.dismiss()


class TextScreen(Dialog[None]):
    """A scrolling text that explains the row under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,i,enter", "leave", show=False)]

    def __init__(
        self, title: str, build: Callable[[int], Sequence[Line]], keys: str = "escape close"
    ) -> None:
        """Show lines.

        Args:
            title: of the dialog; data in it is text, not markup.
            build: returns the lines for a width in cells.
            keys: the keys that lead out of it, below.
        """
        super().__init__()
        self._title = title
        self._build = build
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Yield a box around the text."""
        yield from dialog(self._title, self._keys, LinesView(self._build, id="message"))

    def action_leave(self) -> None:
        self.dismiss()


class LiveTextScreen(TextScreen):
    """A text that is rebuilt once a second."""

    EVERY_S: ClassVar[float] = 1.0

    def on_mount(self) -> None:
        """Start the timer of the updates."""
        self.set_interval(self.EVERY_S, self.rebuild)

    def rebuild(self) -> None:
        """Rebuild the text if it is still shown, without scrolling."""
        if self.is_attached:
            for lines in self.query(LinesView):
                lines.rebuild()


class QuestionScreen(BesideCursor[R]):
    """A question with its consequences; a subclass binds the keys that answer.

    Args:
        question: the title.
        sentences: the consequences, one paragraph each.
    """

    KEYS: ClassVar[str]
    """The keys that answer, below the sentences."""

    def __init__(self, question: str, sentences: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self.sentences = tuple(sentences)
        """The consequences, one paragraph each."""

    def compose(self) -> ComposeResult:
        """Yield a box around the sentences."""
        yield from dialog(self._question, self.KEYS, LinesView(self.lines, id="message"))

    def lines(self, cells: int) -> list[Line]:
        """Return the lines of the sentences."""
        return [row for text in self.sentences for row in paragraph(text, cells)]


class ConfirmScreen(QuestionScreen[bool]):
    """A question that only ``y`` confirms; Enter does not, because it is pressed without thinking.

    The result is true for yes.
    """

    KEYS = "y yes   n no"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
    ]

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


LEAST_SCORE = 0.01
"""Score of a command whose help alone contains the words: below every match of a name."""


def score_match(matcher: Matcher, name: str, sentence: str) -> float:
    """Return how well a name matches typed words, or its sentence contains them; 0 for not.

    Letters scattered over a sentence match by chance: it is searched for whole words.
    """
    score = matcher.match(name.replace("_", " "))
    words = matcher.query.lower().split()
    return score or LEAST_SCORE * all(word in sentence.lower() for word in words)


class WorkbenchCommands(Provider):
    """Finds commands by words of their labels and help."""

    def _valid(self) -> list[Command]:
        front = front_of(self.app)
        if front is None:
            return []
        now, registry = front.situation(), front.program.commands
        valid = [
            command
            for command in registry.commands
            if command.id not in ("command_palette", "find_command") and command.valid(now)
        ]
        # Users who search for a snapshot need not know which tab opens one.
        return valid if now.tab == "snapshot" else [*valid, registry.by_id["snapshot_open"]]

    async def discover(self) -> Hits:
        """Yield all valid commands; the palette shows them before the user types."""
        for command in self._valid():
            yield DiscoveryHit(palette_row(command), partial(self._run_action, command))

    async def search(self, query: str) -> Hits:
        """Yield the valid commands that match the typed words."""
        matcher = self.matcher(query)
        words = query.lower().split()
        for command in self._valid():
            score = score_match(matcher, command.id, command.help)
            if score > 0:
                run = partial(self._run_action, command)
                yield Hit(score, palette_row(command, words), run, text=command.help)

    async def _run_action(self, command: Command) -> bool:
        # The palette has closed by now, so this is the screen below it.
        front = front_of(self.app)
        if front is not None and front.TAB not in command.tabs:
            await self.app.action_switch_mode(command.tabs[0])
        return await self.app.run_action(command.action)


def palette_row(command: Command, words: Sequence[str] = ()) -> Content:
    """Return the command's first key and its sentence, as the help lists them.

    Args:
        command: the command.
        words: lower-case words to mark in the sentence.
    """
    key = key_text(command.keys[0]) if command.keys else ""
    sentence = command.help.removesuffix(".")
    row = Content.assemble((f"{key:<{KEY_CELLS}} ", "bold"), sentence)
    for word in words:
        start = sentence.lower().find(word)
        if start >= 0:
            row = row.stylize("underline", KEY_CELLS + 1 + start, KEY_CELLS + 1 + start + len(word))
    return row


END_SIGNALS = {
    "i": (signal.SIGINT, "KeyboardInterrupt in Python's main thread, as by Ctrl-C"),
    "t": (signal.SIGTERM, "most programs end and lose unsaved work"),
    "k": (signal.SIGKILL, "ends at once: saves nothing, runs no exit handler"),
}


def key_lines(key: str, about: str, cells: int) -> list[Line]:
    """Return the lines of a key and of what it does."""
    label, style = f"{key} ", TextStyle.KEY
    return paragraph(about, cells, indent="  ", label=label, label_style=style)


class EndScreen(QuestionScreen["signal.Signals | None"]):
    """Returns the signal to send, or ``None``; Enter sends nothing."""

    KEYS = "escape cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"answer('{key}')", show=False) for key in END_SIGNALS),
        Binding("n,escape,q", "answer('')", show=False),
    ]

    def lines(self, cells: int) -> list[Line]:
        """Return the lines of the sentences and of the signals."""
        rows = super().lines(cells)
        for key, (number, about) in END_SIGNALS.items():
            rows += key_lines(key, f"{number.name}: {about}", cells)
        return rows

    def action_answer(self, key: str) -> None:
        """Send the chosen signal, or nothing."""
        self.dismiss(END_SIGNALS[key][0] if key else None)
