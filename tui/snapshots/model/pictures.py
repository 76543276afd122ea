"""Types for drawing a snapshot: the timeline, the segment map and its pieces.

Units and events are defined in :mod:`tui.snapshots.model.results`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tui.snapshots.explain.frames import FrameKind

CellState = Literal["allocated", "pending", "inactive", "unmapped"]
"""State of one piece of a segment; ``unmapped`` marks addresses outside the reserved range."""
Stacking = Literal["site", "category", "annotation"]
"""The grouping that forms the layers of a timeline."""
REST = ""
"""Key of the layer that collects everything without a layer of its own."""
NO_CATEGORY = "not recorded in the file"
"""Category of an allocation whose purpose the file does not record."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One column of a timeline: a run of consecutive events."""

    first: int
    last: int
    """The last event of the bucket, inclusive."""
    time_us: int | None
    """The time of the first event; ``None`` if the file has no times."""
    live_max: int
    """The largest number of live bytes after any event of the bucket."""
    moment: int
    """The first event with that maximum; the layers show this moment."""
    reserved_max: int
    ooms: int


@dataclass(frozen=True, slots=True)
class EventTick:
    """An event with a round number, for the edge of a timeline."""

    event: int
    time_us: int | None
    """``None`` if the file has no times."""


@dataclass(frozen=True, slots=True)
class Band:
    """The part of a timeline that an annotation covers."""

    name: str
    first: int
    last: int
    """Last event, inclusive; the timeline's last event if the annotation never ended."""
    depth: int
    """Nesting depth: the number of enclosing annotations that began earlier and were still open."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The live bytes that one site, category or annotation held in each bucket."""

    key: str
    """:attr:`SiteRow.key` for a site, else the name; :data:`REST` for the combined remainder."""
    label: str
    bytes: tuple[int, ...]
    """Bytes at each bucket's moment; all layers of a bucket add up to its ``live_max``."""
    categories: tuple[str, ...]
    """Categories of the allocations in :attr:`bytes`, largest first; empty if there are none, and
    for the rest."""
    rank: int = 0
    """Number of layers with a larger maximum over the whole trace; without meaning for the rest."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One device's memory over its events, divided into buckets of nearly equal length."""

    device: int
    first: int
    last: int
    """Last event, inclusive; -1 if nothing was recorded."""
    scale: int
    """Top of the scale in bytes: the most that was reserved or live in the whole trace, regardless
    of the part shown."""
    buckets: tuple[Bucket, ...]
    begin_us: int | None
    """Time of the trace's first event, regardless of the part shown; ``None`` if the file has no
    times."""
    peak_event: int | None
    """Event of the peak; ``None`` if the trace begins at its peak or is empty."""
    peak: int
    ooms: tuple[int, ...]
    """OOM events within the part shown."""
    bands: tuple[Band, ...]
    stacking: Stacking
    layers: tuple[Layer, ...]
    """Layers from the bottom up: those with the largest maximum over the whole trace, regardless of
    the part shown, the steadiest of them lowest; then the rest, if any."""
    ticks: tuple[EventTick, ...] = ()
    """Places on the lower edge."""


@dataclass(frozen=True, slots=True)
class LayerSize:
    """The live bytes of one layer of a timeline right after an event."""

    key: str
    """:attr:`Layer.key`."""
    bytes: int


@dataclass(frozen=True, slots=True)
class SiteHistory:
    """The live bytes of one site over all events."""

    points: tuple[tuple[int, int], ...]
    """In each of some stretches of events, the first event with the most bytes, and these bytes;
    then the last event."""
    peak: int
    """The most bytes right after any event, or before the first."""


@dataclass(frozen=True, slots=True)
class FlameFrame:
    """A frame of code in a flame view, with all live memory that was allocated below it."""

    path: tuple[str, ...]
    """Keys from the outermost frame to this one; empty for all live memory."""
    label: str
    kind: FrameKind | None
    """The origin of its code; ``None`` for all live memory and where no stack was recorded."""
    start: int
    """Left edge in bytes; the frame that is walked into begins at 0."""
    width: int
    """Width in bytes: :attr:`bytes`, but the picture's width for the frames above it."""
    bytes: int
    count: int
    stack: int
    """Number of the stack with the most bytes below this frame."""
    hidden: int = 0
    """Number of frames left out between this frame and its caller."""
    own: int = 0
    """Bytes whose innermost frame it is, among the frames of the picture's kind."""
    rank: int | None = None
    """Rank of its layer in the timeline by site, if it holds enough memory of its own; ``None`` for
    a frame that mainly calls others, and where the timeline has no layer of its own for it."""


@dataclass(frozen=True, slots=True)
class Flame:
    """The frames that called for live memory, as an icicle below one of them."""

    path: tuple[str, ...]
    """Path of the frame that has the whole width."""
    frames: tuple[FlameFrame, ...]
    """First the frames that lead there, then those below it, level by level. A frame narrower than
    half a cell is left out."""
    bytes: int
    """Live bytes below that frame."""
    total_bytes: int
    """All live bytes."""


@dataclass(frozen=True, slots=True)
class AllocationSize:
    """How many live allocations of one size there are."""

    size: int
    """Requested bytes of each."""
    count: int


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Three measures of fragmentation."""

    free: int
    """Cached bytes: reserved but not in use."""
    pieces: int
    largest: int
    unused: float | None
    """1 - allocated / reserved (pytorch/pytorch#29554); ``None`` if nothing is reserved."""
    clumped: float | None
    """sum(free²) / (sum(free))² over the free pieces: 1 for a single piece, near 0 for many small
    ones; ``None`` if nothing is free."""


@dataclass(frozen=True, slots=True)
class MapRow:
    """One segment, or one contiguous mapped range of an expandable segment."""

    index: int
    """Index among the rows of the map, which are sorted by address."""
    address: int
    size: int
    stream: int
    pool: tuple[int, int] | None
    kind: str
    """Size class of the segment, ``small`` or ``large``."""
    expandable: bool
    allocated: int
    """Bytes of the blocks in use; at an event, sizes are rounded up to 512."""
    pending: int
    free: int
    largest_free: int
    blocks: int
    """Number of blocks in use, including pending ones."""


@dataclass(frozen=True, slots=True)
class SiteInUse:
    """What the blocks of one site take, or those of all sites without a layer in the timeline."""

    label: str
    rank: int | None
    """Rank of its layer in the timeline by site; ``None`` for all others together."""
    bytes: int
    """Bytes of the blocks, including pending ones."""
    blocks: int


@dataclass(frozen=True, slots=True)
class RowPicture:
    """One segment as cells, each with a state letter and a fill digit."""

    row: MapRow
    states: str
    """One letter per cell: ``a`` allocated, ``p`` pending, ``i`` inactive, ``u`` unmapped."""
    used: str
    """One digit per cell: tenths in use, rounded; ``9`` means all or nearly all."""
    begins: str
    """One digit per cell: number of used blocks that begin in it; ``9`` means nine or more."""
    group: int = 0
    """Number of full or wholly free segments that this line stands for, of which :attr:`row` is the
    first; zero for the line of one segment."""
    sites: str = ""
    """The site of each cell: the rank of its layer in the timeline as a digit, or ``-`` for a site
    without a layer and for a cell without a block. A group's cells are shared out by bytes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One character of a segment's picture."""

    state: CellState
    """The state of most bytes in the cell."""
    used: float
    """Allocated or pending share of the cell, 0 to 1."""
    begins: int
    """Number of used blocks that begin in the cell, not counting the left edge of the picture."""
    rank: int | None = None
    """Rank of the layer of the block that has most of the cell; ``None`` without a layer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a segment: a block in use, or a gap."""

    address: int
    size: int
    requested: int | None
    """Requested bytes; ``None`` for a gap."""
    state: CellState
    stack: int
    site: str
    """The program line that requested it; empty for a gap."""
    name: str | None
    """Name of the allocation, as in :attr:`Entry.name`."""


@dataclass(frozen=True, slots=True)
class Pinning:
    """The blocks that prevent a segment from being one free piece."""

    address: int
    """Start address of the span that would become free."""
    span: int
    """Length of that span in bytes: the gain is ``span`` minus ``largest_free``."""
    largest_free: int
    """Size of the largest piece that is already free."""
    blocks: tuple[Piece, ...]
    """The blocks in use within the span, smallest first; only the first few of :attr:`count`."""
    count: int
    cost: int
    """Total bytes of the blocks that would have to be released."""
