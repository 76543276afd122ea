"""What was reserved after any event: the segments, walked backwards from those at the end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import replace

from tui.snapshots.model import NEVER_TOLD, Action, DeviceSnapshot, Snapshot, Trace
from tui.snapshots.replay import Replay
from workloads.fact import fact

Pool = tuple[int, int]
DEFAULT_POOL: Pool = (0, 0)

SMALL_SEGMENT = 2 << 20
"""``kSmallBuffer``: what cudaMalloc is asked for on behalf of requests up to 1 MiB, and what an
expandable segment of that sort grows by."""
LARGE_SEGMENT = 20 << 20
"""``kLargeBuffer``: likewise for requests above 1 MiB and below 10."""


@fact
class Range:
    """Contiguous reserved memory: a segment, or a mapped part of an expandable one."""

    address: int
    size: int
    stream: int
    pool: Pool | None
    """``None``: the file does not say."""
    kind: str | None
    """``small`` or ``large``; ``None``: freed again, and nothing tells."""
    expandable: bool

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.address + self.size

    @property
    def private(self) -> bool:
        """In a pool of a CUDA graph or a MemPool."""
        return self.pool is not None and self.pool != DEFAULT_POOL


def final_ranges(device: DeviceSnapshot) -> tuple[Range, ...]:
    """The segments of the file, by address."""
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
    """What was reserved right after an event, by address.

    Args:
        snapshot: for the tables of streams and pools.
        device: the segments and the trace.
        replayed: of the same device.
        event: -1 stands before the first.

    Returns:
        The ranges, and how many segment entries did not fit what was there.
    """
    walk = _Walk(final_ranges(device))
    trace = device.trace
    segment_events = replayed.segment_events
    for place in range(len(segment_events) - 1, bisect_right(segment_events, event) - 1, -1):
        walk.undo(snapshot, trace, segment_events[place])
    return walk.ranges(), walk.misfits


class _Walk:
    """Ranges that entries are undone in."""

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
        item = Range(
            address=address,
            size=size,
            stream=snapshot.streams[trace.stream[event]],
            pool=None if pool_number == NEVER_TOLD else snapshot.pools[pool_number],
            kind=None,
            expandable=action == Action.SEGMENT_UNMAP,
        )
        if not item.expandable:
            # cudaMalloc is asked for exactly this on behalf of small requests, and for more else.
            kind = "small" if size == SMALL_SEGMENT else "large"
            item = Range(address, size, item.stream, item.pool, kind, expandable=False)
        self._add(item)

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
            if before is not None and before.end == item.address and _joins(before, item):
                self._remove(before.address)
                item = _join(before, item)
            after = self._by_start.get(item.end)
            if after is not None and _joins(item, after):
                self._remove(after.address)
                item = _join(item, after)
        self._insert(item)

    def _subtract(self, address: int, size: int) -> None:
        place = bisect_right(self._starts, address) - 1
        found = self._by_start[self._starts[place]] if place >= 0 else None
        if found is None or found.end < address + size:
            self.misfits += 1
            return
        self._remove(found.address)
        if found.address < address:
            self._insert(_part(found, found.address, address))
        if address + size < found.end:
            self._insert(_part(found, address + size, found.end))


def _part(whole: Range, start: int, end: int) -> Range:
    return replace(whole, address=start, size=end - start)


def _joins(low: Range, high: Range) -> bool:
    """Whether two neighbours are of one expandable segment, as far as is known of them."""
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
