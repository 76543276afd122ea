"""What the reader child is asked and what it answers, one JSON line each.

Every request has an ``id`` of the asker's choice that its answer repeats. A request that still
waits is replaced by a newer one of the same :func:`slot`: the cursor moves faster than some
queries. Sizes are bytes, an *event* the number of a trace entry; ``None`` is the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, Union, get_args

from tui.snapshots.explain.evidence import Circumstances
from tui.snapshots.model.pictures import Piece, Pinning, RowPicture, Stacking, Timeline
from tui.snapshots.model.results import (
    Difference,
    FileInfo,
    Grouping,
    Order,
    Part,
    SiteListing,
    State,
    Summary,
    Verdict,
)
from tui.snapshots.model.snapshot import Frame

VERSION = 1
R = TypeVar("R", bound="Request")

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
class SetOomText:
    """Messages of exceptions, in place of those known so far; the answer tells how many."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class AskVerdict:
    id: int
    device: int
    event: int
    top: int = 10


@dataclass(frozen=True, slots=True)
class AskState:
    id: int
    device: int
    event: int | None


@dataclass(frozen=True, slots=True)
class AskTimeline:
    id: int
    device: int
    width: int
    first: int = 0
    last: int | None = None
    stacking: Stacking = "site"


@dataclass(frozen=True, slots=True)
class AskPart:
    """What one layer of the timeline held at an event."""

    id: int
    device: int
    event: int | None
    stacking: Stacking
    layer: str
    """Its key; empty for the rest."""


@dataclass(frozen=True, slots=True)
class AskSites:
    """The children of one node of the tree of what was live at an event."""

    id: int
    device: int
    event: int | None
    path: tuple[str, ...] = ()
    grouping: Grouping = "site"
    order: Order = "bytes"
    search: str = ""
    regex: bool = False
    limit: int = 200


@dataclass(frozen=True, slots=True)
class AskStack:
    id: int
    stack: int


@dataclass(frozen=True, slots=True)
class AskMap:
    """Some rows of the segment map, each drawn as ``width`` cells."""

    id: int
    device: int
    event: int | None
    first: int
    count: int
    width: int


@dataclass(frozen=True, slots=True)
class AskStretch:
    """A stretch of one segment: its cells, and the piece at one address."""

    id: int
    device: int
    event: int | None
    row: int
    start: int
    end: int
    width: int
    address: int


@dataclass(frozen=True, slots=True)
class AskPinning:
    """The ``most`` blocks of a segment whose release would free the longest span."""

    id: int
    device: int
    event: int | None
    row: int
    most: int = 1


@dataclass(frozen=True, slots=True)
class AskDifference:
    """What changed from the first file to the second, on one device."""

    id: int
    device: int
    at_peak: bool = False
    grouping: Grouping = "site"
    limit: int = 300


@dataclass(frozen=True, slots=True)
class Export:
    """A report on the file, or where two are read on their difference."""

    id: int
    form: Literal["json", "markdown"]
    device: int | None = None
    event: int | None = None
    """A state to report on besides; ``None`` for none."""
    top: int = 10
    at_peak: bool = True
    """Two files are compared at their peaks, else at their ends."""


Request = Union[
    Load,
    SetOomText,
    AskVerdict,
    AskState,
    AskTimeline,
    AskPart,
    AskSites,
    AskStack,
    AskMap,
    AskStretch,
    AskPinning,
    AskDifference,
    Export,
]
REQUESTS: tuple[type[Request], ...] = get_args(Request)
Slot = tuple[str, ...]


def slot(request: Request) -> Slot:
    """Return the slot of a request: of two with the same one, only the newer matters."""
    name = type(request).__name__
    return (name, *request.path) if isinstance(request, AskSites) else (name,)


def same(one: Request, other: Request) -> bool:
    """Return whether two requests ask for the same, whatever their ids."""
    return type(one) is type(other) and replace(one, id=0) == replace(other, id=0)


def numbered(request: R, number: int) -> R:
    """Return the request with an id."""
    return replace(request, id=number)


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
class TextTaken:
    id: int
    texts: int


@dataclass(frozen=True, slots=True)
class VerdictIs:
    id: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class StateIs:
    id: int
    state: State


@dataclass(frozen=True, slots=True)
class TimelineIs:
    id: int
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class PartIs:
    id: int
    part: Part


@dataclass(frozen=True, slots=True)
class SitesAre:
    id: int
    listing: SiteListing


@dataclass(frozen=True, slots=True)
class StackIs:
    id: int
    frames: tuple[Frame, ...]
    """The frames of the stack, innermost first."""


@dataclass(frozen=True, slots=True)
class MapIs:
    id: int
    rows: tuple[RowPicture, ...]
    total: int
    """Rows of the whole map."""


@dataclass(frozen=True, slots=True)
class StretchIs:
    id: int
    states: str
    used: str
    begins: str
    """The stretch drawn as cells, in the letters and digits of :class:`RowPicture`."""
    piece: Piece | None
    """What lies at the address asked for; ``None`` where nothing is mapped."""
    frames: tuple[Frame, ...]
    """The stack of the piece, innermost first, without frames of C++."""


@dataclass(frozen=True, slots=True)
class PinningIs:
    id: int
    pinning: Pinning | None
    """``None`` where nothing of the segment is in use."""


@dataclass(frozen=True, slots=True)
class DifferenceIs:
    id: int
    difference: Difference
    more: int
    """Rows that were left off."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A report, or a part of one that is too long for a line."""

    id: int
    text: str
    more: bool = False
    """Whether another part of the report follows."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that cannot be done: one line that says what, why and what to do."""

    id: int
    reason: str
    fatal: bool = False
    """Whether nothing can be asked of this child any more."""
    asked: str = field(default="")
    """The name of the request's type."""


Answer = Union[
    Loaded,
    TextTaken,
    VerdictIs,
    StateIs,
    TimelineIs,
    PartIs,
    SitesAre,
    StackIs,
    MapIs,
    StretchIs,
    PinningIs,
    DifferenceIs,
    Exported,
]
ReaderEvent = Union[ReaderHello, Estimated, Progress, Refused, Answer]
READER_EVENTS: tuple[type[ReaderEvent], ...] = get_args(ReaderEvent)
