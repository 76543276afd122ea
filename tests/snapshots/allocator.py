"""An allocator model that records what it does as torch does, together with the truth about it.

It follows ``CUDACachingAllocator``: segments of a stream, a pool and a size class; best fit; blocks
split and merge; a request that finds no piece asks the driver, after a failure gives free segments
back, asks again, and only then fails with an ``oom`` entry. Expandable segments map and unmap
pages. What is recorded may begin late, be cut to the last entries, or lack kinds of entries.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

MIB = 1 << 20
SMALL_REQUEST = MIB
VIRTUAL = 1 << 40
"""Bytes between two reservations of virtual addresses."""
Raw = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Options:
    """What a generated file is like."""

    steps: int = 120
    devices: int = 1
    capacity: int = 256 * MIB
    others: int = 0
    expandable: bool = False
    streams: tuple[int, ...] = (0,)
    private_pools: int = 0
    record_from: int = 0
    max_entries: int | None = None
    skip_actions: frozenset[str] = frozenset()
    pool_ids: bool = True
    times: bool = True
    largest: int = 48 * MIB


@dataclasses.dataclass
class Block:
    address: int
    size: int
    requested: int = 0
    state: str = "inactive"
    frames: list[Raw] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Segment:
    """Blocks that fill it, by address; of an expandable one some are ``unmapped``."""

    stream: int
    pool: tuple[int, int]
    kind: str
    expandable: bool
    blocks: list[Block]

    @property
    def page(self) -> int:
        return (2 if self.kind == "small" else 20) * MIB

    def mapped(self) -> list[list[Block]]:
        """Return the contiguous mapped ranges."""
        ranges: list[list[Block]] = []
        fresh = True
        for block in self.blocks:
            if block.state == "unmapped":
                fresh = True
                continue
            if fresh:
                ranges.append([])
                fresh = False
            ranges[-1].append(block)
        return ranges


@dataclasses.dataclass
class Moment:
    """The truth right after an entry."""

    live: int
    reserved: int
    allocations: dict[int, int]
    """Requested bytes by address, pending ones included."""
    ranges: tuple[tuple[int, int], ...]
    largest: int
    """Largest free block of the default pool."""
    blocks: int
    """Bytes of the blocks in use."""
    pending: int
    """Requested bytes that are dropped and still used by a stream."""


class Device:
    """The allocator of one device."""

    def __init__(self, index: int, options: Options, rng: random.Random) -> None:
        self.index, self.options, self.rng = index, options, rng
        self.segments: list[Segment] = []
        self.entries: list[Raw] = []
        self.moments: list[Moment] = []
        self.recording = False
        self.clock = 1_700_000_000_000_000
        self.next_address = (index + 1) << 42
        self.next_virtual = (index + 1) << 46
        self.dead_pools: set[tuple[int, int]] = set()
        self.oom_count = 0
        self.before = self.moment()

    # ---- the truth

    def ranges(self) -> list[tuple[Segment, list[Block]]]:
        return [(segment, blocks) for segment in self.segments for blocks in segment.mapped()]

    def reserved(self) -> int:
        return sum(block.size for _, blocks in self.ranges() for block in blocks)

    def in_use(self) -> list[Block]:
        return [
            block
            for segment in self.segments
            for block in segment.blocks
            if block.state.startswith("active")
        ]

    def moment(self) -> Moment:
        in_use = self.in_use()
        free = [
            block.size
            for segment, blocks in self.ranges()
            for block in blocks
            if block.state == "inactive" and segment.pool == (0, 0)
        ]
        return Moment(
            sum(block.requested for block in in_use),
            self.reserved(),
            {block.address: block.requested for block in in_use},
            tuple(
                sorted(
                    (blocks[0].address, sum(block.size for block in blocks))
                    for _, blocks in self.ranges()
                )
            ),
            max(free, default=0),
            sum(block.size for block in in_use),
            sum(block.requested for block in in_use if block.state == "active_pending_free"),
        )

    # ---- recording

    def start_recording(self) -> None:
        self.recording = True
        self.before = self.moment()

    def record(self, action: str, address: int | None, size: int, **more: Any) -> None:
        if not self.recording or action in self.options.skip_actions:
            return
        segment_pool = more.pop("pool", (0, 0))
        entry: Raw = {"action": action, "size": size, "frames": [], "stream": 0, **more}
        if address is not None:
            entry["addr"] = address
        if self.options.times:
            self.clock += self.rng.randrange(0, 50)
            entry["time_us"] = self.clock
        if self.options.pool_ids:
            entry["pool_id"] = segment_pool
        self.entries.append(entry)
        self.moments.append(self.moment())
        most = self.options.max_entries
        if most is not None and len(self.entries) > most:
            del self.entries[0]
            self.before = self.moments.pop(0)

    # ---- what a program does

    def allocate(
        self, requested: int, stream: int, pool: tuple[int, int], frames: list[Raw]
    ) -> Block | None:
        size = max(512, -(-requested // 512) * 512)
        kind = "small" if size <= SMALL_REQUEST else "large"
        item = (
            self.best_fit(size, stream, pool, kind)
            or self.grow(size, stream, pool, kind)
            or (self.give_back() and self.grow(size, stream, pool, kind))
        )
        if not item:
            self.oom_count += 1
            self.record(
                "oom",
                None,
                requested,
                stream=stream,
                pool=pool,
                frames=frames,
                device_free=self.device_free(),
            )
            return None
        segment, block = item
        self.split(segment, block, size)
        block.state, block.requested, block.frames = "active_allocated", requested, frames
        self.record("alloc", block.address, requested, stream=stream, pool=pool, frames=frames)
        return block

    def free(self, block: Block) -> None:
        """Python dropped it; nothing waits for a stream."""
        self.request_free(block)
        self.complete_free(block)

    def request_free(self, block: Block) -> None:
        segment = self.segment_of(block)
        block.state = "active_pending_free"
        self.record(
            "free_requested",
            block.address,
            block.requested,
            stream=segment.stream,
            pool=segment.pool,
        )

    def complete_free(self, block: Block) -> None:
        segment, requested = self.segment_of(block), block.requested
        block.state = "inactive"
        address = block.address
        self.merge(segment)
        self.record("free_completed", address, requested, stream=segment.stream, pool=segment.pool)

    # ---- inside

    def device_free(self) -> int:
        return max(0, self.options.capacity - self.options.others - self.reserved())

    def segment_of(self, block: Block) -> Segment:
        return next(
            segment for segment in self.segments if any(other is block for other in segment.blocks)
        )

    def best_fit(
        self, size: int, stream: int, pool: tuple[int, int], kind: str
    ) -> tuple[Segment, Block] | None:
        fitting = [
            (segment, block)
            for segment in self.segments
            if (segment.stream, segment.pool, segment.kind) == (stream, pool, kind)
            for block in segment.blocks
            if block.state == "inactive" and block.size >= size
        ]
        return min(fitting, key=lambda item: (item[1].size, item[1].address), default=None)

    def grow(
        self, size: int, stream: int, pool: tuple[int, int], kind: str
    ) -> tuple[Segment, Block] | None:
        if self.options.expandable and pool == (0, 0):
            return self.map_pages(size, stream, pool, kind)
        if kind == "small":
            length = 2 * MIB
        elif size < 10 * MIB:
            length = 20 * MIB
        else:
            length = -(-size // (2 * MIB)) * 2 * MIB
        if length > self.device_free():
            return None
        address, self.next_address = self.next_address, self.next_address + length
        # Sometimes neighbours in addresses, which must not be taken for one segment.
        self.next_address += self.rng.choice((0, 2 * MIB))
        block = Block(address, length)
        segment = Segment(stream, pool, kind, False, [block])
        self.segments.append(segment)
        self.record("segment_alloc", address, length, stream=stream, pool=pool)
        return segment, block

    def map_pages(
        self, size: int, stream: int, pool: tuple[int, int], kind: str
    ) -> tuple[Segment, Block] | None:
        segment = next(
            (
                other
                for other in self.segments
                if other.expandable
                and (other.stream, other.pool, other.kind) == (stream, pool, kind)
            ),
            None,
        )
        if segment is None:
            base, self.next_virtual = self.next_virtual, self.next_virtual + VIRTUAL
            segment = Segment(stream, pool, kind, True, [Block(base, VIRTUAL, state="unmapped")])
            self.segments.append(segment)
        for place, block in enumerate(segment.blocks):
            if block.state != "unmapped":
                continue
            before = segment.blocks[place - 1] if place else None
            have = before.size if before is not None and before.state == "inactive" else 0
            length = -(-(size - have) // segment.page) * segment.page
            if length > block.size or length > self.device_free():
                continue
            fresh = Block(block.address, length)
            if length == block.size:
                segment.blocks[place] = fresh
            else:
                block.address, block.size = block.address + length, block.size - length
                segment.blocks.insert(place, fresh)
            self.merge(segment)
            self.record("segment_map", fresh.address, length, stream=stream, pool=pool)
            return self.best_fit(size, stream, pool, kind)
        return None

    def give_back(self) -> bool:
        """Release cached blocks, as ``empty_cache`` does, and the allocator before it fails."""
        for segment in list(self.segments):
            if segment.pool != (0, 0) and segment.pool not in self.dead_pools:
                continue
            if segment.expandable:
                self.unmap_pages(segment)
            elif all(block.state == "inactive" for block in segment.blocks):
                self.segments.remove(segment)
                self.record(
                    "segment_free",
                    segment.blocks[0].address,
                    segment.blocks[0].size,
                    stream=segment.stream,
                    pool=segment.pool,
                )
        return True

    def unmap_pages(self, segment: Segment) -> None:
        for block in list(segment.blocks):
            if block.state != "inactive":
                continue
            start = -(-block.address // segment.page) * segment.page
            base = segment.blocks[0].address
            # Pages are counted from the beginning of the reservation.
            start = base + -(-(block.address - base) // segment.page) * segment.page
            end = base + (block.address + block.size - base) // segment.page * segment.page
            if end <= start:
                continue
            place = next(i for i, other in enumerate(segment.blocks) if other is block)
            parts = [
                Block(block.address, start - block.address),
                Block(start, end - start, state="unmapped"),
                Block(end, block.address + block.size - end),
            ]
            segment.blocks[place : place + 1] = [part for part in parts if part.size]
            self.merge(segment)
            self.record(
                "segment_unmap", start, end - start, stream=segment.stream, pool=segment.pool
            )

    def split(self, segment: Segment, block: Block, size: int) -> None:
        rest = block.size - size
        small_steps = segment.kind == "small" or segment.expandable
        if rest < 512 if small_steps else rest <= MIB:
            return
        place = next(i for i, other in enumerate(segment.blocks) if other is block)
        segment.blocks.insert(place + 1, Block(block.address + size, rest))
        block.size = size

    def merge(self, segment: Segment) -> None:
        """Join neighbours that are free, and neighbours that are unmapped."""
        joined: list[Block] = []
        for block in segment.blocks:
            last = joined[-1] if joined else None
            if (
                last is not None
                and last.state == block.state
                and block.state in ("inactive", "unmapped")
            ):
                last.size += block.size
            else:
                joined.append(block)
        segment.blocks[:] = joined

    # ---- the file

    def raw_segments(self) -> list[Raw]:
        return [
            {
                "device": self.index,
                "address": blocks[0].address,
                "total_size": sum(block.size for block in blocks),
                "allocated_size": sum(b.size for b in blocks if b.state == "active_allocated"),
                "active_size": sum(b.size for b in blocks if b.state.startswith("active")),
                "requested_size": sum(b.requested for b in blocks if b.state.startswith("active")),
                "stream": segment.stream,
                "segment_type": segment.kind,
                "segment_pool_id": segment.pool,
                "is_expandable": segment.expandable,
                "frames": [],
                "blocks": [
                    {
                        "address": block.address,
                        "size": block.size,
                        "requested_size": block.requested,
                        "state": block.state,
                        "frames": block.frames,
                    }
                    for block in blocks
                ],
            }
            for segment, blocks in sorted(self.ranges(), key=lambda item: item[1][0].address)
        ]
