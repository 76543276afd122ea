"""Kept results held against each other: two sets side by side, one workload over time. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
from tui.kit import scale
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    left,
    line,
    paragraph,
    right,
)
from tui.kit.plot import LEAST_CELLS, Axis, Curve, Event, Plot, mark_of, plot_lines, style_of
from tui.kit.scale import Scale
from tui.kit.table import Column, Layout, fit_columns, heading_line, row_line, widest
from tui.results.store.compare import Question, difference
from tui.results.store.queries import Past, Sides
from tui.results.store.records import StoredRow
from tui.results.store.statistics import spread
from tui.results.views.results import (
    closing,
    date,
    name_of,
    notes,
    own_differences,
    shared_differences,
    side,
    verdict,
)
from tui.runs.views.backend import between

_MOST_NAME, _LEAST_NAME = 40, 14
_LEAST_DRAWN = 15
_MOST_DRAWN = 61
_VERDICT_STYLES = {"slower": TextStyle.NOTE, "faster": TextStyle.GOOD, "unclear": TextStyle.QUIET}
NONE_SHARED = "A and B have no workload in common that ended well with the same parameters."


# ---- two sets side by side -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparisonColumns:
    """The columns that fit."""

    layout: Layout[Question]
    reach: float
    """The ratio at the right end of every line that is drawn."""


def sides_columns(found: Sides, room: int) -> ComparisonColumns:
    """Return the columns of a comparison that fit the width."""
    questions = found.compared.questions
    reach = scale.reach_of(
        [(one.answer.ratio.value, one.answer.ratio.ci95) for one in questions] or [(1.0, None)]
    )
    name = max(_LEAST_NAME, widest(map(_name, questions), _MOST_NAME))
    ends = max(_LEAST_DRAWN, 2 * max(map(cell_len, scale.ends_of(reach))) + 3)
    columns: list[Column[Question]] = [
        Column("workload", _LEAST_NAME, _name, "left", gap=0, grows=(_LEAST_NAME, name)),
        Column(
            "device", widest(("device", *map(_device, questions))), _device,
            "left", drop_order=0, leaves=name + ends,
        ),
        Column("A", widest(("A", *(side(one.a) for one in questions))), lambda one: side(one.a)),
        Column("B", widest(("B", *(side(one.b) for one in questions))), lambda one: side(one.b)),
        Column("B is", widest(("B is", *map(_verdict, questions))), _said, "left"),
    ]  # fmt: skip
    drawn = _drawn(reach, _LEAST_DRAWN, ends)
    fitted = fit_columns([*columns, drawn], room)
    if fitted and fitted[-1].column is drawn:
        # Its heading and its cells are as wide as what it has been given.
        whole = replace(fitted[-1], column=_drawn(reach, fitted[-1].width, ends))
        fitted = (*fitted[:-1], whole)
    return ComparisonColumns(fitted, reach)


def _drawn(reach: float, cells: int, ends: int) -> Column[Question]:
    """Return the column of the drawn intervals, with their axis as its heading.

    Args:
        reach: the ratio at its right end.
        cells: its width.
        ends: cells from which both ends of the axis are named in full.
    """

    def cell(one: Question) -> Line:
        ratio = one.answer.ratio
        return scale.interval_line(ratio.value, ratio.ci95, cells, reach, named=False)

    grows = (ends, _MOST_DRAWN)
    return Column(_axis(reach, cells), cells, cell, "left", drop_order=1, grows=grows)


def sides_heading(chosen: ComparisonColumns) -> Line:
    """Draw the names of the columns and the axis of the drawn intervals."""
    return heading_line(chosen.layout)


def _axis(reach: float, cells: int) -> str:
    """Return the axis: the values at the ends of the drawn intervals, and 1 in the middle."""
    room = cells - (1 - cells % 2)
    low, high = scale.ends_of(reach)
    if len(low) >= room // 2 or len(high) >= room // 2:
        # Which side is faster stands beside it in words.
        low, high = low.rpartition(" ")[2], high.partition(" ")[0]
    return f"{left(low, room // 2)}1{right(high, room // 2)}"


def question_line(one: Question, chosen: ComparisonColumns) -> Line:
    """Both medians with how many runs, the verdict, and the ratio with its interval drawn."""
    return row_line(chosen.layout, one)


def _name(one: Question) -> str:
    return name_of(one.workload, one.parameters)


def _said(one: Question) -> Span:
    return Span(_verdict(one), _VERDICT_STYLES.get(one.answer.verdict, TextStyle.PLAIN))


def _device(one: Question) -> str:
    return " | ".join(dict.fromkeys(one.devices))


def _verdict(one: Question) -> str:
    mark = f" {glyphs.GLYPHS.warning}" if one.a.marked or one.b.marked else ""
    return f"{verdict(one)}{mark}"


def key_of(one: Question) -> str:
    """Tells a question from the others."""
    return f"{one.workload} {one.devices} {one.parameters} {one.a.rows[0].id}"


def sides_lines(found: Sides, cells: int) -> list[Line]:
    """Draw what A and B stand for."""
    return [
        row
        for letter, name in zip("AB", found.names, strict=True)
        for row in paragraph(name, cells, label=f"{letter}: ")
    ]


def foot_lines(found: Sides, one: Question | None, cells: int) -> list[Line]:
    """Of the workload under the cursor its interval and notes; then what holds for all of them."""
    rows: list[Line] = []
    common = shared_differences(found.compared)
    if one is not None:
        ratio = one.answer.ratio
        words = f"{verdict(one)} the speed of A"
        if ratio.ci95 is not None:
            words += f", 95% interval {between(*ratio.ci95)}"
        lead = Span(f"{one.workload} on {_device(one)}  ", TextStyle.STRONG)
        rows += (
            [line(lead, words)]
            if cell_len(lead.text + words) <= cells
            else paragraph(lead.text + words, cells)
        )
        own = [difference(each) for each in own_differences(one, common)]
        told = [f"differs in {', '.join(own)}"] if own else []
        for remark in [*told, *notes(one)]:
            rows += paragraph(remark, cells, TextStyle.NOTE, indent="  ")
    words = ", ".join(map(difference, common)) or "none that is known"
    rows += paragraph(f"differences (not causes) of B from A: {words}", cells)
    for remark in closing(found.compared):
        rows += paragraph(remark, cells, TextStyle.QUIET)
    return rows


def sides_title(found: Sides) -> str:
    """How many of which verdict."""
    questions = found.compared.questions
    words: Sequence[str] = ("slower", "faster", "same", "unclear")
    counted = {word: sum(one.answer.verdict == word for one in questions) for word in words}
    told = ", ".join(f"{many} {word}" for word, many in counted.items() if many)
    both = text.count(len(questions), "workload")
    return f"B beside A   {both} that both have" + (f": {told}" if told else "")


# ---- one workload over time ----------------------------------------------------------------------

_TICKED = ("driver", "torch")
"""Facts whose changes are drawn."""
_UNITS = ((86_400.0, "d", 3 * 86_400.0), (3600.0, "h", 3 * 3600.0), (60.0, "min", 0.0))
"""Seconds, name, and from which span on it is used."""
_MARGIN = 0.05
"""Of the span of the values, kept free above and below."""
_FLAT = 0.01
"""A span of the values below this share of them is drawn as if it were this."""
_LEAST_HEIGHT, _MOST_HEIGHT = 4, 20
_MOST_CURVES, _MOST_NAMED, _MOST_TICKS = 6, 8, 30
"""Drivers and torches that have marks of their own, changes that have names, and those drawn."""
_BESIDE_PLOT = 6
"""Rows of a plot beside its height, and the blank one."""

Software = tuple[tuple[str, str], ...]
"""Names and versions of what is ticked, as far as they are known."""


def software(found: Past, row: StoredRow) -> Software:
    """Return the driver and torch versions of a run."""
    values = found.facts[row.environment].values
    return tuple((name, values[name]) for name in _TICKED if name in values)


def by_software(found: Past) -> dict[Software, list[StoredRow]]:
    """Group the runs by driver and torch, in the order in which those came up."""
    groups: dict[Software, list[StoredRow]] = {}
    for row in found.rows:
        groups.setdefault(software(found, row), []).append(row)
    return groups


def changes(found: Past) -> list[tuple[StoredRow, str]]:
    """Return the runs before which driver or torch changed, with a description of the change."""
    return [
        (row, changed(software(found, before), software(found, row)))
        for before, row in pairwise(found.rows)
        if software(found, before) != software(found, row)
    ]


def changed(before: Software, after: Software) -> str:
    """``torch 2.13.0``: what is another one from there on."""
    known = dict(before)
    new = [f"{name} {value}" for name, value in after if known.get(name) != value]
    gone = [f"{name} not known" for name in known if name not in dict(after)]
    return ", ".join([*new, *gone])


def _software_words(known: Software) -> str:
    return ", ".join(f"{name} {value}" for name, value in known) or "driver, torch not known"


def history_lines(found: Past, now: float, cells: int, height: int) -> list[Line]:
    """Draw the plot, then each driver and torch with the median of its runs.

    Args:
        found: the runs.
        now: Unix time, from which the axis counts back.
        cells: width of a line.
        height: rows that there are for all of it; the plot gets what the rest leaves.
    """
    groups = by_software(found)
    rows = [row for known, runs in groups.items() for row in _group_lines(known, runs, cells)]
    if found.elsewhere:
        further = text.count(found.elsewhere, "further run")
        words = f"not drawn: {further} of it, on another box or GPU or under other flags"
        rows += paragraph(words, cells, TextStyle.QUIET)
    if len(found.rows) < 2:
        one = "It was measured once: there is no history to draw yet."
        return [*paragraph(one, cells, TextStyle.NOTE), *rows]
    if cells < LEAST_CELLS:
        return rows
    room = height - len(rows) - _BESIDE_PLOT
    plot = plot_lines(
        _history_plot(found, groups, now), cells, max(_LEAST_HEIGHT, min(_MOST_HEIGHT, room))
    )
    return [*plot, (), *rows]


def _history_plot(found: Past, groups: Mapping[Software, Sequence[StoredRow]], now: float) -> Plot:
    first, last = found.rows[0].at, found.rows[-1].at
    span = max(now - first, last - first)
    seconds, unit = next((size, name) for size, name, least in _UNITS if span >= least)

    def place(row: StoredRow) -> float:
        return (row.at - now) / seconds

    medians = [row.median_s or 0.0 for row in found.rows]
    low, high = min(medians), max(medians)
    room = max((high - low) * _MARGIN, high * _FLAT / 2)
    across = Scale(place(found.rows[0]), place(found.rows[-1]))
    told = groups if 1 < len(groups) <= _MOST_CURVES else {(): found.rows}
    curves = []
    for number, (known, rows) in enumerate(told.items()):
        clear = tuple((place(row), row.median_s) for row in rows if not row.marks)
        name = _software_words(known) if known else "runs"
        if clear:
            curves.append(Curve(name, clear, mark_of(number), style_of(number), joined=False))
    marked = tuple((place(row), row.median_s) for row in found.rows if row.marks)
    if marked:
        warning = glyphs.GLYPHS.warning
        curves.append(Curve("with warnings", marked, warning, TextStyle.NOTE, joined=False))
    ticks = changes(found)
    # Of very many the names would be all that there is.
    few = len(ticks) <= _MOST_NAMED
    shown = ticks if len(ticks) <= _MOST_TICKS else []
    events = tuple(Event(name if few else "", place(row)) for row, name in shown)
    return Plot(
        Axis("time before now", unit, across),
        Axis("median of a run", "s", Scale(max(0.0, low - room), high + room)),
        tuple(curves),
        events=events,
    )


def _group_lines(known: Software, runs: Sequence[StoredRow], cells: int) -> list[Line]:
    medians = [row.median_s for row in runs if row.median_s]
    varied = spread([medians])
    middle = text.seconds(statistics.median(medians), varied.share if varied else None)
    words = f"{_software_words(known)}: {middle}, {text.count(len(medians), 'run')}"
    words += f" {text.spread(varied.share)} from run to run" if varied else ""
    marked = sum(bool(row.marks) for row in runs)
    words += f", {marked} with warnings" if marked else ""
    first, last = (date(row.at) for row in (runs[0], runs[-1]))
    words += f", {first}" + (f" to {last}" if last != first else "")
    return paragraph(words, cells, indent="  ")


def history_title(found: Past) -> str:
    """Return the title, which names the workload whose history is shown."""
    subject = found.subject
    # It may have come in from a stranger's file, and a border takes text as it is.
    name = clean(name_of(subject.workload, subject.parameters))
    return f"{text.count(len(found.rows), 'run')} over time   {name} on {subject.device}"
