"""The in-memory form of an allocator snapshot: interned stacks, and traces in columns.

A trace of a million entries as Python objects would take a gigabyte; as columns of ``array`` it
takes some 40 MB. Sizes are bytes, addresses as in the file, times microseconds since the epoch.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import IntEnum

from tui.snapshots.explain.frames import Frame
from tui.snapshots.explain.inventory import AgentRecord

SIZE_LIMIT = 1 << 60
"""Upper limit of sizes in bytes: torch refuses a request of an exbibyte before its allocator runs,
so no valid file contains a larger size."""
NOT_RECORDED = -1
"""Column value for data missing from the file (time, pool, free memory)."""


class Action(IntEnum):
    """The kind of a trace entry; the numbers are local to this program's action column."""

    ALLOC = 0
    FREE_REQUESTED = 1
    FREE_COMPLETED = 2
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    SEGMENT_UNMAP = 6
    OOM = 7
    SNAPSHOT = 8
    ANNOTATE = 9
    OTHER = 10
    """An unknown action, which has no effect on the replay."""


Stack = tuple[int, ...]
"""Indices into :attr:`Snapshot.frames`, innermost first; ``()`` if none was recorded."""


ALLOCATED = "active_allocated"
PENDING = "active_pending_free"
INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a segment."""

    address: int
    size: int
    requested: int
    """Requested bytes; 0 for an inactive block, regardless of the file's value."""
    state: str
    """:data:`ALLOCATED`, :data:`PENDING` or :data:`INACTIVE`."""
    stack: int
    """Index into :attr:`Snapshot.stacks`: the stack that allocated the block."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory reserved by the allocator; its blocks, sorted by address, fill it completely."""

    device: int
    address: int
    size: int
    stream: int
    """Raw ``cudaStream_t`` as in the file; 0 is the default stream."""
    pool: tuple[int, int] | None
    """``(0, 0)`` for the default pool, other values for private pools (CUDA graphs, MemPool);
    ``None`` if the file has no pools."""
    kind: str
    """Size class of the segment's blocks, ``small`` or ``large``."""
    expandable: bool
    stack: int
    blocks: tuple[Block, ...]
    stated: dict[str, int]
    """``allocated_size``, ``active_size`` and ``requested_size`` as stated in the file, for the
    checks."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A named mark in time from the profiler or the optimizer."""

    name: str
    stage: str
    """The end of the span that it marks, ``START`` or ``END``."""
    device: int
    time_us: int


@dataclass(slots=True)
class Trace:
    """The recorded events of one device, oldest first; all columns have the same length.

    Only the loader modifies a trace.
    """

    action: bytearray
    address: array[int]
    """``Q``; 0 if the entry has no address (``oom``, ``snapshot``)."""
    size: array[int]
    """``q``; the *requested* size of an alloc or free, a segment's size, or the size requested at
    an OOM."""
    stream: array[int]
    """``H``: index into :attr:`Snapshot.streams`."""
    stack: array[int]
    """``I``: index into :attr:`Snapshot.stacks`."""
    time_us: array[int]
    """``q``; ``NOT_RECORDED`` if the file has no times."""
    pool: array[int]
    """``h``: index into :attr:`Snapshot.pools`; ``NOT_RECORDED`` before torch 2.12."""
    context: array[int]
    """``I``: index into :attr:`Snapshot.contexts`: ``compile_context`` and ``user_metadata`` joined
    to one string; index 0 is the empty string."""
    category: bytearray
    """Index into :attr:`Snapshot.categories`; 0 if the entry has none."""
    device_free: dict[int, int]
    """Free bytes of the whole GPU at each OOM entry, by the entry's index."""
    unknown: dict[int, str]
    """Action name of each ``OTHER`` entry, by the entry's index."""

    def __len__(self) -> int:
        return len(self.action)


def empty_trace() -> Trace:
    """Create a trace without entries."""
    return Trace(
        action=bytearray(),
        address=array("Q"),
        size=array("q"),
        stream=array("H"),
        stack=array("I"),
        time_us=array("q"),
        pool=array("h"),
        context=array("I"),
        category=bytearray(),
        device_free={},
        unknown={},
    )


@dataclass(frozen=True, slots=True)
class DeviceSnapshot:
    """The data of one device in a file."""

    index: int
    segments: tuple[Segment, ...]
    """The state when the snapshot was taken, sorted by address."""
    trace: Trace
    """The recorded events; empty if nothing was recorded."""
    skipped: int = 0
    """Number of entries that a filter dropped during loading."""
    first: int = 0
    """The file's index of the first entry in :attr:`trace`; above 0 if a filter dropped earlier
    entries."""
    inexact: str = ""
    """Reason why the replay is inexact, in one line: a filter dropped entries that are not all at
    the beginning. Empty if the replay is exact."""


_RENAMED = (2, 9)
"""The first torch version that reads ``PYTORCH_ALLOC_CONF`` and deprecates the older name."""
_NEW, _OLD = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


@dataclass(frozen=True, slots=True)
class TorchVersions:
    """The torch versions that can have written a file, inferred from its keys; 2.9 is (2, 9)."""

    least: tuple[int, int] | None = None
    """The earliest possible version; ``None`` if unknown."""
    below: tuple[int, int] | None = None
    """The first version that is too recent; ``None`` if unknown."""

    @property
    def expandable_setting(self) -> str:
        """The setting that enables expandable segments, under the name that this torch uses."""
        value = "=expandable_segments:True"
        if self.least is not None and self.least >= _RENAMED:
            return _NEW + value
        if self.below is not None and self.below <= _RENAMED:
            return _OLD + value
        return f"{_NEW}{value} (before torch 2.9: {_OLD})"


NO_AGENT = AgentRecord()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The complete content of one file."""

    file: str
    """The file name as requested; ``-`` for standard input."""
    container: str
    """``pickle protocol 4`` or ``JSON``, with ``, gzip`` appended if the file is compressed."""
    form: str
    """``snapshot`` (a dict), ``segments`` (the bare list) or ``history`` (torch 2.0)."""
    byte: int
    """Size of the file on disk in bytes."""
    devices: tuple[DeviceSnapshot, ...]
    frames: tuple[Frame, ...]
    stacks: tuple[Stack, ...]
    """All stacks; index 0 is the empty stack."""
    streams: tuple[int, ...]
    pools: tuple[tuple[int, int], ...]
    contexts: tuple[str, ...]
    categories: tuple[str, ...]
    """Values of ``category``, which torch's profiler writes; index 0 is the empty string."""
    settings: dict[str, str]
    """The allocator's settings, ``allocator_settings``, as text."""
    annotations: tuple[Annotation, ...]
    host_segments: int
    """Number of pinned-host segments in the file (torch 2.14); they are counted, not replayed."""
    notes: tuple[str, ...]
    """Irregularities found during reading, one line each, for the warnings."""
    torch: TorchVersions = TorchVersions()
    agent: AgentRecord = NO_AGENT
    """Data added by the agent of a watched run."""

    @property
    def has_expandable_segments(self) -> bool | None:
        """True if expandable segments are on; ``None`` if the file has no such setting."""
        value = self.settings.get("expandable_segments")
        return None if value is None else value.strip().lower() in ("true", "1", "yes", "on")


class SnapshotError(Exception):
    """The file cannot be read; the text is one line: problem, reason, remedy."""


def proper_size(value: int, key: str, where: str) -> int:
    """Check a size from a file and return it as a plain ``int``.

    Args:
        value: bytes; negative values pass, and the replay reports them.
        key: the name of the field in the file.
        where: position in the file, for the message.

    Raises:
        SnapshotError: torch never writes such a size.
    """
    if -SIZE_LIMIT < value < SIZE_LIMIT:
        return int(value)
    bits = value.bit_length()
    shown = f"{value} bytes" if bits <= 64 else f"a number of {bits} bits"
    raise SnapshotError(
        f"{where} has a {key} of {shown}, and torch serves less than 1 EiB: damaged"
    )
