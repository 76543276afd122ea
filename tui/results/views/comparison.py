"""Comparisons of stored results: two sets side by side, or one workload over time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
from tui.core.text.ratios import format_effect, format_interval
from tui.kit import scale
from tui.kit.dates import DATE
from tui.kit.lines import (
    Line,
    Span,
    TextStyle,
    cell_len,
    fit_line,
    flow,
    left,
    line,
    paragraph,
    right,
)
from tui.kit.plot import LEAST_CELLS, Axis, Curve, Event, Plot, mark_of, plot_lines, style_of
from tui.kit.scale import Scale
from tui.kit.table import Column, Layout, fit_columns, widest
from tui.results.store.compare import Question, collect_session_times
from tui.results.store.queries import EnvironmentComparison, WorkloadHistory
from tui.results.store.records import StoredRow
from tui.results.store.statistics import compare_sessions, compute_spread, compute_typical_s
from tui.results.views.results import (
    find_shared_differences,
    format_closing_notes,
    format_devices,
    format_long_verdict,
    format_own_notes,
    format_runs,
    format_shared_differences,
    format_side,
    format_verdict,
    has_different_runs,
)
from tui.results.views.row_texts import format_date, format_name
from tui.runs.state.result_format import format_time

_MOST_NAME, _LEAST_NAME = 40, 14
_LEAST_DRAWN = 15
_MOST_DRAWN = 61
_VERDICT_STYLES = {"slower": TextStyle.NOTE, "faster": TextStyle.GOOD, "unclear": TextStyle.QUIET}
NO_COMMON = "B vs A: no common workloads"
_BAR_STYLES = {
    "slower": (TextStyle.ALLOCATED, TextStyle.NOTE),
    "faster": (TextStyle.ALLOCATED, TextStyle.GOOD),
}
"""Styles of the bars of A and B by verdict."""
NONE_SHARED = "A and B have no workload in common that completed with the same parameters."


# ---- two sets side by side -----------------------------------------------------------------------


def fit_comparison_columns(comparison: EnvironmentComparison, room: int) -> Layout[Question]:
    """Return the columns of a comparison that fit the width.

    They are the names, the devices if they differ, both medians, with their numbers of runs if they
    differ, the verdict, and the ratio with its interval, drawn below their axis.
    """
    questions = comparison.compared.questions
    reach = scale.reach_of(
        [(question.answer.ratio.value, question.answer.ratio.ci95) for question in questions]
        or [(1.0, None)]
    )
    format_time = partial(format_side, with_runs=has_different_runs(comparison.compared))
    name = max(_LEAST_NAME, widest(map(_format_name, questions), _MOST_NAME))
    ends = max(_LEAST_DRAWN, 2 * max(map(cell_len, scale.ends_of(reach))) + 3)
    of_device = Column(
        "device", widest(("device", *map(format_devices, questions))), format_devices, "left",
        drop_order=0, leaves=name + ends,
    )  # fmt: skip
    columns: list[Column[Question]] = [
        Column(
            "workload", _LEAST_NAME, _format_name, "left", gap=2,
            grows=(_LEAST_NAME, name, widest(map(_format_name, questions))),
        ),
        *([of_device] if len({question.devices for question in questions}) > 1 else []),
        Column(
            "A", widest(("A", *(format_time(question.a) for question in questions))),
            lambda question: format_time(question.a),
        ),
        Column(
            "B", widest(("B", *(format_time(question.b) for question in questions))),
            lambda question: format_time(question.b),
        ),
        Column("B is", widest(("B is", *map(_format_verdict, questions))), _render_verdict, "left"),
    ]  # fmt: skip
    drawn = _build_interval_column(reach, _LEAST_DRAWN, ends)
    fitted = fit_columns([*columns, drawn], room)
    if fitted and fitted[-1].column is drawn:
        # The heading and the cells have the assigned width.
        whole = replace(fitted[-1], column=_build_interval_column(reach, fitted[-1].width, ends))
        fitted = (*fitted[:-1], whole)
    return fitted


def _build_interval_column(reach: float, cells: int, ends: int) -> Column[Question]:
    """Return the column of the drawn intervals, with their axis as its heading.

    Args:
        reach: the ratio at the right end.
        cells: its width.
        ends: least cells for full labels at both ends of the axis.
    """

    def cell(question: Question) -> Line:
        ratio = question.answer.ratio
        return scale.interval_line(ratio.value, ratio.ci95, cells, reach, named=False)

    grows = (ends, _MOST_DRAWN)
    return Column(_format_axis(reach, cells), cells, cell, "left", drop_order=1, grows=grows)


def _format_axis(reach: float, cells: int) -> str:
    """Return the axis: the values at the ends of the drawn intervals, and 1 in the middle."""
    room = cells - (1 - cells % 2)
    low, high = scale.ends_of(reach)
    if len(low) >= room // 2 or len(high) >= room // 2:
        # The text beside it has the ratio.
        low, high = low.rpartition(" ")[2], high.rpartition(" ")[2]
    return f"{left(low, room // 2)}1{right(high, room // 2)}"


def _format_name(question: Question) -> str:
    return format_name(question.workload, question.parameters)


def _render_verdict(question: Question) -> Span:
    return Span(
        _format_verdict(question), _VERDICT_STYLES.get(question.answer.verdict, TextStyle.PLAIN)
    )


def _format_verdict(question: Question) -> str:
    """Format a verdict for a row, with a mark where runs have warnings.

    Only a difference has its ratio: the times and the interval beside it say how equal equal is.
    """
    verdict = question.answer.verdict
    words = format_verdict(question) if verdict in _BAR_STYLES else verdict
    mark = f" {glyphs.GLYPHS.warning}" if question.a.marked or question.b.marked else ""
    return f"{words}{mark}"


def build_question_key(question: Question) -> str:
    """Return a key that identifies a question."""
    return f"{question.workload} {question.devices} {question.parameters} {question.a.rows[0].id}"


def render_sides(comparison: EnvironmentComparison, cells: int) -> list[Line]:
    """Draw how many workloads got which verdict, then the descriptions of A and B."""
    summary = _summarize(comparison)
    names = [
        row
        for letter, name in zip("AB", comparison.names, strict=True)
        for row in paragraph(name, cells, label=f"{letter}: ")
    ]
    return [fit_line(summary, cells), *names] if summary else names


def _summarize(comparison: EnvironmentComparison) -> Line:
    """Return how many workloads got each verdict; empty without any."""
    verdicts: list[str] = [question.answer.verdict for question in comparison.compared.questions]
    words = {"slower": "slower in", "faster": "faster in", "same": "the same in"}
    words["unclear"] = "undecided in"
    parts: list[str | Span] = []
    for verdict, phrase in words.items():
        if many := verdicts.count(verdict):
            style = _VERDICT_STYLES.get(verdict, TextStyle.PLAIN)
            parts += [", " if parts else "B is ", Span(f"{phrase} {many}", style)]
    return line(*parts)


_LEAST_BAR, _MOST_BAR = 12, 110
_PAIR = 2
"""Rows of the two times of a workload."""


def render_bars(comparison: EnvironmentComparison, cells: int, rows: int) -> list[Line]:
    """Draw both times of each workload that is faster or slower, of as many as fit.

    The other bars would be equally long, and the table above has their figures.

    Args:
        comparison: the two sides.
        cells: width of a line.
        rows: the rows for all.
    """
    questions = [
        question
        for question in comparison.compared.questions
        if question.answer.verdict in _BAR_STYLES
    ]
    spaced = rows >= len(questions) * (_PAIR + 1)
    shown = questions[: rows // (_PAIR + spaced)]
    if not shown:
        return []
    names = _format_distinct_names(questions)
    label = widest(names, min(_MOST_NAME, cells // 3))
    verdict = widest(map(_format_verdict, questions))
    times = widest(text.seconds(side.typical_s) for each in questions for side in (each.a, each.b))
    # Blanks: two at the left, and between name, letter, bar, time and verdict.
    room = min(_MOST_BAR, cells - label - verdict - times - 10)
    if room < _LEAST_BAR:
        return []
    lines: list[Line] = []
    for question, name in zip(shown, names, strict=False):
        sides = (question.a, question.b)
        full = max(side.typical_s for side in sides)
        styles = _BAR_STYLES[question.answer.verdict]
        for letter, side, style in zip("AB", sides, styles, strict=True):
            bar = glyphs.GLYPHS.gauge * max(1, round(side.typical_s / full * room))
            lines.append(
                line(
                    f"  {left(name if letter == 'A' else '', label)}  ",
                    Span(f"{letter} ", TextStyle.QUIET),
                    Span(left(bar, room), style),
                    Span(f"  {right(text.seconds(side.typical_s), times)}", TextStyle.STRONG),
                    *(("  ", _render_verdict(question)) if letter == "B" else ()),
                )
            )
        if spaced:
            lines.append(())
    return lines


_LEAST_RUNS, _MOST_RUNS = 6, 32
"""Rows of the plot of a workload's runs, between its edges."""
_AROUND_RUNS = 3
"""Rows of that plot besides: its title, the axis and the dates."""


def render_pictures(
    comparison: EnvironmentComparison, question: Question | None, cells: int, rows: int
) -> list[Line]:
    """Draw each run of the workload under the cursor; with fewer rows, or without a plot, bars.

    Args:
        comparison: the two sides.
        question: the workload under the cursor.
        cells: width of a line.
        rows: the rows for all.
    """
    height = min(_MOST_RUNS, rows - _AROUND_RUNS)
    plot: list[Line] = []
    if question is not None and height >= _LEAST_RUNS:
        plot = _plot_runs(question, cells, height)
    return plot or render_bars(comparison, cells, rows)


def _plot_runs(question: Question, cells: int, height: int) -> list[Line]:
    """Plot the median of each run of both sides over time; nothing of runs at one moment."""
    sides = {"A": question.a.rows, "B": question.b.rows}
    rows = [row for side in sides.values() for row in side if row.median_s]
    times = [row.at for row in rows]
    if len(set(times)) < 2 or cells - 2 < LEAST_CELLS:
        return []
    curves = [
        Curve(
            letter,
            tuple((row.at, row.median_s) for row in side if not row.marks),
            mark_of(number),
            style_of(number),
            joined=False,
        )
        for number, (letter, side) in enumerate(sides.items())
    ]
    curves += _mark_warnings(rows)
    plot = Plot(
        Axis("time", DATE, Scale(min(times), max(times))),
        Axis("median of a run", "s", _scale_medians(rows)),
        tuple(curves),
        title=question.workload,
    )
    return [(Span("  "), *row) for row in plot_lines(plot, cells - 2, height)]


def _mark_warnings(rows: Sequence[StoredRow]) -> list[Curve]:
    """Return the curve of the runs with warnings, which have their own mark; empty without any."""
    marked = tuple((row.at, row.median_s) for row in rows if row.marks)
    warning = glyphs.GLYPHS.warning
    return [Curve("with warnings", marked, warning, TextStyle.NOTE, joined=False)] * bool(marked)


def _format_distinct_names(questions: Sequence[Question]) -> list[str]:
    """Return the names of workloads, with parameters where a name alone stands for several."""
    counts = Counter(question.workload for question in questions)
    return [
        question.workload if counts[question.workload] == 1 else _format_name(question)
        for question in questions
    ]


def render_foot(
    comparison: EnvironmentComparison, question: Question | None, cells: int
) -> list[Line]:
    """Draw the interval and notes of the workload under the cursor, then notes on all workloads."""
    rows: list[Line] = []
    common = find_shared_differences(comparison.compared)
    if question is not None:
        words = format_long_verdict(question)
        lead = Span(f"{question.workload} on {format_devices(question)}  ", TextStyle.STRONG)
        rows += (
            [line(lead, words)]
            if cell_len(lead.text + words) <= cells
            else paragraph(lead.text + words, cells)
        )
        for remark in format_own_notes(question, common):
            rows += paragraph(remark, cells, TextStyle.NOTE, indent="  ")
    for remark in format_shared_differences(comparison.compared):
        rows += paragraph(remark, cells)
    for remark in format_closing_notes(comparison.compared):
        rows += paragraph(remark, cells, TextStyle.QUIET)
    return rows


def format_comparison_title(comparison: EnvironmentComparison) -> str:
    """Format the title: the workloads that both sides have, and their runs."""
    many = len(comparison.compared.questions)
    if not many:
        return NO_COMMON
    marked = any(side.marked for each in comparison.compared.questions for side in (each.a, each.b))
    warned = f"   {glyphs.GLYPHS.warning} runs with warnings" if marked else ""
    common = text.count(many, "common workload")
    return f"B vs A   {common}, {format_runs(comparison.compared)}{warned}"


# ---- one workload over time ----------------------------------------------------------------------

_TICKED = ("driver", "torch")
"""Facts whose changes are drawn."""
_MARGIN = 0.05
"""Margin above and below, as a share of the span of the values."""
_FLAT = 0.01
"""Least span of the axis, as a share of the values."""
_LEAST_HEIGHT, _MOST_HEIGHT = 4, 60
_MOST_CURVES, _MOST_NAMED, _MOST_TICKS = 6, 8, 30
"""Most software versions with their own marks, named changes, and drawn changes."""
_FEWEST_PLOTTED = 3
"""Fewest runs that are plotted; fewer are listed."""
_ROWS_OF_RUN = 5
"""Rows that each run adds to the plot, so that a few points do not lie in an empty field."""
_MOST_SPREAD = 0.5
"""Spread up to which the center of some runs stands for them; beyond, their range does."""
NONE_SUCCEEDED = "No run of it has succeeded here. Only the time of a successful run counts."
_DAY, _YEAR = len("2026-01-31"), len("2026-")
_BESIDE_PLOT = 5
"""Least rows of a plot in addition to its height, with the blank row."""

Software = tuple[tuple[str, str], ...]
"""Names and known versions of the software whose changes are drawn."""


def find_software(history: WorkloadHistory, row: StoredRow) -> Software:
    """Return the driver and torch versions of a run."""
    values = history.facts[row.environment].values
    return tuple((name, values[name]) for name in _TICKED if name in values)


def group_by_software(history: WorkloadHistory) -> dict[Software, list[StoredRow]]:
    """Group the runs by driver and torch, in the order of their first appearance."""
    groups: dict[Software, list[StoredRow]] = {}
    for row in history.rows:
        groups.setdefault(find_software(history, row), []).append(row)
    return groups


def find_changes(history: WorkloadHistory) -> list[tuple[StoredRow, str]]:
    """Return the first run after each change of driver or torch, with its description."""
    return [
        (row, format_change(find_software(history, before), find_software(history, row)))
        for before, row in pairwise(history.rows)
        if find_software(history, before) != find_software(history, row)
    ]


def format_change(before: Software, after: Software) -> str:
    """Describe a change by the new versions: ``torch 2.13.0``."""
    known = dict(before)
    new = [f"{name} {value}" for name, value in after if known.get(name) != value]
    gone = [f"{name} not known" for name in known if name not in dict(after)]
    return ", ".join([*new, *gone])


def _name_software(groups: Iterable[Software]) -> dict[Software, str]:
    """Return the names of groups of runs: the versions in which they differ."""
    known = list(groups)
    shared = set.intersection(*map(set, known)) if len(known) > 1 else set()
    if any(shared.issuperset(versions) for versions in known):
        shared = set()
    return {
        versions: _format_software([version for version in versions if version not in shared])
        for versions in known
    }


def _format_software(known: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in known) or "driver, torch not known"


def render_history(history: WorkloadHistory, cells: int, height: int) -> list[Line]:
    """Draw the plot, then each driver and torch with its typical time.

    Args:
        history: the runs.
        cells: width of a line.
        height: rows for the whole view; the plot gets the rows that the rest leaves.
    """
    groups = group_by_software(history)
    verdict = _describe_newest(groups, cells)
    rows = _render_groups(groups, cells)
    if history.elsewhere:
        further = text.count(history.elsewhere, "more run")
        words = f"{further} not shown (other machine, device or flags)"
        rows += paragraph(words, cells, TextStyle.QUIET)
    if not history.rows:
        return [*paragraph(NONE_SUCCEEDED, cells, TextStyle.NOTE), *rows]
    if len(history.rows) == 1:
        sentence = "It was measured once: there is nothing to plot yet."
        return [*paragraph(sentence, cells, TextStyle.NOTE), *rows]
    if len(history.rows) < _FEWEST_PLOTTED:
        return [*verdict, *_list_runs(history.rows, cells), (), *rows]
    if cells < LEAST_CELLS:
        return [*verdict, *rows]
    plot = _build_history_plot(history, groups)
    height -= len(verdict)
    most = min(_MOST_HEIGHT, _LEAST_HEIGHT + _ROWS_OF_RUN * len(history.rows))
    room = max(_LEAST_HEIGHT, min(most, height - len(rows) - _BESIDE_PLOT))
    drawn = plot_lines(plot, cells, room)
    # A narrow legend has more rows.
    more = len(drawn) + 1 + len(rows) - height
    if more > 0 and room > _LEAST_HEIGHT:
        drawn = plot_lines(plot, cells, max(_LEAST_HEIGHT, room - more))
    return [*verdict, *drawn, (), *rows]


def _list_runs(runs: Sequence[StoredRow], cells: int) -> list[Line]:
    """Return a line for each of a few runs: its date, its time and its first warning."""
    times = [format_time(row) for row in runs]
    most = widest(times)
    return [
        fit_line(
            line(
                Span(f"{format_date(row.at)}  ", TextStyle.QUIET),
                left(time, most),
                Span(
                    f"  {glyphs.GLYPHS.warning} {row.marks[0]}" if row.marks else "", TextStyle.NOTE
                ),
            ),
            cells,
        )
        for row, time in zip(runs, times, strict=True)
    ]


def _describe_newest(groups: Mapping[Software, Sequence[StoredRow]], cells: int) -> list[Line]:
    """Return whether the newest driver and torch changed the time; none if they are the only ones.

    Runs with warnings are left out if others remain.
    """
    if len(groups) < 2:
        return []
    names = _name_software(groups)
    before, newest = list(groups)[-2:]
    sides = [
        collect_session_times([row for row in rows if not row.marks] or rows, (), {})
        for rows in (groups[before], groups[newest])
    ]
    ratio = compare_sessions(*sides)
    if ratio.ci95 is None:
        few = f"too few sessions under {names[newest]} or {names[before]} for a verdict"
        return paragraph(few, cells, TextStyle.QUIET)
    verdict = ratio.alone
    words, interval = format_effect(verdict, ratio.value, ratio.ci95)
    if verdict not in _BAR_STYLES:
        words = verdict
    more = f" ({format_interval(*interval)})" if interval is not None else ""
    more += f" under {names[newest]} {'than' if verdict in _BAR_STYLES else 'and'} {names[before]}"
    style = _VERDICT_STYLES.get(verdict, TextStyle.STRONG)
    return [*flow([line(Span(words, style), more)], cells), ()]


def _build_history_plot(
    history: WorkloadHistory, groups: Mapping[Software, Sequence[StoredRow]]
) -> Plot:
    across = Scale(history.rows[0].at, history.rows[-1].at)
    plotted = groups if 1 < len(groups) <= _MOST_CURVES else {(): history.rows}
    curves, names = [], _name_software(groups)
    for number, (known, rows) in enumerate(plotted.items()):
        clear = tuple((row.at, row.median_s) for row in rows if not row.marks)
        name = names[known] if plotted is groups else "runs"
        if clear:
            curves.append(Curve(name, clear, mark_of(number), style_of(number), joined=False))
    curves += _mark_warnings(history.rows)
    ticks = find_changes(history)
    # A very long list of names would leave no room for the plot.
    few = len(ticks) <= _MOST_NAMED
    shown = ticks if len(ticks) <= _MOST_TICKS else []
    events = tuple(Event(name if few else "", row.at) for row, name in shown)
    return Plot(
        Axis("time", DATE, across),
        Axis("median of a run", "s", _scale_medians(history.rows)),
        tuple(curves),
        events=events,
    )


def _scale_medians(rows: Sequence[StoredRow]) -> Scale:
    """Return a scale for the medians of runs: just wide enough, since changes are small."""
    medians = [row.median_s or 0.0 for row in rows]
    low, high = min(medians), max(medians)
    room = max((high - low) * _MARGIN, high * _FLAT / 2)
    return Scale(max(0.0, low - room), high + room)


def _render_groups(groups: Mapping[Software, Sequence[StoredRow]], cells: int) -> list[Line]:
    """Return the typical time under each driver and torch, as bars if they fit."""
    names = _name_software(groups)
    described = [
        (names[known], typical, _describe_group(runs, typical))
        for known, runs in groups.items()
        for typical in [compute_typical_s(collect_session_times(runs, (), {}))]
    ]
    label = widest(name for name, _, _ in described)
    longest = widest(words for _, _, words in described)
    room = min(_MOST_BAR, cells - label - longest - 3)
    if len(groups) < 2 or room < _LEAST_BAR:
        rows = (f"{name}: {words}" for name, _, words in described)
        return [row for words in rows for row in paragraph(words, cells, indent="  ")]
    full = max(typical for _, typical, _ in described)
    return [
        line(
            f"{left(name, label)}  ",
            Span(left(glyphs.GLYPHS.gauge * round(typical / full * room), room), style_of(number)),
            f" {words}",
        )
        for number, (name, typical, words) in enumerate(described)
    ]


def _describe_group(runs: Sequence[StoredRow], typical_s: float) -> str:
    """Return the times of some runs, their number and variation, and first and last day."""
    medians = [row.valid_s for row in runs if row.valid_s]
    varied = compute_spread([medians])
    if len(runs) == 1:
        words = format_time(runs[0])
    elif varied is None or varied.share > _MOST_SPREAD:
        ends = map(text.seconds, (min(medians), max(medians)))
        words = " to ".join(dict.fromkeys(ends))
    else:
        words = text.seconds(typical_s, varied.share)
    words += f", {text.count(len(medians), 'run')}"
    if varied is not None and varied.share <= _MOST_SPREAD:
        words += f" {text.spread(varied.share)} from run to run"
    marked = sum(bool(row.marks) for row in runs)
    words += f", {marked} with warnings" if marked else ""
    # Days are enough, unless all runs are of one.
    first, last = (format_date(row.at) for row in (runs[0], runs[-1]))
    if first[:_DAY] != last[:_DAY]:
        first, last = first[:_DAY], last[:_DAY].removeprefix(first[:_YEAR])
    return words + f", {first}" + (f" to {last}" if last != first else "")


def format_history_title(history: WorkloadHistory) -> str:
    """Return the title, with the name of the workload."""
    subject = history.subject
    # The name may come from a stranger's file, and a border does not escape text.
    name = clean(format_name(subject.workload, subject.parameters))
    runs = len(history.rows)
    many = f"{text.count(runs, 'run')} over time" if runs else "No successful run"
    return f"{many}   {name} on {subject.device}"
