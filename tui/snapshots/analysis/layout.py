"""The memory layout at one moment: reserved ranges, with their blocks in use and their gaps.

The ranges are derived from the final segments by undoing the trace backwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field, replace

from tui.snapshots.analysis.allocations import Allocations, round_up
from tui.snapshots.analysis.timeline import Replay
from tui.snapshots.explain.thresholds import SMALL_REQUEST
from tui.snapshots.model.pictures import Fragmentation
from tui.snapshots.model.snapshot import (
    ALLOCATED,
    NOT_RECORDED,
    Action,
    DeviceSnapshot,
    Snapshot,
    Trace,
)

Pool = tuple[int, int]
DEFAULT_POOL: Pool = (0, 0)

SMALL_SEGMENT = 2 << 20
"""``kSmallBuffer``: size of a cudaMalloc for requests up to 1 MiB, and growth step of an expandable
segment of that class."""
LARGE_SEGMENT = 20 << 20
"""``kLargeBuffer``: the same for requests above 1 MiB and below 10."""


@dataclass(frozen=True, slots=True)
class Range:
    """Contiguous reserved memory: a segment, or a mapped part of an expandable one."""

    address: int
    size: int
    stream: int
    pool: Pool | None
    """The pool; ``None`` if the file has none."""
    kind: str | None
    """``small`` or ``large``; ``None`` if the range was released and its class is unknown."""
    expandable: bool

    @property
    def end(self) -> int:
        """End address, exclusive."""
        return self.address + self.size

    @property
    def private(self) -> bool:
        """True if the range belongs to a CUDA graph's pool or a MemPool."""
        return self.pool is not None and self.pool != DEFAULT_POOL


def final_ranges(device: DeviceSnapshot) -> tuple[Range, ...]:
    """Return the segments of the file, sorted by address."""
    return tuple(
        Range(
            address=segment.address,
            size=segment.size,
            stream=segment.stream,
            pool=segment.pool,
            kind=segment.kind or None,
            expandable=segment.expandable,
        )
        for segment in sorted(device.segments, key=lambda segment: segment.address)
    )


def ranges_at(
    snapshot: Snapshot, device: DeviceSnapshot, replayed: Replay, event: int
) -> tuple[tuple[Range, ...], int]:
    """Return the reserved ranges right after an event, sorted by address.

    Args:
        snapshot: provides the tables of streams and pools.
        device: provides the segments and the trace.
        replayed: replay of the same device.
        event: the moment right after it; -1 for before the first.

    Returns:
        The ranges, and the number of segment entries inconsistent with them.
    """
    walk = _Walk(final_ranges(device))
    trace = device.trace
    segment_events = replayed.segment_events
    for place in range(len(segment_events) - 1, bisect_right(segment_events, event) - 1, -1):
        walk.undo(snapshot, trace, segment_events[place])
    return walk.ranges(), walk.misfits


class _Walk:
    """Reserved ranges, in which the walk undoes entries."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        self._by_start = {item.address: item for item in ranges}
        self._starts = sorted(self._by_start)
        self.misfits = 0

    def ranges(self) -> tuple[Range, ...]:
        return tuple(self._by_start[start] for start in self._starts)

    def undo(self, snapshot: Snapshot, trace: Trace, event: int) -> None:
        action, address, size = trace.action[event], trace.address[event], trace.size[event]
        if action in (Action.SEGMENT_ALLOC, Action.SEGMENT_MAP):
            self._subtract(address, size)
            return
        pool_number = trace.pool[event]
        pool = None if pool_number == NOT_RECORDED else snapshot.pools[pool_number]
        expandable = action == Action.SEGMENT_UNMAP
        # torch requests exactly this size from cudaMalloc for small requests, and more for others.
        kind = "small" if size == SMALL_SEGMENT else "large"
        stream = snapshot.streams[trace.stream[event]]
        self._add(Range(address, size, stream, pool, None if expandable else kind, expandable))

    def _insert(self, item: Range) -> None:
        if item.address not in self._by_start:
            insort(self._starts, item.address)
        self._by_start[item.address] = item

    def _remove(self, start: int) -> None:
        del self._by_start[start]
        del self._starts[bisect_left(self._starts, start)]

    def _add(self, item: Range) -> None:
        place = bisect_right(self._starts, item.address) - 1
        before = self._by_start[self._starts[place]] if place >= 0 else None
        if before is not None and before.end > item.address:
            self.misfits += 1
            return
        if item.expandable:
            if before is not None and before.end == item.address and _can_join(before, item):
                self._remove(before.address)
                item = _join(before, item)
            after = self._by_start.get(item.end)
            if after is not None and _can_join(item, after):
                self._remove(after.address)
                item = _join(item, after)
        self._insert(item)

    def _subtract(self, address: int, size: int) -> None:
        place = bisect_right(self._starts, address) - 1
        piece = self._by_start[self._starts[place]] if place >= 0 else None
        if piece is None or piece.end < address + size:
            self.misfits += 1
            return
        self._remove(piece.address)
        if piece.address < address:
            self._insert(_part(piece, piece.address, address))
        if address + size < piece.end:
            self._insert(_part(piece, address + size, piece.end))


def _part(whole: Range, start: int, end: int) -> Range:
    return replace(whole, address=start, size=end - start)


def _can_join(low: Range, high: Range) -> bool:
    """Return whether two neighbors are known to belong to one expandable segment."""
    return (
        low.expandable
        and high.expandable
        and low.stream == high.stream
        and (low.pool == high.pool or None in (low.pool, high.pool))
        and (low.kind == high.kind or None in (low.kind, high.kind))
    )


def _join(low: Range, high: Range) -> Range:
    return Range(
        low.address,
        low.size + high.size,
        low.stream,
        high.pool if low.pool is None else low.pool,
        low.kind or high.kind,
        expandable=True,
    )


@dataclass(frozen=True, slots=True)
class UsedBlock:
    """A block in use."""

    address: int
    size: int
    requested: int
    pending: bool
    stack: int
    row: int | None
    """Row in the table of allocations; ``None`` in a layout read from the blocks."""


@dataclass(slots=True)
class Filled:
    """A range filled by its blocks and gaps, each sorted by address."""

    range: Range
    used: list[UsedBlock] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Address and size of each gap."""

    @property
    def free(self) -> int:
        """Total bytes of all gaps."""
        return sum(size for _, size in self.gaps)

    @property
    def largest(self) -> int:
        """Size of the largest gap; 0 if there is none."""
        return max((size for _, size in self.gaps), default=0)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one device at one moment."""

    event: int | None
    """The moment right after it; ``None`` for the end, taken exactly from the blocks."""
    filled: tuple[Filled, ...]
    misfits: int
    """Number of inconsistent segment entries."""
    outside: int
    """Number of live allocations outside all reserved ranges."""


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """The pieces that can serve a request: one pool, stream and size class."""

    size: int
    """Size of the request's block: its bytes, rounded up."""
    stream: int
    pool: Pool

    @property
    def kind(self) -> str:
        """The size class of the pieces, ``small`` or ``large``."""
        return "small" if self.size <= SMALL_REQUEST else "large"


def final_layout(device: DeviceSnapshot) -> Layout:
    """Return the state at the end, from the blocks."""
    segments = sorted(device.segments, key=lambda segment: segment.address)
    filled = []
    for item, segment in zip(final_ranges(device), segments, strict=True):
        part = Filled(item)
        for block in segment.blocks:
            if block.state == "inactive":
                part.gaps.append((block.address, block.size))
            else:
                pending = block.state != ALLOCATED
                part.used.append(
                    UsedBlock(
                        address=block.address,
                        size=block.size,
                        requested=block.requested,
                        pending=pending,
                        stack=block.stack,
                        row=None,
                    )
                )
        filled.append(part)
    return Layout(None, tuple(filled), 0, 0)


def layout_at(
    snapshot: Snapshot,
    device: DeviceSnapshot,
    replayed: Replay,
    table: Allocations,
    event: int | None,
) -> Layout:
    """Return the memory layout right after an event (-1 is before the first, ``None`` the end).

    Gaps are the parts of the ranges without live allocations. Each allocation has the size of its
    block if that still exists at the end, else its size rounded up to 512 bytes.
    """
    if event is None or event >= replayed.events - 1:
        return final_layout(device)
    ranges, misfits = ranges_at(snapshot, device, replayed, event)
    filled = [Filled(item) for item in ranges]
    starts = [item.address for item in ranges]
    outside = 0
    for row in sorted(table.live_at(event), key=table.address.__getitem__):
        address = table.address[row]
        place = bisect_right(starts, address) - 1
        if place < 0 or ranges[place].end <= address:
            outside += 1
            continue
        pending = table.requested[row] <= event
        filled[place].used.append(
            UsedBlock(
                address=address,
                size=table.rounded(row),
                requested=table.size[row],
                pending=pending,
                stack=table.stack[row],
                row=row,
            )
        )
    for part in filled:
        _find_gaps(part)
        part.range = _find_by_content(part)
    return Layout(event, tuple(filled), misfits, outside)


def _find_gaps(part: Filled) -> None:
    reached = part.range.address
    for block in part.used:
        if block.address > reached:
            part.gaps.append((reached, block.address - reached))
        reached = max(reached, block.address + block.size)
    if reached < part.range.end:
        part.gaps.append((reached, part.range.end - reached))


def _find_by_content(part: Filled) -> Range:
    """Infer the class of a range without a remaining segment from the requests it served."""
    item = part.range
    if item.kind is not None:
        return item
    kind = None
    if part.used:
        kind = "small" if round_up(part.used[0].requested) <= SMALL_REQUEST else "large"
    return replace(item, kind=kind)


def pools_of_rows(snapshot: Snapshot, layout: Layout) -> dict[int, int]:
    """Return the pool number of each row in a range of a known pool."""
    numbers = {pool: number for number, pool in enumerate(snapshot.pools)}
    return {
        block.row: numbers[part.range.pool]
        for part in layout.filled
        if part.range.pool in numbers
        for block in part.used
        if block.row is not None
    }


def could_serve(item: Range, need: BlockRequest) -> bool:
    """Return whether a piece of a range can serve a request, if it is large enough.

    An unknown pool counts as the default pool, an unknown kind as fitting.
    """
    return (
        (item.pool or DEFAULT_POOL) == need.pool
        and item.stream == need.stream
        and item.kind in (None, need.kind)
    )


def fragmentation(filled: tuple[Filled, ...]) -> Fragmentation:
    """Measure how scattered the free memory of some ranges is."""
    sizes = [size for part in filled for _, size in part.gaps]
    reserved = sum(part.range.size for part in filled)
    free = sum(sizes)
    return Fragmentation(
        free,
        len(sizes),
        max(sizes, default=0),
        free / reserved if reserved else None,
        sum(size * size for size in sizes) / free**2 if free else None,
    )
