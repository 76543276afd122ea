"""What is drawn of a snapshot: the timeline, the segment map and single pieces of it.

Units and the meaning of an event are those of :mod:`tui.snapshots.model.results`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CellState = Literal["allocated", "pending", "inactive", "unmapped"]
"""What a stretch of a segment is; ``unmapped`` is outside of what is reserved."""
Stacking = Literal["site", "category", "annotation"]
"""What the layers of a timeline are."""
REST = ""
"""The key of the layer of all that has none of its own."""
NOT_TOLD = "not told by the file"
"""The category of an allocation of which nothing says what it is for."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One column of a timeline: consecutive events."""

    first: int
    last: int
    """The last event of the bucket, itself included."""
    time_us: int | None
    """The time of the first event."""
    live_min: int
    live_max: int
    """The most that was live after any event of the bucket."""
    moment: int
    """The event after which that was first live; the layers are of this moment."""
    reserved_max: int
    ooms: int
    segment_events: int
    """cudaMalloc, cudaFree, map and unmap."""


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of a timeline that an annotation covers."""

    name: str
    first: int
    last: int
    """Events, inclusive; the last one of the timeline where the annotation was not ended."""
    depth: int
    """How many annotations that cover it began before it and were still open."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one site, category or annotation held of the live bytes, for each bucket."""

    key: str
    """Of a site as :attr:`SiteRow.key`, else the name; :data:`REST` for all the others."""
    label: str
    bytes: tuple[int, ...]
    """At the buckets' moments; all layers of a bucket add up to its ``live_max``."""
    categories: tuple[str, ...]
    """Of the allocations in :attr:`bytes`, most bytes first; empty where there are none, and for
    the rest."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The memory of one device over its events, cut into buckets of nearly equal length."""

    device: int
    first: int
    last: int
    """Inclusive; -1 where nothing was recorded."""
    scale: int
    """Bytes at the top: the most that was reserved or live in the whole trace, whatever the part
    shown."""
    buckets: tuple[Bucket, ...]
    begin_us: int | None
    """The time of the trace's first event, whatever the part shown; ``None`` where the file has no
    times."""
    live_at_first: int
    """Before the first event shown."""
    peak_event: int | None
    """``None`` where the trace begins with the peak, or is empty."""
    peak: int
    ooms: tuple[int, ...]
    """The OOM events of the part shown."""
    bands: tuple[Band, ...]
    stacking: Stacking
    layers: tuple[Layer, ...]
    """From the bottom up: those that held the most at some moment of the whole trace, whatever the
    part shown, the steadiest lowest; then the rest, where there is any."""


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Three figures of the same thing."""

    free: int
    """Bytes that are cached: reserved and not in use."""
    pieces: int
    largest: int
    unused: float | None
    """1 - allocated / reserved (pytorch/pytorch#29554); ``None`` where nothing is reserved."""
    clumped: float | None
    """The sum of free² over (the sum of free)²: 1 where all of it is one piece, near 0 where it is
    dust; ``None`` where nothing is free."""


@dataclass(frozen=True, slots=True)
class MapRow:
    """One segment, or for expandable segments one contiguous mapped range."""

    index: int
    """Among the rows of the map, which are sorted by address."""
    address: int
    size: int
    stream: int
    pool: tuple[int, int] | None
    kind: str
    """The size class of the segment, ``small`` or ``large``."""
    expandable: bool
    allocated: int
    """Bytes of the blocks in use; at an event, rounded to 512."""
    pending: int
    free: int
    largest_free: int
    blocks: int
    """How many blocks are in use, pending ones included."""


@dataclass(frozen=True, slots=True)
class RowPicture:
    """One segment as cells: for each the state's letter and how full it is."""

    row: MapRow
    states: str
    """A letter a cell: ``a`` allocated, ``p`` pending, ``i`` inactive, ``u`` unmapped."""
    used: str
    """A digit a cell: tenths of it that are in use, rounded; ``9`` is all or nearly all."""
    begins: str
    """A digit a cell: how many blocks in use begin in it; ``9`` is nine and more."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One character of a segment's picture."""

    state: CellState
    """What most of it is."""
    mixed: bool
    """More than one state within it."""
    used: float
    """Share that is allocated or pending, 0 to 1."""
    begins: int
    """Blocks in use that begin within it; at the left edge of what is drawn none does."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a segment: a block in use, or a gap."""

    address: int
    size: int
    requested: int | None
    """The bytes that were asked for; ``None`` for a gap."""
    state: CellState
    stack: int
    site: str
    """The line of a program that asked for it; empty for a gap."""
    name: str | None
    """The name of the allocation, as in :attr:`Entry.name`."""


@dataclass(frozen=True, slots=True)
class Pinning:
    """What keeps a segment from being one free piece."""

    address: int
    """Where the span begins that would be free."""
    span: int
    """Its length: the gain is ``span`` minus the largest piece that is free now."""
    largest_free: int
    """The largest piece that is free as it is."""
    blocks: tuple[Piece, ...]
    """In use within the span, the smallest first; the first few of :attr:`count`."""
    count: int
    cost: int
    """Bytes of all the blocks that would have to be released."""
