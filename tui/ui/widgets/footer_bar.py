"""The footer: keys of the commands that are valid now; a click runs one."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from tui.ui.commands.command import Situation
from tui.ui.commands.registry import in_footer
from tui.ui.views.footer import command_at, footer
from tui.ui.views.lines import Line
from tui.ui.widgets.line_bar import LineBar


class FooterBar(LineBar):
    """One line of keys."""

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
