"""Dialogs of the watch tab: leaving a run, comparing snapshots, stacks of the ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.worker import Worker

from tui.kit.dialogs import DIALOG_STYLES, BesideCursor, Dialog, dialog, key_lines
from tui.kit.lines import Line, Span, TextStyle, fit_line, line, paragraph
from tui.kit.lists import NumberedList
from tui.kit.pane import LinesView
from tui.watch.runs.agents import RankStacks
from tui.watch.views.rank_stacks import rank_stack_lines
from tui.watch.views.run import ProcessSnapshot, describe_snapshot


class LeaveOrEndScreen(BesideCursor["str"]):
    """Returns :data:`LEAVE`, :data:`END`, or nothing; Enter does nothing.

    Args:
        sentences: the processes that still run, one paragraph each.
    """

    CSS_PATH = "watch.tcss"
    LEAVE: ClassVar[str] = "leave"
    END: ClassVar[str] = "end"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", f"answer('{LEAVE}')", show=False),
        Binding("e", f"answer('{END}')", show=False),
        Binding("n,escape,q", "answer('')", show=False),
    ]

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__()
        self._sentences = tuple(sentences)

    def compose(self) -> ComposeResult:
        """Yield a box around the words and the two choices."""
        yield from dialog(
            "Leave the run or end it?",
            "l leaves it running   e ends it   escape goes back",
            LinesView(self._lines, id="message"),
        )

    def _lines(self, cells: int) -> list[Line]:
        rows = [row for words in self._sentences for row in paragraph(words, cells)]
        leave = "the workbench ends and the run continues; pressing Ctrl-C again does the same"
        end = "the run gets SIGINT, as by Ctrl-C; the workbench stays and shows how it ends"
        return [*rows, *key_lines("l", leave, cells), *key_lines("e", end, cells)]

    def action_answer(self, answer: str) -> None:
        self.dismiss(answer)


class TwoSnapshotsScreen(Dialog["tuple[ProcessSnapshot, ProcessSnapshot] | None"]):
    """Returns the earlier and the later of two snapshots, or ``None``.

    Args:
        snapshots: at least two snapshots, oldest first; the first and the last are preselected.
    """

    CSS_PATH = "watch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", show=False),
        Binding("escape,q", "cancel", show=False),
    ]

    def __init__(self, snapshots: Sequence[ProcessSnapshot]) -> None:
        super().__init__()
        self._snapshots = tuple(snapshots)
        self._marked = [0, len(self._snapshots) - 1]
        """Indexes of the two to compare, the one marked last at the end."""
        self.list = NumberedList(self._lines, id="taken")

    def compose(self) -> ComposeResult:
        """Yield the list of snapshots with the two marked ones."""
        keys = "space mark   enter compare the two marked   escape cancel"
        yield from dialog("What has grown between two snapshots", keys, self.list)

    def on_mount(self) -> None:
        self.list.focus()

    def _lines(self, cells: int) -> list[Line]:
        lines = []
        for number, snapshot in enumerate(self._snapshots):
            marked = number in self._marked
            mark = Span("x " if marked else "  ", TextStyle.KEY)
            lines.append(fit_line(line(mark, describe_snapshot(snapshot)), cells))
        return lines

    def action_mark(self) -> None:
        """Mark the row under the cursor, and unmark the row that was marked first."""
        at = self.list.index
        if at not in self._marked:
            self._marked = [self._marked[-1], at]
            self.list.rebuild()

    @on(NumberedList.Chosen)
    def _chosen(self, event: NumberedList.Chosen) -> None:
        event.stop()
        early, late = sorted(self._marked)
        self.dismiss((self._snapshots[early], self._snapshots[late]))

    def action_cancel(self) -> None:
        """Close without comparing."""
        self.dismiss(None)


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
        self._text = LinesView(self._lines, id="message")

    def compose(self) -> ComposeResult:
        """Yield a box around the scrolling text."""
        yield from dialog("Where each rank is", "K read again   escape close", self._text)

    def on_mount(self) -> None:
        self.action_ask_again()

    def action_ask_again(self) -> None:
        """Ask all processes again for their stacks."""
        _: Worker[None] = self.run_worker(self._read, exclusive=True, group="stacks")

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
