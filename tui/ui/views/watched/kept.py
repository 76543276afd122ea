"""The runs that are kept, as lines. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tui.text import numbers as text
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, left, line, paragraph, right
from tui.ui.views.watched.words import command_words, end_words, lasted_words
from tui.watch.launch import EXAMPLE
from tui.watch.left import Left
from tui.watch.runs import Run
from workloads.protocol.frozen import frozen

NONE_KEPT = (
    "No run is kept. This runs a training, which is not changed, under the watch: its memory is "
    "shown here, and where it runs out of memory a snapshot tells why."
)
_BEGAN, _END, _LASTED, _COUNT = 11, 24, 12, 6
WIDE_FROM, COUNTS_FROM = 100, 66


@frozen
class KeptRun:
    """A run, and what its processes have left."""

    run: Run
    goes_on: bool
    left: tuple[Left, ...]

    @property
    def steps(self) -> int | None:
        """Of the process that made the most; ``None`` where none has said."""
        return max((each.steps for each in self.left if each.steps is not None), default=None)

    @property
    def ooms(self) -> int:
        """Of all its processes."""
        return sum(each.oom_count for each in self.left)

    @property
    def snapshots(self) -> int:
        """Of all its processes, those of OOMs that are still there among them."""
        of_ooms = sum(oom.snapshot is not None for each in self.left for oom in each.ooms)
        return of_ooms + sum(len(each.snapshots) for each in self.left)


def none_lines(cells: int) -> list[Line]:
    """What to do where no run is kept."""
    return [*paragraph(NONE_KEPT, cells), (), line(" ", Span(EXAMPLE, TextStyle.KEY))]


def kept_heading(cells: int) -> Line:
    """The columns' names."""
    words = _row("began", "end", "took", ("steps", "OOMs", "snaps"), "command", cells)
    return fit_line((Span(words, TextStyle.QUIET),), cells)


def kept_lines(runs: Sequence[KeptRun], cells: int, now: float) -> list[Line]:
    """A line for each run."""
    return [_line(kept, cells, now) for kept in runs]


def _line(kept: KeptRun, cells: int, now: float) -> Line:
    run, goes_on = kept.run, kept.goes_on
    steps = text.NA if kept.steps is None else text.count(kept.steps)
    counts = (steps, text.count(kept.ooms), text.count(kept.snapshots))
    began = time.strftime("%m-%d %H:%M", time.localtime(run.began))
    end = end_words(run, goes_on=goes_on)
    lasted = lasted_words(run, now, goes_on=goes_on)
    words = _row(began, end, lasted, counts, command_words(run), cells)
    ended = TextStyle.BAD if kept.ooms else TextStyle.PLAIN
    return fit_line((Span(words, TextStyle.GOOD if goes_on else ended),), cells)


def _row(began: str, end: str, lasted: str, counts: Sequence[str], command: str, cells: int) -> str:
    parts = [left(began, _BEGAN), left(end, _END)]
    if cells >= WIDE_FROM:
        parts.append(left(lasted, _LASTED))
    if cells >= COUNTS_FROM:
        parts += [right(each, _COUNT) for each in counts]
    return " " + "  ".join([*parts, command])
