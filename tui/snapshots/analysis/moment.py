"""One device at one moment: its figures, its segments as rows of cells, and the pinning blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tui.snapshots.analysis.device import DeviceData
from tui.snapshots.analysis.frames import Stacks
from tui.snapshots.analysis.layout import Filled, Layout, UsedBlock
from tui.snapshots.analysis.timeline import Replay
from tui.snapshots.model.pictures import Cell, CellState, MapRow, Piece, Pinning, SiteInUse
from tui.snapshots.model.results import Entry, State
from tui.snapshots.model.snapshot import NOT_RECORDED, Action

_WITHOUT_ADDRESS = (Action.OOM, Action.SNAPSHOT)


def read_entry(device: DeviceData, event: int) -> Entry:
    """Return one entry of a device's trace with its stack.

    Raises:
        IndexError: the trace has no such entry; the one-line message names the valid ones.
    """
    snapshot, table, trace = device.snapshot, device.allocations, device.trace
    if not 0 <= event < len(trace):
        have = f"0 to {len(trace) - 1}" if len(trace) else "none"
        raise IndexError(f"device {device.index} has no event {event}: its trace has {have}")
    action, address = trace.action[event], trace.address[event]
    row = table.find_by_event(event, address) if action <= Action.FREE_COMPLETED else None
    pool, time_us = trace.pool[event], trace.time_us[event]
    return Entry(
        event=event,
        action=trace.unknown.get(event, Action(action).name.lower()),
        address=None if action in _WITHOUT_ADDRESS else address,
        size=trace.size[event],
        stream=snapshot.streams[trace.stream[event]],
        pool=None if pool == NOT_RECORDED else snapshot.pools[pool],
        time_us=None if time_us == NOT_RECORDED else time_us,
        context=snapshot.contexts[trace.context[event]],
        device_free=trace.device_free.get(event),
        name=None if row is None else table.name(row),
        stack=device.stacks.of(trace.stack[event]),
    )


def compute_state(
    replayed: Replay, layout: Layout, event: int | None, entry: Entry | None
) -> State:
    """Return the figures of a layout.

    Args:
        replayed: replay with the live and reserved bytes.
        layout: layout of the same device at the moment.
        event: the moment right after it; ``None`` for the end, -1 for before the first.
        entry: entry at that event, if any.
    """
    filled = layout.filled
    live = replayed.live_at_end if event is None else replayed.live_at(event)
    reserved = replayed.reserved[-1] if event is None else replayed.reserved_at(event)
    private = tuple(part for part in filled if part.range.private)
    default = tuple(part for part in filled if not part.range.private)
    in_use = [block for part in filled for block in part.used]
    requested = sum(block.requested for block in in_use)
    blocks = sum(block.size for block in in_use)
    doubts = list(replayed.doubts)
    if layout.misfits:
        doubts.append(f"{layout.misfits} segment events do not fit the segments")
    if layout.outside:
        doubts.append(f"{layout.outside} live allocations lie in no segment")
    elif requested != live:
        doubts.append(
            f"the live allocations add up to {requested} bytes, the trace to {live}: one of them"
            " is incomplete"
        )
    return State(
        device=replayed.device,
        event=event,
        time_us=None if entry is None else entry.time_us,
        entry=entry,
        live=live,
        pending=sum(block.requested for block in in_use if block.pending),
        rounding=blocks - requested,
        reserved=reserved,
        cached=reserved - live - (blocks - requested),
        allocations=len(in_use) + layout.outside,
        largest_free_block=max((part.largest for part in default), default=0),
        private_reserved=sum(part.range.size for part in private),
        private_cached=sum(part.free for part in private),
        segments=len(filled),
        doubts=tuple(doubts),
    )


_STATES: tuple[CellState, ...] = ("allocated", "pending", "inactive", "unmapped")
_FREE = 2
"""Index of ``inactive`` in it."""


def map_rows(layout: Layout) -> tuple[MapRow, ...]:
    """Return one row for each segment, sorted by address."""
    return tuple(
        MapRow(
            index=index,
            address=part.range.address,
            size=part.range.size,
            stream=part.range.stream,
            pool=part.range.pool,
            kind=part.range.kind or "unknown",
            expandable=part.range.expandable,
            allocated=sum(block.size for block in part.used if not block.pending),
            pending=sum(block.size for block in part.used if block.pending),
            free=part.free,
            largest_free=part.largest,
            blocks=len(part.used),
        )
        for index, part in enumerate(layout.filled)
    )


LEAST_GROUP = 3
"""Full segments of one kind from which they share a line."""


def map_lines(
    rows: Sequence[MapRow], unfolded: Collection[int] = ()
) -> tuple[tuple[MapRow, int], ...]:
    """Return the lines of the map: a segment, and how many the line stands for if it is a group.

    What holds most free memory between its blocks comes first, then what is wholly free, then full
    segments, the largest first. Wholly free segments of one size and kind are a group, and so are
    full ones.

    Args:
        rows: the segments.
        unfolded: groups whose segments follow them, by the index of their first.
    """
    mixed = sorted((row for row in rows if row.free and row.blocks), key=_most_free_first)
    lines = [(row, 0) for row in mixed]
    groups: dict[object, list[MapRow]] = {}
    for row in rows:
        if not (row.free and row.blocks):
            groups.setdefault(_kind_of(row), []).append(row)
    for group in sorted(groups.values(), key=_free_groups_first):
        is_group = len(group) >= LEAST_GROUP
        if is_group:
            lines.append((group[0], len(group)))
        if not is_group or group[0].index in unfolded:
            lines += [(row, 0) for row in group]
    return tuple(lines)


def _kind_of(row: MapRow) -> object:
    return bool(row.free), row.size, row.kind, row.expandable, row.pool, row.stream


def group_of(rows: Sequence[MapRow], first: MapRow) -> list[int]:
    """Return the indices of the full or wholly free segments of one size and kind.

    Args:
        rows: all segments.
        first: one of the group.
    """
    kind = _kind_of(first)
    whole = (row for row in rows if not (row.free and row.blocks))
    return [row.index for row in whole if _kind_of(row) == kind]


def _most_free_first(row: MapRow) -> tuple[int, int]:
    return -row.free, row.index


def _free_groups_first(group: Sequence[MapRow]) -> tuple[bool, int, int]:
    return not group[0].free, -group[0].size, group[0].index


RankOf = Callable[[int], int | None]
"""Returns the rank of the timeline's layer that a stack belongs to, by the stack's number."""


def cells(
    part: Filled,
    width: int,
    *,
    start: int | None = None,
    end: int | None = None,
    rank_of: RankOf = lambda _stack: None,
) -> tuple[Cell, ...]:
    """Divide a range of addresses into cells of equal length.

    Args:
        part: segment to show.
        width: number of cells; if the range has fewer bytes, neighbors show the same byte.
        rank_of: returns the rank of a stack's layer.
        start: address of the first byte to show; by default the segment's.
        end: end address, exclusive; bytes outside the segment are ``unmapped``.

    Raises:
        ValueError: the number of cells is below 1, or the range is empty.
    """
    low = part.range.address if start is None else start
    high = part.range.end if end is None else end
    if width < 1 or high <= low:
        raise ValueError(f"nothing to draw: {width} cells for addresses {low:#x} to {high:#x}")
    span = high - low
    edges = [low + span * place // width for place in range(width + 1)]
    filled = [[0, 0, 0] for _ in range(width)]
    begins = [0] * width
    ranks: list[int | None] = [None] * width
    most = [0] * width
    for address, size, state, stack in _stretches(part):
        begin, stop = max(address, low), min(address + size, high)
        if begin >= stop:
            continue
        place = min(width - 1, (begin - low) * width // span)
        while place + 1 < width and edges[place + 1] <= begin:
            place += 1
        if state < _FREE and address > low:
            begins[place] += 1
        rank = rank_of(stack) if state < _FREE else None
        while place < width and edges[place] < stop:
            length = max(0, min(stop, edges[place + 1]) - max(begin, edges[place]))
            filled[place][state] += length
            if state < _FREE and length > most[place]:
                most[place], ranks[place] = length, rank
            place += 1
    drawn: list[Cell] = []
    for place, sums in enumerate(filled):
        length = edges[place + 1] - edges[place]
        if length == 0 and drawn:
            drawn.append(replace(drawn[-1], begins=0))
            continue
        drawn.append(_cell(sums, length, begins[place], ranks[place]))
    return tuple(drawn)


def _stretches(part: Filled) -> list[tuple[int, int, int, int]]:
    """Return address, size, state index and stack of each piece, unsorted."""
    return [(block.address, block.size, int(block.pending), block.stack) for block in part.used] + [
        (address, size, _FREE, 0) for address, size in part.gaps
    ]


def _cell(sums: list[int], length: int, begins: int, rank: int | None) -> Cell:
    shares = [*sums, max(0, length - sum(sums))]
    most = shares.index(max(shares))
    used = (shares[0] + shares[1]) / length if length else 0.0
    return Cell(_STATES[most], min(1.0, used), begins, rank)


def pieces(part: Filled, stacks: Stacks) -> tuple[Piece, ...]:
    """Return the blocks in use and the gaps of a segment, sorted by address."""
    described = [describe_piece(block, stacks) for block in part.used]
    described += [
        Piece(
            address=address,
            size=size,
            requested=None,
            state="inactive",
            stack=0,
            site="",
            name=None,
        )
        for address, size in part.gaps
    ]
    return tuple(sorted(described, key=lambda piece: piece.address))


def describe_piece(block: UsedBlock, stacks: Stacks, name: str | None = None) -> Piece:
    """Return a block in use, with the site that requested it."""
    return Piece(
        address=block.address,
        size=block.size,
        requested=block.requested,
        state="pending" if block.pending else "allocated",
        stack=block.stack,
        site=stacks.site(block.stack).label,
        name=name,
    )


LETTERS: dict[CellState, str] = {
    "allocated": "a",
    "pending": "p",
    "inactive": "i",
    "unmapped": "u",
}
"""Letter for each state."""


def state_letters(cells: Iterable[Cell]) -> str:
    """Return a letter for each cell."""
    return "".join(LETTERS[cell.state] for cell in cells)


def used_digits(cells: Iterable[Cell]) -> str:
    """Return a digit for each cell: tenths in use; 0 only for a completely unused cell."""
    return "".join(_digit(cell.used) for cell in cells)


def begin_digits(cells: Iterable[Cell]) -> str:
    """Return a digit for each cell: the number of blocks that begin in it, at most ``9``."""
    return "".join(str(min(9, cell.begins)) for cell in cells)


NO_LAYER = "-"
"""Stands for a cell without a layer."""


def rank_digits(cells: Iterable[Cell]) -> str:
    """Return a digit for each cell: the rank of its layer, or ``-`` if it has none."""
    return "".join(NO_LAYER if cell.rank is None else str(cell.rank) for cell in cells)


def share_out_ranks(sites: Sequence[SiteInUse], width: int) -> str:
    """Return a digit for each of some cells, which the sites share by their bytes."""
    whole = max(1, sum(site.bytes for site in sites))
    digits, reached = "", 0
    for site in sites:
        reached += site.bytes
        digit = NO_LAYER if site.rank is None else str(site.rank)
        digits += digit * (round(reached * width / whole) - len(digits))
    return digits


def sites_in_use(
    parts: Iterable[Filled], rank_of: RankOf, label: Callable[[int | None], str]
) -> tuple[SiteInUse, ...]:
    """Return what the blocks in some segments take: layers by rank, then all other sites.

    Args:
        parts: the segments.
        rank_of: returns the rank of a stack's layer.
        label: returns the label of a layer by its rank.
    """
    by_stack: Counter[int] = Counter()
    blocks_of: Counter[int] = Counter()
    for part in parts:
        for block in part.used:
            by_stack[block.stack] += block.size
            blocks_of[block.stack] += 1
    sizes: Counter[int | None] = Counter()
    blocks: Counter[int | None] = Counter()
    for stack, size in by_stack.items():
        rank = rank_of(stack)
        sizes[rank] += size
        blocks[rank] += blocks_of[stack]
    ordered = sorted(sizes, key=lambda rank: (rank is None, rank))
    return tuple(SiteInUse(label(rank), rank, sizes[rank], blocks[rank]) for rank in ordered)


def _digit(used: float) -> str:
    if used <= 0:
        return "0"
    return str(max(1, min(9, round(10 * used))))


@dataclass(frozen=True, slots=True)
class Window:
    """Adjacent blocks whose release would leave one free span."""

    address: int
    """Start address of the span, including the gap before the blocks."""
    span: int
    blocks: tuple[UsedBlock, ...]
    cost: int
    """Total bytes of the blocks."""


def find_cheapest_window(parts: Iterable[Filled], need: int) -> Window | None:
    """Return the cheapest blocks within one segment whose release frees ``need`` bytes in one span.

    Among equally cheap windows, the longest span wins.

    Returns:
        The window; ``None`` if no segment is that large, or a gap is already large enough.
    """
    best: Window | None = None
    for part in parts:
        if part.largest >= need:
            return None
        if part.range.size < need:
            continue
        window = _cheapest_of(part, need)
        if window is not None and (
            best is None or (window.cost, -window.span) < (best.cost, -best.span)
        ):
            best = window
    return best


def _cheapest_of(part: Filled, need: int) -> Window | None:
    """Slide over the blocks: for each last block, find the latest sufficient first block."""
    blocks = part.used
    begins, ends = _find_edges(part)
    best: tuple[int, int, int, int] | None = None
    first, cost = 0, 0
    for last, block in enumerate(blocks):
        cost += block.size
        while first < last and ends[last] - begins[first + 1] >= need:
            cost -= blocks[first].size
            first += 1
        span = ends[last] - begins[first]
        if span >= need and (best is None or (cost, -span) < best[:2]):
            best = (cost, -span, first, last)
    if best is None:
        return None
    cost, span, first, last = best
    return Window(begins[first], -span, tuple(blocks[first : last + 1]), cost)


def _find_edges(part: Filled) -> tuple[list[int], list[int]]:
    """Return where the free span of a window starts, by its first block, and ends, by its last."""
    blocks = part.used
    begins = [part.range.address, *(block.address + block.size for block in blocks[:-1])]
    return begins, [*(block.address for block in blocks[1:]), part.range.end]


def find_widest_window(part: Filled, most: int) -> Window | None:
    """Return the longest span freed by releasing ``most`` adjacent blocks in a segment.

    Among equally long spans, the cheapest wins; ``None`` if nothing is in use.
    """
    in_use = part.used
    begins, ends = _find_edges(part)
    best: Window | None = None
    for last in range(len(in_use)):
        first = max(0, last - most + 1)
        blocks = in_use[first : last + 1]
        cost = sum(block.size for block in blocks)
        span = ends[last] - begins[first]
        if best is None or (span, -cost) > (best.span, -best.cost):
            best = Window(begins[first], span, tuple(blocks), cost)
    return best


MOST_NAMED = 20
"""Maximum number of pinning blocks to describe."""


def pinning(device: DeviceData, window: Window, largest_free: int, event: int) -> Pinning:
    """Prepare a window for display: the smallest blocks first, with their sites and names.

    Args:
        device: device of the blocks.
        window: adjacent blocks to describe.
        largest_free: size of the largest present gap.
        event: event of the window's layout.
    """
    table = device.allocations
    blocks = sorted(window.blocks, key=lambda block: (block.size, block.address))
    shown = []
    for block in blocks[:MOST_NAMED]:
        row = block.row
        if row is None:
            row = table.find_at_address(block.address, event)
        shown.append(describe_piece(block, device.stacks, None if row is None else table.name(row)))
    return Pinning(
        address=window.address,
        span=window.span,
        largest_free=largest_free,
        blocks=tuple(shown),
        count=len(blocks),
        cost=window.cost,
    )
