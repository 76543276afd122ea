"""Growth: a site that kept allocating at a steady pace and of which next to nothing was freed.

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
from tui.snapshots.model.results import Growth, Site
from tui.snapshots.model.snapshot import NEVER_TOLD, Trace
from tui.text.numbers import count, duration, grouped, seconds
from tui.text.numbers import size as text

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
