"""Two sets of kept results as a list: a line a workload, the interval drawn. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tui.results.compare import Question, difference
from tui.results.look import Sides
from tui.text import glyphs
from tui.text import numbers as text
from tui.ui.views import interval
from tui.ui.views.backend import between
from tui.ui.views.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    left,
    line,
    paragraph,
    right,
)
from tui.ui.views.results import closing, name_of, notes, own_differences, side, verdict
from tui.ui.views.results import shared_differences as shared
from workloads.protocol.frozen import frozen

_GAP = 2
_MOST_NAME, _LEAST_NAME = 40, 14
_LEAST_DRAWN = 15
_MOST_DRAWN = 61
_STYLES = {"slower": TextStyle.NOTE, "faster": TextStyle.GOOD, "unclear": TextStyle.QUIET}


@frozen
class Columns:
    """Cells of each column; 0 of one that there is no room for."""

    name: int
    device: int
    a: int
    b: int
    verdict: int
    drawn: int
    reach: float
    """The ratio at the right end of every line that is drawn."""


def columns_of(found: Sides, room: int) -> Columns:
    """The columns that fit."""
    questions = found.compared.questions
    names = [name_of(one.workload, one.parameters) for one in questions]
    longest = max(map(cell_len, names), default=0)
    device = max([cell_len("device"), *(cell_len(_device(one)) for one in questions)])
    a = max([1, *(cell_len(side(one.a)) for one in questions)])
    b = max([1, *(cell_len(side(one.b)) for one in questions)])
    said = max([4, *(cell_len(_verdict(one)) for one in questions)])
    reach = interval.reach_of(
        [(one.answer.ratio.value, one.answer.ratio.ci95) for one in questions] or [(1.0, None)]
    )
    least = max(_LEAST_DRAWN, 2 * max(map(cell_len, interval.ends_of(reach))) + 3)
    fixed = a + b + said + 3 * _GAP
    name = min(longest, _MOST_NAME)
    if name + fixed + least + _GAP + device + _GAP > room:
        device = 0
    beside = device + _GAP if device else 0
    name = max(_LEAST_NAME, min(name, room - fixed - beside - least - _GAP))
    drawn = min(_MOST_DRAWN, room - name - fixed - beside - _GAP)
    return Columns(name, device, a, b, said, drawn if drawn >= _LEAST_DRAWN else 0, reach)


def heading(chosen: Columns) -> Line:
    """The names of the columns, and what the ends of the drawn lines stand for."""
    words = left("workload", chosen.name)
    if chosen.device:
        words += " " * _GAP + left("device", chosen.device)
    for name, cells in (("A", chosen.a), ("B", chosen.b)):
        words += " " * _GAP + right(name, cells)
    words += " " * _GAP + left("B is", chosen.verdict)
    if chosen.drawn:
        words += " " * _GAP + _axis(chosen)
    return (Span(words, TextStyle.QUIET),)


def _axis(chosen: Columns) -> str:
    """What the ends of the drawn lines stand for, and 1 above their middle."""
    room = chosen.drawn - (1 - chosen.drawn % 2)
    low, high = interval.ends_of(chosen.reach)
    if len(low) >= room // 2 or len(high) >= room // 2:
        # Which side is faster stands beside it in words.
        low, high = low.rpartition(" ")[2], high.partition(" ")[0]
    return f"{left(low, room // 2)}1{right(high, room // 2)}"


def question_line(one: Question, chosen: Columns) -> Line:
    """Both medians with how many runs, the verdict, and the ratio with its interval drawn."""
    words = left(name_of(one.workload, one.parameters), chosen.name)
    if chosen.device:
        words += " " * _GAP + left(_device(one), chosen.device)
    for each, cells in ((one.a, chosen.a), (one.b, chosen.b)):
        words += " " * _GAP + right(side(each), cells)
    said = Span(
        " " * _GAP + left(_verdict(one), chosen.verdict),
        _STYLES.get(one.answer.verdict, TextStyle.PLAIN),
    )
    if not chosen.drawn:
        return (Span(words), said)
    ratio = one.answer.ratio
    drawn = interval.interval_line(ratio.value, ratio.ci95, chosen.drawn, chosen.reach, named=False)
    return (Span(words), said, Span(" " * _GAP), *drawn)


def _device(one: Question) -> str:
    return " | ".join(dict.fromkeys(one.devices))


def _verdict(one: Question) -> str:
    mark = f" {glyphs.GLYPHS.warning}" if one.a.marked or one.b.marked else ""
    return f"{verdict(one)}{mark}"


def key_of(one: Question) -> str:
    """Tells a question from the others."""
    return f"{one.workload} {one.devices} {one.parameters} {one.a.rows[0].id}"


def sides_lines(found: Sides, cells: int) -> list[Line]:
    """What A and B are."""
    return [
        row
        for letter, name in zip("AB", found.names, strict=True)
        for row in paragraph(name, cells, label=f"{letter}: ")
    ]


def foot_lines(found: Sides, one: Question | None, cells: int) -> list[Line]:
    """Of the workload under the cursor its interval and notes; then what holds for all of them."""
    rows: list[Line] = []
    common = shared(found.compared)
    if one is not None:
        ratio = one.answer.ratio
        words = verdict(one)
        if ratio.ci95 is not None:
            low, high = ratio.ci95
            if one.answer.verdict == "slower":
                low, high = 1 / high, 1 / low
            words += f", 95% interval {between(low, high)}"
        lead = Span(f"{one.workload} on {_device(one)}  ", TextStyle.STRONG)
        rows += (
            [line(lead, words)]
            if cell_len(lead.text + words) <= cells
            else paragraph(lead.text + words, cells)
        )
        own = [difference(each) for each in own_differences(one, common)]
        told = [f"differs in {', '.join(own)}"] if own else []
        for text_ in [*told, *notes(one)]:
            rows += paragraph(text_, cells, TextStyle.NOTE, indent="  ")
    words = ", ".join(map(difference, common)) or "none that is known"
    rows += paragraph(f"differences (not causes) of B from A: {words}", cells)
    for text_ in closing(found.compared):
        rows += paragraph(text_, cells, TextStyle.QUIET)
    return rows


def title(found: Sides) -> str:
    """How many of which verdict."""
    questions = found.compared.questions
    words: Sequence[str] = ("slower", "faster", "same", "unclear")
    counted = {word: sum(one.answer.verdict == word for one in questions) for word in words}
    told = ", ".join(f"{many} {word}" for word, many in counted.items() if many)
    both = text.count(len(questions), "workload")
    return f"B beside A   {both} that both have" + (f": {told}" if told else "")


NONE_SHARED = "A and B have no workload in common that ended well with the same parameters."
