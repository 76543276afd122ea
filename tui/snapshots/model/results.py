"""Results of a snapshot's analysis: plain frozen facts that cross a pipe as JSON.

Sizes are bytes, times microseconds since the epoch, shares fractions of one. An *event* is the
index of an entry in its device's trace, from 0; the state *at* an event is the state right after
it. ``None`` means unknown, and ``unavailable`` maps the field's name to the reason. The large
columns behind these facts stay in the process that computed them:
:class:`tui.snapshots.analysis.timeline.Replay` and
:class:`tui.snapshots.analysis.allocations.Allocations`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tui.snapshots.explain.evidence import Growth
from tui.snapshots.explain.explanation import Explanation, Remedy
from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.frames import FrameKind as FrameKind
from tui.snapshots.explain.oom_text import OomText
from tui.snapshots.model.pictures import Fragmentation

Grouping = Literal[
    "site",
    "function",
    "file",
    "stream",
    "pool",
    "size class",
    "annotation",
    "context",
]
Order = Literal["bytes", "count", "name"]
Cause = Literal[
    "larger than the device",
    "larger than what was free",
    "truly full",
    "fragmentation",
    "other streams",
    "private pools",
    "other processes",
    "process limit",
    "refused with memory free",
    "unknown",
]
"""The reason why an allocation failed.

- ``larger than the device``: the request is larger than the device's total.
- ``larger than what was free``: much of the device was free, but the request was even larger.
- ``truly full``: live memory fills the device, whose total is known.
- ``fragmentation``: enough memory is cached, but no piece is large enough.
- ``other streams``: memory is cached, but for a different stream.
- ``private pools``: memory is cached inside CUDA-graph or MemPool pools.
- ``other processes``: other processes use the device's memory.
- ``process limit``: ``set_per_process_memory_fraction`` was reached.
- ``refused with memory free``: the device had more free memory than torch requested.
"""
Change = Literal["new", "grown", "shrunk", "gone"]
BEFORE = -1
"""Value in event columns for a time before the first entry of the trace."""


@dataclass(frozen=True, slots=True)
class Site:
    """The program line that an allocation is attributed to."""

    label: str
    """``file.py:12 function``, or ``no Python frame (C++ only)`` or ``no stack recorded``."""
    kind: FrameKind | None
    """The origin of the code; ``None`` if no stack was recorded."""
    frame: Frame | None
    """The frame of the line; ``None`` if the stack has no Python frame."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One trace entry with its stack."""

    event: int
    action: str
    """Name of the action as in the file: ``alloc``, ``oom``, …"""
    address: int | None
    size: int
    stream: int
    pool: tuple[int, int] | None
    time_us: int | None
    context: str
    device_free: int | None
    """Free bytes of the whole GPU; recorded only in OOM entries."""
    name: str | None
    """Name of the allocation that the entry belongs to: ``0x7f12…#2``, the address and a count of
    allocations at that address (from 1; 0 predates the trace)."""
    stack: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class State:
    """One device at one moment; ``reserved = live + rounding + cached``."""

    device: int
    event: int | None
    """The event that this state follows; ``None`` for the end, taken from the blocks."""
    time_us: int | None
    entry: Entry | None
    live: int
    """Requested bytes of all allocations that had not yet been returned to the allocator."""
    pending: int
    """The part of ``live`` that the program had freed but a stream still used."""
    rounding: int
    """Excess of the block sizes over the requested bytes: exact for allocations that still exist at
    the end, 512-byte rounding for the others."""
    reserved: int
    cached: int
    """Reserved bytes outside the blocks of live allocations, in all pools."""
    allocations: int
    largest_free_block: int
    """The longest piece of the default pool without a live allocation, on any stream. Exact at the
    end. At earlier events, the unsplit rest of a freed allocation (up to 1 MiB in the large pool)
    may be counted with its neighbor."""
    private_reserved: int
    """Reserved bytes in private pools."""
    private_cached: int
    segments: int
    doubts: tuple[str, ...]
    """Reasons why these figures may be inexact, one line each."""


@dataclass(frozen=True, slots=True)
class SiteRow:
    """One node of the tree of sites."""

    key: str
    """Identifies the node among its siblings; a path of keys identifies it in the tree."""
    label: str
    kind: FrameKind | None
    """Kind of the node's frame; ``None`` if the node is not a frame."""
    bytes: int
    count: int
    share: float
    """Share of the bytes of the whole query, 0 to 1."""
    children: int
    stack: int
    """Number of the stack with the most bytes below this node."""
    folded: int = 0
    """Number of hidden framework and C++ frames between this node and its parent."""
    rank: int | None = None
    """Rank of the site's layer in the timeline, if it has one; of a tree's first level alone."""


@dataclass(frozen=True, slots=True)
class SiteListing:
    """The first children of one node, and the number of those left out."""

    path: tuple[str, ...]
    rows: tuple[SiteRow, ...]
    more: int
    """Number of children left out."""
    more_bytes: int
    total_bytes: int
    """Bytes of the whole query."""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One site in two states, A and B."""

    change: Change
    key: str
    label: str
    kind: FrameKind | None
    bytes_a: int
    bytes_b: int
    count_a: int
    count_b: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Two states compared by site, without the unchanged sites."""

    a: str
    b: str
    """Names of the two sides: file and moment."""
    rows: tuple[DiffRow, ...]
    """The rows, largest change in bytes first."""
    live_a: int
    live_b: int
    reserved_a: int
    reserved_b: int


AGAINST_OOM = "What would help"
"""Heading for the advice of a verdict, when memory ran out."""
NO_HELP = "Would not help"
"""Label of a measure that would not help."""
NO_STACK_OF_EVENT = "from the exception: the snapshot has no stack of it"
"""Remark on the place of a request that is not known from its event."""
OF_CACHED = "What would free cached memory"
"""Heading for the advice of a summary, when nothing ran out."""


@dataclass(frozen=True, slots=True)
class Part:
    """The content of one timeline layer right after an event."""

    label: str
    bytes: int
    count: int
    """Number of live allocations in the layer."""
    live: int
    """Live bytes of the whole device."""
    categories: tuple[tuple[str, str, int], ...]
    """Each category with its evidence and its bytes, largest first."""
    top: tuple[SiteRow, ...]
    """The layer's first few sites, largest first."""
    stack: tuple[Frame, ...]
    """The stack with the most bytes, innermost first; empty if none was recorded."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reason why one allocation failed or, without an OOM entry, what held the peak."""

    device: int
    event: int
    time_us: int | None
    requested: int
    state: State
    device_free: int | None
    total: int | None
    """Total bytes of the device, from the exception's text or a watched run."""
    others: int | None
    """Bytes that other processes use on the device; found only in the exception's text."""
    serving_free_block: int
    """The largest usable free piece: of the same pool, stream and size class."""
    cause: Cause
    headline: str
    """One sentence: the failed request and the cause."""
    reasons: tuple[str, ...]
    """The figures that support the cause, and the unknowns."""
    top: tuple[SiteRow, ...]
    advice: tuple[Remedy, ...]
    site: str
    """The program line that made the request; empty if no Python frame was recorded."""
    stack: tuple[Frame, ...]
    """The stack of the failed request."""
    growth: Growth | None
    text: OomText | None
    explanation: Explanation
    """The cause in one line, with the account of the used memory."""
    unavailable: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file's name, source and irregularities."""

    file: str
    container: str
    form: str
    byte: int
    settings: dict[str, str]
    warnings: tuple[str, ...]
    host_segments: int


@dataclass(frozen=True, slots=True)
class RoleBytes:
    """The live bytes of one role."""

    role: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PeakAccount:
    """The memory of one device when its live memory was last at the peak."""

    device: int
    event: int
    """Index of the entry right after which the peak was reached; -1 is before the first."""
    time_us: int | None
    live: int
    """Requested bytes."""
    rounding: int
    reserved: int
    """Reserved bytes at that moment, not their own peak."""
    roles: tuple[RoleBytes, ...]
    """Live bytes by role; together they are :attr:`live`."""
    site: Site
    """The program line whose allocation reached the peak."""
    after: Site | None
    """If that allocation has no Python frame, as in a backward pass: the last line before it."""
    reserved_peak: int
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """One device of a file."""

    device: int
    segments: int
    blocks: int
    reserved: int
    allocated: int
    """Total size of the blocks allocated at the end."""
    requested: int
    pending: int
    largest_free_block: int
    private_reserved: int
    private_free: int
    events: int
    skipped: int
    live_at_start: int | None
    live_peak: int | None
    live_peak_event: int | None
    live_peak_time_us: int | None
    live_at_end: int
    reserved_peak: int | None
    reserved_peak_event: int | None
    ooms: tuple[int, ...]
    fragmentation: Fragmentation
    top: tuple[SiteRow, ...]
    """The largest sites: at the peak if there is a trace, else at the end."""
    top_at: Literal["peak", "end"]
    headline: str
    remarks: tuple[str, ...]
    """Notable conditions: a snapshot taken after unwinding, memory that predates the trace."""
    advice: tuple[Remedy, ...]
    unavailable: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def lacks_history(self) -> bool:
        """True if the trace has at most OOMs, which torch records even without a history."""
        return lacks_history(self.events, len(self.ooms))


def lacks_sites(top: Sequence[SiteRow]) -> bool:
    """Return whether a list of the largest sites names no code, only memory without a stack."""
    return bool(top) and all(site.kind is None for site in top)


def lacks_history(events: int, ooms: int) -> bool:
    """Return whether a trace of so many events, OOMs included, has no history of the memory."""
    return events <= ooms
