"""Stored results as a list, with the columns that fit, and one result in full. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tui.core.text import glyphs
from tui.core.text import numbers as text
from tui.core.text.glyphs import clean
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
    width,
)
from tui.kit.table import REST, Column, Layout, fit_columns, largest_first, widest
from tui.results.store.queries import Listing, find_session
from tui.results.store.records import StoredRow, name_fact
from tui.results.views.row_texts import (
    count_problems,
    format_date,
    format_figures,
    format_name,
    format_outcome,
    format_short_time,
    name_rows,
)
from tui.results.views.trend import (
    choose_change_style,
    choose_trend_style,
    draw_trend,
    find_trends,
    format_change,
)
from workloads.protocol.results import Status

Order = Literal["newest", "workload", "time"]
ORDERS: tuple[Order, ...] = ("newest", "workload", "time")
"""The sort orders, in the order in which a key cycles through them."""
LETTERS = ("A", "B")
"""Letters of the two marked results."""

_FACTS = ("box", "gpu", "driver", "torch")
"""Facts that get a column if the results differ in them."""
_OF_GPU = ("gpu", "driver")
"""Those that a result of the CPU lacks; the title has the value that all others share."""
_STATE_STYLES: Mapping[Status, TextStyle] = {
    "ok": TextStyle.PLAIN,
    "failed": TextStyle.BAD,
    "skipped": TextStyle.QUIET,
    "cancelled": TextStyle.QUIET,
}
CHANGE = "vs last"
"""Heading of the change of the time since the run before."""
_DROPPED_FIRST = ("gpu", "tags", "box", "torch", "driver", "trend", CHANGE, "device")
"""Columns in the order in which a narrow list drops them; the full result is below the list."""
_MOST = {"tags": 24, "gpu": 24}
"""Most cells of a text column."""
_WORKLOAD, _RESULT = 18, (12, 30)
"""Least cells of a name; least cells of a result, and its cells before longer names grow.
What names leave goes to longer results."""


def sort_rows(rows: Sequence[StoredRow], order: Order) -> list[StoredRow]:
    """Sort rows, given newest first; rows without a valid time come last."""
    if order == "workload":
        return sorted(rows, key=lambda row: (row.workload, row.parameters, row.device))
    if order == "time":
        return largest_first(rows, lambda row: row.valid_s)
    return list(rows)


@dataclass(frozen=True, slots=True)
class ListedRow:
    """A result in the list."""

    at: int
    """Index among the rows."""
    row: StoredRow
    mark: str
    """Its letter if it is marked, else empty."""


def fit_list_columns(
    listing: Listing, rows: Sequence[StoredRow], room: int, now: float, *, by_session: bool = False
) -> Layout[ListedRow]:
    """Return the columns of the list that fit the width.

    Args:
        listing: the listing.
        rows: its rows in their order.
        room: cells of a line.
        now: Unix time.
        by_session: the rows of a session follow each other; only the first of a day has the date,
            and what those of a session share is faint in all but its first.
    """
    begins = frozenset(
        at
        for at, row in enumerate(rows)
        if not by_session or not at or find_session(row) != find_session(rows[at - 1])
    )
    times = [format_short_time(row.at, now) for row in rows]
    dated = {at for at in begins if not (by_session and at and _share_date(times[at - 1 : at + 1]))}
    texts: dict[str, tuple[str, ...]] = {
        "when": tuple(_shorten_time(when, whole=at in dated) for at, when in enumerate(times)),
        "workload": name_rows(rows),
        "device": tuple(row.device for row in rows),
        "result": format_figures(rows),
    }
    trends = find_trends(rows, listing.facts)
    looks: dict[str, Callable[[ListedRow], TextStyle]] = {
        "when": lambda listed: TextStyle.STRONG if listed.at in begins else TextStyle.QUIET,
        "result": lambda listed: _choose_result_style(listed.row),
        CHANGE: lambda listed: choose_change_style(trends.get(listed.row.number)),
        "trend": lambda listed: choose_trend_style(trends.get(listed.row.number)),
    }
    if not by_session:
        looks["when"] = lambda _listed: TextStyle.QUIET
    for name, form in ((CHANGE, format_change), ("trend", draw_trend)):
        values = tuple(form(trends.get(row.number)) for row in rows)
        if any(values):
            texts[name] = values
    for name in _FACTS:
        if len(_collect_values(listing, name)) > 1:
            texts[name] = tuple(_find_value(listing, row, name) for row in rows)
    if listing.tags:
        texts["tags"] = tuple(", ".join(listing.tags.get(row.number, ())) for row in rows)
    mark: Column[ListedRow] = Column(
        "", 2, lambda listed: Span(listed.mark, TextStyle.KEY), "left", gap=0
    )
    for name in ("device", *_FACTS, "tags"):
        if name in texts:
            looks[name] = _quiet_repeats(texts[name], begins)
    return fit_columns([mark, *_build_columns(rows, texts, looks)], room)


def _build_columns(
    rows: Sequence[StoredRow],
    texts: Mapping[str, Sequence[str]],
    looks: Mapping[str, Callable[[ListedRow], TextStyle]],
) -> list[Column[ListedRow]]:
    """Return the columns, with that of states before the results."""
    columns: list[Column[ListedRow]] = []
    state = _build_state_column(rows)
    for name, values in texts.items():
        column = _build_column(name, values, looks)
        if name == "result" and state is not None:
            columns += [state, replace(column, gap=1)]
        else:
            columns.append(column)
    return columns


def _find_value(listing: Listing, row: StoredRow, name: str) -> str:
    """Return a fact of a result; n/a if it is unknown."""
    return listing.facts[row.environment].values.get(name, text.NA)


def _collect_values(listing: Listing, name: str) -> set[str]:
    """Return the values of a fact among the results that can have it: a CPU has no driver."""
    rows = [row for row in listing.rows if name not in _OF_GPU or row.device != "cpu"]
    return {_find_value(listing, row, name) for row in rows}


def _build_state_column(rows: Sequence[StoredRow]) -> Column[ListedRow] | None:
    """Return the column of warnings and of ends other than success; ``None`` without any."""
    words = {row: "" if row.status == "ok" else row.status for row in rows}
    room = widest(words.values())
    warned = any(row.marks for row in rows)

    def cell(listed: ListedRow) -> Line:
        row = listed.row
        sign = glyphs.GLYPHS.warning if row.marks else ""
        return line(
            Span(left(words[row], room + (warned and room > 0)), _STATE_STYLES[row.status]),
            Span(sign, TextStyle.NOTE),
        )

    cells = room + warned + (warned and room > 0)
    return Column("", cells, cell, "left") if cells else None


def _share_date(times: Sequence[str]) -> bool:
    """Return whether times are of one day; dates alone have no time to distinguish them."""
    dates = {when.partition(" ")[0] for when in times}
    return len(dates) == 1 and not dates & set(times)


def _shorten_time(when: str, *, whole: bool) -> str:
    """Return a time without its date, unless it is to be whole."""
    date, blank, time = when.partition(" ")
    return when if whole else f"{' ' * cell_len(date + blank)}{time}"


def _quiet_repeats(
    values: Sequence[str], begins: Collection[int]
) -> Callable[[ListedRow], TextStyle]:
    """Return the style of a column in which a text is faint if the row above it has it too."""

    def choose(listed: ListedRow) -> TextStyle:
        at = listed.at
        repeated = at not in begins and values[at] == values[at - 1]
        return TextStyle.QUIET if repeated else TextStyle.PLAIN

    return choose


def _choose_plain(_listed: ListedRow) -> TextStyle:
    return TextStyle.PLAIN


def _build_column(
    name: str, values: Sequence[str], looks: Mapping[str, Callable[[ListedRow], TextStyle]]
) -> Column[ListedRow]:
    choose = looks.get(name, _choose_plain)

    def cell(listed: ListedRow) -> Span:
        return Span(values[listed.at], choose(listed))

    heading = name_fact(name)
    cells = widest((heading, *values), _MOST.get(name, REST))
    gap = 0 if name == "when" else 2
    if name == "workload":
        return Column(name, _WORKLOAD, cell, "left", gap, grows=(_WORKLOAD, cells))
    if name == "result":
        least, most = _RESULT
        return Column(name, least, cell, "left", gap, grows=(min(cells, most), least, cells))
    worth = _DROPPED_FIRST.index(name) if name in _DROPPED_FIRST else None
    align: Literal["left", "right"] = "right" if name == CHANGE else "left"
    return Column(heading, cells, cell, align, gap, drop_order=worth)


def _choose_result_style(row: StoredRow) -> TextStyle:
    if row.status != "ok":
        return TextStyle.QUIET
    return TextStyle.NOTE if row.marks else TextStyle.PLAIN


def format_list_title(
    listing: Listing | None,
    order: Order,
    pattern: str,
    marked: Sequence[StoredRow],
    *,
    stores: bool,
) -> str:
    """Format the list's title: number of results, filter, order and marks."""
    words = ["Results"]
    if listing is not None and listing.all:
        shown, many = len(listing.rows), listing.matching
        newest = f"the newest {shown} of " if shown < many else ""
        words.append(f"{newest}{many}" + (f" of {listing.all}" if many < listing.all else ""))
    if pattern.strip():
        words.append(f"filter: {pattern.strip()}")
    if order != ORDERS[0]:
        words.append(f"by {order}")
    if marked:
        words.append(f"{text.count(len(marked), 'result')} marked")
    if listing is not None:
        words += [*count_problems(listing.rows), *_name_shared(listing)]
    if not stores:
        words.append("this session stores none (--no-store)")
    return "   ".join(words)


def _name_shared(listing: Listing) -> list[str]:
    """Return the GPU and the driver that all results of a GPU share."""
    shared = {name: _collect_values(listing, name) for name in _OF_GPU}
    return [
        f"{'' if name == 'gpu' else f'{name} '}{clean(value)}"
        for name, values in shared.items()
        if len(values) == 1
        for value in values
        if value != text.NA
    ]


def render_selected(row: StoredRow | None, listing: Listing | None, cells: int) -> list[Line]:
    """Draw the selected result: its outcome, warnings and all facts."""
    if row is None or listing is None:
        return []
    facts = listing.facts[row.environment]
    first = line(
        Span(format_name(row.workload, row.parameters), TextStyle.STRONG),
        f" on {row.device}  {format_outcome(row)}",
    )
    second = f"{row.id[:8]}, {row.kind} of {format_date(row.at)}"
    tags = listing.tags.get(row.number, ())
    if tags:
        second += f", tags: {', '.join(tags)}"
    rows = [fit_line(first, cells), fit_line(line(Span(second, TextStyle.QUIET)), cells)]
    for mark in row.marks:
        rows += paragraph(f"{glyphs.GLYPHS.warning} {mark}", cells, TextStyle.NOTE)
    named = [(name_fact(name), Span(value)) for name, value in facts.ranked]
    named += [
        (name_fact(name), Span(f"unknown ({why})", TextStyle.QUIET))
        for name, why in facts.unknown.items()
    ]
    return rows + _arrange_facts(named, cells)


_WIDE = 150
"""Cells that have room for three columns of facts; fewer have two."""
_BETWEEN = 2
"""Blank cells after a name, and between the columns."""


_MOST_SHORT = 16
"""Most cells of a short name; the names of flags and variables are longer."""


def _arrange_facts(facts: Sequence[tuple[str, Span]], cells: int) -> list[Line]:
    """Draw facts in columns with aligned values: those with short names, then the others."""
    short = [fact for fact in facts if cell_len(fact[0]) <= _MOST_SHORT]
    long = [fact for fact in facts if fact not in short]
    return [row for group in (short, long) for row in _arrange_group(group, cells)]


def _arrange_group(facts: Sequence[tuple[str, Span]], cells: int) -> list[Line]:
    """Draw facts in columns, from left to right; below them those wider than a column."""
    many = 3 if cells >= _WIDE else 2
    room = (cells - _BETWEEN * (many - 1)) // many
    label = widest(name for name, _ in facts) + _BETWEEN
    pairs = [line(Span(left(name, label), TextStyle.QUIET), value) for name, value in facts]
    fitting = [pair for pair in pairs if width(pair) <= room]
    rows: list[Line] = []
    for start in range(0, len(fitting), many):
        row: Line = ()
        for column, pair in enumerate(fitting[start : start + many]):
            blank = " " * (column * (room + _BETWEEN) - width(row))
            row = line(*row, Span(blank), *pair)
        rows.append(row)
    for pair in pairs:
        if pair not in fitting:
            rows += flow([pair], cells, indent=" " * label)
    return rows


NONE_STORED = (
    "No results are stored yet. Runs on the screen and gpu-workbench run and compare store them in"
    " {place}; gpu-workbench results import FILE adds those of another machine."
)
NO_STORE = (
    "No results are stored, and none will be because of --no-store. Without it, they would be in"
    " {place}."
)
READONLY = (
    "No results are stored, and none will be because of --readonly. Without it, they would be in"
    " {place}."
)
REPLAY = (
    "A recording stores no results; its runs are on 1. gpu-workbench results lists this machine's."
)


def render_no_match(pattern: str, all_: int, cells: int) -> list[Line]:
    """Draw the text shown in place of the list when a filter leaves nothing."""
    words = (
        f"None of {text.count(all_, 'result')} matches {pattern.strip()}. A word matches the"
        " workload's name, device, status or tag; a condition is like box=alpha, driver=580,"
        " torch=2.12, since:7d, before:2026-01-31. Escape clears the filter."
    )
    return paragraph(words, cells, TextStyle.NOTE)
