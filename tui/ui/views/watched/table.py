"""The processes of a run and their devices as a table. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tui.state.watched_run import WatchedDevice
from tui.text import numbers as text
from tui.text.clean import clean
from tui.text.digits import plain, significant
from tui.ui.views.lines import Line, Span, TextStyle, fit_line, left, paragraph, right
from workloads.protocol.frozen import frozen
from workloads.protocol.messages import TorchMemory

RATE_DIGITS = 0.005
"""Half of the width to which steps a second are told, as a share: three digits."""


@frozen
class Column:
    """One column; another figure is another of these."""

    name: str
    cells: int
    from_cells: int
    """Width of a row from which it is there: those that tell less go first."""
    say: Callable[[WatchedDevice], str]
    numeric: bool = True


def _of(pick: Callable[[TorchMemory], int], say: Callable[[int], str] = text.size) -> _Say:
    """A figure of torch's allocator."""

    def told(row: WatchedDevice) -> str:
        return text.NA if row.figures is None else say(pick(row.figures))

    return told


_Say = Callable[[WatchedDevice], str]


def _allocated(row: WatchedDevice) -> str:
    """The figure, or in a word why there is none."""
    if row.figures is None:
        return clean(row.process.word) or text.NA
    return text.size(row.figures.allocated)


def _rank(row: WatchedDevice) -> str:
    rank = row.process.rank
    return text.NA if rank is None else str(rank)


def _steps(row: WatchedDevice) -> str:
    return text.NA if row.steps is None else text.count(row.steps)


def _rate(row: WatchedDevice) -> str:
    value = row.steps_per_s
    if value is None:
        return text.NA
    return "0" if not value else plain(significant(value, RATE_DIGITS * value))


COLUMNS: tuple[Column, ...] = (
    Column("rank", 4, 0, _rank),
    Column("pid", 7, 0, lambda row: str(row.process.pid)),
    Column("device", 7, 0, lambda row: clean(row.device) or text.NA, numeric=False),
    Column("allocated", 10, 0, _allocated),
    Column("reserved", 9, 0, _of(lambda found: found.reserved)),
    Column("peak", 9, 66, _of(lambda found: found.allocated_peak)),
    Column("process", 9, 90, lambda row: text.size(row.placed.process)),
    Column("cached", 9, 100, _of(lambda found: found.reserved - found.allocated)),
    Column("retries", 7, 108, _of(lambda found: found.alloc_retries, text.count)),
    Column("step", 8, 48, _steps),
    Column("steps/s", 7, 74, _rate),
)
"""From the left; what follows them is how the process is."""
STATE = "state"


def columns(cells: int) -> list[Column]:
    """Those that a row of that width has."""
    return [column for column in COLUMNS if cells >= column.from_cells]


def key_of(row: WatchedDevice) -> str:
    """What a row is held on to by: the same number may be another process later."""
    return f"{row.process.pid} {row.process.start} {row.device}"


def heading(cells: int) -> Line:
    """The columns' names."""
    names = "".join(_placed(column, column.name) for column in columns(cells))
    return fit_line((Span(f"{names}  {STATE}", TextStyle.QUIET),), cells)


def row_line(row: WatchedDevice, cells: int) -> Line:
    """One device of a process."""
    figures = "".join(_placed(column, column.say(row)) for column in columns(cells))
    words, style = state_words(row)
    quiet = bool(row.ended) or row.figures is None
    return fit_line(
        (Span(figures, TextStyle.QUIET if quiet else TextStyle.PLAIN), Span(f"  {words}", style)),
        cells,
    )


def _placed(column: Column, words: str) -> str:
    place = right if column.numeric else left
    return f" {place(words, column.cells)}"


def state_words(row: WatchedDevice) -> tuple[str, TextStyle]:
    """How the process is, in a few words."""
    ooms = max(row.figures.ooms if row.figures else 0, row.left.oom_count if row.left else 0)
    parts = [text.count(ooms, "OOM")] if ooms else []
    if row.ended:
        parts.append(clean(row.ended))
    elif row.agent is None:
        parts.append("no agent")
    elif row.agent.recording:
        parts.append("records")
    if not parts:
        return "runs", TextStyle.QUIET
    return ", ".join(parts), TextStyle.BAD if ooms else TextStyle.QUIET


def missing_lines(row: WatchedDevice, cells: int) -> list[Line]:
    """How a row's process ended, why figures are missing and what would help, a paragraph each."""
    reasons: dict[str, list[str]] = {}

    def missing(name: str, why: str) -> None:
        reasons.setdefault(why or "not known", []).append(name)

    if row.figures is None:
        advice = f"; {row.process.advice}" if row.process.advice else ""
        missing("allocated, reserved", f"{row.process.reason or 'not read yet'}{advice}")
    if row.placed.process is None and row.figures is not None:
        missing("process", row.placed.why_no_process)
    if row.steps is None:
        missing("step", row.why_no_agent or "the agent has not told it")
    elif row.agent is None and not row.ended and row.why_no_agent:
        missing("agent", row.why_no_agent)
    found: list[Line] = []
    if row.ended:
        found += paragraph(f"{row.process.pid}: {row.ended}", cells, TextStyle.QUIET, indent="  ")
    for why, names in reasons.items():
        words = f"{', '.join(names)} {text.NA}: {why}"
        found += paragraph(words, cells, TextStyle.QUIET, indent="  ")
    return found
