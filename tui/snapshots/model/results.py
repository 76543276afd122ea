"""What the analysis of a snapshot returns: plain frozen facts that go over a pipe as JSON.

Sizes are bytes, times microseconds since the epoch, shares fractions of one. An *event* is the
number of an entry in its device's trace, from 0; the state *at* an event is the state right after
it. ``None`` where something is not known, and ``unavailable`` maps the field's name to why. The
heavy columns that these facts are computed from stay in their process:
:class:`tui.snapshots.analysis.timeline.Replay` and
:class:`tui.snapshots.analysis.allocations.Allocations`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from tui.snapshots.explain.explanation import Explanation
from tui.snapshots.explain.frames import FrameKind as FrameKind
from tui.snapshots.model.pictures import Fragmentation
from tui.snapshots.model.snapshot import Frame

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
"""Why an allocation failed.

``larger than the device``: the request is larger than the device's total. ``larger than what was
free``: a good part of the device was free, and the request was larger still. ``truly full``: live
memory fills the device, whose total is known. ``fragmentation``: enough is cached, no piece is
large enough. ``other streams``: cached, but for another stream than the one that asked. ``private
pools``: cached inside CUDA-graph or MemPool pools. ``other processes``: memory of this device that
others hold. ``process limit``: ``set_per_process_memory_fraction`` was reached. ``refused with
memory free``: the device had more free than the driver was asked for.
"""
Change = Literal["new", "grown", "shrunk", "gone"]
BEFORE = -1
"""In a column of events: before the first entry of the trace."""


@dataclass(frozen=True, slots=True)
class Site:
    """The line of a program that an allocation is put down to."""

    label: str
    """``file.py:12 function``, or ``no Python frame (C++ only)`` or ``no stack recorded``."""
    kind: FrameKind | None
    """``None`` where no stack was recorded."""
    frame: Frame | None
    """``None`` where the stack has no Python frame."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a trace, with its stack."""

    event: int
    action: str
    """The file's own word: ``alloc``, ``oom``, …"""
    address: int | None
    size: int
    stream: int
    pool: tuple[int, int] | None
    time_us: int | None
    context: str
    device_free: int | None
    """Free bytes of the whole GPU; only OOM entries tell it."""
    name: str | None
    """Of the allocation that it belongs to: ``0x7f12…#2``, the address and which allocation there
    it is (from 1; 0 predates the trace)."""
    stack: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class State:
    """One device at one moment; ``reserved = live + rounding + cached``."""

    device: int
    event: int | None
    """The state is the one after it; ``None``: at the end, as the blocks tell it."""
    time_us: int | None
    entry: Entry | None
    live: int
    """Requested bytes of all allocations that the allocator had not got back."""
    pending: int
    """The part of ``live`` that the program had freed and a stream still used."""
    rounding: int
    """What the blocks of the live allocations were larger than asked for: exactly for those that
    are still there at the end, 512-byte rounding for the others."""
    reserved: int
    cached: int
    """Reserved and not in a block of a live allocation, in every pool."""
    allocations: int
    largest_free_block: int
    """The longest piece of the default pool that no live allocation occupied, on any stream.
    Exact at the end. Before, the unsplit rest of a freed allocation (up to 1 MiB in the large
    pool) may be counted to the piece beside it."""
    private_reserved: int
    """Reserved bytes in private pools."""
    private_cached: int
    largest_private_free_block: int
    segments: int
    doubts: tuple[str, ...]
    """Why these figures may be off, one line each."""


@dataclass(frozen=True, slots=True)
class SiteRow:
    """One node of the tree of sites."""

    key: str
    """Names the node among its siblings; a path of keys names it in the tree."""
    label: str
    kind: FrameKind | None
    """Of the node's frame; ``None`` for a node that is no frame."""
    bytes: int
    count: int
    share: float
    """Of the bytes of the whole query, 0 to 1."""
    children: int
    stack: int
    """The stack, by number, of most bytes below this node."""
    folded: int = 0
    """Framework and C++ frames between this node and the one above that are not shown."""


@dataclass(frozen=True, slots=True)
class SiteListing:
    """The children of one node, the first of them, and what was left off."""

    path: tuple[str, ...]
    rows: tuple[SiteRow, ...]
    more: int
    """Children that were not listed."""
    more_bytes: int
    total_bytes: int
    """The bytes of the whole query."""
    total_count: int


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A site in two states, A and B."""

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
    """Two states compared by site; sites that did not change are left out."""

    a: str
    b: str
    """What was compared: the file and the moment."""
    rows: tuple[DiffRow, ...]
    """The rows whose bytes changed most come first."""
    live_a: int
    live_b: int
    reserved_a: int
    reserved_b: int


@dataclass(frozen=True, slots=True)
class OomText:
    """What the message of one ``torch.OutOfMemoryError`` says; sizes as printed, to 2 digits."""

    asked: int | None
    asked_within: int
    """Half of the last printed digit, in bytes: the true figure lies within."""
    device: int | None
    total: int | None
    device_free: int | None
    allowed: int | None
    """The limit of ``set_per_process_memory_fraction``, where one was set."""
    process: int | None
    """What this process holds on the device, non-PyTorch memory included."""
    allocated: int | None
    reserved: int | None
    """Only older versions print it; for others allocated plus unallocated."""
    unallocated: int | None
    """Reserved by PyTorch but not allocated."""
    private_pools: int | None
    others: tuple[tuple[int, int], ...]
    """Other processes: pid and bytes."""
    address_space: bool = False
    """It failed for lack of virtual address space, not of memory."""
    logged: bool = False
    """It is what torch logs where the driver refuses, not the text of an exception."""


AGAINST_OOM = "What would help"
"""Over the advice of a verdict: something ran out."""
OF_CACHED = "What would free cached memory"
"""Over the advice of a summary: nothing ran out."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Something that would help, with the figure that says so."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Top:
    """A site and what it held."""

    label: str
    kind: FrameKind | None
    bytes: int
    count: int
    share: float
    """The part of all live bytes, 0 to 1."""
    stack: int
    """The stack of most bytes of that site, by number."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one layer of a timeline held right after an event."""

    label: str
    bytes: int
    count: int
    """Of its allocations that were live."""
    live: int
    """Bytes that were live in all."""
    categories: tuple[tuple[str, str, int], ...]
    """Each category with what tells it and its bytes, most first."""
    top: tuple[Top, ...]
    """Its sites, most bytes first; the first few."""
    stack: tuple[Frame, ...]
    """The one of most bytes, innermost first; empty where none was recorded."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A site that kept allocating: the least that it holds rises steadily, counted net."""

    label: str
    kind: FrameKind | None
    bytes: int
    """Of its allocations that are live."""
    count: int
    """Of these allocations."""
    freed: int
    """Allocations of the same line that were freed."""
    share: float
    """The part of all live bytes, 0 to 1."""
    first: int
    """The event of the oldest of them."""
    event: int
    """The moment at which they are counted."""
    seconds: float | None
    """From the first to that moment; ``None`` where the file holds no times."""
    stack: int
    """The stack of most bytes of them, by number."""
    net: int = 0
    """Bytes by which all growing lines of its function grew."""
    repeats: int = 0
    """How often its loop ran meanwhile, as far as one line of it tells."""
    replaced: bool = False
    """One allocation is replaced by a larger one, as ``torch.cat`` does."""

    @property
    def per_event(self) -> int:
        """Bytes by which it grew with each event of the trace, on the average."""
        return self.bytes // max(1, self.event - self.first)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one allocation failed, or where there is no OOM entry, what held the peak."""

    device: int
    event: int
    time_us: int | None
    asked: int
    state: State
    device_free: int | None
    total: int | None
    """Of the device; only the text of the exception tells it."""
    others: int | None
    """What other processes held of the device; it too is told by the text alone."""
    serving_free_block: int
    """The largest free piece that could have served: of the same pool, stream and size class."""
    serving_cached: int
    """Bytes of all free pieces that could have served."""
    streams_cached: int
    """Free pieces that only the stream kept from serving."""
    cause: Cause
    headline: str
    """One sentence: what failed and why."""
    reasons: tuple[str, ...]
    """The figures behind the cause, and what is not known."""
    top: tuple[Top, ...]
    advice: tuple[Advice, ...]
    site: str
    """The line of the program that asked; empty where no Python frame of it is on record."""
    stack: tuple[Frame, ...]
    """The stack of the request that failed."""
    growth: Growth | None
    text: OomText | None
    explanation: Explanation
    """Why, in one line, with the account of the used memory."""
    unavailable: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a file is called, what it was read from, and what was odd about it."""

    file: str
    container: str
    form: str
    byte: int
    settings: dict[str, str]
    warnings: tuple[str, ...]
    host_segments: int


@dataclass(frozen=True, slots=True)
class Summary:
    """One device of a file."""

    device: int
    segments: int
    blocks: int
    reserved: int
    allocated: int
    """Block sizes of what is allocated at the end."""
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
    top: tuple[Top, ...]
    """At the peak where there is a trace, else at the end."""
    top_at: Literal["peak", "end"]
    headline: str
    remarks: tuple[str, ...]
    """What is worth knowing: a snapshot taken after unwinding, memory that predates the trace."""
    advice: tuple[Advice, ...]
    unavailable: dict[str, str] = dataclasses.field(default_factory=dict)
