"""Growth: program lines whose memory keeps growing, and sites compared between two states.

A line grows if the minimum of its live bytes rises steadily: net, so temporaries of the same line
do not hide the growth, and in bytes, so a tensor that ``torch.cat`` replaces by a longer one
counts. Long-lived memory that was allocated at once (a model's parameters, the state from an
optimizer's first step) stops growing, while a leak continues to the end. Activations of a pass look
the same within the first pass, but a line outside all modules runs less often in one pass than a
program has steps, and a stack inside a module must occur more often than a model has layers.

Two growths are marked, as the history alone does not show a leak: activations of several passes
that no backward pass has followed, and a line that allocates again and again without any other
allocation, as a loop does that fills a cache or loads data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from tui.core.text.numbers import duration, grouped, seconds
from tui.core.text.numbers import size as text
from tui.snapshots.analysis.allocations import Allocations
from tui.snapshots.analysis.device import DeviceData
from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.layers import find_phase
from tui.snapshots.analysis.sites import SiteTree
from tui.snapshots.analysis.timeline import Replay
from tui.snapshots.explain.evidence import Growth
from tui.snapshots.explain.frames import Frame, classify_frame, goes_through
from tui.snapshots.model.results import Change, Difference, DiffRow, Site, SiteRow
from tui.snapshots.model.snapshot import NOT_RECORDED

MANY = 100
"""Minimum live allocations of one stack inside a module to count as growth."""
OFTEN = 12
"""Minimum allocations of one stack outside all modules to count as growth."""
SHARE = 0.1
"""Minimum share of the live bytes for reported growth."""
LONGER = 1.5
"""Minimum ratio of the average live size to the average size of a line's first allocations, if
longer tensors replace shorter ones."""
REPLACED_SHARE = 0.25
"""Minimum share of the live bytes for a report of such a replacement."""
PARTS = 4
LEAST_OF_PART = 0.1
"""Minimum share of a site's growth in each quarter of the events since its first allocation."""
_MADE_ONCE = (
    *("parameters", "optimizer state", "optimizer step", "gradients", "cuBLAS workspace"),
    *("loaded", "captured"),
)
_LOADS = ("/torch/serialization.py", "/safetensors/")
_CAPTURES = "/torch/cuda/graphs.py"
PER_PASS = 2
"""Minimum live allocations in modules per iteration if a graph keeps them; an output is one."""
MOST_LONGER = 0.25
"""Largest growth from one tensor to the longer one that replaces it."""
_TRAINS = ("optimizer state", "optimizer step", "gradients", "backward pass")
_MODULES = "/torch/nn/modules/"


@dataclass(frozen=True, slots=True)
class _SiteGrowth:
    """One site with the allocations of its stacks up to a moment."""

    site: Site
    live: list[int]
    """Rows that are live."""
    made: list[int]
    """All rows."""
    often: int
    """Allocations of the most frequent stack outside all modules."""
    most: int
    """Live allocations of the most frequent stack."""
    grew: int
    """Net bytes since its first allocation."""
    replaced: bool
    """True if longer tensors replace its tensors."""
    lengthening: int = 0
    """Bytes by which all its tensors grow at each replacement, if the sizes show it; else 0."""

    @property
    def function(self) -> tuple[str, str]:
        """The file and the function of the site."""
        frame = self.site.frame
        return ("", "") if frame is None else (frame.filename, frame.name)


def growth(device: DeviceData, event: int | None) -> Growth | None:
    """Return the largest growth of one site until an event; ``None`` if there is none.

    Args:
        device: the device.
        event: the moment right after it; ``None`` for the end.
    """
    table, stacks, replayed = device.allocations, device.stacks, device.replay
    moment = table.events - 1 if event is None else event
    live = replayed.live_at_end if event is None else replayed.live_at(event)
    phases = _Phases(stacks)
    lines = [
        line
        for line in _find_lines(table, stacks, phases, moment, live)
        if line.grew >= SHARE * live / 2
    ]
    repeated = {line.function for line in lines if line.often >= OFTEN and not line.replaced}
    trains = any(phases.of(stack) in _TRAINS for stack in set(table.stack))
    accepted = [
        line
        for line in lines
        if (
            line.replaced
            and line.grew >= REPLACED_SHARE * live
            and not (trains and (line.lengthening or _follows_batch(line, table, replayed, moment)))
        )
        or (not line.replaced and (line.most >= MANY or line.function in repeated))
    ]
    by_function: dict[tuple[str, str], list[_SiteGrowth]] = defaultdict(list)
    for line in accepted:
        by_function[line.function].append(line)
    together = max(
        by_function.values(), key=lambda group: sum(line.grew for line in group), default=[]
    )
    if not together or sum(line.grew for line in together) < SHARE * live:
        return None
    most = max(together, key=lambda line: line.grew)
    return _describe_growth(device, phases, most, together, moment)


def _follows_batch(line: _SiteGrowth, table: Allocations, replayed: Replay, moment: int) -> bool:
    """Return whether a training's peaks grew more than a line's tensor: the batch may have grown.

    A state that the program makes longer is most of what grew; the longer tensor of a longer batch
    comes with longer activations.
    """
    first = min(table.start[row] for row in line.made)
    early = max(replayed.live[first : first + 1 + (moment - first) // PARTS])
    return line.grew < (replayed.live_at(moment) - early) / 2


class _Phases:
    """The training phase of each stack, and whether the stack passes through a module's code."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self.of: Callable[[int], str] = cache(self._find_phase)
        """Returns the phase of a stack, given by its number; empty if it is in none."""
        self.inside_module: Callable[[int], bool] = cache(self._is_inside_module)
        """Returns whether a stack, given by its number, passes through a module."""
        self.caller: Callable[[int], Frame | None] = cache(self._find_caller)
        """Returns the user's line that calls the outermost module of a stack, given by its number;
        the innermost line for a stack outside all modules, ``None`` if there is none."""

    def _find_phase(self, stack: int) -> str:
        frames = self._stacks.of(stack)
        if any(frame.name == "deepcopy" for frame in frames):
            return "parameters"
        if any(goes_through(frames, path) for path in _LOADS):
            return "loaded"
        if goes_through(frames, _CAPTURES):
            return "captured"
        phase = find_phase(frames)
        return "" if phase is None else phase.name

    def _is_inside_module(self, stack: int) -> bool:
        return goes_through(self._stacks.of(stack), _MODULES)

    def _find_caller(self, stack: int) -> Frame | None:
        frames = self._stacks.of(stack)
        modules = [place for place, frame in enumerate(frames) if goes_through([frame], _MODULES)]
        outside = frames[modules[-1] + 1 :] if modules else frames
        return next((frame for frame in outside if classify_frame(frame) == "user"), None)


def _find_lines(
    table: Allocations, stacks: Stacks, phases: _Phases, moment: int, live: int
) -> list[_SiteGrowth]:
    """Return the sites with enough steadily growing memory."""
    rows_of: dict[int, list[int]] = defaultdict(list)
    for row in table.live_at(moment):
        if table.start[row] >= 0 and table.stack[row]:
            rows_of[table.stack[row]].append(row)
    by_site: dict[Site, list[int]] = defaultdict(list)
    for stack in rows_of:
        if phases.of(stack) not in _MADE_ONCE:
            by_site[stacks.site(stack)].append(stack)
    large = {
        site: numbers
        for site, numbers in by_site.items()
        if sum(table.size[row] for stack in numbers for row in rows_of[stack]) >= SHARE * live / 2
    }
    site_of = {stack: site for site, numbers in large.items() for stack in numbers}
    made: dict[Site, list[int]] = defaultdict(list)
    for row, (stack, start) in enumerate(zip(table.stack, table.start, strict=True)):
        if 0 <= start <= moment and stack in site_of:
            made[site_of[stack]].append(row)
    growing = []
    for site, numbers in large.items():
        rows = [row for stack in numbers for row in rows_of[stack]]
        grew = _steady_growth(table, made[site], moment)
        outside = [stack for stack in numbers if not phases.inside_module(stack)]
        replaced = grew > 0 and _is_replaced(table, rows, made[site])
        lengthening = 0 if replaced or grew > 0 else _lengthening(table, rows, made[site])
        if lengthening:
            # A history that began late shows only the latest part of the growth.
            grew, replaced = sum(table.size[row] for row in rows), True
        if grew <= 0:
            continue
        growing.append(
            _SiteGrowth(
                site=site,
                live=rows,
                made=made[site],
                often=max((len(rows_of[stack]) for stack in outside), default=0),
                most=max(len(rows_of[stack]) for stack in numbers),
                grew=grew,
                replaced=replaced,
                lengthening=lengthening,
            )
        )
    return growing


def _steady_growth(table: Allocations, made: list[int], moment: int) -> int:
    """Return the net growth of the minimum if it rises in each quarter of the events; else 0."""
    changes = [(table.start[row], table.size[row]) for row in made]
    changes += [
        (table.completed[row], -table.size[row]) for row in made if table.completed[row] <= moment
    ]
    changes.sort()
    first = changes[0][0]
    events = moment - first + 1
    if events < PARTS:
        return 0
    floors: list[int | None] = [None] * PARTS
    value, part = 0, 0
    for event, change in changes:
        now = min(PARTS - 1, (event - first) * PARTS // events)
        while part < now:
            # Memory held at the end of a part continues into the next one.
            floors[part] = _lower(floors[part], value)
            part += 1
            floors[part] = value
        value += change
        if change < 0 or floors[part] is None:
            floors[part] = _lower(floors[part], value)
    while part < PARTS - 1:
        floors[part] = _lower(floors[part], value)
        part += 1
        floors[part] = value
    floor_bytes = [floor or 0 for floor in floors]
    grew = value - floor_bytes[0]
    rises = [
        after - before for before, after in zip(floor_bytes, [*floor_bytes[1:], value], strict=True)
    ]
    return grew if grew > 0 and min(rises) >= LEAST_OF_PART * grew else 0


def _lower(floor: int | None, value: int) -> int:
    return value if floor is None else min(floor, value)


def _is_replaced(table: Allocations, live: list[int], made: list[int]) -> bool:
    """Return whether few of many allocations are live, and these exceed the first ones in size."""
    if len(made) < OFTEN or 2 * len(live) > len(made):
        return False
    if len({table.size[row] for row in made}) < OFTEN:
        return False  # another batch size, for instance
    first = sorted(made, key=table.start.__getitem__)[: max(1, len(made) // PARTS)]
    quarter = table.start[first[-1]]
    then = sum(table.start[row] <= quarter < table.completed[row] for row in first)
    if len(live) > max(OFTEN, 2 * then):
        return False  # the count grows, not the size
    before = sum(table.size[row] for row in first) / len(first)
    return sum(table.size[row] for row in live) / len(live) >= LONGER * before


def _lengthening(table: Allocations, live: list[int], made: list[int]) -> int:
    """Return the growth at each replacement if each allocation of a line exceeds those before it.

    ``torch.cat`` makes such sizes for a cache of keys and values: equal ones for all layers, then
    slightly longer ones. The sizes count since the last shorter one, as with a new sequence.

    Returns:
        Bytes by which the live allocations together grow; 0 if the sizes do not show a growth.
    """
    ordered = sorted(made, key=table.start.__getitem__)
    sizes: list[int] = []
    firsts: list[int] = []
    for row in reversed(ordered):
        size = table.size[row]
        if sizes and size > sizes[-1]:
            break
        if not sizes or size < sizes[-1]:
            sizes.append(size)
            firsts.append(row)
        firsts[-1] = row
    if len(sizes) < OFTEN:
        return 0
    # A copy needs the tensor that it replaces; a longer batch replaces one that is gone.
    copied = sum(table.completed[old] > table.start[new] for new, old in pairwise(firsts))
    if 2 * copied < len(firsts):
        return 0
    steps = [after - before for after, before in pairwise(sizes)]
    if max(steps) > MOST_LONGER * sizes[0]:
        return 0
    return (sizes[0] - sizes[-1]) * len(live) // (len(sizes) - 1)


def _retains_passes(
    group: list[_SiteGrowth],
    table: Allocations,
    phases: _Phases,
    caller: Frame | None,
    first: int,
    moment: int,
) -> bool:
    """Return whether the memory may be that of passes which no backward pass has followed yet.

    A graph keeps several tensors of each pass, but a stored output is one. The passes are counted
    by a line outside all modules, whose tensors may be small, as a loss is.

    Args:
        group: the growing lines of one function.
        table: all allocations.
        phases: the phases of the stacks.
        caller: the line that calls the modules.
        first: the event of the oldest live allocation.
        moment: the event until which the allocations count.
    """
    if _trains_between(table, phases, first, moment):
        return False
    inside: dict[int, int] = defaultdict(int)
    for line in group:
        for row in line.live:
            if phases.inside_module(table.stack[row]):
                inside[table.stack[row]] += 1
    outside: dict[int, int] = defaultdict(int)
    for row in table.live_at(moment):
        stack = table.stack[row]
        if (
            table.start[row] >= first
            and not phases.inside_module(stack)
            and _is_of_function(phases.caller(stack), caller)
        ):
            outside[stack] += 1
    loops = max(outside.values(), default=0)
    if loops < OFTEN:
        return sum(number >= OFTEN for number in inside.values()) >= PER_PASS
    return sum(inside.values()) >= PER_PASS * loops


def _is_of_function(frame: Frame | None, other: Frame | None) -> bool:
    """Return whether two lines are of the same function."""
    return (
        frame is not None
        and other is not None
        and (frame.filename, frame.name) == (other.filename, other.name)
    )


def _find_group_caller(
    group: list[_SiteGrowth], table: Allocations, phases: _Phases
) -> Frame | None:
    """Return the line that calls the modules in which a group of lines allocated most."""
    sizes: dict[Frame, int] = defaultdict(int)
    for line in group:
        for row in line.live:
            caller = phases.caller(table.stack[row])
            if caller is not None:
                sizes[caller] += table.size[row]
    return max(sizes, key=sizes.__getitem__, default=None)


@dataclass(frozen=True, slots=True)
class _Passes:
    """The forward passes of one calling line that left memory."""

    net: int
    """Live bytes of all complete passes but the first."""
    number: int
    """Number of these passes."""


def _count_passes(
    table: Allocations, phases: _Phases, caller: Frame, first: int, moment: int
) -> _Passes | None:
    """Count the passes that a line has called since an event; ``None`` without at least two.

    A stack that recurs until the end counts them: one outside all modules, such as a loss, else the
    rarest of those inside, since a pass may run the same layer's code many times.

    Args:
        table: all allocations, freed ones included.
        phases: the phases of the stacks.
        caller: the line that calls the modules.
        first: the event of the oldest live allocation.
        moment: the event until which the allocations count.
    """
    rows = [
        row
        for row, (stack, start) in enumerate(zip(table.stack, table.start, strict=True))
        if first <= start <= moment
        and phases.of(stack) not in _MADE_ONCE
        and _is_of_function(phases.caller(stack), caller)
    ]
    rows.sort(key=table.start.__getitem__)
    inside: dict[int, list[int]] = defaultdict(list)
    outside: dict[int, dict[int, int]] = defaultdict(dict)
    allocated_inside = 0
    for row in rows:
        stack, start = table.stack[row], table.start[row]
        if phases.inside_module(stack):
            inside[stack].append(start)
            allocated_inside += 1
        else:
            # One line may allocate several times behind a pass.
            outside[stack].setdefault(allocated_inside, start)
    length = moment + 1 - first

    def recurs(events: Sequence[int]) -> bool:
        return len({(event - first) * PARTS // length for event in events}) == PARTS

    layers = [events for events in inside.values() if recurs(events)]
    if not layers:
        return None
    marks = min(layers, key=len)
    # Of the lines outside, some run in some passes only, such as a log.
    others = [[*events.values()] for events in outside.values()]
    others = [events for events in others if recurs(events) and len(events) <= len(marks)]
    marks = max(others, key=len, default=marks)
    live = [row for row in rows if table.completed[row] > moment]
    net = sum(table.size[row] for row in live if marks[0] < table.start[row] <= marks[-1])
    return _Passes(net, len(marks) - 1)


def _trains_between(table: Allocations, phases: _Phases, first: int, moment: int) -> bool:
    return any(
        first <= start <= moment and phases.of(stack) in _TRAINS
        for start, stack in zip(table.start, table.stack, strict=True)
    )


def _is_only_allocation(
    group: list[_SiteGrowth], table: Allocations, first: int, moment: int
) -> bool:
    """Return whether nothing but the memory of one growing line was allocated during the growth."""
    growing = {row for line in group for row in line.live}
    return len({table.stack[row] for row in growing}) == 1 and all(
        row in growing
        for row, start in enumerate(table.start)
        if first <= start <= moment and table.size[row]
    )


def _describe_growth(
    device: DeviceData,
    phases: _Phases,
    most: _SiteGrowth,
    together: list[_SiteGrowth],
    moment: int,
) -> Growth:
    table, trace = device.allocations, device.trace
    first = min(table.start[row] for row in (most.made if most.replaced else most.live))
    began, now = trace.time_us[first], trace.time_us[moment]
    # Use a line outside all modules that ran as often as its loop.
    often = max(line.often for line in together)
    loops = often if often >= OFTEN else most.most
    caller = _find_group_caller(together, table, phases)
    keeps_passes = not most.replaced and _retains_passes(
        together, table, phases, caller, first, moment
    )
    where, net = most.site.frame, sum(line.grew for line in together)
    # Count the intervals between the first and the last.
    repeats = max(1, (len(most.made) if most.replaced else loops) - 1)
    if keeps_passes and caller is not None:
        passes = _count_passes(table, phases, caller, first, moment)
        if not _is_of_function(where, caller):
            where = caller
        if passes is not None:
            net, repeats = passes.net, passes.number
    return Growth(
        where=where,
        label=most.site.label,
        net=net,
        count=len(most.live),
        repeats=repeats,
        replaced=most.replaced,
        lengthening=sum(line.lengthening for line in together),
        fills=not most.replaced and _is_only_allocation(together, table, first, moment),
        keeps_passes=keeps_passes,
        kind=most.site.kind,
        live=sum(table.size[row] for row in most.live),
        freed=len(most.made) - len(most.live),
        first=first,
        event=moment,
        seconds=None if NOT_RECORDED in (began, now) else max(0, now - began) / 1e6,
    )


def describe_growth(growth: Growth, verb: Literal["were", "are"] = "were") -> str:
    """Describe growth in one sentence: site, start, count and bytes."""
    ago = growth.seconds
    before = "" if ago is None else f" ({duration(ago) if ago >= 60 else seconds(ago)} before)"
    freed = "none was freed" if not growth.freed else f"{grouped(growth.freed)} others were freed"
    return (
        f"{growth.label} grew steadily since event {growth.first}{before}:"
        f" {grouped(growth.count)} allocations {verb} live, {text(growth.live)}; {freed}"
    )


@dataclass(frozen=True, slots=True)
class ComparedState:
    """One of the two compared states."""

    name: str
    """The file and the moment."""
    tree: SiteTree
    """Live memory by any grouping; both sides use the same."""
    reserved: int


def diff(a: ComparedState, b: ComparedState) -> Difference:
    """Return the change from A to B, by the groups at the roots of the trees.

    Groups match if their keys are equal: file, line and function for a site. A line that moved
    between two versions of a program therefore counts as gone and new.
    """
    before, after = _group_by_key(a.tree), _group_by_key(b.tree)
    rows = []
    for key in before.keys() | after.keys():
        row = _compare_rows(key, before.get(key), after.get(key))
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


def _group_by_key(tree: SiteTree) -> dict[str, SiteRow]:
    return {row.key: row for row in tree.listing(limit=len(tree)).rows}


def _compare_rows(key: str, before: SiteRow | None, after: SiteRow | None) -> DiffRow | None:
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
