"""The base class of the tabs and of the presentation, whose keys are the registry's commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from textual import events, on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from tui.core.borders import Borders
from tui.core.events import Topics
from tui.kit.commands.command import Command, CommandRegistry, Situation
from tui.kit.commands.shared import SHARED
from tui.kit.frames import is_framed
from tui.kit.lines import Line
from tui.kit.lists import CursorView, Offer, OfferList
from tui.kit.pane import FooterBar, HeaderBar, LineBar, Pane, pane_of, switch_classes
from tui.kit.terminal.clipboard import copy


class Program(Protocol):
    """The parts of the app that a screen uses."""

    clock: Callable[[], float]
    """Returns the Unix time, to compute the age of figures."""
    readonly: bool
    """Offer no command that sends a request to the runner."""
    replay: bool
    """True while a recording is played."""
    borders: Borders
    """The borders between columns of panes; a screen may move them."""
    stores_results: bool
    """True if results are stored."""
    first_start: bool
    """True if nothing was ever measured: the workbench names the keys to press."""

    @property
    def offers_demo(self) -> bool:
        """True if empty tabs offer to play the demo."""

    @property
    def commands(self) -> CommandRegistry:
        """All commands of the program."""

    def header_line(self, tab: str, cells: int) -> Line:
        """Return the header of a tab's screen."""

    def tab_at(self, tab: str, x: int, cells: int) -> str | None:
        """Return the tab at a column of the header."""

    def situation(self) -> Situation:
        """Return the facts of the program that decide which commands are valid."""

    def draw_now(self) -> None:
        """Redraw at once after a key."""

    def list_offers(self, tab: str) -> Sequence[Offer]:
        """Return the offers of an empty tab that need no file."""

    def find_offers(self, tab: str) -> Sequence[Offer]:
        """Search files for the offers of an empty tab; called in a thread."""

    def watch_allocators(self, enabled: bool) -> None:
        """Read the allocators of other processes while they are on the screen."""

    def sample_hosts(self, *, often: bool) -> None:
        """Sample hosts that are not selected often while they are on the screen."""


class CommandScreen(Screen[None]):
    """A screen of panes: a tab or the presentation.

    A subclass has the methods of its own commands; the shared commands are here.

    Args:
        program: the app, or its replacement in a test.
    """

    TAB: ClassVar[str]
    """The screen's id in :mod:`tui.kit.commands.command`."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self._hidden_at_first: Sequence[Widget] = ()

    # ---- parts that the first frame does not show ----

    def hide_at_first(self, parts: Sequence[Widget]) -> None:
        """Hide panes or containers, which :meth:`mount_hidden` may mount later than the others."""
        self._hidden_at_first = tuple(parts)
        for part in self._hidden_at_first:
            part.display = False

    @property
    def are_hidden_mounted(self) -> bool:
        """True once the parts that were hidden at first can be shown."""
        return all(part.is_mounted for part in self._hidden_at_first)

    async def mount_hidden(self) -> None:
        """Mount the parts that were hidden at first: the first frame does not wait for them."""
        if not self.are_hidden_mounted:
            await self.mount_all(self._hidden_at_first, before=self.query_one(FooterBar))
            self.catch_up()

    # ---- valid commands ----

    @property
    def focused_pane(self) -> str | None:
        """Id of the focused pane."""
        pane = pane_of(self.focused)
        return pane.id if pane else None

    def situation(self) -> Situation:
        """Return the facts that decide which commands are valid; a subclass adds its own."""
        return replace(
            self.program.situation(),
            tab=self.TAB,
            pane=self.focused_pane,
            typing=_accepts_text(self.focused),
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Check commands with the registry; always allow the framework's own actions."""
        command = self.program.commands.by_id.get(action)
        if command is None or command.target != "screen":
            return super().check_action(action, parameters)
        return command.check(self.situation())

    # ---- drawing ----

    def on_resize(self, event: events.Resize) -> None:
        """Frame the panes where there is room."""
        if switch_classes(self, {"-framed": is_framed(*event.size)}):
            self.update_node_styles()

    def shows_allocators(self) -> bool:
        """Return whether the screen shows allocators of other processes, so that they are read."""
        return False

    def shows_hosts(self) -> bool:
        """Return whether the screen shows hosts that are not selected."""
        return False

    def _request_shown(self) -> None:
        self.program.watch_allocators(self.shows_allocators())
        self.program.sample_hosts(often=self.shows_hosts())

    def header(self) -> HeaderBar:
        """Return the line above the panes."""
        return HeaderBar(
            lambda cells: self.program.header_line(self.TAB, cells),
            lambda x, cells: self.program.tab_at(self.TAB, x, cells),
        )

    def rebuild_footer(self) -> None:
        """Redraw the footer, if it is mounted: a thread may have read files before that."""
        for footer in self.query(FooterBar):
            footer.rebuild()

    def draw(self, topics: Topics) -> None:
        """Redraw the widgets that show changed topics."""
        self._request_shown()
        # By type: a query of the framework matches selectors, which takes longer than the drawing.
        for pane in self.walk_children(Pane):
            if topics & pane.SHOWS and pane.display:
                pane.state_changed()
        # The panes draw their own.
        for bar in self.children:
            if isinstance(bar, LineBar):
                bar.rebuild()

    def catch_up(self) -> None:
        """Redraw everything that may have changed while another screen was open."""
        self._request_shown()
        for pane in self.query(Pane):
            pane.state_changed()
        for bar in self.query(LineBar):
            bar.rebuild()

    @on(events.ScreenResume)
    def _resumed(self, event: events.ScreenResume) -> None:
        self.resumed(event)

    def resumed(self, _event: events.ScreenResume) -> None:
        """Draw the screen when it is opened, for the first time or again."""
        self.catch_up()

    def offers(self, first: Callable[[], Sequence[Offer]] = tuple) -> OfferList:
        """Return the list of offers for an empty tab.

        Args:
            first: returns the screen's own offers, which stand above the others.
        """
        return OfferList(
            lambda: self.program.list_offers(self.TAB),
            lambda: self.program.find_offers(self.TAB),
            first,
        )

    # ---- the commands of several tabs ----

    def action_next_pane(self) -> None:
        """Focus the next pane."""
        self.focus_next()

    def action_previous_pane(self) -> None:
        """Focus the previous pane."""
        self.focus_previous()

    def action_open_row(self) -> None:
        """Open the row under the cursor, as Enter does."""
        if isinstance(self.focused, CursorView):
            self.focused.choose()

    def action_copy(self) -> None:
        """Copy the focused pane to the terminal's clipboard and to a file."""
        pane = pane_of(self.focused)
        if pane is not None:
            copy(self.app, pane.short_title or self.TAB, pane.clipboard_text())


def front_of(app: App[Any]) -> CommandScreen | None:
    """Return the front screen, if under a dialog; ``None`` once the screens are gone."""
    screens = reversed(app.screen_stack)
    return next((screen for screen in screens if isinstance(screen, CommandScreen)), None)


def _accepts_text(widget: Widget | None) -> bool:
    """Return whether a widget accepts typed letters."""
    return widget is not None and widget.check_consume_key("a", "a")


def bindings_of_screen(tab: str, *commands: Command) -> list[BindingType]:
    """Return the key bindings of the commands whose methods a tab's screen has.

    Args:
        tab: id of the screen's tab.
        commands: the commands of its feature; the shared commands are added.
    """
    candidates = (*commands, *SHARED)
    return bindings_of(
        command for command in candidates if command.target == "screen" and tab in command.tabs
    )


def bindings_of(commands: Iterable[Command]) -> list[BindingType]:
    """Return commands as Textual's key bindings."""
    return [
        Binding(
            ",".join(command.keys),
            command.action,
            command.label,
            id=command.id,
            priority=command.opens_field,
        )
        for command in commands
        if command.keys
    ]
