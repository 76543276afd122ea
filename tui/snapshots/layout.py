"""Where everything lay at one moment: each reserved range with its blocks in use and its gaps."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from tui.snapshots.allocations import Allocations, round_up
from tui.snapshots.facts import Fragmentation
from tui.snapshots.model import DeviceSnapshot, Snapshot
from tui.snapshots.ranges import DEFAULT_POOL, Pool, Range, final_ranges, ranges_at
from tui.snapshots.replay import Replay
from workloads.fact import fact

SMALL_REQUEST = 1 << 20
"""``kSmallSize``: requests up to this are served from small segments, larger ones never."""


@fact
class Held:
    """A block in use."""

    address: int
    size: int
    requested: int
    pending: bool
    stack: int
    row: int | None
    """Into the table of allocations; ``None`` where the layout was read from the blocks."""


@dataclass(slots=True)
class Filled:
    """A range and what lay in it, by address; blocks and gaps together fill it."""

    range: Range
    held: list[Held] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """The address and the size of each gap."""

    @property
    def free(self) -> int:
        """The bytes of all gaps together."""
        return sum(size for _, size in self.gaps)

    @property
    def largest(self) -> int:
        """The longest gap; 0 where there is none."""
        return max((size for _, size in self.gaps), default=0)


@fact
class Layout:
    """One device at one moment."""

    event: int | None
    """``None``: at the end, exactly as the blocks tell it."""
    filled: tuple[Filled, ...]
    misfits: int
    """Segment entries that did not fit."""
    outside: int
    """Live allocations that lay in no reserved range."""


@fact
class Need:
    """What a request could be served from: pieces of one pool, stream and size class."""

    size: int
    """The size of the block for the request: its bytes, rounded up."""
    stream: int
    pool: Pool

    @property
    def kind(self) -> str:
        """The size class of the pieces, ``small`` or ``large``."""
        return "small" if self.size <= SMALL_REQUEST else "large"


def final_layout(device: DeviceSnapshot) -> Layout:
    """The state at the end, from the blocks."""
    segments = sorted(device.segments, key=lambda segment: segment.address)
    filled = []
    for item, segment in zip(final_ranges(device), segments, strict=True):
        part = Filled(item)
        for block in segment.blocks:
            if block.state == "inactive":
                part.gaps.append((block.address, block.size))
            else:
                pending = block.state != "active_allocated"
                part.held.append(
                    Held(
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
    """Where everything lay right after an event (-1 is before the first, ``None`` the end).

    The gaps are what the live allocations leave of the ranges, each taken for as large as its
    block where that is still there at the end, else rounded up to 512 bytes.
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
        filled[place].held.append(
            Held(
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
        part.range = _told_by_content(part)
    return Layout(event, tuple(filled), misfits, outside)


def _find_gaps(part: Filled) -> None:
    reached = part.range.address
    for held in part.held:
        if held.address > reached:
            part.gaps.append((reached, held.address - reached))
        reached = max(reached, held.address + held.size)
    if reached < part.range.end:
        part.gaps.append((reached, part.range.end - reached))


def _told_by_content(part: Filled) -> Range:
    """A range of which no segment is left: what lay in it tells which requests it served."""
    item = part.range
    if item.kind is not None:
        return item
    kind = None
    if part.held:
        kind = "small" if round_up(part.held[0].requested) <= SMALL_REQUEST else "large"
    return replace(item, kind=kind)


def pools_of_rows(snapshot: Snapshot, layout: Layout) -> dict[int, int]:
    """The number of the pool of each row of the table that lay in a range of a known pool."""
    numbers = {pool: number for number, pool in enumerate(snapshot.pools)}
    return {
        held.row: numbers[part.range.pool]
        for part in layout.filled
        if part.range.pool in numbers
        for held in part.held
        if held.row is not None
    }


def could_serve(item: Range, need: Need) -> bool:
    """Whether a piece of a range may be handed out for a request, if it is large enough.

    A pool or kind that is not known counts as the default pool, and as fitting.
    """
    return (
        (item.pool or DEFAULT_POOL) == need.pool
        and item.stream == need.stream
        and item.kind in (None, need.kind)
    )


def fragmentation(filled: tuple[Filled, ...]) -> Fragmentation:
    """How scattered the free memory of some ranges is."""
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
