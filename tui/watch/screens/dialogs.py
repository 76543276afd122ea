"""Dialogs for leaving a run or ending it, and for comparing two of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.kit.dialogs import BesideCursor, Dialog, box
from tui.kit.lines import Line, Span, TextStyle, fit_line, line, paragraph
from tui.kit.lists import NumberedList
from tui.kit.pane import LinesView
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
        yield box(
            "Leave the run or end it?",
            "l leaves it running   e ends it   n or escape goes back",
            LinesView(self._lines, id="message"),
        )

    def _lines(self, cells: int) -> list[Line]:
        rows = [row for words in self._sentences for row in paragraph(words, cells)]
        leave = "the workbench ends and the run continues; pressing Ctrl-C again does the same"
        end = "the run gets SIGINT, as by Ctrl-C; the workbench stays and shows how it ends"
        rows += paragraph(leave, cells, indent="  ", label="l ")
        return [*rows, *paragraph(end, cells, indent="  ", label="e ")]

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
        keys = "space marks   enter compares the two marked   escape cancels"
        yield box("What has grown between two snapshots", keys, self.list)

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
