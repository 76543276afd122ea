"""An allocator snapshot as it is held in memory: interned stacks, and the trace in columns.

A trace of a million entries as Python objects would take a gigabyte; as columns of ``array`` it
takes some 40 MB. Sizes are bytes, addresses as in the file, times microseconds since the epoch.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import IntEnum

from tui.snapshots.explain.frames import FrameKind, base_name, kind_of_code
from tui.snapshots.explain.inventory import NOT_WATCHED, AgentRecord

SIZE_LIMIT = 1 << 60
"""Bytes: torch refuses a request of an exbibyte before it asks its allocator, so no size of a file
is that large."""
NEVER_TOLD = -1
"""In a column: the file does not say (no time, no pool, no free memory)."""


class Action(IntEnum):
    """What a trace entry records; the numbers are ours and stand in the action column."""

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
    """An action that this program does not know; it has no effect on the replay."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack; C++ frames have no file (``??`` or empty) and line 0."""

    filename: str
    line: int
    name: str


def frame_kind(frame: Frame) -> FrameKind:
    """Tell whose code a frame is, by its file's name; POSIX and Windows paths.

    Cells of a notebook, ``<stdin>`` and ``<string>`` are the user's.
    """
    return kind_of_code(frame.filename, frame.line, frame.name)


def frame_label(frame: Frame) -> str:
    """``file.py:12 function``; of a C++ frame its name alone."""
    if frame.filename in ("", "??"):
        return frame.name or "??"
    return f"{base_name(frame.filename)}:{frame.line} {frame.name}"


def frame_key(frame: Frame) -> str:
    """As the label, with the whole path: tells apart files of one name."""
    return f"{frame.filename}:{frame.line} {frame.name}"


Stack = tuple[int, ...]
"""Numbers into :attr:`Snapshot.frames`, innermost first; ``()`` where none was recorded."""


ALLOCATED = "active_allocated"
PENDING = "active_pending_free"
INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a segment."""

    address: int
    size: int
    requested: int
    """What was asked for; 0 for an inactive block, whatever the file says of it."""
    state: str
    """:data:`ALLOCATED`, :data:`PENDING` or :data:`INACTIVE`."""
    stack: int
    """The stack that allocated it, as a number into :attr:`Snapshot.stacks`."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory that the allocator has reserved: its blocks, in the order of addresses, fill it."""

    device: int
    address: int
    size: int
    stream: int
    """As in the file: a raw ``cudaStream_t``; 0 is the default stream."""
    pool: tuple[int, int] | None
    """``(0, 0)`` is the default pool, others are private (CUDA graphs, MemPool); ``None``: the
    file does not say."""
    kind: str
    """The size class of the blocks in it, ``small`` or ``large``."""
    expandable: bool
    stack: int
    blocks: tuple[Block, ...]
    stated: dict[str, int]
    """What the file says in ``allocated_size``, ``active_size`` and ``requested_size``, for the
    checks."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A named span of time, as the profiler and the optimizer leave them."""

    name: str
    stage: str
    """Which end of the span it marks, ``START`` or ``END``."""
    device: int
    time_us: int


@dataclass(slots=True)
class Trace:
    """What was recorded on one device, oldest first; all columns have the same length.

    Mutable only while it is being filled.
    """

    action: bytearray
    address: array[int]
    """``Q``; 0 where the entry has none (``oom``, ``snapshot``)."""
    size: array[int]
    """``q``; of an alloc or free the *requested* size, of a segment its size, of an OOM what was
    asked for."""
    stream: array[int]
    """``H``: number into :attr:`Snapshot.streams`."""
    stack: array[int]
    """``I``: number into :attr:`Snapshot.stacks`."""
    time_us: array[int]
    """``q``; ``NEVER_TOLD`` where the file has no times."""
    pool: array[int]
    """``h``: number into :attr:`Snapshot.pools`; ``NEVER_TOLD`` before torch 2.12."""
    context: array[int]
    """``I``: number into :attr:`Snapshot.contexts`: what stood in ``compile_context`` and
    ``user_metadata``, one string; number 0 is the empty one."""
    category: bytearray
    """Number into :attr:`Snapshot.categories`; 0 where the entry has none."""
    device_free: dict[int, int]
    """By the number of an OOM entry: free bytes of the whole GPU at that moment."""
    unknown: dict[int, str]
    """By the number of an ``OTHER`` entry: the action's name."""

    def __len__(self) -> int:
        return len(self.action)


def empty_trace() -> Trace:
    """Return a trace without entries."""
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
    """One device's part of a file."""

    index: int
    segments: tuple[Segment, ...]
    """The state when the snapshot was taken, by address."""
    trace: Trace
    """Empty where nothing was recorded."""
    skipped: int = 0
    """Entries that a filter left out while loading."""
    first: int = 0
    """The file's number of the first entry of :attr:`trace`: above 0 where a filter left out what
    came before."""
    inexact: str = ""
    """Why the replay cannot be exact, in one line; empty where it can: a filter took away entries
    that are not all at the beginning."""


@dataclass(frozen=True, slots=True)
class TorchVersions:
    """Which versions of torch can have written a file, as far as its keys tell; 2.9 is (2, 9)."""

    least: tuple[int, int] | None = None
    """This one or a later one; ``None``: nothing in the file says so."""
    below: tuple[int, int] | None = None
    """One before this one."""


NO_AGENT = AgentRecord(None, None, NOT_WATCHED, NOT_WATCHED)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one file tells."""

    file: str
    """The name that it was asked for by; ``-`` for standard input."""
    container: str
    """``pickle protocol 4``, ``JSON``, each with ``, gzip`` where it was compressed."""
    form: str
    """``snapshot`` (a dict), ``segments`` (the bare list) or ``history`` (torch 2.0)."""
    byte: int
    """Bytes of the file as it lies on the disk."""
    devices: tuple[DeviceSnapshot, ...]
    frames: tuple[Frame, ...]
    stacks: tuple[Stack, ...]
    """Number 0 is the empty stack."""
    streams: tuple[int, ...]
    pools: tuple[tuple[int, int], ...]
    contexts: tuple[str, ...]
    categories: tuple[str, ...]
    """What stood in ``category``, which a snapshot that torch's profiler made has; number 0 is the
    empty one."""
    settings: dict[str, str]
    """The allocator's settings in the file, ``allocator_settings``, as text."""
    annotations: tuple[Annotation, ...]
    host_segments: int
    """Pinned-host segments that the file also holds (torch 2.14); counted, not replayed."""
    notes: tuple[str, ...]
    """What was odd about the file while it was read, one line each, for the warnings."""
    torch: TorchVersions = TorchVersions()
    agent: AgentRecord = NO_AGENT
    """What the agent of a watched run has added."""


class SnapshotError(Exception):
    """The file cannot be read; the text is one line: what, why, what to do."""


def proper_size(value: int, key: str, where: str) -> int:
    """Return a size as a file states it, as a plain ``int``.

    Args:
        value: bytes; below zero too, which the replay tells of.
        key: the file's name of it.
        where: it stands, for the message.

    Raises:
        SnapshotError: torch writes no such size.
    """
    if -SIZE_LIMIT < value < SIZE_LIMIT:
        return int(value)
    bits = value.bit_length()
    shown = f"{value} bytes" if bits <= 64 else f"a number of {bits} bits"
    raise SnapshotError(
        f"{where} has a {key} of {shown}, and torch serves less than 1 EiB: damaged"
    )
