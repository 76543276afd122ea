"""What was measured of one workload over time, and where driver or torch changed. Pure."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence
from itertools import pairwise

from tui.results.look import Past
from tui.results.records import Row
from tui.results.statistics import spread
from tui.text import numbers as text
from tui.ui.views.lines import Line, TextStyle, paragraph
from tui.ui.views.plot import LEAST_CELLS, Axis, Curve, Event, Plot, mark_of, plot_lines
from tui.ui.views.results import name_of
from tui.ui.views.scale import Scale
from workloads.protocol.frozen import frozen

_TICKED = ("driver", "torch")
"""Facts whose changes are drawn."""
_UNITS = ((86_400.0, "d", 3 * 86_400.0), (3600.0, "h", 3 * 3600.0), (60.0, "min", 0.0))
"""Seconds, name, and from which span on it is used."""
_MARGIN = 0.05
"""Of the span of the values, kept free above and below."""
_FLAT = 0.01
"""A span of the values below this share of them is drawn as if it were this."""
_LEAST_HEIGHT, _MOST_HEIGHT = 4, 20


@frozen
class Stretch:
    """Runs that follow each other under the same driver and torch."""

    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]


def stretches(found: Past) -> list[Stretch]:
    """The runs, cut where driver or torch changed; the oldest first."""
    cut: list[tuple[tuple[tuple[str, str], ...], list[Row]]] = []
    for row in found.rows:
        values = found.facts[row.environment].values
        told = tuple((name, values[name]) for name in _TICKED if name in values)
        if not cut or cut[-1][0] != told:
            cut.append((told, []))
        cut[-1][1].append(row)
    return [Stretch(tuple(rows), told) for told, rows in cut]


def changed(before: Stretch, after: Stretch) -> str:
    """``torch 2.13.0``: what is another one from there on."""
    known = dict(before.facts)
    new = [f"{name} {value}" for name, value in after.facts if known.get(name) != value]
    gone = [f"{name} not known" for name in known if name not in dict(after.facts)]
    return ", ".join([*new, *gone])


def history_lines(found: Past, now: float, cells: int, height: int) -> list[Line]:
    """The plot, then each stretch with its median.

    Args:
        found: the runs.
        now: Unix time, from which the axis counts back.
        cells: width of a line.
        height: rows that there are for all of it; the plot gets what the rest leaves.
    """
    cut = stretches(found)
    rows = [row for one in cut for row in _stretch_lines(one, cells)]
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
    plot = plot_lines(_plot(found, cut, now), cells, max(_LEAST_HEIGHT, min(_MOST_HEIGHT, left)))
    return [*plot, (), *rows]


_HEADING = 6
"""Rows of a plot beside its height, and the blank one."""


def _plot(found: Past, cut: Sequence[Stretch], now: float) -> Plot:
    first, last = found.rows[0].at, found.rows[-1].at
    span = max(now - first, last - first)
    seconds, unit = next((size, name) for size, name, least in _UNITS if span >= least)

    def place(row: Row) -> float:
        return (row.at - now) / seconds

    medians = [row.median_s or 0.0 for row in found.rows]
    low, high = min(medians), max(medians)
    room = max((high - low) * _MARGIN, high * _FLAT / 2)
    across = Scale(place(found.rows[0]), place(found.rows[-1]))
    clear = tuple((place(row), row.median_s) for row in found.rows if not row.marks)
    marked = tuple((place(row), row.median_s) for row in found.rows if row.marks)
    curves = [Curve("runs", clear, mark_of(0), TextStyle.KEY, joined=False)] if clear else []
    if marked:
        curves.append(Curve("with warnings", marked, mark_of(1), TextStyle.NOTE, joined=False))
    events = tuple(
        Event(changed(before, after), place(after.rows[0])) for before, after in pairwise(cut)
    )
    return Plot(
        Axis("time before now", unit, across),
        Axis("median of a run", "s", Scale(max(0.0, low - room), high + room)),
        tuple(curves),
        events=events,
    )


def _stretch_lines(one: Stretch, cells: int) -> list[Line]:
    medians = [row.median_s for row in one.rows if row.median_s]
    varied = spread([medians])
    middle = text.seconds(statistics.median(medians), varied.share if varied else None)
    first, last = (datetime.datetime.fromtimestamp(row.at) for row in (one.rows[0], one.rows[-1]))
    when = f"{first:%Y-%m-%d %H:%M}"
    if f"{last:%Y-%m-%d %H:%M}" != when:
        same_day = last.date() == first.date()
        when += f" to {last:%H:%M}" if same_day else f" to {last:%Y-%m-%d %H:%M}"
    told = ", ".join(f"{name} {value}" for name, value in one.facts) or "driver and torch not known"
    words = f"{told}: {middle}, {text.count(len(medians), 'run')}"
    words += f" {text.spread(varied.share)} from run to run" if varied else ""
    marked = sum(bool(row.marks) for row in one.rows)
    words += f", {marked} with warnings" if marked else ""
    return paragraph(f"{when}  {words}", cells, indent="  ")


def title(found: Past) -> str:
    """What it is the history of."""
    subject = found.subject
    name = name_of(subject.workload, subject.parameters)
    return f"{text.count(len(found.rows), 'run')} over time   {name} on {subject.device}"
