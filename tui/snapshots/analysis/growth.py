"""What grew: a site that kept allocating, and sites compared between two states.

A growth is a site that kept allocating at a steady pace and of which next to nothing was freed.
It is told apart from what lives long and was made at once (the parameters of a model): growth is
spread over the events. And from what each step makes and frees (activations): of the stacks of a
growth nothing was freed before either. The activations of a first pass look the same, so a stack
must come again more often than a model has layers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Literal

from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.sites import SiteTree
from tui.snapshots.model.results import Change, Difference, DiffRow, Growth, Site, SiteRow
from tui.snapshots.model.snapshot import NEVER_TOLD, Trace
from tui.text.numbers import count, duration, grouped, seconds
from tui.text.numbers import size as text
from workloads.protocol.frozen import frozen

MANY = 100
"""Live allocations of one stack from which it can be growth."""
SHARE = 0.1
"""Of the live bytes, from which growth is worth telling."""
MOST_FREED = 0.05
"""Of the allocations of a stack, up to which it counts as never freed."""
PARTS = 4
LEAST_OF_PART = 0.1
"""Of the allocations of a site, in each quarter of the events since the first of them."""


def growth(
    table: Allocations, trace: Trace, stacks: Stacks, event: int | None, live: int
) -> Growth | None:
    """The largest growth of one site up to an event; ``None`` where there is none.

    Args:
        table: the allocations of a device.
        trace: of the same device, for times.
        stacks: of the snapshot.
        event: the moment, right after it; ``None`` is the end.
        live: requested bytes that were live then.
    """
    moment = table.events - 1 if event is None else event
    rows = [row for row in table.live_at(moment) if table.start[row] >= 0]
    often = {
        stack: number
        for stack, number in Counter(map(table.stack.__getitem__, rows)).items()
        if stack and number >= MANY
    }
    kept = _never_freed(table, often, moment)
    by_site: dict[Site, list[int]] = defaultdict(list)
    for row in rows:
        if table.stack[row] in kept:
            by_site[stacks.site(table.stack[row])].append(row)
    found = (
        _growth(table, trace, site, its, kept, moment=moment, live=live)
        for site, its in by_site.items()
    )
    return max((one for one in found if one is not None), key=lambda one: one.bytes, default=None)


def _never_freed(table: Allocations, often: dict[int, int], moment: int) -> dict[int, int]:
    """Of stacks with so many live allocations, those of which nearly all are: with the freed."""
    if not often:
        return {}
    made = Counter(
        stack
        for stack, start in zip(table.stack, table.start, strict=True)
        if stack in often and 0 <= start <= moment
    )
    freed = {stack: made[stack] - number for stack, number in often.items()}
    return {stack: gone for stack, gone in freed.items() if gone <= MOST_FREED * made[stack]}


def _growth(
    table: Allocations,
    trace: Trace,
    site: Site,
    rows: list[int],
    kept: dict[int, int],
    *,
    moment: int,
    live: int,
) -> Growth | None:
    held = sum(map(table.size.__getitem__, rows))
    starts = [table.start[row] for row in rows]
    first = min(starts)
    if held < SHARE * live or not _steady(starts, first, moment):
        return None
    by_stack: Counter[int] = Counter()
    for row in rows:
        by_stack[table.stack[row]] += table.size[row]
    began, now = trace.time_us[first], trace.time_us[moment]
    return Growth(
        label=site.label,
        kind=site.kind,
        bytes=held,
        count=len(rows),
        freed=sum(kept[stack] for stack in by_stack),
        share=held / live if live else 0.0,
        first=first,
        event=moment,
        seconds=None if NEVER_TOLD in (began, now) else max(0, now - began) / 1e6,
        stack=by_stack.most_common(1)[0][0],
    )


def _steady(starts: list[int], first: int, moment: int) -> bool:
    """Whether each quarter of the events since the first has its part."""
    events = moment - first + 1
    parts = Counter((start - first) * PARTS // events for start in starts)
    return all(parts[part] >= LEAST_OF_PART * len(starts) for part in range(PARTS))


def growth_words(found: Growth, whose: Literal["were", "are"] = "were") -> str:
    """One sentence: the site, how much in how many, since when, at what pace."""
    ago = found.seconds
    before = "" if ago is None else f" ({duration(ago) if ago >= 60 else seconds(ago)} before)"
    freed = (
        "none of them was freed"
        if not found.freed
        else f"{grouped(found.freed)} others of its allocations were freed"
    )
    return (
        f"{found.label} grew: {count(found.count, 'allocation')} of it {whose} live,"
        f" {text(found.bytes)}, made at a steady pace since event {found.first}{before};"
        f" {freed}; {text(found.per_event)} for each event of the trace"
    )


@frozen
class Side:
    """One of the two states that are compared."""

    name: str
    """The file and the moment."""
    tree: SiteTree
    """What was live, by any grouping; both sides by the same."""
    reserved: int


def diff(a: Side, b: Side) -> Difference:
    """What changed from A to B, by the groups that the trees have at their roots.

    A group is the same on both sides if its key is: a site by file, line and function, so a line
    that moved between two versions of a program is gone and new.
    """
    before, after = _by_key(a.tree), _by_key(b.tree)
    rows = []
    for key in before.keys() | after.keys():
        row = _row(key, before.get(key), after.get(key))
        if row is not None:
            rows.append(row)
    rows.sort(key=lambda row: (-abs(row.bytes_b - row.bytes_a), row.key))
    return Difference(
        a=a.name,
        b=b.name,
        rows=tuple(rows),
        live_a=a.tree.bytes,
        live_b=b.tree.bytes,
        reserved_a=a.reserved,
        reserved_b=b.reserved,
    )


def _by_key(tree: SiteTree) -> dict[str, SiteRow]:
    return {row.key: row for row in tree.listing(limit=len(tree)).rows}


def _row(key: str, before: SiteRow | None, after: SiteRow | None) -> DiffRow | None:
    shown = after or before
    if shown is None:
        return None
    bytes_a, count_a = (before.bytes, before.count) if before else (0, 0)
    bytes_b, count_b = (after.bytes, after.count) if after else (0, 0)
    if (bytes_a, count_a) == (bytes_b, count_b):
        return None
    change: Change
    if before is None:
        change = "new"
    elif after is None:
        change = "gone"
    else:
        change = "grown" if (bytes_b, count_b) > (bytes_a, count_a) else "shrunk"
    return DiffRow(
        change=change,
        key=key,
        label=shown.label,
        kind=shown.kind,
        bytes_a=bytes_a,
        bytes_b=bytes_b,
        count_a=count_a,
        count_b=count_b,
    )
