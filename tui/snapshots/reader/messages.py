"""The messages between the reader child and its parent, one JSON line each.

The parent sends one :class:`Load`, then any number of :class:`Call`; each is answered under its id.
The methods that can be called are declared in :mod:`tui.snapshots.model.calls`. Sizes are bytes, an
*event* the number of a trace entry; ``None`` is the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union, get_args

from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.model.calls import Slot
from tui.snapshots.model.results import FileInfo, Summary

VERSION = 3

# ---- requests ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Request to read one file, or two to compare. It comes first and only once."""

    id: int
    paths: tuple[str, ...]
    """``-`` is the descriptor that the child received as its input."""
    device: int | None = None
    """The only device to keep, as in :class:`tui.snapshots.read.normalise.TraceFilter`."""
    first: int = 0
    last: int | None = None
    minimal_size: int = 0
    oom_text: str = ""
    """Exception messages, which give verdicts the figures that the file lacks."""
    top: int = 10
    """Sites that the summaries list."""
    redact: bool = False
    """Remove user names and home directories from every answer."""
    memory: int | None = None
    """Bytes that reading may take; ``None`` for a quarter of the available memory."""
    circumstances: Circumstances | None = None
    """Facts that a watch recorded about the program; ``None`` if it was not watched."""


@dataclass(frozen=True, slots=True)
class Call:
    """Request to compute one method on the loaded files."""

    id: int
    """Chosen by the caller and repeated in the answer."""
    method: str
    arguments: Any
    """The method's dataclass of arguments; plain data once it has passed the pipe."""
    slot: Slot
    """A call that still waits is dropped for a newer one of the same slot: the cursor moves faster
    than some methods."""


Request = Union[Load, Call]
REQUESTS: tuple[type[Request], ...] = get_args(Request)

# ---- events ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReaderHello:
    version: int
    pid: int


@dataclass(frozen=True, slots=True)
class Estimated:
    """The expected cost of reading; ``None`` for unknown figures."""

    id: int
    byte: int
    """Size of the files on disk, in bytes; 0 for a pipe."""
    expected: int | None
    """Resident bytes at the peak."""
    allowed: int | None
    """The child's own memory limit, in bytes."""
    words: str


@dataclass(frozen=True, slots=True)
class LoadProgress:
    id: int
    phase: str
    """The current phase: ``reading``, ``indexing``, ``checking`` or ``replaying``."""
    done: int
    """Work done: bytes on the disk while reading, entries and segments while indexing, then
    files or devices."""
    total: int
    """Total work in the same unit; 0 if unknown."""
    left_s: float | None
    """Estimated seconds left in this phase; ``None`` before there is an estimate."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading, with a summary of each device of the first file."""

    id: int
    files: tuple[FileInfo, ...]
    devices: tuple[Summary, ...]
    common: tuple[int, ...]
    """Devices present in every file."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The value of a call or the error; also the error of a failed load."""

    id: int
    value: Any = None
    """The method's result; plain data after decoding."""
    error: str | None = None
    """One line with the problem, the reason and the remedy; ``None`` on success."""
    more: bool = False
    """The value is part of a long text; the next answer continues it."""


ReaderEvent = Union[ReaderHello, Estimated, LoadProgress, Loaded, CallAnswer]
READER_EVENTS: tuple[type[ReaderEvent], ...] = get_args(ReaderEvent)
