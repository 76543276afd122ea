"""A dialog over a watched run: the current stack of each rank."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import Worker

from tui.kit.dialogs import DIALOG_STYLES, Dialog, box
from tui.kit.lines import Line, TextStyle, paragraph
from tui.kit.pane import LinesView
from tui.watch.runs.rank_stacks import RankStacks
from tui.watch.views.rank_stacks import rank_stack_lines

WAITING = "Asking the processes."


class StacksScreen(Dialog[None]):
    """Shows the stacks; each press of the key reads them again.

    Args:
        ask: asks all processes of the run; also returns why there are none.
    """

    CSS_PATH = DIALOG_STYLES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K,r", "ask_again", show=False),
        Binding("escape,q", "leave", show=False),
    ]

    def __init__(self, ask: Callable[[], Awaitable[tuple[tuple[RankStacks, ...], str]]]) -> None:
        super().__init__()
        self._ask = ask
        self._answer: tuple[tuple[RankStacks, ...], str] | None = None
        self._text = LinesView(self._lines)

    def compose(self) -> ComposeResult:
        """Yield a box around the scrolling text."""
        yield box("Where each rank is", "K reads again   escape closes", self._text)

    def on_mount(self) -> None:
        self.action_ask_again()

    def action_ask_again(self) -> None:
        """Ask all processes again for their stacks."""
        _: Worker[None] = self.run_worker(self._read(), exclusive=True, group="stacks")

    async def _read(self) -> None:
        try:
            self._answer = await self._ask()
        except (OSError, asyncio.TimeoutError) as error:
            self._answer = (), f"the processes cannot be reached: {error}"
        self._text.rebuild()

    def _lines(self, cells: int) -> list[Line]:
        if self._answer is None:
            return paragraph(WAITING, cells, TextStyle.QUIET)
        return rank_stack_lines(*self._answer, cells)

    def action_leave(self) -> None:
        self.dismiss()
