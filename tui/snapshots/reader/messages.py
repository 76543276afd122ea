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

VERSION = 2

# ---- requests ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Read one file, or two to compare. The first request, and only once."""

    id: int
    paths: tuple[str, ...]
    """``-`` is the descriptor that the child was given as its input."""
    device: int | None = None
    """Keep only this device, as :class:`tui.snapshots.read.normalise.Keep` says."""
    first: int = 0
    last: int | None = None
    minimal_size: int = 0
    oom_text: str = ""
    """Messages of exceptions: they add what the file lacks to the verdicts."""
    top: int = 10
    """Sites that the summaries list."""
    redact: bool = False
    """Take user names and home directories out of all that is answered."""
    memory: int | None = None
    """Bytes that reading may take; ``None`` for a quarter of what is available."""
    circumstances: Circumstances | None = None
    """What a watch knows of the program that wrote the file; ``None`` where there was none."""


@dataclass(frozen=True, slots=True)
class Call:
    """Compute one method of the files that are read."""

    id: int
    """Chosen by the caller; the answer repeats it."""
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
    """What the reading takes, before it begins; ``None`` where it cannot be told."""

    id: int
    byte: int
    """Bytes of the files as they lie on the disk; 0 for a pipe."""
    expected: int | None
    """Resident bytes at the peak."""
    allowed: int | None
    """The limit that the child has set itself."""
    words: str


@dataclass(frozen=True, slots=True)
class Progress:
    id: int
    phase: str
    """What is being done: ``reading``, ``indexing``, ``checking`` or ``replaying``."""
    done: int
    """How much is done: bytes on the disk while reading, entries and segments while indexing, then
    files or devices."""
    total: int
    """The whole of what is to be done, in the same unit; 0 where it is not known."""
    elapsed_s: float
    left_s: float | None
    """Seconds that the phase will still take by its pace so far; ``None`` before there is one."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files are read; a summary of each device of the first one."""

    id: int
    files: tuple[FileInfo, ...]
    devices: tuple[Summary, ...]
    common: tuple[int, ...]
    """Devices that all files have."""
    texts: int
    """How many messages of exceptions were understood."""
    took_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The value of a call, or why there is none; also why a file cannot be read."""

    id: int
    value: Any = None
    """What the method returns; plain data once it has passed the pipe."""
    error: str | None = None
    """One line that says what, why and what to do; ``None`` where there is a value."""
    more: bool = False
    """The value is a text that is too long for one line, and the next answer continues it."""


ReaderEvent = Union[ReaderHello, Estimated, Progress, Loaded, Answer]
READER_EVENTS: tuple[type[ReaderEvent], ...] = get_args(ReaderEvent)
