"""What was measured of one workload over time, and where driver or torch changed. Pure."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tui.results.look import Past
from tui.results.records import Row
from tui.results.statistics import spread
from tui.text import glyphs
from tui.text import numbers as text
from tui.text.clean import clean
from tui.ui.views.lines import Line, TextStyle, paragraph
from tui.ui.views.plot import LEAST_CELLS, Axis, Curve, Event, Plot, mark_of, plot_lines, style_of
from tui.ui.views.results import name_of
from tui.ui.views.scale import Scale

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


Software = tuple[tuple[str, str], ...]
"""Names and versions of what is ticked, as far as they are known."""


def software(found: Past, row: Row) -> Software:
    """The driver and the torch of a run."""
    values = found.facts[row.environment].values
    return tuple((name, values[name]) for name in _TICKED if name in values)


def by_software(found: Past) -> dict[Software, list[Row]]:
    """The runs by their driver and torch, in the order in which those came up."""
    groups: dict[Software, list[Row]] = {}
    for row in found.rows:
        groups.setdefault(software(found, row), []).append(row)
    return groups


def changes(found: Past) -> list[tuple[Row, str]]:
    """The runs before which driver or torch changed, with what they are from there on."""
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


def _words(known: Software) -> str:
    return ", ".join(f"{name} {value}" for name, value in known) or "driver, torch not known"


def history_lines(found: Past, now: float, cells: int, height: int) -> list[Line]:
    """The plot, then each driver and torch with the median of its runs.

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
    left = height - len(rows) - _HEADING
    plot = plot_lines(_plot(found, groups, now), cells, max(_LEAST_HEIGHT, min(_MOST_HEIGHT, left)))
    return [*plot, (), *rows]


_HEADING = 6
"""Rows of a plot beside its height, and the blank one."""


def _plot(found: Past, groups: Mapping[Software, Sequence[Row]], now: float) -> Plot:
    first, last = found.rows[0].at, found.rows[-1].at
    span = max(now - first, last - first)
    seconds, unit = next((size, name) for size, name, least in _UNITS if span >= least)

    def place(row: Row) -> float:
        return (row.at - now) / seconds

    medians = [row.median_s or 0.0 for row in found.rows]
    low, high = min(medians), max(medians)
    room = max((high - low) * _MARGIN, high * _FLAT / 2)
    across = Scale(place(found.rows[0]), place(found.rows[-1]))
    told = groups if 1 < len(groups) <= _MOST_CURVES else {(): found.rows}
    curves = []
    for number, (known, rows) in enumerate(told.items()):
        clear = tuple((place(row), row.median_s) for row in rows if not row.marks)
        name = _words(known) if known else "runs"
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


def _group_lines(known: Software, runs: Sequence[Row], cells: int) -> list[Line]:
    medians = [row.median_s for row in runs if row.median_s]
    varied = spread([medians])
    middle = text.seconds(statistics.median(medians), varied.share if varied else None)
    words = f"{_words(known)}: {middle}, {text.count(len(medians), 'run')}"
    words += f" {text.spread(varied.share)} from run to run" if varied else ""
    marked = sum(bool(row.marks) for row in runs)
    words += f", {marked} with warnings" if marked else ""
    first, last = (
        f"{datetime.datetime.fromtimestamp(row.at):%Y-%m-%d %H:%M}" for row in (runs[0], runs[-1])
    )
    words += f", {first}" + (f" to {last}" if last != first else "")
    return paragraph(words, cells, indent="  ")


def title(found: Past) -> str:
    """What it is the history of."""
    subject = found.subject
    # It may have come in from a stranger's file, and a border takes text as it is.
    name = clean(name_of(subject.workload, subject.parameters))
    return f"{text.count(len(found.rows), 'run')} over time   {name} on {subject.device}"
