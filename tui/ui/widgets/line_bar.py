"""One line that a function makes for the present width: headings, the header, the footer."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.state.store import Store
from tui.ui.commands.command import Situation
from tui.ui.commands.registry import in_footer
from tui.ui.views.lines import Line, changes
from tui.ui.views.screen_frame import command_at, footer, header_line, tab_at
from tui.ui.widgets.styles import strip_of


class LineBar(Widget):
    """A widget of one line, of which only what has changed is drawn."""

    def __init__(
        self,
        build: Callable[[int], Line],
        *,
        id: str | None = None,  # noqa: A002 (Textual's name)
    ) -> None:
        super().__init__(id=id)
        self._build = build
        self._line: Line = ()

    def rebuild(self) -> None:
        """Make the line anew; drawn only if it differs."""
        if not self.size.width:
            return
        old, self._line = self._line, self._build(self.size.width)
        for change in changes([old], [self._line], self.size.width):
            self.refresh(Region(change.start, 0, change.end - change.start, 1))

    def render_line(self, y: int) -> Strip:
        if not self._line:
            # The first frame is drawn before the event that tells of the width.
            self._line = self._build(self.size.width)
        return strip_of(self._line if y == 0 else (), self.size.width, self.rich_style)

    def on_resize(self, _event: events.Resize) -> None:
        """The line depends on the width."""
        self.rebuild()


class HeaderBar(LineBar):
    """What is measured on, what the runner does, and the tabs; a click on a tab opens it."""

    def __init__(
        self, store: Store, tab: str, note: Callable[[], str] = str, *, readonly: bool = False
    ) -> None:
        """Show a store.

        Args:
            store: what is known.
            tab: the one that is open.
            note: what is said before all else.
            readonly: nothing is offered that asks the runner for something, and this is said.
        """
        super().__init__(self._header)
        self._store = store
        self._tab = tab
        self._note = note
        self._readonly = readonly

    def _header(self, cells: int) -> Line:
        return header_line(
            self._store, self._tab, cells, readonly=self._readonly, note=self._note()
        )

    def on_click(self, event: events.Click) -> None:
        """Open the tab under the mouse."""
        tab = tab_at(self._store, event.x, self.size.width, self._tab)
        if tab is not None:
            self.app.switch_mode(tab)


class FooterBar(LineBar):
    """The keys of the commands that are valid now; a click on one runs it."""

    def __init__(self, situation: Callable[[], Situation]) -> None:
        super().__init__(self._footer)
        self._situation = situation

    def _footer(self, cells: int) -> Line:
        return footer(self._situation(), cells)

    async def on_click(self, event: events.Click) -> None:
        """Run the command under the mouse."""
        commands = in_footer(self._situation())
        command = command_at(event.x, commands, self.size.width)
        if command is not None:
            await self.app.run_action(command.action)
