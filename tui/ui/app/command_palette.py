"""The commands in the palette: those that are valid now."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.ui.commands.command import Command
from tui.ui.commands.registry import BY_ID, COMMANDS, keys_text
from tui.ui.screens.command_screen import front_of

LEAST_SCORE = 0.01
"""Of a command whose help has the words: below all whose names match."""


class WorkbenchCommands(Provider):
    """Finds commands by the words of their labels and helps."""

    def _valid(self) -> list[Command]:
        front = front_of(self.app)
        if front is None:
            return []
        now = front.situation()
        found = [each for each in COMMANDS if each.id != "command_palette" and each.valid(now)]
        # Who looks for a snapshot need not know first which tab opens one.
        return found if now.tab == "snapshot" else [*found, BY_ID["snapshot_open"]]

    async def discover(self) -> Hits:
        """All that are valid, before anything is typed."""
        for command in self._valid():
            yield DiscoveryHit(title(command), self._run(command), help=command.help)

    async def search(self, query: str) -> Hits:
        """Find the valid commands that match what is typed."""
        matcher = self.matcher(query)
        words = query.lower().split()
        for command in self._valid():
            score = matcher.match(title(command))
            # Letters strewn over a sentence say nothing: in it the words themselves are looked for.
            if not score and all(word in command.help.lower() for word in words):
                score = LEAST_SCORE
            if score > 0:
                shown = matcher.highlight(title(command))
                yield Hit(score, shown, self._run(command), help=command.help)

    def _run(self, command: Command) -> Callable[[], Coroutine[Any, Any, bool]]:
        # It has closed when the command is done: the screen is the one that it lay over.
        return partial(self._do, command)

    async def _do(self, command: Command) -> bool:
        front = front_of(self.app)
        if front is not None and front.TAB not in command.tabs:
            self.app.switch_mode(command.tabs[0])
        return await self.app.run_action(command.action)


def title(command: Command) -> str:
    """Its name in words, with the key that does the same."""
    words = command.id.replace("_", " ")
    keys = keys_text(command)
    return f"{words} ({keys})" if keys else words
